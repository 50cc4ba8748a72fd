"""categorize: is each problem preserved, expanded, shrunk or out of support, and how sure is that?

In:  data/verdicts/ of both models of every pair, and data/mass/ if completions are counted.
Out: data/support/{pair}.parquet, one row per problem; data/support/by_answer/{pair}.parquet, one row per distinct
     correct answer of a problem that has several, and by_completion/ per distinct correct completion;
     data/analysis/: {pair}.json, the statistics of every data set, domain and of all problems, and the tables that
     compare several pairs, trajectory, paired and ever_reached.

SQL counts, `leash.statistics` decides. tallies.sql is the only pass over the verdicts. The other queries read its small
table: counts.sql (hits of both models in the first k samples, and how each problem's sampling ended), guesses.sql (what
guessing would hit), answers.sql (counts by answer) and ballots.sql (votes, for maj@k). completions.sql reads the exact
masses. Adaptive budgets give problems unequal numbers of samples: their categories are those of the full run, pass@k
stays unbiased, intervals stay exact, and what cannot be estimated is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import stats

from leash import database, tables
from leash.counting.hit_counts import bases_plan, common_k_plan, create_counts_table, open_tallies, pair_plan
from leash.errors import MissingVerdictsError
from leash.params.groups import Params
from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.categories import categorize_problems, classify_masses
from leash.statistics.counts import ROLES, Counts
from leash.statistics.rounding import round_column
from leash.statistics.sure_support import call_both
from stages.categorize import cross_pair, ever_reached, group_analysis

SQL_DIR = Path(__file__).parent


def run(params: Params) -> list[str]:
    """Write the support tables and the analyses of every pair; return a sentence on each thing that has no category."""
    for model, dataset in product(params.run.models, params.run.datasets):
        if not tables.shards(tables.verdicts_folder(model, dataset)):
            raise MissingVerdictsError(model, dataset)
    own_k, common_k, bases = pair_plan(params), common_k_plan(params), bases_plan(params)
    with open_tallies(params, [own_k, common_k, *([] if bases is None else [bases])]) as connection:
        # The other units read the table `counts` that problem_support leaves in the connection.
        support = problem_support(connection, params, own_k)
        units = {
            unit: support_by_unit(connection, params, unit) for unit in params.categorize.units if unit != "problem"
        }
        for unit, rows in [("problem", support), *units.items()]:
            for pair in params.run.pairs:
                of_pair = rows.filter(pc.equal(rows["pair"], pair))
                tables.write(tables.support_path(pair, unit), round_table(of_pair), tables.SUPPORT_SCHEMA)
        analyses = group_analysis.write_analyses(
            params, support, group_analysis.compute_majorities(connection, own_k, params.categorize.seed)
        )
        at_common_k = problem_support(connection, params, common_k)
        cross_pair.write_cross_pair_tables(params, at_common_k, analyses)
        of_bases = None
        if bases is not None:
            create_counts_table(connection, params, bases)
            of_bases = connection.table("counts").to_arrow_table()
        ever_reached.write_ever_reached(params, at_common_k, of_bases)
    return list(_describe_uncategorized(params, support, units.get("completion")))


def problem_support(connection: duckdb.DuckDBPyConnection, params: Params, plan: pa.Table) -> pa.Table:
    """The support table of a plan, one row per problem; its counts stay in the connection as `counts`."""
    create_counts_table(connection, params, plan)
    return add_categories(database.query(connection, SQL_DIR / "guesses.sql"), params.categorize.confidence)


def support_by_unit(connection: duckdb.DuckDBPyConnection, params: Params, unit: str) -> pa.Table:
    """The support table by answer or by completion, for the plan and counts that `problem_support` left."""
    if unit == "answer":
        counts = database.query(connection, SQL_DIR / "answers.sql")
        for role in ROLES:
            # Only a problem has a guess floor.
            counts = counts.append_column(f"guess_{role}", pa.nulls(counts.num_rows, pa.float64()))
        return add_categories(counts, params.categorize.confidence)
    if not any(tables.mass_path(model, d).exists() for model in params.run.models for d in params.run.datasets):
        return tables.table_from_rows([], tables.SUPPORT_SCHEMA.append(pa.field("pair", tables.STRING)))
    rows = database.query(connection, SQL_DIR / "completions.sql")
    base, rlvr, epsilon = (rows[name].to_numpy() for name in ("mass_base", "mass_rlvr", "epsilon"))
    letters = classify_masses(base, rlvr, epsilon).letters
    return rows.append_column("category", pa.array(letters, tables.STRING))


def add_categories(counts: pa.Table, confidence: float) -> pa.Table:
    """The counts with masses, their exact intervals, calls of support, categories, tests, and a mark on hits that
    guessing explains."""
    columns: dict[str, Any] = {}
    arrays = Counts.from_table(counts)
    # The tests of one pair are one family; see categorize_problems.
    categories = categorize_problems(arrays, confidence, family=counts["pair"].to_numpy(zero_copy_only=False))
    for role in ROLES:
        columns[f"mass_{role}"] = categories.masses[role]
        columns[f"low_{role}"], columns[f"high_{role}"] = categories.bounds[role]
        if f"guess_{role}" in counts.column_names:
            guess = np.array(counts[f"guess_{role}"].to_pylist(), dtype=float)
            samples = arrays.samples(role)
            columns[f"lucky_{role}"] = is_explained_by_guessing(samples.n, samples.c, guess, confidence)
    columns |= {"p_value": categories.p_values, "q_value": categories.q_values}
    for name, values in columns.items():
        counts = counts.append_column(name, pa.array(values, from_pandas=True))
    words = {"category": categories.category, "tested_category": categories.tested}
    words |= {f"support_{role}": calls for role, calls in call_both(arrays, confidence).items()}
    for name, letters in words.items():
        counts = counts.append_column(name, pa.array(letters, tables.STRING))
    return counts


def is_explained_by_guessing(n: IntArray, c: IntArray, guess: FloatArray, confidence: float) -> pa.Array:
    """Whether guessing would give as many hits, by an exact binomial test of c in n. Null if there are no hits, or no
    guess floor."""
    # After a stop at the c-th hit, an outcome at least as strong has c or more hits in n samples: the same tail.
    unknown = (c == 0) | np.isnan(guess)
    return pa.array(stats.binom.sf(c - 1, n, np.where(unknown, 0.0, guess)) > 1 - confidence, mask=unknown)


def round_table(table: pa.Table) -> pa.Table:
    """The table with nine digits of every number (rounding.py), but for epsilon: categories compare with it."""
    for place, field in enumerate(table.schema):
        if field.type == pa.float64() and field.name != "epsilon":
            values = table[field.name].to_numpy(zero_copy_only=False)
            table = table.set_column(place, field, pa.array(round_column(values), pa.float64(), from_pandas=True))
    return table


def _describe_uncategorized(params: Params, support: pa.Table, completions: pa.Table | None) -> Iterator[str]:
    for row in support.filter(pc.is_null(support["category"])).to_pylist():
        yield (
            f"{row['pair']} on {row['dataset']}: problem {row['problem_id']} has fewer than k = {row['k']} samples and "
            f"is not categorized."
        )
    if completions is None:  # the run does not count them
        return
    present = set(zip(completions["pair"].to_pylist(), completions["dataset"].to_pylist(), strict=True))
    for pair, dataset in product(params.run.pairs, params.run.datasets):
        if (pair, dataset) not in present:
            yield (
                f"{pair} on {dataset}: there are no exact masses of its correct completions, so they are not "
                f"categorized; `leash mass` makes them, or says why it can't."
            )

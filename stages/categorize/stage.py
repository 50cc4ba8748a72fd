"""categorize: is each problem preserved, expanded, shrunk or out of support, and how sure is that?

In:  data/verdicts/ of both models of every pair, data/mass/ if completions are counted, and data/reach/ if that stage
     is on.
Out: data/support/{pair}.parquet, one row per problem; data/support/by_answer/{pair}.parquet, one row per distinct
     correct answer of a problem that has several, by_completion/ per distinct correct completion, and by_control/ per
     problem and control (controls.py);
     data/analysis/: {pair}.json, the statistics of every data set, domain and of all problems, and the tables that
     compare several pairs, trajectory, paired and ever_reached.

SQL counts, `leash.statistics` decides. tallies.sql is the only pass over the verdicts. The other queries read its small
table: counts.sql (hits of both models in the first k samples, and how each problem's sampling ended), guess_floors.py
(what guessing would hit), answers.sql (counts by answer) and ballots.sql (votes, for maj@k). completions.sql reads the
exact masses. Adaptive budgets give problems unequal numbers of samples: their categories are those of the full run,
pass@k stays unbiased, intervals stay exact, and what cannot be estimated is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leash import database, tables
from leash.counting.hit_counts import (
    Control,
    bases_plan,
    choose_control,
    common_k_plan,
    create_counts_table,
    open_tallies,
    pair_plan,
)
from leash.errors import MissingVerdictsError
from leash.params.groups import Params
from leash.statistics.array_types import ObjectArray
from leash.statistics.categories import categorize_problems, classify_masses
from leash.statistics.completions import inclusion_probability
from leash.statistics.counts import ROLES, Counts
from leash.statistics.guessing import OtherShares, correct_within_family, guessing_p_values, hits_without_evidence
from leash.statistics.rounding import round_column
from leash.statistics.sure_support import call_both
from stages.categorize import controls, cross_pair, ever_reached, group_analysis, guess_floors, reachability

SQL_DIR = Path(__file__).parent


def run(params: Params) -> list[str]:
    """Write the support tables and the analyses of every pair; return a sentence on each thing that has no category."""
    for model, dataset in product(params.run.models, params.run.datasets):
        if not tables.shards(tables.verdicts_folder(model, dataset)):
            raise MissingVerdictsError(model, dataset)
    reach = {pair: reachability.load_rows(params, pair) for pair in params.run.pairs}
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
                of_pair = reachability.add_support_columns(of_pair, reach[pair] if unit == "problem" else [])
                tables.write(tables.support_path(pair, unit), round_table(of_pair), tables.SUPPORT_SCHEMA)
        majorities = group_analysis.compute_majorities(connection, own_k, params.categorize.seed)
        working = controls.count_working(connection)
        by_control = control_support(connection, params, own_k, support)
        write_control_support(params, by_control)
        analyses = group_analysis.write_analyses(params, support, majorities, by_control, working, reach)
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
    return add_categories(guess_floors.add_guess_columns(connection), params.categorize.confidence)


def control_support(
    connection: duckdb.DuckDBPyConnection, params: Params, plan: pa.Table, support: pa.Table
) -> dict[Control, pa.Table]:
    """The support table of a plan by each control. `support` is that by the run's own reading."""
    tables_by_control: dict[Control, pa.Table] = {}
    for control in controls.CONTROLS:
        if controls.is_run_reading(params, control):
            tables_by_control[control] = support
            continue
        choose_control(connection, control)
        create_counts_table(connection, params, plan, control=True)
        # Guessers give answers, not workings.
        if control in controls.READINGS:
            counts = guess_floors.add_guess_columns(connection)
        else:
            counts = connection.table("counts").to_arrow_table()
        tables_by_control[control] = add_categories(counts, params.categorize.confidence)
    choose_control(connection, "chosen")
    return tables_by_control


def write_control_support(params: Params, by_control: Mapping[Control, pa.Table]) -> None:
    for pair in params.run.pairs:
        parts = []
        for control, rows in by_control.items():
            of_pair = round_table(rows.filter(pc.equal(rows["pair"], pair)))
            of_pair = reachability.add_support_columns(of_pair, [])
            labelled = of_pair.append_column("control", pa.array([control] * of_pair.num_rows, tables.STRING))
            parts.append(labelled.select(tables.CONTROL_SUPPORT_SCHEMA.names).cast(tables.CONTROL_SUPPORT_SCHEMA))
        tables.write(tables.support_path(pair, "control"), pa.concat_tables(parts), tables.CONTROL_SUPPORT_SCHEMA)


def support_by_unit(connection: duckdb.DuckDBPyConnection, params: Params, unit: str) -> pa.Table:
    """The support table by answer or by completion, for the plan and counts that `problem_support` left."""
    if unit == "answer":
        counts = database.query(connection, SQL_DIR / "answers.sql")
        return add_categories(counts, params.categorize.confidence)
    if not any(tables.mass_path(model, d).exists() for model in params.run.models for d in params.run.datasets):
        return tables.table_from_rows([], tables.SUPPORT_SCHEMA.append(pa.field("pair", tables.STRING)))
    rows = database.query(connection, SQL_DIR / "completions.sql")
    base, rlvr, epsilon = (rows[name].to_numpy() for name in ("mass_base", "mass_rlvr", "epsilon"))
    letters = classify_masses(base, rlvr, epsilon).letters
    drawn, *sampled = (
        rows[name].to_numpy(zero_copy_only=False).astype(float) for name in ("drawn", "sampled_base", "sampled_rlvr")
    )
    inclusion = inclusion_probability(drawn, drawn, *sampled)
    rows = rows.append_column("inclusion", pa.array(inclusion, from_pandas=True))
    return rows.append_column("category", pa.array(letters, tables.STRING))


def add_categories(counts: pa.Table, confidence: float) -> pa.Table:
    """The counts with masses, their exact intervals, calls of support, categories and tests. Problems are also tested
    against their guess floor; answers have none."""
    columns: dict[str, Any] = {}
    arrays = Counts.from_table(counts)
    # The tests of one pair are one family; see categorize_problems.
    categories = categorize_problems(arrays, confidence, family=counts["pair"].to_numpy(zero_copy_only=False))
    for role in ROLES:
        columns[f"mass_{role}"] = categories.masses[role]
        columns[f"low_{role}"], columns[f"high_{role}"] = categories.bounds[role]
    columns |= {"p_value": categories.p_values, "q_value": categories.q_values}
    for name, values in columns.items():
        counts = counts.append_column(name, pa.array(values, from_pandas=True))
    words = {"category": categories.category, "tested_category": categories.tested}
    words |= {f"support_{role}": calls for role, calls in call_both(arrays, confidence).items()}
    for name, letters in words.items():
        counts = counts.append_column(name, pa.array(letters, tables.STRING))
    for name in ("sampled_base", "sampled_rlvr", "inclusion"):
        counts = counts.append_column(name, pa.nulls(counts.num_rows, pa.float64()))
    for role in ROLES:
        counts = add_guess_tests(counts, role, confidence)
    return counts


def add_guess_tests(counts: pa.Table, role: str, confidence: float) -> pa.Table:
    """The counts with the test of a model's hits against guessing: the p-value, corrected for the problems of its data
    set, and whether the hits are shown to be above guessing. Null: no hits, or no test (leash/statistics/guessing.py).
    """
    if f"others_{role}" not in counts.column_names:
        p_values = np.full(counts.num_rows, np.nan)
        counts = counts.append_column(f"guess_{role}", pa.nulls(counts.num_rows, pa.float64()))
    else:
        names = ("others", "shares", "squares", "noise", "one_hit", "answered_hits", "answered", "distinct_hits")
        columns = {
            name: np.nan_to_num(counts[f"{name}_{role}"].to_numpy(zero_copy_only=False).astype(float))
            for name in (*names, "right_answers")
        }
        hits, answered, distinct, right = (
            columns[name].astype(np.int64) for name in ("answered_hits", "answered", "distinct_hits", "right_answers")
        )
        family = dataset_of_pair(counts)
        without_evidence = hits_without_evidence(hits, distinct, right, family)
        others = OtherShares(columns["others"].astype(np.int64), *(columns[name] for name in names[1:5]))
        p_values = guessing_p_values(hits, answered, without_evidence, others, family)
        # All problems of the data set count, also those without a hit or a test: which have one is chance, too.
        p_values = correct_within_family(p_values, family)
    untested = np.isnan(p_values)
    counts = counts.append_column(f"guess_p_{role}", pa.array(p_values, from_pandas=True))
    above = pa.array(np.nan_to_num(p_values, nan=1.0) < 1 - confidence, mask=untested)
    return counts.append_column(f"above_guessing_{role}", above)


def dataset_of_pair(rows: pa.Table) -> ObjectArray:
    """The pair and data set of each row, as one text."""
    keys = zip(rows["pair"].to_pylist(), rows["dataset"].to_pylist(), strict=True)
    return np.array([f"{pair}\n{dataset}" for pair, dataset in keys], dtype=object)


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

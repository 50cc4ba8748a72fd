"""categorize: is each problem preserved, expanded, shrunk or out of support, and how sure is that?

In:  data/verdicts/ of both models of every pair, and data/mass/ where completions are counted.
Out: data/support/{pair}.parquet, one row a problem; data/support/by_answer/{pair}.parquet, one row for each distinct
     correct answer of a problem that has several, and by_completion/ for each distinct correct completion;
     data/analysis/, what follows from them: {pair}.json, the statistics of every data set, domain and of all problems,
     and the tables of several pairs, trajectory and paired.

The method is in the queries. tallies.sql is the one pass over the verdicts. From its small table come counts.sql (hits
of both models in the first k samples, and how each problem's sampling ended), guesses.sql (what guessing would hit),
answers.sql (another unit than problems) and ballots.sql (votes, for maj@k); completions.sql is one by exact masses.
Then support.sql (mass against epsilon), metrics.sql (P, E, S, O and the four ratios), by_epsilon.sql (the same of
completions) and pass_at_k.sql (the unbiased estimator). What SQL says badly is in statistics/, majority.py and
analysis.py. All of it holds for adaptive budgets too, where problems have unequal numbers of samples: categories are
those of the full run, pass@k stays unbiased, intervals stay exact, and what can't be estimated is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import stats

from stages import tables
from stages.categorize import groups, several, statistics
from stages.categorize.counts import ROLES
from stages.errors import LeashError
from stages.params import Params

ROOM = Path(__file__).parent
POWERS = tuple(2**i for i in range(25))
EPSILONS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


def run(params: Params) -> list[str]:
    """Write the support tables of every pair and what follows from them; return sentences on what could not be
    categorized."""
    _need_verdicts(params)
    whole, level = plan(params), level_plan(params)
    with tallied(params, [whole, level]) as connection:
        support = problems(connection, params, whole)
        units = {unit: _unit(connection, params, unit) for unit in params.categorize.units if unit != "problem"}
        for unit, rows in [("problem", support), *units.items()]:
            _write(params, unit, rows)
        known = groups.write(params, support, groups.majorities(connection, whole, params.categorize.seed))
        several.write(params, problems(connection, params, level), known)
    return _short(support) + _no_masses(params, units.get("completion"))


def supported(params: Params, k_at_most: int | None = None) -> pa.Table:
    """Support of every pair on every problem, each at its own k or at a smaller one that all share."""
    wanted = plan(params, k_at_most)
    with tallied(params, [wanted]) as connection:
        return problems(connection, params, wanted)


def plan(params: Params, k_at_most: int | None = None) -> pa.Table:
    """What is compared: each pair on each data set, its two models, its k and its epsilon."""
    return planned(params, {pair: params.models_of(pair) for pair in params.run.pairs}, k_at_most)


def level_plan(params: Params) -> pa.Table:
    """What pairs are compared with each other by: all of them, and every two trained models, at one k."""
    return planned(params, several.models(params), several.common_k(params))


def planned(params: Params, pairs: Mapping[str, tuple[str, str]], k_at_most: int | None = None) -> pa.Table:
    """A plan for these two models under each name."""
    rows = []
    for pair, (base, rlvr) in pairs.items():
        for dataset in params.run.datasets:
            k = params.models_k(base, rlvr, dataset)
            k = min(k, k_at_most or k)
            about = {"pair": pair, "dataset": dataset, "domain": params.datasets[dataset].domain}
            rows.append({**about, "base": base, "rlvr": rlvr, "k": k, "eighth": k // 8, "epsilon": params.epsilon(k)})
    return pa.Table.from_pylist(rows)


def tallied(params: Params, plans: Sequence[pa.Table]) -> duckdb.DuckDBPyConnection:
    """DuckDB with the tallies of all verdicts that these plans ask for."""
    connection = tables.database(params, only=["verdicts", "mass"])
    cuts = sorted({k for wanted in plans for name in ("k", "eighth") for k in wanted[name].to_pylist()} - {0})
    within = " ".join(f"when sample < {k:d} then {k:d}" for k in cuts)
    connection.execute(f"create macro upto(sample) as case {within} end")
    tables.keep(connection, "tallies", ROOM / "tallies.sql")
    return connection


def problems(connection: duckdb.DuckDBPyConnection, params: Params, wanted: pa.Table) -> pa.Table:
    """The support table of a plan, one row a problem; its counts stay in the connection as `counts`."""
    count(connection, params, wanted)
    return support(connection, tables.query(connection, ROOM / "guesses.sql"), params.categorize.confidence)


def count(connection: duckdb.DuckDBPyConnection, params: Params, wanted: pa.Table) -> None:
    """Make the table `counts` of a plan in a connection that has the tallies."""
    connection.register("plan", wanted)
    adaptive = params.sample.stop_after is not None
    rule = {"stop_after": params.sample.stop_after, "floor": params.sample.floor if adaptive else None}
    tables.keep(connection, "counts", ROOM / "counts.sql", rule)


def answers(connection: duckdb.DuckDBPyConnection, params: Params) -> pa.Table:
    """The support table of the problems' answers, for the plan and counts that `problems` has left."""
    counts = tables.query(connection, ROOM / "answers.sql")
    nothing = pa.nulls(counts.num_rows, pa.float64())  # the guess floor is a problem's, not an answer's
    counts = counts.append_column("guess_base", nothing).append_column("guess_rlvr", nothing)
    return support(connection, counts, params.categorize.confidence)


def support(connection: duckdb.DuckDBPyConnection, counts: pa.Table, confidence: float) -> pa.Table:
    connection.register("tested", with_intervals(counts, confidence))
    return tables.query(connection, ROOM / "support.sql", {"alpha": 1 - confidence})


def with_intervals(counts: pa.Table, confidence: float) -> pa.Table:
    """Counts with exact intervals for both masses, Fisher's test where both models drew all k samples, and a mark on
    hits that guessing explains."""
    columns = {}
    for role in ROLES:
        n, c, ended = _arrays(counts, f"n_{role}", f"c_{role}", f"ended_{role}")
        columns[f"low_{role}"], columns[f"high_{role}"] = statistics.curtailed(n, c, ended == "hit", confidence)
        if f"guess_{role}" in counts.column_names:
            columns[f"lucky_{role}"] = lucky(n, c, counts[f"guess_{role}"].to_pylist(), confidence)
    columns["p_value"], columns["q_value"] = tested(counts)
    for name, values in columns.items():
        counts = counts.append_column(name, pa.array(values, from_pandas=True))
    return counts


def tested(counts: pa.Table) -> tuple[statistics.Reals, statistics.Reals]:
    """p-values, and those corrected within each pair; NaN where a model stopped early or has too few samples."""
    pair, ended_base, ended_rlvr = _arrays(counts, "pair", "ended_base", "ended_rlvr")
    fixed = (ended_base == "k") & (ended_rlvr == "k")
    four = _arrays(counts, "n_base", "c_base", "n_rlvr", "c_rlvr")
    return statistics.corrected(*four, fixed=fixed, families=pair)


def lucky(n: statistics.Ints, c: statistics.Ints, guess: Sequence[float | None], confidence: float) -> pa.Array:
    """Whether so many hits are no more than guessing gives: an exact test of their number in n, which a stop at a hit
    leaves valid. Null where there are no hits, or nothing to compare them with."""
    floor = np.array(guess, dtype=float)
    unknown = (c == 0) | np.isnan(floor)
    return pa.array(stats.binom.sf(c - 1, n, np.where(unknown, 0.0, floor)) > 1 - confidence, mask=unknown)


def metrics(support: pa.Table) -> pa.Table:
    """P, E, S, O and their ratios per pair and data set, domain and overall, at the chosen epsilon and at 0."""
    return _over(support, ROOM / "metrics.sql")


def by_epsilon(completions: pa.Table, epsilons: Sequence[float] = EPSILONS) -> pa.Table:
    """P, E, S, O and their ratios of completions, whose masses are exact, at several epsilons."""
    return _over(completions, ROOM / "by_epsilon.sql", {"epsilons": list(epsilons)})


def pass_at_k(support: pa.Table, budgets: Sequence[int] = POWERS) -> pa.Table:
    """pass@k of both models of each pair, per data set, domain and overall, for every budget up to the pair's k."""
    return _over(support, ROOM / "pass_at_k.sql", {"budgets": list(budgets)})


def _over(support: pa.Table, file: Path, bound: Mapping[str, Any] | None = None) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("support", support)
        return tables.query(connection, file, bound)


def _arrays(counts: pa.Table, *names: str) -> list[Any]:
    return [counts[name].to_numpy(zero_copy_only=False) for name in names]


def _unit(connection: duckdb.DuckDBPyConnection, params: Params, unit: str) -> pa.Table:
    """The support table of another unit, for the plan and counts that `problems` has left."""
    if unit == "answer":
        return answers(connection, params)
    if not _has_masses(params):
        return tables.table([], tables.SUPPORT.append(pa.field("pair", tables.TEXT)))
    return tables.query(connection, ROOM / "completions.sql")


def _write(params: Params, unit: str, rows: pa.Table) -> None:
    for pair in params.run.pairs:
        mine = rows.filter(pc.equal(rows["pair"], pair))
        tables.write(tables.support_path(pair, unit), mine, tables.SUPPORT)


def _need_verdicts(params: Params) -> None:
    for model in params.run.models:
        for dataset in params.run.datasets:
            if not tables.shards(tables.verdicts_folder(model, dataset)):
                raise LeashError(
                    f"There are no verdicts of {model} on {dataset}; make them with `leash verify {model} {dataset}` "
                    f"or get them with `dvc pull`."
                )


def _short(support: pa.Table) -> list[str]:
    lacking = support.filter(pc.is_null(support["category"]))
    return [
        f"{row['pair']} on {row['dataset']}: problem {row['problem_id']} has fewer than k = {row['k']} samples and is "
        f"not categorized."
        for row in lacking.select(["pair", "dataset", "problem_id", "k"]).to_pylist()
    ]


def _has_masses(params: Params) -> bool:
    return any(tables.mass_path(model, d).exists() for model in params.run.models for d in params.run.datasets)


def _no_masses(params: Params, completions: pa.Table | None) -> list[str]:
    """A sentence for each pair and data set whose completions were asked for and have no exact mass."""
    if completions is None:
        return []
    there = set(zip(completions["pair"].to_pylist(), completions["dataset"].to_pylist(), strict=True))
    return [
        f"{pair} on {dataset}: there are no exact masses of its correct completions, so they are not categorized; "
        f"`leash mass` makes them, or says why it can't."
        for pair in params.run.pairs
        for dataset in params.run.datasets
        if (pair, dataset) not in there
    ]

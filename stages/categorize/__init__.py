"""categorize: is each problem preserved, expanded, shrunk or out of support?

In:  data/verdicts/ of both models of every pair.
Out: data/support/{pair}.parquet, one row a problem.

The method is in the queries: counts.sql (hits of both models in the first k samples), support.sql (mass
against epsilon), metrics.sql (P, E, S, O and the four ratios), pass_at_k.sql (the unbiased estimator). What
SQL says badly is in statistics.py.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from stages import tables
from stages.categorize import statistics
from stages.errors import LeashError
from stages.params import Params, detectable

ROOM = Path(__file__).parent


def run(params: Params) -> list[str]:
    """Write the support table of every pair; return sentences on problems that could not be categorized."""
    _need_verdicts(params)
    support = supported(params)
    for pair in params.run.pairs:
        rows = support.filter(pc.equal(support["pair"], pair))
        tables.write(tables.support_path(pair), rows, tables.SUPPORT)
    return _short(support)


def supported(params: Params, k_at_most: int | None = None) -> pa.Table:
    """Support of every pair on every problem, each at its own k or at a smaller one that all share."""
    connection = tables.database(params)
    connection.register("plan", plan(params, k_at_most))
    counts = tables.query(connection, ROOM / "counts.sql")
    connection.register("tested", with_intervals(counts, params.categorize.confidence))
    return tables.query(connection, ROOM / "support.sql", {"alpha": 1 - params.categorize.confidence})


def plan(params: Params, k_at_most: int | None = None) -> pa.Table:
    """What is compared: each pair on each data set, its two models, its k and its epsilon."""
    rows = []
    for pair in params.run.pairs:
        base, rlvr = params.models_of(pair)
        for dataset in params.run.datasets:
            k = min(params.pair_k(pair, dataset), k_at_most or params.pair_k(pair, dataset))
            epsilon = params.categorize.epsilon
            if epsilon == "auto":
                epsilon = detectable(k, params.categorize.confidence)
            rows.append(
                {"pair": pair, "dataset": dataset, "base": base, "rlvr": rlvr, "k": k, "epsilon": float(epsilon)}
            )
    return pa.Table.from_pylist(rows)


def with_intervals(counts: pa.Table, confidence: float) -> pa.Table:
    """Counts with Clopper–Pearson intervals for both masses and Fisher's test, corrected within each pair."""
    n_base, c_base, n_rlvr, c_rlvr = (
        counts[name].to_numpy(zero_copy_only=False) for name in ("n_base", "c_base", "n_rlvr", "c_rlvr")
    )
    p_values = statistics.fisher(n_base, c_base, n_rlvr, c_rlvr)
    low_base, high_base = statistics.clopper_pearson(n_base, c_base, confidence)
    low_rlvr, high_rlvr = statistics.clopper_pearson(n_rlvr, c_rlvr, confidence)
    columns = {
        "low_base": low_base,
        "high_base": high_base,
        "low_rlvr": low_rlvr,
        "high_rlvr": high_rlvr,
        "p_value": p_values,
        "q_value": statistics.benjamini_hochberg(p_values, counts["pair"].to_numpy(zero_copy_only=False)),
    }
    for name, values in columns.items():
        counts = counts.append_column(name, pa.array(values))
    return counts


def metrics(support: pa.Table) -> pa.Table:
    """P, E, S, O and their ratios per pair and data set and overall, at the chosen epsilon and at 0."""
    return _over(support, ROOM / "metrics.sql")


def pass_at_k(support: pa.Table) -> pa.Table:
    """pass@k of both models of each pair, per data set and overall, for every power of two up to k."""
    return _over(support, ROOM / "pass_at_k.sql")


def _over(support: pa.Table, file: Path) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("support", support)
        return tables.query(connection, file)


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

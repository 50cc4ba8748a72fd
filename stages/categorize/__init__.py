"""categorize: is each problem preserved, expanded, shrunk or out of support?

In:  data/verdicts/ of both models of every pair.
Out: data/support/{pair}.parquet, one row a problem.

The method is in the queries: counts.sql (hits of both models in the first k samples, and how each problem's
sampling ended), support.sql (mass against epsilon), metrics.sql (P, E, S, O and the four ratios), pass_at_k.sql
(the unbiased estimator). What SQL says badly is in statistics.py. All of it holds for adaptive budgets too, where
problems have unequal numbers of samples: categories are those of the full run, pass@k stays unbiased, intervals
stay exact, and what can't be estimated is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages import tables
from stages.categorize import statistics
from stages.errors import LeashError
from stages.params import Params

ROOM = Path(__file__).parent
POWERS = tuple(2**i for i in range(25))


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
    adaptive = params.sample.stop_after is not None
    rule = {"stop_after": params.sample.stop_after, "floor": params.sample.floor if adaptive else None}
    counts = tables.query(connection, ROOM / "counts.sql", rule)
    connection.register("tested", with_intervals(counts, params.categorize.confidence))
    return tables.query(connection, ROOM / "support.sql", {"alpha": 1 - params.categorize.confidence})


def plan(params: Params, k_at_most: int | None = None) -> pa.Table:
    """What is compared: each pair on each data set, its two models, its k and its epsilon."""
    rows = []
    for pair in params.run.pairs:
        base, rlvr = params.models_of(pair)
        for dataset in params.run.datasets:
            k = min(params.pair_k(pair, dataset), k_at_most or params.pair_k(pair, dataset))
            rows.append(
                {"pair": pair, "dataset": dataset, "base": base, "rlvr": rlvr, "k": k, "epsilon": params.epsilon(k)}
            )
    return pa.Table.from_pylist(rows)


def with_intervals(counts: pa.Table, confidence: float) -> pa.Table:
    """Counts with exact intervals for both masses, and Fisher's test where both models drew all k samples."""
    columns = {}
    for role in ("base", "rlvr"):
        n, c, ended = _arrays(counts, f"n_{role}", f"c_{role}", f"ended_{role}")
        columns[f"low_{role}"], columns[f"high_{role}"] = statistics.curtailed(n, c, ended == "hit", confidence)
    columns["p_value"], columns["q_value"] = tested(counts)
    for name, values in columns.items():
        counts = counts.append_column(name, pa.array(values, from_pandas=True))
    return counts


def tested(counts: pa.Table) -> tuple[statistics.Reals, statistics.Reals]:
    """p-values, and those corrected within each pair; NaN where a model stopped early or has too few samples, since
    the test is for numbers of samples that were fixed before."""
    pair, ended_base, ended_rlvr = _arrays(counts, "pair", "ended_base", "ended_rlvr")
    fixed = (ended_base == "k") & (ended_rlvr == "k")
    p_values = np.full(len(fixed), np.nan)
    p_values[fixed] = statistics.fisher(*(x[fixed] for x in _arrays(counts, "n_base", "c_base", "n_rlvr", "c_rlvr")))
    return p_values, statistics.benjamini_hochberg(p_values, pair)


def _arrays(counts: pa.Table, *names: str) -> list[Any]:
    return [counts[name].to_numpy(zero_copy_only=False) for name in names]


def metrics(support: pa.Table) -> pa.Table:
    """P, E, S, O and their ratios per pair and data set and overall, at the chosen epsilon and at 0."""
    return _over(support, ROOM / "metrics.sql")


def pass_at_k(support: pa.Table, budgets: Sequence[int] = POWERS) -> pa.Table:
    """pass@k of both models of each pair, per data set and overall, for every budget up to the pair's k."""
    return _over(support, ROOM / "pass_at_k.sql", {"budgets": list(budgets)})


def _over(support: pa.Table, file: Path, bound: Mapping[str, Any] | None = None) -> pa.Table:
    with duckdb.connect() as connection:
        connection.register("support", support)
        return tables.query(connection, file, bound)


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

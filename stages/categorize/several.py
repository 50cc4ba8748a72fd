"""Several pairs at once: checkpoints of one training, and different trainings of one base, at the k that all have.

data/analysis/trajectory.parquet has a row a pair, along each training by its steps; data/analysis/paired.parquet has a
row for each two trained models of one base that are compared on the same problems: every checkpoint with the one before
it, and the last of every training with the last of every other. The same statistics as of a pair are used: there, too,
are two models, and what one solves that the other does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, groupby, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stages import tables
from stages.categorize.analysis import analysis
from stages.categorize.counts import Counts
from stages.categorize.groups import settings
from stages.params import Params

TRAJECTORY = tables.DATA / "analysis" / "trajectory.parquet"
PAIRED = tables.DATA / "analysis" / "paired.parquet"
RATIOS = ("SRR", "NDR", "SDS", "NSCR")
RIVALS = pa.schema(
    {
        "first": pa.string(),
        "second": pa.string(),
        "k": pa.int64(),
        **dict.fromkeys(("both", "second_only", "first_only", "neither"), pa.int64()),
        "p_value": pa.float64(),  # McNemar's: as many are the first's alone as the second's
        **{f"pass@{k} {part}": pa.float64() for k in "1k" for part in ("difference", "low", "high")},
    }
)


def plan(params: Params) -> pa.Table:
    """Every pair, and every two trained models that are compared, at the largest k that all pairs have."""
    from stages.categorize import planned

    pairs = {pair: params.models_of(pair) for pair in params.run.pairs}
    rivals = {name: (params.pairs[a].rlvr, params.pairs[b].rlvr) for name, (a, b) in compared(params).items()}
    return planned(params, {**pairs, **rivals}, common_k(params))


def common_k(params: Params) -> int:
    return min(params.pair_k(pair, dataset) for pair in params.run.pairs for dataset in params.run.datasets)


def in_order(params: Params) -> list[str]:
    """The pairs by training and step; one without a step is the end of its training."""
    place = {pair: params.pairs[pair] for pair in params.run.pairs}
    return sorted(place, key=lambda p: (place[p].training, place[p].step is None, place[p].step or 0))


def compared(params: Params) -> dict[str, tuple[str, str]]:
    """Which two pairs are compared, by a name that no pair can have."""
    return {f"{first} → {second}": (first, second) for first, second in _compared(params)}


def _compared(params: Params) -> Iterator[tuple[str, str]]:
    for base in dict.fromkeys(params.pairs[pair].base for pair in params.run.pairs):
        mine = [pair for pair in in_order(params) if params.pairs[pair].base == base]
        trainings = [list(pairs) for _, pairs in groupby(mine, key=lambda pair: params.pairs[pair].training)]
        for training in trainings:
            yield from pairwise(training)
        yield from combinations([training[-1] for training in trainings], 2)


def write(params: Params, support: pa.Table) -> None:
    """Write both tables from the support of `plan`."""
    k = common_k(params)
    steps = [_step(params, pair, k, _analysis(params, support, pair)) for pair in in_order(params)]
    trajectory = pa.Table.from_pylist(steps)
    tables.write(TRAJECTORY, trajectory, trajectory.schema)
    rows = [_rivals(a, b, k, _analysis(params, support, name)) for name, (a, b) in compared(params).items()]
    paired = pa.Table.from_pylist(rows, schema=RIVALS)
    tables.write(PAIRED, paired, RIVALS)


def _analysis(params: Params, support: pa.Table, name: str) -> dict[str, Any]:
    return analysis(Counts.from_table(support.filter(pc.equal(support["pair"], name))), settings(params))


def _step(params: Params, pair: str, k: int, found: Mapping[str, Any]) -> dict[str, Any]:
    """A pair's row: what it is; pass@1 and pass@k of both models, counts and ratios; then their intervals."""
    about = {"pair": pair, "training": params.pairs[pair].training, "step": params.pairs[pair].step, "k": k}
    curves = {f"{role}_pass@{at}": found["pass_at_k"][role][at] for at in (1, k) for role in ("base", "rlvr")}
    ratios = {name: found[name] for name in RATIOS}
    row = {**about, **_values(curves), **found["categories"], **_values(ratios)}
    for name, estimate in {**curves, **ratios}.items():
        row |= {f"{name} {end}": estimate[end] for end in ("low", "high")}
    return row


def _values(estimates: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: estimate["value"] for name, estimate in estimates.items()}


def _rivals(first: str, second: str, k: int, found: Mapping[str, Any]) -> dict[str, Any]:
    """What two trained models support, and how their pass@1 and pass@k differ, problem by problem."""
    counted = dict(zip(("both", "second_only", "first_only", "neither"), found["categories"].values(), strict=True))
    row = {"first": first, "second": second, "k": k, **counted, "p_value": found["mcnemar"]["p_value"]}
    for name, at in (("pass@1", 1), ("pass@k", k)):
        difference = found["difference"][at]
        row |= {f"{name} difference": difference["value"], f"{name} low": difference["low"]}
        row |= {f"{name} high": difference["high"]}
    return row

"""Several pairs at once: checkpoints of one training, and different trainings of one base, at the k that all have.

data/analysis/trajectory.parquet has a row for each pair and group of problems, along each training by its steps;
data/analysis/paired.parquet has a row for each two trained models of one base that are compared on the same problems:
every checkpoint with the one before it, and the last of every training with the last of every other. The same
statistics as of a pair are used: there, too, are two models, and what one solves that the other does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, groupby, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stages import tables
from stages.categorize.analysis import analysis
from stages.categorize.counts import ROLES, Counts
from stages.categorize.groups import Analyses, groups
from stages.categorize.statistics.ratios import RATIOS
from stages.categorize.statistics.resampling import Settings
from stages.params import Params

TRAJECTORY = tables.DATA / "analysis" / "trajectory.parquet"
PAIRED = tables.DATA / "analysis" / "paired.parquet"
ENDS = {"": "value", "_low": "low", "_high": "high"}
# What `floored` makes: the ratios with their intervals; then, at half of k, the pair's and the base's against itself.
FLOORED = pa.schema(
    {
        **{f"{name}{end}": pa.float64() for name in RATIOS for end in ENDS},
        "half_k": pa.int64(),
        **{f"{name}{end}": pa.float64() for name in RATIOS for end in ("_half", "_floor")},
    }
)
RIVALS = pa.schema(
    {
        "first": pa.string(),
        "second": pa.string(),
        "k": pa.int64(),
        **dict.fromkeys(("both", "second_only", "first_only", "neither"), pa.int64()),
        "p_value": pa.float64(),  # McNemar's: as many are the first's alone as the second's
        **{f"pass@{k}_difference{end}": pa.float64() for k in "1k" for end in ("", "_low", "_high")},
    }
)


def models(params: Params) -> dict[str, tuple[str, str]]:
    """The two models of every pair, and every two trained ones that are compared."""
    pairs = {pair: params.models_of(pair) for pair in params.run.pairs}
    return pairs | {name: (params.pairs[a].rlvr, params.pairs[b].rlvr) for name, (a, b) in compared(params).items()}


def common_k(params: Params) -> int:
    """The largest k that all pairs have."""
    return min(params.pair_k(pair, dataset) for pair in params.run.pairs for dataset in params.run.datasets)


def in_order(params: Params) -> list[str]:
    """The pairs by training and step; one without a step is the end of its training."""
    place = {pair: params.pairs[pair] for pair in params.run.pairs}
    return sorted(place, key=lambda p: (place[p].training, place[p].step is None, place[p].step or 0))


def compared(params: Params) -> dict[str, tuple[str, str]]:
    """Which two pairs are compared, by a name that no pair can have."""
    return {f"{first} → {second}": (first, second) for first, second in _compared(params)}


def _compared(params: Params) -> Iterator[tuple[str, str]]:
    for of_base in trainings(params):
        for training in of_base:
            yield from pairwise(training)
        yield from combinations([training[-1] for training in of_base], 2)


def trainings(params: Params) -> Iterator[list[list[str]]]:
    """For each base its trainings, each as its pairs in order."""
    for base in dict.fromkeys(params.pairs[pair].base for pair in params.run.pairs):
        mine = [pair for pair in in_order(params) if params.pairs[pair].base == base]
        yield [list(pairs) for _, pairs in groupby(mine, key=lambda pair: params.pairs[pair].training)]


def write(params: Params, support: pa.Table, known: Analyses) -> None:
    """Write both tables from the support of all `models` at `common_k`; `known` is what was said of every pair at its
    own k."""
    k = common_k(params)
    trajectory = tables.table(list(_steps(params, support, k, known)), steps(k))
    tables.write(TRAJECTORY, trajectory, trajectory.schema)
    rows = [_rivals(a, b, k, _analysis(params, support, name)) for name, (a, b) in compared(params).items()]
    tables.write(PAIRED, tables.table(rows, RIVALS), RIVALS)


def steps(k: int) -> pa.Schema:
    """The columns of the trajectory: what a row is of; pass@1 and pass@k of both models, counts, and ratios with their
    floors."""
    about = {
        **dict.fromkeys(("pair", "dataset", "base", "training"), pa.string()),
        **dict.fromkeys(("step", "k"), pa.int64()),
    }
    curves = [f"{role}_pass@{at}{end}" for at in dict.fromkeys((1, k)) for role in ROLES for end in ENDS]
    counts = dict.fromkeys(("problems", *"PESO"), pa.int64())
    return pa.schema([*pa.schema({**about, **dict.fromkeys(curves, pa.float64()), **counts}), *FLOORED])


def _steps(params: Params, support: pa.Table, k: int, known: Analyses) -> Iterator[dict[str, Any]]:
    """A row for each pair and group of problems: what it is, and what its analysis says."""
    for pair in in_order(params):
        rows = support.filter(pc.equal(support["pair"], pair))
        counts = Counts.from_table(rows)
        about = {"pair": pair, **params.pairs[pair].model_dump(include={"base", "training", "step"}), "k": k}
        for group, mask in groups(rows).items():
            if mask.any():
                found = known[pair][group]
                at_k = found if found["k"] == k else analysis(counts.where(mask), Settings.of(params))
                yield {**about, "dataset": group, **_step(k, at_k)}


def _step(k: int, found: Mapping[str, Any]) -> dict[str, Any]:
    curves = {f"{role}_pass@{at}": found["pass_at_k"][role][at] for at in (1, k) for role in ROLES}
    return {"problems": found["problems"], **estimates(curves), **found["categories"], **floored(found)}


def estimates(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Estimates as columns: X, X_low and X_high."""
    return {f"{name}{end}": one[ENDS[end]] for name, one in found.items() for end in ENDS}


def floored(found: Mapping[str, Any]) -> dict[str, Any]:
    """The ratios of an analysis as columns: X, X_low and X_high; X_half, the pair's at half of the samples; X_floor,
    what the base gives against itself at as many."""
    floor = found["noise_floor"]
    halves = {f"{name}_half": floor["pair"][name]["value"] for name in RATIOS}
    floors = {f"{name}_floor": floor["base"][name]["value"] for name in RATIOS}
    most = max(floor["k"]) if isinstance(floor["k"], list) else floor["k"]
    return {**estimates({name: found[name] for name in RATIOS}), "half_k": most, **halves, **floors}


def _analysis(params: Params, support: pa.Table, name: str) -> dict[str, Any]:
    return analysis(Counts.from_table(support.filter(pc.equal(support["pair"], name))), Settings.of(params))


def _rivals(first: str, second: str, k: int, found: Mapping[str, Any]) -> dict[str, Any]:
    """What two trained models support, and how their pass@1 and pass@k differ, problem by problem."""
    counted = dict(zip(("both", "second_only", "first_only", "neither"), found["categories"].values(), strict=True))
    row = {"first": first, "second": second, "k": k, **counted, "p_value": found["mcnemar"]["p_value"]}
    differences = {"pass@1_difference": found["difference"][1], "pass@k_difference": found["difference"][k]}
    return row | estimates(differences)

"""Which pairs are compared with each other, in which order and at which k, and the schemas of those tables.

stages/categorize/cross_pair.py computes the tables; leash/report/tables.py shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, groupby, pairwise
from typing import Any

import pyarrow as pa

from leash import tables
from leash.params.groups import Params
from leash.statistics.counts import ROLES
from leash.statistics.ratios import RATIO_NAMES

TRAJECTORY_PATH = tables.DATA_DIR / "analysis" / "trajectory.parquet"
PAIRED_PATH = tables.DATA_DIR / "analysis" / "paired.parquet"
EVER_REACHED_PATH = tables.DATA_DIR / "analysis" / "ever_reached.parquet"
ESTIMATE_SUFFIXES = {"": "value", "_low": "low", "_high": "high"}
# The columns of `ratio_floor_columns`.
RATIO_FLOORS_SCHEMA = pa.schema(
    {
        **{f"{name}{end}": pa.float64() for name in RATIO_NAMES for end in ESTIMATE_SUFFIXES},
        "half_k": pa.int64(),
        **{f"{name}{end}": pa.float64() for name in RATIO_NAMES for end in ("_half", "_floor")},
    }
)
PAIRED_SCHEMA = pa.schema(
    {
        "first": pa.string(),
        "second": pa.string(),
        "k": pa.int64(),
        **dict.fromkeys(("both", "second_only", "first_only", "neither"), pa.int64()),
        # The exact McNemar p-value for first_only == second_only, corrected for all rows by Holm's method.
        "p_value": pa.float64(),
        **{f"pass@{k}_difference{end}": pa.float64() for k in "1k" for end in ESTIMATE_SUFFIXES},
    }
)
# Numbers of problems, null if one of them lacks samples. The floats are expected numbers over choices of samples.
EVER_REACHED_SCHEMA = pa.schema(
    {
        **dict.fromkeys(("pair", "dataset", "base", "training"), pa.string()),
        **dict.fromkeys(("step", "checkpoints", "k", "problems"), pa.int64()),
        # By this checkpoint, by any so far, by one before and not by this one, and by none so far.
        **dict.fromkeys(("reached", "ever_reached", "only_before", "never_reached"), pa.int64()),
        # The samples of all checkpoints so far together, and what the base reaches with as many.
        "total_k": pa.int64(),
        "base_at_total_k": pa.float64(),
        # The same with k samples in all: share_k of each checkpoint, and as many of the base.
        "share_k": pa.int64(),
        **dict.fromkeys(("ever_at_share_k", "base_at_shares"), pa.float64()),
    }
)


def common_k(params: Params) -> int:
    """The largest k that all pairs have."""
    return min(params.pair_k(pair, dataset) for pair in params.run.pairs for dataset in params.run.datasets)


def sort_pairs_by_step(params: Params) -> list[str]:
    """The pairs by training and step; a pair without a step is the end of its training."""
    pairs = {name: params.pairs[name] for name in params.run.pairs}
    return sorted(pairs, key=lambda name: (pairs[name].training, pairs[name].step is None, pairs[name].step or 0))


def pairs_to_compare(params: Params) -> dict[str, tuple[str, str]]:
    """The pairs whose trained models are compared, by a name that no pair can have: successive checkpoints of a
    training, and the last checkpoints of all trainings of a base."""
    comparisons: list[tuple[str, str]] = []
    for trainings in trainings_by_base(params):
        for training in trainings:
            comparisons += pairwise(training)
        comparisons += combinations([training[-1] for training in trainings], 2)
    return {f"{first} → {second}": (first, second) for first, second in comparisons}


def trainings_by_base(params: Params) -> Iterator[list[list[str]]]:
    """For each base its trainings, each as its pairs in order."""
    for base in dict.fromkeys(params.pairs[pair].base for pair in params.run.pairs):
        of_base = [pair for pair in sort_pairs_by_step(params) if params.pairs[pair].base == base]
        yield [list(pairs) for _, pairs in groupby(of_base, key=lambda pair: params.pairs[pair].training)]


def several_checkpoints(params: Params) -> list[list[str]]:
    """The trainings with several pairs, each as its pairs in order."""
    return [training for trainings in trainings_by_base(params) for training in trainings if len(training) > 1]


def trajectory_schema(k: int) -> pa.Schema:
    """The columns of the trajectory: the key, pass@1 and pass@k of both models, counts, and ratios with their floors.
    At k = 1 pass@1 is there once."""
    key = dict.fromkeys(("pair", "dataset", "base", "training"), pa.string())
    key |= dict.fromkeys(("step", "k"), pa.int64())
    curves = [f"{role}_pass@{at}{end}" for at in dict.fromkeys((1, k)) for role in ROLES for end in ESTIMATE_SUFFIXES]
    counts = dict.fromkeys(("problems", *"PESO"), pa.int64())
    return pa.schema([*pa.schema({**key, **dict.fromkeys(curves, pa.float64()), **counts}), *RATIO_FLOORS_SCHEMA])


def estimate_columns(estimates: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Estimates as columns: X, X_low and X_high."""
    ends = ESTIMATE_SUFFIXES.items()
    return {f"{name}{suffix}": estimate[end] for name, estimate in estimates.items() for suffix, end in ends}


def ratio_floor_columns(analysis: Mapping[str, Any]) -> dict[str, Any]:
    """The ratios of an analysis as columns: X, X_low and X_high; X_half, the pair's at half of the samples; X_floor,
    the base's against itself at as many samples."""
    floor = analysis["noise_floor"]
    halves = {f"{name}_half": floor["pair"][name]["value"] for name in RATIO_NAMES}
    floors = {f"{name}_floor": floor["base"][name]["value"] for name in RATIO_NAMES}
    most = max(floor["k"]) if isinstance(floor["k"], list) else floor["k"]
    return {**estimate_columns({name: analysis[name] for name in RATIO_NAMES}), "half_k": most, **halves, **floors}

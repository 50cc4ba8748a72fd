"""Ever reached along training: the problems that any checkpoint so far has reached, at the k that all pairs have.

data/analysis/ever_reached.parquet has a row for each checkpoint of a training with several, and group of problems. The
columns are in leash/cross_pair.py; leash/statistics/union.py says how the union is compared with the base.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leash import tables
from leash.counting.metrics import group_masks
from leash.cross_pair import EVER_REACHED_PATH, EVER_REACHED_SCHEMA, common_k, several_checkpoints
from leash.params.groups import Params
from leash.statistics.array_types import BoolArray, FloatArray
from leash.statistics.counts import Counts
from leash.statistics.rounding import round_digits
from leash.statistics.union import reach_probability, union_of_shares, union_probability


def write_ever_reached(params: Params, support: pa.Table, bases: pa.Table | None) -> None:
    """Write the table from the support of all pairs at the common k, and from the counts of all samples of each base
    (None if no training has several checkpoints)."""
    rows: list[dict[str, Any]] = []
    for training in several_checkpoints(params) if bases is not None else ():
        rows += training_rows(params, training, support, bases)
    tables.write(EVER_REACHED_PATH, tables.table_from_rows(rows, EVER_REACHED_SCHEMA), EVER_REACHED_SCHEMA)


def training_rows(params: Params, training: list[str], support: pa.Table, bases: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of one training, whose pairs are in the order of their steps."""
    k = common_k(params)
    first = support.filter(pc.equal(support["pair"], training[0]))
    masks, epsilon = group_masks(first), first["epsilon"].to_numpy()
    # The rows of every plan are all problems, in the same order.
    base = Counts.from_table(bases.filter(pc.equal(bases["pair"], params.pairs[training[0]].base)))
    base_samples, base_k = base.samples("base"), base.k
    models = [Counts.from_table(support.filter(pc.equal(support["pair"], pair))).samples("rlvr") for pair in training]
    drawn = np.full(len(epsilon), k)
    reached = np.stack([reach_probability(model, drawn, k, epsilon) for model in models])
    for number, pair in enumerate(training, start=1):
        about = {"pair": pair, **params.pairs[pair].model_dump(include={"base", "training", "step"})}
        about |= {"checkpoints": number, "k": k, "total_k": number * k, "share_k": k // number}
        ever = union_probability(reached[:number])
        columns = {
            "reached": reached[number - 1],
            "ever_reached": ever,
            "only_before": ever - reached[number - 1],
            "never_reached": 1 - ever,
            "base_at_total_k": reach_probability(base_samples, base_k, number * k, epsilon),
            "ever_at_share_k": union_of_shares(models[:number], k, epsilon),
            "base_at_shares": reach_probability(base_samples, base_k, max(number * (k // number), 1), epsilon),
        }
        # Above epsilon = 0 one model with all samples must exceed a share that any of several may exceed in a few of
        # them: the union would win even if nothing changed.
        for name in ("base_at_total_k", "ever_at_share_k", "base_at_shares"):
            columns[name] = np.where(epsilon > 0, np.nan, columns[name])
        for group, mask in masks.items():
            if mask.any():
                sums = {name: _sum_known(values, mask) for name, values in columns.items()}
                yield {**about, "dataset": group, "problems": int(mask.sum()), **sums}


def _sum_known(values: FloatArray, mask: BoolArray) -> float | int | None:
    """The sum over these problems, an int if each counts whole; None if it is unknown for one of them."""
    chosen = values[mask]
    if np.isnan(chosen).any():
        return None
    return int(chosen.sum()) if np.isin(chosen, (0, 1)).all() else round_digits(chosen.sum())

"""Counts: of one pair, how many samples of each model each problem had, and how many of them were hits.

Everything in `analysis.py` is computed from these. `Counts.from_table(table)` takes the columns of a support table.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from stages.categorize.statistics.arrays import Ints, Objects, Reals, Truths

ROLES = ("base", "rlvr")  # the two models of a pair, as columns call them
KINDS: dict[str, Any] = dict.fromkeys(("dataset", "problem_id", "ended_base", "ended_rlvr"), object)
KINDS["epsilon"] = np.float64
FIRST = ("n_base_first", "c_base_first", "n_rlvr_first", "c_rlvr_first")


@dataclass(frozen=True)
class Counts:
    """One entry a problem. `ended` says how its sampling ended: 'k' (all were drawn), 'hit' (stopped at its last hit),
    'floor' (had its hits by the floor) or None (samples are missing). The `first` counts, of the first eighth of the k
    samples, are there only where the order of samples is known."""

    dataset: Objects
    problem_id: Objects
    n_base: Ints
    c_base: Ints
    n_rlvr: Ints
    c_rlvr: Ints
    ended_base: Objects
    ended_rlvr: Objects
    k: Ints
    epsilon: Reals
    n_base_first: Ints | None = None
    c_base_first: Ints | None = None
    n_rlvr_first: Ints | None = None
    c_rlvr_first: Ints | None = None

    @classmethod
    def from_table(cls, table: pa.Table) -> Counts:
        """Counts from a table with the columns of `support`, and those of the first samples if it has them."""
        given: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            if field.name in FIRST and field.name not in table.column_names:
                continue
            kind = KINDS.get(field.name, np.int64)
            given[field.name] = np.array(table[field.name].to_pylist(), dtype=kind)
        return cls(**given)

    def where(self, mask: Truths) -> Counts:
        """The problems that a mask picks."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        picked: dict[str, Any] = {name: values[mask] for name, values in given.items() if values is not None}
        return Counts(**picked)

    def __len__(self) -> int:
        return len(self.problem_id)

"""Counts: how many samples of each model of a pair each problem has, and how many of them are hits.

Everything in `analysis.py` is computed from these. `Counts.from_table(table)` takes the columns of a support table.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from leash.statistics.array_types import BoolArray, FloatArray, IntArray, ObjectArray
from leash.statistics.pass_at_k import SampleCounts

# The two models of a pair, as columns name them.
ROLES = ("base", "rlvr")
COLUMN_DTYPES: dict[str, Any] = dict.fromkeys(("dataset", "problem_id", "ended_base", "ended_rlvr"), object)
COLUMN_DTYPES["epsilon"] = np.float64
LABEL_COLUMNS = ("level", "cluster")
COLUMN_DTYPES |= dict.fromkeys(LABEL_COLUMNS, object)
FIRST_EIGHTH_COLUMNS = ("n_base_first", "c_base_first", "n_rlvr_first", "c_rlvr_first")


@dataclass(frozen=True)
class Counts:
    """One entry per problem. `ended` is how its sampling ended: "k" (all samples were drawn), "hit" (stopped at its
    last hit), "floor" (had enough hits by the floor) or None (samples are missing). The `first` counts, of the first
    eighth of the k samples, are None if the order of samples is unknown. `level` and `cluster` are None if no problem
    has one; a problem without one has None there (clusters.py says what clusters are)."""

    dataset: ObjectArray
    problem_id: ObjectArray
    n_base: IntArray
    c_base: IntArray
    n_rlvr: IntArray
    c_rlvr: IntArray
    ended_base: ObjectArray
    ended_rlvr: ObjectArray
    k: IntArray
    epsilon: FloatArray
    n_base_first: IntArray | None = None
    c_base_first: IntArray | None = None
    n_rlvr_first: IntArray | None = None
    c_rlvr_first: IntArray | None = None
    level: ObjectArray | None = None
    cluster: ObjectArray | None = None

    @classmethod
    def from_table(cls, table: pa.Table) -> Counts:
        """Counts from a table with the columns of data/support; the `first` columns, level and cluster are optional."""
        columns: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            optional = field.name in (*FIRST_EIGHTH_COLUMNS, *LABEL_COLUMNS)
            if optional and field.name not in table.column_names:
                continue
            values = table[field.name].to_numpy(zero_copy_only=False)
            columns[field.name] = values.astype(COLUMN_DTYPES.get(field.name, np.int64))
        return cls(**columns)

    def samples(self, role: str) -> SampleCounts:
        return SampleCounts(*(getattr(self, f"{name}_{role}") for name in ("n", "c", "ended")))

    def where(self, mask: BoolArray) -> Counts:
        return Counts(**{name: values[mask] for name, values in vars(self).items() if values is not None})

    def __len__(self) -> int:
        return len(self.problem_id)

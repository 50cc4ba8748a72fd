"""Rows of Parquet files in any order, without all of the files in memory.

reader = RowReader([(file, group) for file in files for group in …], tables.VERDICTS_SCHEMA, "leash verify")
reader.read(np.array([0, 2, 0]), np.array([5, 1, 4]))  ->  row 5 of the first row group, row 1 of the third, …
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leash import tables

MAX_KEPT_BYTES = 2**29
RowGroup = tuple[Path, int]  # a file, and the number of one of its row groups


class RowReader:
    """Keeps the row groups that it used last: those of a few rows are often those of the next. The caller has checked
    the files' checksums. `made_by` is the command that makes them."""

    def __init__(self, groups: Sequence[RowGroup], schema: pa.Schema, made_by: str) -> None:
        self._groups, self._schema, self._made_by = groups, schema, made_by
        self._kept: OrderedDict[int, pa.Table] = OrderedDict()
        self._bytes = 0

    def read(self, groups: NDArray[np.int64], rows: NDArray[np.int64]) -> pa.Table:
        """Rows by the number of their row group and their number in it, in this order."""
        by_group = np.argsort(groups, kind="stable")
        used, begins = np.unique(groups[by_group], return_index=True)
        pieces = [self._schema.empty_table()]
        for group, places in zip(used.tolist(), np.split(by_group, begins[1:]), strict=True):
            pieces.append(self._table(group).take(pa.array(rows[places])))
        position = np.empty_like(by_group)
        position[by_group] = np.arange(len(by_group))
        return pa.concat_tables(pieces).take(pa.array(position))

    def _table(self, group: int) -> pa.Table:
        if group not in self._kept:
            rows = tables.read_row_group(*self._groups[group], self._schema, self._made_by)
            self._kept[group] = rows.cast(self._schema)
            self._bytes += self._kept[group].nbytes
        self._kept.move_to_end(group)
        while len(self._kept) > 1 and self._bytes > MAX_KEPT_BYTES:
            self._bytes -= self._kept.popitem(last=False)[1].nbytes
        return self._kept[group]

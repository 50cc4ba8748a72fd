"""Scores on disk: in a job's table and, until the table is complete, in parts in a hidden folder beside it.

    data/entropy/base/chain.parquet             the table
    data/entropy/base/.chain.parts/*.parquet    the finished units of a run that was stopped

The metadata of each file says what its scores were made with (weights, dtype, specification). Scores that were made
with anything else are ignored, and such parts are deleted.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from leash import atomic_io, tables

MADE_WITH_KEY, ROWS_KEY = "made_with", "rows"


def parts_folder(path: Path) -> Path:
    return path.parent / f".{path.stem}.parts"


def write_part(path: Path, scores: Sequence[Mapping[str, Any]], schema: pa.Schema, made_with: str) -> None:
    """Write the scores of a finished unit."""
    name = atomic_io.hash_of(*(score["key"] for score in scores))
    part = parts_folder(path) / f"{name}.parquet"
    tables.write(part, tables.table_from_rows(scores, schema), schema, {MADE_WITH_KEY: made_with})


def delete_parts(path: Path) -> None:
    shutil.rmtree(parts_folder(path), ignore_errors=True)


def load_scored_keys(path: Path, schema: pa.Schema, made_with: str) -> set[str]:
    """The keys of the traces that have a score on disk."""
    files = _open_matching_files(path, schema, made_with)
    return {key for file in files for key in file.read(columns=["key"])["key"].to_pylist()}


def load_scores(path: Path, schema: pa.Schema, made_with: str) -> dict[str, dict[str, Any]]:
    """The scores on disk by the key of their trace."""
    files = _open_matching_files(path, schema, made_with)
    return {row["key"]: row for file in files for row in file.read(columns=schema.names).to_pylist()}


def _open_matching_files(path: Path, schema: pa.Schema, made_with: str) -> Iterator[pq.ParquetFile]:
    """The table and the parts that were made with the same; other parts are deleted."""
    parts = tables.shards(parts_folder(path))
    for file in (path, *parts):
        if tables.read_metadata(file).get(MADE_WITH_KEY) == made_with:
            try:
                yield tables.open_table(file, schema, made_by="")
            except tables.WrongColumnError:  # an older version of Leash wrote it: score again
                continue
        elif file in parts:
            file.unlink()

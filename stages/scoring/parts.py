"""Scores on disk: in a job's table, and, until that is whole, in parts in a hidden folder beside it.

    data/entropy/base/chain.parquet             the table
    data/entropy/base/.chain.parts/*.parquet    what a run that was stopped had finished

A file's note says what its scores were made with (weights, dtype, reading). Scores made with anything else are not
used, and such parts are thrown away.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages import disk, tables
from stages.errors import LeashError

MADE_WITH, ROWS = "made_with", "rows"


def folder_of(path: Path) -> Path:
    return path.parent / f".{path.stem}.parts"


def write(path: Path, scores: Sequence[Mapping[str, Any]], schema: pa.Schema, made_with: str) -> None:
    """Keep the scores of a finished unit."""
    name = disk.hash_of(*(score["key"] for score in scores))
    part = folder_of(path) / f"{name}.parquet"
    tables.write(part, tables.table(scores, schema), schema, {MADE_WITH: made_with})


def throw_away(path: Path) -> None:
    shutil.rmtree(folder_of(path), ignore_errors=True)


def kept_keys(path: Path, schema: pa.Schema, made_with: str) -> set[str]:
    """The traces that have a score on disk."""
    keys = pa.schema([schema.field("key")])
    return {
        key for file in _usable(path, schema, made_with) for key in file.read(columns=keys.names)["key"].to_pylist()
    }


def kept(path: Path, schema: pa.Schema, made_with: str) -> dict[str, dict[str, Any]]:
    """The scores on disk by key."""
    files = _usable(path, schema, made_with)
    return {row["key"]: row for file in files for row in file.read(columns=schema.names).to_pylist()}


def _usable(path: Path, schema: pa.Schema, made_with: str) -> Iterable[Any]:
    """The files with scores that were made with the same; parts made with something else go."""
    for part in tables.shards(folder_of(path)):
        if tables.note(part).get(MADE_WITH) != made_with:
            part.unlink()
    for file in (path, *tables.shards(folder_of(path))):
        if tables.note(file).get(MADE_WITH) == made_with:
            try:
                yield tables.opened(file, schema, "")
            except LeashError:  # of an older schema: as good as not there
                continue

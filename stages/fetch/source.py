"""Where rows come from: a file or folder of this machine, or the hub. After the bytes are there, all is one path.

A folder is read like a repository of the hub: the files in it that the benchmark's patterns name. So a folder that
`hf download --repo-type dataset ID --local-dir FOLDER` has made is a `path` as it stands.

JSON is taken object by object, and CSV as text: nobody guesses that "025" is a number or "2024-06-24" a date.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from stages import disk
from stages.errors import LeashError, first_line
from stages.fetch.benchmark import Place, Row
from stages.params import Dataset

# What readers raise, and Python of a number of 5,000 digits (ValueError) or a date after the year 9999 (OverflowError).
UNREADABLE = (duckdb.Error, pa.ArrowException, OSError, ValueError, OverflowError)
KINDS = (".jsonl", ".json", ".csv", ".parquet")
LARGEST = 1 << 30  # bytes of one JSON object: LiveCodeBench's tests of a problem can be hundreds of megabytes


@dataclass(frozen=True)
class Source:
    """Files with rows, and what will be remembered of where they are from."""

    files: list[Path]
    origin: dict[str, str]

    def rows(self) -> Iterator[Row]:
        for file in self.files:
            for number, fields in enumerate(_fields(file)):
                yield Row({str(name).lower(): value for name, value in fields.items()}, Place(file, number))


def find(name: str, dataset: Dataset, hub: str | None, patterns: Sequence[str]) -> Source:
    """The files of a data set: by its `path` if it has one, else from the hub."""
    if dataset.path:
        files = _local(name, Path(dataset.path), hub, patterns)
        return Source(files, {"file": str(dataset.path), "hash": disk.hash_of(*(disk.file_hash(f) for f in files))})
    if not hub:
        raise LeashError(
            f"The data set {name} has no source: set `datasets.{name}.path` to a file, or `hub` to an id on the hub."
        )
    return _from_hub(name, hub, dataset.revision or "main", patterns)


def _local(name: str, path: Path, hub: str | None, patterns: Sequence[str]) -> list[Path]:
    if path.is_dir():
        return _matching(path, patterns) or _nothing_in(path, patterns)
    if path.suffix not in KINDS:
        raise LeashError(f"{path} is not a kind of file that is read here ({', '.join(KINDS)}).")
    if not path.is_file():
        source = f"download it from {hub} on the hub and " if hub else ""
        raise LeashError(f"`datasets.{name}.path` is {path}, but there is no such file; {source}put it there.")
    return [path]


def _matching(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """The files of the first pattern that has some: the others are for copies that are laid out otherwise."""
    found = (sorted(file for file in _glob(folder, pattern) if file.suffix in KINDS) for pattern in patterns)
    return next((files for files in found if files), [])


def _glob(folder: Path, pattern: str) -> list[Path]:
    try:
        return [file for file in folder.glob(pattern) if file.is_file()]
    except ValueError as error:
        raise LeashError(f"The pattern {pattern} of files in {folder} is none ({error}); correct `files`.") from None


def _nothing_in(folder: Path, patterns: Sequence[str]) -> list[Path]:
    raise LeashError(f"{folder} holds no file {' or '.join(patterns)}; put it there, or name the file itself.")


def _from_hub(name: str, hub: str, revision: str, patterns: Sequence[str]) -> Source:
    """The hub's own package downloads, checks and caches; a snapshot's folder is named for its commit."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import logging
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    logging.set_verbosity(50)  # critical alone: what it would warn of is said once, below
    wanted = f"{hub} ({', '.join(patterns)})"
    at_hand = f"or download it elsewhere, and set `datasets.{name}.path` to where you put it"
    try:
        folder = Path(snapshot_download(hub, repo_type="dataset", revision=revision, allow_patterns=list(patterns)))
    except Exception as error:
        raise LeashError(_sentence(error, name, wanted, revision, at_hand)) from None
    files = _matching(folder, patterns)
    if not files:
        raise LeashError(f"The hub's {hub} has no file {' or '.join(patterns)} at {revision}; {at_hand}.")
    return Source(files, {"hub": hub, "revision": folder.name})


def _sentence(error: Exception, name: str, wanted: str, revision: str, at_hand: str) -> str:
    """What the hub's package raises, as a sentence. What it was sent (a token) is in none of these texts."""
    from huggingface_hub import errors

    if isinstance(error, errors.RevisionNotFoundError):
        return f"The hub has no revision {revision} of {wanted}; correct `datasets.{name}.revision`."
    if isinstance(error, errors.GatedRepoError):
        return f"The hub gives {wanted} only to those who accepted its terms: do so there and log in, {at_hand}."
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"The hub has no data set {wanted}, or keeps it private; correct `datasets.{name}.hub`, {at_hand}."
    if isinstance(error, errors.LocalEntryNotFoundError):
        return f"The hub can't be reached for {wanted}: go online, {at_hand}."
    return f"{wanted} could not be downloaded whole ({first_line(error)}); run the command again, {at_hand}."


def _fields(file: Path) -> Iterator[dict[str, Any]]:
    try:
        yield from {".parquet": _parquet, ".csv": _csv}.get(file.suffix, _json)(file)
    except RecursionError:
        raise LeashError(f"{file} can't be read: a row is nested too deeply.") from None
    except UNREADABLE as error:
        raise LeashError(f"{file} can't be read: {first_line(error)}.") from None


def _parquet(file: Path) -> Iterator[dict[str, Any]]:
    for batch in pq.ParquetFile(file).iter_batches(batch_size=64):
        yield from batch.to_pylist()


def _csv(file: Path) -> Iterator[dict[str, Any]]:
    found = duckdb.connect().sql("select * from read_csv(?, all_varchar = true, header = true)", params=[str(file)])
    yield from pa.table(found.to_arrow_table()).to_pylist()


def _json(file: Path) -> Iterator[dict[str, Any]]:
    query = "select json from read_json_objects(?, format = 'auto', maximum_object_size = ?)"
    found = duckdb.connect().execute(query, [str(file), LARGEST])
    while batch := found.fetchmany(64):
        for (text,) in batch:
            yield from _rows_of(json.loads(text), file)


def _rows_of(value: Any, file: Path) -> list[dict[str, Any]]:
    """An object is a row, unless it holds them all: by key (MathVista's) or by column (as pandas writes a frame)."""
    if not isinstance(value, dict):
        raise LeashError(f"{file}: a row must be an object with columns, not {json.dumps(value)[:60]}.")
    parts = list(value.values())
    if len(parts) > 1 and all(isinstance(part, dict) for part in parts):
        return _by_column(value) if _same_keys(parts) and all(key.isdigit() for key in parts[0]) else parts
    return [value]


def _by_column(columns: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    keys = next(iter(columns.values()))
    return [{name: column[key] for name, column in columns.items()} for key in keys]


def _same_keys(parts: list[dict[str, Any]]) -> bool:
    return all(part.keys() == parts[0].keys() for part in parts)

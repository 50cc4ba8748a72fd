"""Find and read the files of a data set: on this machine, or downloaded from the hub.

A folder is read like a repository on the hub: the files in it that match the benchmark's patterns. So a folder made by
`hf download --repo-type dataset ID --local-dir FOLDER` works as `path` without changes.

No type is guessed: JSON is read object by object and CSV as text, so "025" stays "025" and "2024-06-24" stays text.
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

from leash import atomic_io
from leash.benchmarks.benchmark import Row, RowLocation
from leash.errors import LeashError, first_line
from leash.formatting import truncate
from leash.params.groups import Dataset

# Python raises ValueError for a number of 5,000 digits and OverflowError for a date after the year 9999.
READ_ERRORS = (duckdb.Error, pa.ArrowException, OSError, ValueError, OverflowError)
FILE_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet")
# The tests of one LiveCodeBench problem can be hundreds of megabytes.
MAX_JSON_OBJECT_BYTES = 1 << 30


class SourceFileError(LeashError):
    """A file of a data set is missing or cannot be read. `where` is its path, or the repository on the hub."""

    def __init__(self, where: Path | str, fault: str) -> None:
        self.where, self.fault = where, fault
        super().__init__(f"{where}: {fault}")


class DatasetSourceError(LeashError):
    """The parameters of a data set give no problems. `param` is the one to correct."""

    def __init__(self, param: str, fault: str) -> None:
        self.param, self.fault = param, fault
        super().__init__(f"`{param}` {fault}")


@dataclass(frozen=True)
class Source:
    """Files with rows, and the origin that the problems table records."""

    files: list[Path]
    origin: dict[str, str]

    def rows(self) -> Iterator[Row]:
        for file in self.files:
            for number, fields in enumerate(_read_rows(file)):
                yield Row({str(name).lower(): value for name, value in fields.items()}, RowLocation(file, number))


def find_source(name: str, dataset: Dataset, hub: str | None, patterns: Sequence[str]) -> Source:
    """The files of a data set: by its `path` if it has one, else from the hub."""
    if not dataset.path:
        if not hub:
            raise DatasetSourceError(f"datasets.{name}", "has no source: set `path` to a file, or `hub` to an id.")
        return _download_source(name, hub, dataset.revision or "main", patterns)
    path = Path(dataset.path)
    if path.is_dir():
        files = _match_files(path, patterns)
        if not files:
            raise SourceFileError(path, f"no file matches {' or '.join(patterns)}; add it, or set `path` to the file.")
    elif path.suffix not in FILE_SUFFIXES:
        raise SourceFileError(path, f"unknown kind of file; use one of {', '.join(FILE_SUFFIXES)}.")
    elif not path.is_file():
        remedy = f"download it from {hub} on the hub" if hub else "correct the path or create the file"
        raise DatasetSourceError(f"datasets.{name}.path", f"is {path}, but there is no such file; {remedy}.")
    else:
        files = [path]
    file_hashes = (atomic_io.file_hash(file) for file in files)
    return Source(files, {"file": str(dataset.path), "hash": atomic_io.hash_strings(*file_hashes)})


def _match_files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """The files of the first pattern that matches any: the others are for copies with another layout."""
    for pattern in patterns:
        try:
            files = sorted(f for f in folder.glob(pattern) if f.is_file() and f.suffix in FILE_SUFFIXES)
        except ValueError as error:
            raise SourceFileError(folder, f"{pattern} is not a valid pattern ({error}); correct `files`.") from None
        if files:
            return files
    return []


def _download_source(name: str, hub: str, revision: str, patterns: Sequence[str]) -> Source:
    """Download a snapshot with the hub's own package, which checks and caches it in a folder named for its commit."""
    from huggingface_hub import errors, snapshot_download
    from huggingface_hub.utils import logging
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    logging.set_verbosity(50)  # critical only: the errors below say it once
    where, elsewhere = f"{hub} on the hub", f"or download it elsewhere and set `datasets.{name}.path` to it"
    # None of these texts contains what was sent to the hub, such as a token.
    try:
        folder = Path(snapshot_download(hub, repo_type="dataset", revision=revision, allow_patterns=list(patterns)))
    except errors.RevisionNotFoundError:
        raise SourceFileError(where, f"there is no revision {revision}; correct `datasets.{name}.revision`.") from None
    except errors.GatedRepoError:
        raise SourceFileError(where, f"you must accept its terms there and log in; do so, {elsewhere}.") from None
    except errors.RepositoryNotFoundError:
        fault = f"there is no such data set, or it is private; correct `datasets.{name}.hub`, {elsewhere}."
        raise SourceFileError(where, fault) from None
    except errors.LocalEntryNotFoundError:
        raise SourceFileError(where, f"the hub does not answer; go online, {elsewhere}.") from None
    except Exception as error:
        fault = f"the download of {', '.join(patterns)} failed ({first_line(error)}); run the command again"
        raise SourceFileError(where, f"{fault}, {elsewhere}.") from None
    files = _match_files(folder, patterns)
    if not files:
        raise SourceFileError(
            where, f"no file matches {' or '.join(patterns)} at {revision}; correct `files`, {elsewhere}."
        )
    return Source(files, {"hub": hub, "revision": folder.name})


def _read_rows(file: Path) -> Iterator[dict[str, Any]]:
    try:
        if file.suffix == ".parquet":
            for batch in pq.ParquetFile(file).iter_batches(batch_size=64):
                yield from batch.to_pylist()
        elif file.suffix == ".csv":
            query = "select * from read_csv(?, all_varchar = true, header = true)"
            yield from pa.table(duckdb.connect().sql(query, params=[str(file)]).to_arrow_table()).to_pylist()
        else:
            query = "select json from read_json_objects(?, format = 'auto', maximum_object_size = ?)"
            objects = duckdb.connect().execute(query, [str(file), MAX_JSON_OBJECT_BYTES])
            while batch := objects.fetchmany(64):
                for (text,) in batch:
                    yield from _unnest_rows(json.loads(text), file)
    except RecursionError:
        raise SourceFileError(file, "a row is nested too deeply.") from None
    except READ_ERRORS as error:
        raise SourceFileError(file, f"cannot read the file: {first_line(error)}.") from None


def _unnest_rows(value: Any, file: Path) -> list[dict[str, Any]]:
    """An object is a row, unless it holds all rows: by key (MathVista) or by column (as pandas writes a frame)."""
    if not isinstance(value, dict):
        raise SourceFileError(file, f"a row must be an object with columns, not {truncate(json.dumps(value), 60)}.")
    parts = list(value.values())
    if len(parts) < 2 or not all(isinstance(part, dict) for part in parts):
        return [value]
    keys = parts[0].keys()
    if all(part.keys() == keys for part in parts) and all(key.isdigit() for key in keys):
        return [{name: column[key] for name, column in value.items()} for key in keys]
    return parts

"""Rows of a file of completions: JSON lines, one JSON document, either of them gzipped, or Parquet.

    Row("out/samples.jsonl, line 3", {"question": "What is 2 + 2?", …})

In:  a file. Its first bytes decide its kind, not its name.
Out: one mapping of fields per row, with the place it comes from, for error messages.

Rows are read one at a time, so memory does not grow with the file. Only a JSON document is parsed whole.
Which fields mean what is not decided here (see formats.py).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from leash.errors import LeashError, first_line
from leash.formatting import replace_surrogates

# Room for thousands of long completions of one problem; a line of this size still parses in a few GB of memory.
MAX_LINE_BYTES = 2**28
MAX_DOCUMENT_BYTES = 2**30
GZIP_MAGIC, PARQUET_MAGIC = b"\x1f\x8b", b"PAR1"
DECOMPRESSION_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)

Flatten = Callable[[dict[str, Any]], Iterator[dict[str, Any]]]


class Row(NamedTuple):
    where: str
    fields: dict[str, Any]


class ImportFileError(LeashError):
    """A file, or one row of it, cannot be imported. `where` names the file and, if known, the line or row."""

    def __init__(self, where: str | Path, fault: str) -> None:
        self.where, self.fault = str(where), fault
        super().__init__(f"{where}: {fault}")


def read_rows(file: Path, flatten: Flatten) -> Iterator[Row]:
    """Every row of a file. `flatten` yields the rows of a JSON document that is one object."""
    if not file.is_file():
        raise ImportFileError(file, "there is no such file; correct its name.")
    if not os.access(file, os.R_OK):
        raise ImportFileError(file, "permission denied; make the file readable.")
    if _begins_with(file, PARQUET_MAGIC):
        yield from _read_parquet(file)
        return
    for where, value in _read_document(file, flatten) if _is_json_document(file) else _read_lines(file):
        if not isinstance(value, dict):
            raise ImportFileError(where, f"it holds {describe_type(value)}, not an object with fields.")
        yield Row(where, value)


def content_hash(file: Path) -> str:
    """A hash of the decompressed content, so that a file and its gzipped copy count as the same source."""
    with _open_decompressed(file) as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def describe_type(value: Any) -> str:
    return "null" if value is None else f"a {type(value).__name__}"


def _begins_with(file: Path, magic: bytes) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(magic)) == magic


def _open_decompressed(file: Path) -> BufferedIOBase:
    return gzip.open(file, "rb") if _begins_with(file, GZIP_MAGIC) else file.open("rb")


def _is_json_document(file: Path) -> bool:
    """Whether the file is one JSON value over many lines, or alone in a .json file, rather than one value per line."""
    with _open_decompressed(file) as stream:
        try:
            first, second = stream.readline(MAX_LINE_BYTES).strip(), stream.readline(MAX_LINE_BYTES).strip()
        except DECOMPRESSION_ERRORS:
            return False  # reading the lines raises it again, with the line number
    if first in (b"[", b"{"):
        return True
    if ".json" not in file.suffixes:
        return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return True
    return not second


def _read_lines(file: Path) -> Iterator[tuple[str, Any]]:
    with _open_decompressed(file) as stream:
        for number in count(1):
            where = f"{file}, line {number}"
            line = _read_block(stream.readline, MAX_LINE_BYTES, where, "put fewer completions on one line")
            if not line:
                return
            if line.strip():
                yield where, _parse_json(line, where)


def _read_document(file: Path, flatten: Flatten) -> Iterator[tuple[str, Any]]:
    with _open_decompressed(file) as stream:
        content = _read_block(stream.read, MAX_DOCUMENT_BYTES, str(file), "write it as JSON lines")
    if not content.strip():
        raise ImportFileError(file, "the file is empty.")
    document = _parse_json(content, str(file))
    if not isinstance(document, dict | list):
        raise ImportFileError(file, f"it holds {describe_type(document)}, not a list of rows.")
    for number, entry in enumerate(flatten(document) if isinstance(document, dict) else document, 1):
        yield f"{file}, entry {number}", entry


def _read_parquet(file: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        batches = pq.ParquetFile(file).iter_batches(batch_size=64)
        for number, fields in enumerate((row for batch in batches for row in batch.to_pylist()), 1):
            yield Row(f"{file}, row {number}", fields)
    # Arrow raises ValueError and OverflowError for a date after the year 9999.
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        fault = f"cannot read it as Parquet ({first_line(error)})."
        raise ImportFileError(f"{file}, row {number + 1}", fault) from None


def _read_block(read: Callable[[int], bytes], limit: int, where: str, remedy: str) -> bytes:
    """Read a line or the whole stream, but no more than `limit` bytes: a hostile gzip file can expand without end."""
    try:
        block = read(limit + 1)
    except DECOMPRESSION_ERRORS:
        raise ImportFileError(where, "the compressed data is truncated or damaged; get the file again.") from None
    if len(block) > limit:
        raise ImportFileError(where, f"longer than {limit:,} bytes; {remedy}.")
    return block


def _parse_json(content: bytes, where: str) -> Any:
    try:
        value = json.loads(content)
        # Only an escape can write half a character, so most files skip the walk over all values.
        return _replace_surrogates_in(value) if b"\\u" in content else value
    except UnicodeDecodeError:
        raise ImportFileError(where, "this is not text in UTF-8; is it a file of completions?") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise ImportFileError(where, f"this is not JSON ({error.msg.lower()} at {place}).") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or endless nesting
        raise ImportFileError(where, f"cannot read it as JSON ({first_line(error)}).") from None


def _replace_surrogates_in(value: Any) -> Any:
    if isinstance(value, dict):
        return {replace_surrogates(name): _replace_surrogates_in(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_replace_surrogates_in(inner) for inner in value]
    return replace_surrogates(value) if isinstance(value, str) else value

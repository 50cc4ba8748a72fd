"""The rows of a file, whatever it is made of: JSON lines, one JSON document, either of them gzipped, or Parquet.

What comes out is one mapping of fields per row, with the place it comes from for whoever has to complain about it:

    Row("out/samples.jsonl, line 3", {"question": "What is 2 + 2?", …})

What a file is made of is seen from its first bytes, not from its name. Rows are read one at a time, so that memory
does not grow with the file, except for a JSON document, which has to be read whole.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple

from stages.errors import LeashError, first_line

LONGEST_LINE = 2**28  # bytes: thousands of long completions of one problem, and still parsed in a few GB of memory
LONGEST_DOCUMENT = 2**30
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


class Row(NamedTuple):
    where: str
    fields: dict[str, Any]


def rows_of(file: Path, flattened: Callable[[dict[str, Any]], Iterator[dict[str, Any]]]) -> Iterator[Row]:
    """Every row of a file. `flattened` gives those of a JSON document that is one object."""
    if not file.is_file():
        raise LeashError(f"There is no file {file}; is its name misspelt?")
    if not os.access(file, os.R_OK):
        raise LeashError(f"{file} may not be read by you; change its permissions.")
    if is_parquet(file):
        return _parquet_rows(file)
    return _document_rows(file, flattened) if _is_document(file) else _line_rows(file)


def is_parquet(file: Path) -> bool:
    return _begins_with(file, PARQUET)


def content_hash(file: Path) -> str:
    """A hash of what a file says: the same for a file and its gzipped copy."""
    digest = hashlib.blake2b(digest_size=16)
    with _opened(file) as stream:
        while block := stream.read(2**20):
            digest.update(block)
    return digest.hexdigest()


def _begins_with(file: Path, magic: bytes) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(magic)) == magic


def _opened(file: Path) -> BufferedIOBase:
    return gzip.open(file, "rb") if _begins_with(file, GZIP) else file.open("rb")


def _is_document(file: Path) -> bool:
    """One JSON value over many lines, or alone in a .json, rather than one a line."""
    with _opened(file) as stream:
        try:
            first, second = stream.readline(LONGEST_LINE).strip(), stream.readline(LONGEST_LINE).strip()
        except DAMAGED:
            return False  # told with its line by whoever reads the lines
    if first in (b"[", b"{"):
        return True
    return ".json" in file.suffixes and not (second and _is_json(first))


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _line_rows(file: Path) -> Iterator[Row]:
    with _opened(file) as stream:
        number = 0
        while line := _line(stream, f"{file}, line {number + 1}"):
            number += 1
            if line.strip():
                where = f"{file}, line {number}"
                yield Row(where, _object(_parsed(line, where), where))


def _line(stream: BufferedIOBase, where: str) -> bytes:
    try:
        line = stream.readline(LONGEST_LINE + 1)
    except DAMAGED:
        raise LeashError(f"{where}: the compressed data is cut short or damaged; get the file again.") from None
    if len(line) > LONGEST_LINE:
        raise LeashError(f"{where} is longer than {LONGEST_LINE:,} bytes; write fewer completions into one line.")
    return line


def _document_rows(file: Path, flattened: Callable[[dict[str, Any]], Iterator[dict[str, Any]]]) -> Iterator[Row]:
    document = _parsed(_whole(file), str(file))
    entries = flattened(document) if isinstance(document, dict) else document
    if not isinstance(document, dict | list):
        raise LeashError(f"{file} holds {kind(document)}, not a list of rows.")
    for number, entry in enumerate(entries, 1):
        where = f"{file}, entry {number}"
        yield Row(where, _object(entry, where))


def _whole(file: Path) -> bytes:
    with _opened(file) as stream:
        try:
            content = stream.read(LONGEST_DOCUMENT + 1)
        except DAMAGED:
            raise LeashError(f"{file}: the compressed data is cut short or damaged; get the file again.") from None
    if len(content) > LONGEST_DOCUMENT:
        raise LeashError(f"{file} is one JSON value of more than {LONGEST_DOCUMENT:,} bytes; write it as JSON lines.")
    if not content.strip():
        raise LeashError(f"{file} is empty.")
    return content


def _parsed(content: bytes, where: str) -> Any:
    try:
        value = json.loads(content)
        return _cleaned(value) if b"\\u" in content else value
    except UnicodeDecodeError:
        raise LeashError(f"{where} is not text; is this a file of completions?") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise LeashError(f"{where} is not JSON ({error.msg.lower()} at {place}).") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets nested without end
        raise LeashError(f"{where} can't be read as JSON ({first_line(error)}).") from None


def _cleaned(value: Any) -> Any:
    """The same without halves of characters, which only an escape can write."""
    if isinstance(value, dict):
        return {clean(name): _cleaned(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_cleaned(inner) for inner in value]
    return clean(value) if isinstance(value, str) else value


def clean(value: str) -> str:
    """Half of a character, as a cut-off emoji leaves it in JSON, can't be written as UTF-8: it becomes �."""
    if value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise LeashError(f"{where} holds {kind(value)}, not an object with fields.")
    return value


def kind(value: Any) -> str:
    return "null" if value is None else f"a {type(value).__name__}"


def _parquet_rows(file: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        for batch in pq.ParquetFile(file).iter_batches(batch_size=64):
            for fields in batch.to_pylist():
                number += 1
                yield Row(f"{file}, row {number}", fields)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:  # the last two: a date after the year 9999
        raise LeashError(f"{file}, row {number + 1}: can't be read as Parquet ({first_line(error)}).") from None

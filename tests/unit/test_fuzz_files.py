"""Fuzzing of the readers of files that came over a network or from a disk: a file is read as it was written, or refused
in a sentence.

test_bad_input.py does the same through the command line for params.yaml, problem files, imports and counts.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from leash import json_checksum, parquet_checksum, tables
from leash.datasets.source_files import SourceFileError, find_source
from leash.errors import LeashError
from leash.grading.judging import JudgeCase, WordCache
from leash.importing.formats import ImportSource, detect_format, read_records
from leash.params.groups import Dataset
from leash.report.page.content import dump_html_json
from leash.sample_ledger import MANIFEST_FILENAME, Ledger, LostManifestError
from tests.unit.fuzzing import PHRASES, TOKENS, attempt, bounded, ends_soon, soups

ROWS = [
    {"problem_id": "a", "sample": 0, "text": "\\boxed{1}", "tokens": 5, "finish": "stop", "logprob": -1.5},
    {"problem_id": "b", "sample": 7, "text": "漢 " * 40, "tokens": None, "finish": "length", "logprob": None},
]
SCHEMA = tables.COMPLETIONS_SCHEMA
TABLE = pa.Table.from_pylist([{**dict.fromkeys(SCHEMA.names), **row} for row in ROWS], schema=SCHEMA)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=8), JSON, max_size=6)


@contextmanager
def file_of(content: bytes, name: str) -> Iterator[Path]:
    """A file with this content in an empty folder, in which to work."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        path = Path(folder) / name
        path.write_bytes(content)
        yield path


def parquet_bytes(table: pa.Table, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


PLAIN = parquet_bytes(TABLE, compression="none")
PACKED = parquet_bytes(TABLE, compression="zstd")
BLANK = {parquet_checksum.METADATA_KEY: parquet_checksum.BLANK_CHECKSUM}
SEALED = parquet_checksum.fill_checksum(tables.encode_parquet(TABLE, SCHEMA, BLANK))


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """A file with some other bytes, without a piece, or with a piece of itself twice. Most of it is in the footer."""
    altered = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(altered) - 1) | st.integers(max(len(altered) - 1200, 0), len(altered) - 1))
        kind = draw(st.sampled_from(["byte", "byte", "bit", "cut", "repeat", "end"]))
        size = draw(st.integers(1, 40))
        if kind == "byte":
            altered[at] = draw(st.integers(0, 255))
        elif kind == "bit":
            altered[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del altered[at : at + size]
        elif kind == "repeat":
            altered[at:at] = altered[at : at + size]
        else:
            del altered[max(at, 1) :]
        if not altered:
            return b""
    return bytes(altered)


@bounded(150)
@given(content=damaged(SEALED))
def test_a_damaged_table_is_refused_or_was_not_damaged(content: bytes) -> None:
    with file_of(content, "a.parquet") as path:
        read, error = attempt(lambda: tables.read(path, SCHEMA, "leash sample"), LeashError)
    if error is None:
        # Only its checksum's own name was hit, so that it seems to be the file of another program.
        assert content == SEALED or parquet_checksum.CHECKSUM_MARKER not in content
        assert read == TABLE
    else:
        assert str(path) in str(error)
        assert len(str(error).splitlines()) == 1


@bounded(300)
@given(content=damaged(PLAIN) | damaged(PACKED) | st.binary(max_size=60))
@example(content=PLAIN.replace("漢".encode(), b"\xff\xff\xff"))
def test_a_damaged_table_of_another_program_is_read_or_refused(content: bytes) -> None:
    """It has no checksum, so it may be read wrongly, but never ends in another error."""
    with file_of(content, "a.parquet") as path:
        tables.read_metadata(path)
        rows, error = attempt(lambda: tables.read(path, SCHEMA, "leash sample").to_pylist(), LeashError)
    assert rows is not None or str(path) in str(error)


@bounded(300)
@given(content=damaged(PLAIN) | damaged(PACKED))
def test_a_damaged_parquet_file_is_imported_or_refused(content: bytes) -> None:
    with file_of(content, "out.parquet") as path:
        records, error = attempt(lambda: [*read_records(ImportSource(path, detect_format(path)))], LeashError)
    assert records is not None or "out.parquet" in str(error)
    assert all(isinstance(completion.text, str) for record in records or [] for completion in record.completions)


@bounded(300)
@given(content=damaged(PLAIN) | damaged(PACKED))
def test_a_damaged_parquet_file_of_problems_is_read_or_refused(content: bytes) -> None:
    with file_of(content, "exam.parquet") as path:
        exam = Dataset(path=str(path))
        rows, error = attempt(lambda: [*find_source("exam", exam, None, []).rows()], SourceFileError)
    assert error is None or error.where == path
    assert all(isinstance(name, str) for row in rows or [] for name in row.fields)


@bounded(150)
@given(content=OBJECTS, data=st.data())
def test_json_with_a_checksum_is_read_as_written_or_known_to_be_damaged(
    content: Mapping[str, Any], data: st.DataObject
) -> None:
    written = json.dumps(json_checksum.with_checksum(content)).encode()
    assert json_checksum.check(written) == (json.loads(json.dumps(content)), True)
    altered = data.draw(damaged(written))
    try:
        read, valid = json_checksum.check(altered)
    except ValueError:
        return
    if valid is True:
        assert json.dumps(read, sort_keys=True) == json.dumps(content, sort_keys=True)


@bounded(200)
@given(
    content=st.binary(max_size=40)
    | OBJECTS.map(lambda value: json.dumps(value).encode())
    | st.fixed_dictionaries(dict.fromkeys(("fingerprint", "prompts", "engines", "sources"), JSON)).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_any_manifest_is_read_or_refused(content: bytes) -> None:
    with file_of(content, MANIFEST_FILENAME) as path:
        manifest, error = attempt(Ledger(path.parent).manifest, LostManifestError)
    assert isinstance(manifest, dict) if error is None else error.path == path


@bounded(100)
@given(lines=st.lists(st.binary(max_size=30) | JSON.map(lambda value: json.dumps(value).encode()), max_size=4))
def test_any_line_in_a_judges_cache_is_skipped(lines: list[bytes]) -> None:
    with file_of(b"\n".join(lines), "cache.jsonl") as path, ends_soon():
        cache = WordCache(path, "word", ["CORRECT"])
        assert cache.words == {}
        cache.add("judge", JudgeCase("key", "?", {}), "CORRECT")
        assert WordCache(path, "word", ["CORRECT"]).words == {"key": "CORRECT"}


class Scripts(HTMLParser):
    """What an HTML parser sees as the content of the first script, and the tags after it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.script, self.tags = "", list[str]()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.script += data if self.tags == ["script"] else ""


BREAKOUTS = (
    *(
        "</script>",
        "</script ",
        "</SCRIPT\t",
        "<!--",
        "-->",
        "<script>",
        "<![CDATA[",
        "]]>",
        "&lt;",
        "&#60;",
        "$content",
    ),
    *("\u2028", "\u2029", "\\u003c", "\\", '"', "'", "<img src=x onerror=alert(1)>", "\ufeff", "\r\n", "\x7f", "${x}"),
)


@bounded(200)
@given(texts=st.lists(soups(BREAKOUTS, PHRASES, TOKENS), max_size=4), more=OBJECTS)
def test_no_text_leaves_the_data_of_the_page(texts: list[str], more: Mapping[str, Any]) -> None:
    assume(not any("\ud800" <= char <= "\udfff" for text in texts for char in text))  # no table has half a character
    value = {"texts": texts, "more": more}
    parser = Scripts()
    parser.feed(f'<script type="application/json" id="content">{dump_html_json(value)}</script><p>')
    assert parser.tags == ["script", "p"]
    assert json.loads(parser.script.removesuffix("\n")) == value


def test_a_number_that_json_has_not_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        dump_html_json({"ratio": float("nan")})

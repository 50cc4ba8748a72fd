"""The border: a table that is not what it should be is refused with a sentence, and writing is whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages import disk, tables
from stages.errors import LeashError
from stages.params import Params

ROW = {"problem_id": "p", "sample": 0, "text": "t", "tokens": 1, "finish": "stop", "logprob": None}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    tables.write(path, tables.table([ROW], tables.COMPLETIONS), tables.COMPLETIONS, note={"made_from": "x"})
    assert tables.read(path, tables.COMPLETIONS, "").to_pylist() == [ROW]
    assert tables.note(path) == {"made_from": "x"}
    assert tables.note(tmp_path / "none.parquet") == {}


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with pytest.raises(LeashError, match=r"is not there; make it with `leash sample`"):
        tables.read(path, tables.COMPLETIONS, "leash sample")
    path.write_bytes(b"not a table")
    with pytest.raises(LeashError, match=r"can't be read as Parquet .* make it again with `leash sample`"):
        tables.read(path, tables.COMPLETIONS, "leash sample")
    pq.write_table(pa.table({"problem_id": ["p"]}), path)
    with pytest.raises(LeashError, match="lacks the column sample"):
        tables.read(path, tables.COMPLETIONS, "leash sample")
    pq.write_table(pa.table({**{n: ["x"] for n in tables.COMPLETIONS.names}}), path)
    with pytest.raises(LeashError, match="column sample is string, not int32"):
        tables.read(path, tables.COMPLETIONS, "leash sample")


def test_samples_beyond_k_never_leak_in(project: Params) -> None:
    rows = [{**ROW, "sample": sample} for sample in range(40)]
    folder = tables.completions_folder("base", "chain")
    tables.write(folder / "a.parquet", tables.table(rows, tables.COMPLETIONS), tables.COMPLETIONS)
    (folder / ".unfinished.parquet").write_bytes(b"")
    found = tables.database(project).sql("select count(*), max(sample) from completions").fetchall()
    assert found == [(16, 15)]


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    disk.write(path, "before")

    def fail() -> None:
        with disk.whole(path) as unfinished:
            unfinished.write_text("half")
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        fail()
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]

"""The border: a table that is not what it should be is refused with a sentence, and writing is whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages import disk, seal, tables
from stages.errors import LeashError
from stages.params import Params
from tests.conftest import ROOT
from tests.faults import damage

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


def test_a_flipped_bit_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    """But in the word that says where the seal is: then it is as if there were none, and all else is whole."""
    path = tmp_path / "a.parquet"
    tables.write(path, tables.table([ROW], tables.COMPLETIONS), tables.COMPLETIONS, note={"made_from": "x"})
    written = path.read_bytes()
    word = written.rfind(seal.MARK)
    for place in range(0, len(written), 7):
        path.write_bytes(written[:place] + bytes([written[place] ^ 1 << place % 8]) + written[place + 1 :])
        if not word <= place < word + len(seal.MARK):
            assert seal.holds(path) is False
            assert tables.note(path) == {}
    path.write_bytes(written)
    assert seal.holds(path) is True


def test_a_damaged_table_is_refused_and_the_way_out_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    tables.write(path, tables.table([ROW], tables.COMPLETIONS), tables.COMPLETIONS)
    damage(path, "flip")
    with pytest.raises(LeashError, match=r"a.parquet is damaged: .*make it again with `leash sample` \(if DVC brings"):
        tables.read(path, tables.COMPLETIONS, "leash sample")


def test_a_table_without_a_seal_is_read(tmp_path: Path) -> None:
    """Somebody else wrote it."""
    pq.write_table(tables.table([ROW], tables.COMPLETIONS), tmp_path / "a.parquet")
    assert tables.read(tmp_path / "a.parquet", tables.COMPLETIONS, "").to_pylist() == [ROW]


def test_a_damaged_table_is_in_the_way_of_those_who_ask_for_it_only(project: Params) -> None:
    rows = tables.table([ROW], tables.COMPLETIONS)
    tables.write(tables.completions_folder("base", "chain") / "a.parquet", rows, tables.COMPLETIONS)
    tables.write(tables.support_path("rlvr"), tables.SUPPORT.empty_table(), tables.SUPPORT)
    damage(tables.support_path("rlvr"), "flip")
    assert tables.database(project, only=["completions"]).table("completions").fetchall()
    with pytest.raises(LeashError, match=r"support/rlvr\.parquet is damaged"):
        tables.database(project, only=["support"])


def test_what_a_kill_left_unfinished_is_swept(tmp_path: Path) -> None:
    disk.write(tmp_path / "a.txt", "whole")
    for place in (tmp_path, tmp_path / ".parts"):
        place.mkdir(exist_ok=True)
        (place / f"{disk.UNFINISHED}a-x.txt").touch()
    disk.sweep(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.txt"]


def test_dvc_ignores_what_is_unfinished() -> None:
    assert f"{disk.UNFINISHED}*" in (ROOT / ".dvcignore").read_text().splitlines()


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

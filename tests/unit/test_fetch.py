"""A data set of one's own, from any kind of file, and what is said when it is not right."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stages import fetch, tables
from stages.errors import LeashError
from stages.params import Params
from tests.conftest import ROOT, small, write_params, yaml

ROWS = [{"q": "What is $2^{10}$?", "a": "1024"}, {"q": "1/2?", "a": "0.5"}]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.jsonl"


def params(path: Path, /, **fields: str) -> Params:
    raw = small()
    raw["datasets"]["mine"] = {"path": path.name, "question": "q", "answer": "a", "grader": "math", **fields}
    return write_params(path.parent, raw)


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet"])
def test_any_kind_of_file(own: Path, suffix: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    own = own.with_suffix(suffix)
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), own)
    elif suffix == ".csv":
        own.write_text("q,a\n" + "".join(f'"{row["q"]}","{row["a"]}"\n' for row in ROWS))
    else:
        own.write_text(json.dumps(ROWS) if suffix == ".json" else "".join(json.dumps(row) + "\n" for row in ROWS))
    assert fetch.run(params(own, prompt="{question} Use {braces}."), "mine") == 2
    rows = tables.read(tables.problems_path("mine"), tables.PROBLEMS, "").to_pylist()
    assert [row["problem_id"] for row in rows] == ["mine-00000", "mine-00001"]
    assert rows[0]["question"] == "What is $2^{10}$? Use {braces}."
    assert [row["gold"] for row in rows] == [["1024"], ["0.5"]]


@pytest.mark.parametrize(
    ("answer", "gold"), [(27.0, ["27"]), (7, ["7"]), (["a", "b"], ["a", "b"]), ([3.0], ["3"]), (" x\n", ["x"])]
)
def test_golds_are_text(own: Path, answer: object, gold: list[str]) -> None:
    own.write_text(json.dumps({"q": "?", "a": answer}) + "\n")
    fetch.run(params(own), "mine")
    assert tables.read(tables.problems_path("mine"), tables.PROBLEMS, "")["gold"].to_pylist() == [gold]


@pytest.mark.parametrize(
    ("text", "fields", "sentence"),
    [
        ('{"q": "?"}', {}, r"mine\.jsonl has no column a; it has q"),
        ('{"q": "?", "a": ""}', {}, r"mine\.jsonl, row 1: the column a is empty"),
        ('{"q": "", "a": "1"}', {}, r"mine\.jsonl, row 1: the column q is empty"),
        ('{"q": "?", "a": 1, "i": 1}\n{"q": "!", "a": 2, "i": 1}', {"id": "i"}, "does not tell its rows apart"),
        ("not json", {}, "can't be read"),
        ('{"q": "?", "a": 1}', {"grader": "ghost"}, "There is no grader ghost"),
        ('{"q": "?", "a": 1}', {"path": "gone.jsonl"}, "there is no such file; put it there"),
        ('{"q": "?", "a": 1}', {"path": "mine.txt"}, "is not a kind of file"),
    ],
)
def test_what_is_wrong_with_a_file(own: Path, text: str, fields: dict[str, str], sentence: str) -> None:
    own.write_text(text)
    with pytest.raises(LeashError, match=sentence):
        fetch.run(params(own, **fields), "mine")
    assert not tables.problems_path("mine").exists()


REAL = os.environ.get("LEASH_BENCHMARKS")
COUNTS = {"aime24": 30, "aime25": 30, "amc23": 40, "math500": 500, "olympiad": 675, "scibench": 692}


@pytest.mark.skipif(not REAL, reason="LEASH_BENCHMARKS does not name the folder of the real benchmark files")
def test_the_papers_files_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "benchmarks").symlink_to(Path(REAL or "").resolve())
    paper = write_params(tmp_path, yaml.load((ROOT / "params.paper.yaml").read_text()))
    assert {name: fetch.run(paper, name) for name in COUNTS} == COUNTS

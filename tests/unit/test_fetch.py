"""Your own data set: any kind of file becomes the problems table, or an error that names what is wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from leash import tables
from leash.benchmarks.benchmark import MissingColumnError, RowError
from leash.datasets import loading
from leash.datasets.source_files import DatasetSourceError, SourceFileError
from leash.errors import LeashError
from leash.importing import importer
from leash.importing.jsonl import FieldMapping
from leash.params.groups import Params
from stages.cli import main
from stages.fetch import stage
from tests.conftest import ROOT, small, write_params

ROWS = [{"q": "What is $2^{10}$?", "a": "1024"}, {"q": "1/2?", "a": "0.5"}]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.jsonl"


def params(path: Path, /, **fields: str | int) -> Params:
    raw = small()
    raw["datasets"]["mine"] = {"path": path.name, "question": "q", "answer": "a", "grader": "math", **fields}
    return write_params(path.parent, raw)


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".parquet"])
def test_any_kind_of_file_becomes_the_problems_table(own: Path, suffix: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    own = own.with_suffix(suffix)
    if suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), own)
    elif suffix == ".csv":
        own.write_text("q,a\n" + "".join(f'"{row["q"]}","{row["a"]}"\n' for row in ROWS))
    else:
        own.write_text(json.dumps(ROWS) if suffix == ".json" else "".join(json.dumps(row) + "\n" for row in ROWS))
    assert len(stage.run(params(own, prompt="{question} Use {braces}."), "mine").rows) == 2
    rows = tables.read(tables.problems_path("mine"), tables.PROBLEMS_SCHEMA, "").to_pylist()
    assert all(re.fullmatch("mine-[0-9a-f]{12}", row["problem_id"]) for row in rows)
    assert rows[0]["question"] == "What is $2^{10}$? Use {braces}."
    assert [row["gold"] for row in rows] == [["1024"], ["0.5"]]


@pytest.mark.parametrize(
    ("answer", "gold"), [(27.0, ["27"]), (7, ["7"]), (["a", "b"], ["a", "b"]), ([3.0], ["3"]), (" x\n", ["x"])]
)
def test_golds_are_text(own: Path, answer: object, gold: list[str]) -> None:
    own.write_text(json.dumps({"q": "?", "a": answer}) + "\n")
    stage.run(params(own), "mine")
    assert tables.read(tables.problems_path("mine"), tables.PROBLEMS_SCHEMA, "")["gold"].to_pylist() == [gold]


@pytest.mark.parametrize(
    ("text", "fields", "kind", "fact"),
    [
        ('{"q": "?"}', {}, MissingColumnError, r"mine\.jsonl has no column a"),
        ('{"q": "?", "a": ""}', {}, RowError, r"mine\.jsonl, row 1: the column a is empty"),
        ('{"q": "", "a": "1"}', {}, RowError, r"mine\.jsonl, row 1: the column q is empty"),
        ('{"q": "?", "a": 1, "i": 1}\n{"q": "!", "a": 2, "i": 1}', {"id": "i"}, SourceFileError, "`id`"),
        ("not json", {}, SourceFileError, r"mine\.jsonl"),
        ('{"q": "?", "a": 1}', {"grader": "ghost"}, LeashError, "ghost"),
        ('{"q": "?", "a": 1}', {"path": "gone.jsonl"}, DatasetSourceError, r"gone\.jsonl"),
        ('{"q": "?", "a": 1}', {"path": "mine.txt"}, SourceFileError, r"mine\.txt"),
    ],
)
def test_a_wrong_file_is_named_and_no_table_written(
    own: Path, text: str, fields: dict[str, str], kind: type[LeashError], fact: str
) -> None:
    own.write_text(text)
    with pytest.raises(kind, match=fact):
        stage.run(params(own, **fields), "mine")
    assert not tables.problems_path("mine").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows by key", '{"1": {"q": "a?", "a": "1"}, "2": {"q": "b?", "a": "2"}}'),
        ("a frame by column", '{"q": {"0": "a?", "1": "b?"}, "a": {"0": "1", "1": "2"}}'),
        ("a list", '[{"q": "a?", "a": "1"}, {"q": "b?", "a": "2"}]'),
    ],
)
def test_a_json_file_may_be_a_list_or_a_mapping_of_rows_or_columns(own: Path, name: str, text: str) -> None:
    own.with_suffix(".json").write_text(text)
    rows = stage.run(params(own.with_suffix(".json")), "mine").rows
    assert [(row["question"], row["gold"]) for row in rows] == [("a?", ["1"]), ("b?", ["2"])], name


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_no_type_is_guessed(own: Path, suffix: str) -> None:
    """Leading zeros, dates and numbers too large for a float stay as they are."""
    own = own.with_suffix(suffix)
    written = ["025", "2024-06-24", "123456789012345678901", "1e5", "NaN", "true"]
    if suffix == ".csv":
        own.write_text("q,a\n" + "".join(f"{n}?,{text}\n" for n, text in enumerate(written)))
    else:
        own.write_text("".join(json.dumps({"q": f"{n}?", "a": text}) + "\n" for n, text in enumerate(written)))
    assert [row["gold"] for row in stage.run(params(own, grader="exact"), "mine").rows] == [[text] for text in written]


def test_columns_in_any_case(own: Path) -> None:
    own.write_text('{"Q": "2 + 2?", "A": "4"}')
    assert stage.run(params(own), "mine").rows[0]["gold"] == ["4"]


def test_problems_are_drawn_by_seed_whatever_their_order(own: Path) -> None:
    texts = [json.dumps({"q": f"{n} + 1?", "a": n + 1}) for n in range(100)]

    def drawn(lines: list[str], seed: int) -> set[str]:
        own.write_text("\n".join(lines))
        fetched = stage.run(params(own, size=10, seed=seed), "mine").rows
        assert len(fetched) == 10
        return {row["question"] for row in fetched}

    assert drawn(texts, 0) == drawn(texts[::-1], 0) != drawn(texts, 1)


def test_a_problem_is_named_for_its_question_wherever_its_row_is(own: Path) -> None:
    """An edit of the gold or of the prompt makes no other problem. A question that comes twice gets a suffix."""

    def ids(rows: list[dict[str, str]], **fields: str) -> list[str]:
        own.write_text("".join(json.dumps(row) + "\n" for row in rows))
        found = stage.run(params(own, grader="exact", **fields), "mine").rows
        assert [row["meta"].count(rows[i]["q"]) for i, row in enumerate(found)] == [1] * len(rows)  # in their order
        return [row["problem_id"] for row in found]

    rows = [{"q": f"{n} apples?", "a": str(n), "name": f"n{n}"} for n in range(4)]
    first = ids(rows)
    assert len(set(first)) == 4
    assert ids(rows[::-1]) == first[::-1]
    assert ids([{"q": "pears?", "a": "0"}, *rows])[1:] == first
    assert ids([{**rows[0], "a": "7"}, *rows[1:]], prompt="{question} Box it.") == first
    assert ids([rows[0], *rows]) == [first[0], f"{first[0]}#2", *first[1:]]
    assert ids(rows, id="name") == ["n0", "n1", "n2", "n3"]


def test_a_benchmark_without_ids_can_have_a_column_of_them(own: Path) -> None:
    """Those of an earlier version, for instance, under which samples are on disk."""
    rows = [{"problem": f"{n} apples?", "answer": str(n), "old": f"aime-{n:05d}"} for n in range(3)]
    own.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = [stage.run(params(own, family="aime24", **fields), "mine").rows for fields in ({}, {"id": "old"})]
    assert [row["problem_id"].partition("-")[0] for row in found[0]] == ["mine"] * 3
    assert [row["problem_id"] for row in found[1]] == ["aime-00000", "aime-00001", "aime-00002"]


def test_questions_with_other_images_are_other_problems(own: Path) -> None:
    for name in "ab":
        (own.parent / f"{name}.png").write_bytes(b"\x89PNG " + name.encode())
    rows = [{"q": "How many?", "a": 1, "image": f"{name}.png"} for name in "ab"]
    found = []
    for order in (rows, rows[::-1]):
        own.write_text("".join(json.dumps(row) + "\n" for row in order))
        found.append([row["problem_id"] for row in stage.run(params(own, images="image"), "mine").rows])
    assert found[0] == found[1][::-1]
    assert len({problem_id.partition("#")[0] for problem_id in found[0]}) == 2


def test_a_folder_is_read_like_a_repository_of_the_hub(own: Path) -> None:
    folder = own.parent / "exam"
    folder.mkdir()
    for part in "ab":
        (folder / f"part-{part}.jsonl").write_text(json.dumps({"q": f"{part}?", "a": part}))
    (folder / "notes.txt").write_text("not a table")
    fetched = stage.run(params(own, path="exam", files="part-*", grader="exact"), "mine").rows
    assert [row["question"] for row in fetched] == ["a?", "b?"]
    with pytest.raises(SourceFileError, match=r"\*\.csv"):
        stage.run(params(own, path="exam", files="*.csv"), "mine")


def test_images_are_in_the_table(own: Path) -> None:
    (own.parent / "images").mkdir()
    (own.parent / "images" / "1.png").write_bytes(b"\x89PNG one")
    own.write_text('{"q": "How many?", "a": 1, "image": "images/1.png"}')
    stage.run(params(own, images="image"), "mine")
    table = tables.read(tables.problems_path("mine"), tables.PROBLEMS_SCHEMA, "")
    assert table["images"].to_pylist() == [[b"\x89PNG one"]]


@pytest.mark.parametrize(
    ("path", "fact"), [("images/2.png", "there is no image images/2.png"), ("../x.png", "outside the folder")]
)
def test_an_image_must_be_in_the_folder_of_the_file(own: Path, path: str, fact: str) -> None:
    (own.parent.parent / "x.png").write_bytes(b"secret")
    own.write_text(json.dumps({"q": "How many?", "a": 1, "image": path}))
    with pytest.raises(RowError, match=fact):
        stage.run(params(own, images="image"), "mine")


def test_questions_that_occur_twice_give_a_warning(own: Path) -> None:
    """Within a data set and across two of a run, but not if they differ in a number or a sign."""
    words = "a train leaves the old town at noon and rides along the river for hours before it meets the other train"
    questions = [f"{words}: how far?", f"{words} — how far ?", f"{words}: how far is 7?", "3 + 4?", "3 - 4?"]
    own.write_text("\n".join(json.dumps({"q": question, "a": 1}) for question in questions))
    raw = small()
    for name in ("mine", "copy"):
        raw["datasets"][name] = {"path": own.name, "question": "q", "answer": "a", "grader": "math"}
    raw["run"]["datasets"] += ["mine", "copy"]
    both = write_params(own.parent, raw)
    [within] = stage.run(both, "mine").warnings
    assert within.startswith("1 pair of questions within mine")
    ids = sorted(row["problem_id"] for row in loading.load_problems(both, "mine").rows[:2])
    assert f"{ids[0]} and {ids[1]} (100% alike)" in within
    # Each of the five is also in the other data set, and the two similar ones match crosswise.
    across = sorted(stage.run(both, "copy").warnings, reverse=True)
    assert across[0].startswith("7 pairs of questions of copy and mine are equal or nearly so: copy-")


def test_a_preview_writes_nothing(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (own.parent / "models").symlink_to(ROOT / "models")
    own.write_text('{"q": "What is 2 + 2?", "a": 4}')
    params(own, instruction="Use a box.")
    with pytest.raises(SystemExit) as ended:
        main(["fetch", "--preview", "mine"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert "mine: 1 problem. The first prompts for base:" in shown
    assert re.search(r"── mine-\w+ · gold 4 · math ──\nWhat is 2 \+ 2\?\n\nUse a box\.", shown)
    assert not tables.problems_path("mine").exists()


def test_no_control_code_of_a_data_set_reaches_the_terminal(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in a preview nor in the complete prompt: codes are shown, and tabs and line ends are kept."""
    (own.parent / "models").symlink_to(ROOT / "models")
    hostile = "\x1b]0;title\x07 \x1b[2J \x9b2J \r \u202e\tWhat is\n2 + 2?"
    own.write_text(json.dumps({"q": hostile, "a": "\x1b[2J4"}))
    stage.run(params(own), "mine")
    for command in (["fetch", "--preview", "mine"], ["sample", "base", "mine", "--show-prompt"]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert shown.replace("\n", "").replace("\t", "").isprintable()
        assert r"\x1b]0;title\x07 \x1b[2J \x9b2J \r \u202e" in shown
        assert "\tWhat is\n2 + 2?" in shown


EMBEDDED_MAKE = {"family": "make", "levels": [3], "per_level": 1}
OWN_FILE = {"path": "exam.jsonl", "grader": "exact"}


@pytest.mark.parametrize(
    ("dataset", "prompt"),
    [
        (EMBEDDED_MAKE, "make "),
        ({"family": "reasoning_gym", "task": "dice", "size": 1}, "<answer>"),
        (OWN_FILE, "What is 2 + 2?"),
        ({"imported": True}, "What is 2 + 2?"),
    ],
    ids=["embedded", "reasoning_gym", "own", "imported"],
)
@pytest.mark.usefixtures("project")
def test_every_kind_of_data_set_can_be_previewed(dataset: dict[str, Any], prompt: str) -> None:
    exam = Path("exam.jsonl")
    exam.write_text('{"question": "What is 2 + 2?", "answer": "4", "completion": "4"}\n')
    if dataset.get("imported"):
        importer.run([exam], "base", "exam", grader="exact", mapping=FieldMapping(text="completion"))
    raw = small(datasets={"exam": dataset})
    raw["run"]["datasets"] = ["exam"]
    write_params(Path(), raw)
    result = CliRunner().invoke(main, ["fetch", "exam", "--preview"])
    assert result.exception is None, result.output
    assert "exam: 1 problem." in result.stdout
    assert prompt in result.stdout


@pytest.mark.usefixtures("project")
def test_problems_of_every_kind_have_all_columns() -> None:
    Path("exam.jsonl").write_text('{"question": "What is 2 + 2?", "answer": "4"}\n')
    gym = {"family": "reasoning_gym", "task": "dice", "size": 1}
    params = write_params(Path(), small(datasets={"embedded": EMBEDDED_MAKE, "gym": gym, "own": OWN_FILE}))
    for name in ("embedded", "gym", "own"):
        assert [list(row) for row in loading.load_problems(params, name).rows] == [tables.PROBLEMS_SCHEMA.names]

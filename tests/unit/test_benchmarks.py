"""The paper's benchmarks: what rows of every copy become, and the real files where they are at hand."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zlib
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from stages import fetch
from stages.errors import LeashError
from stages.fetch import Fetched
from stages.fetch.benchmark import Place, Problem, Row
from stages.fetch.benchmarks import FAMILIES, scibench
from stages.params import Dataset, Params
from stages.verify import graders
from tests.conftest import small, write_params

REAL = os.environ.get("LEASH_BENCHMARKS")
real = pytest.mark.skipif(not REAL, reason="LEASH_BENCHMARKS does not name the folder of the real benchmark files")


def problem(family: str, fields: dict[str, Any], **settings: Any) -> Problem | None:
    row = Row({name.lower(): value for name, value in fields.items()}, Place(Path("file.jsonl"), 0))
    return FAMILIES[family].problem(row, Dataset(family=family, **settings))


@pytest.mark.parametrize(
    ("family", "fields", "gold"),
    [
        ("aime24", {"id": 60, "problem": "?", "answer": "025"}, ["25"]),
        ("aime24", {"ID": "2024-I-1", "Problem": "?", "Answer": "33"}, ["33"]),
        ("aime24", {"id": "aime24-0", "problem": "?", "expected_answer": "73"}, ["73"]),
        ("amc23", {"question": "?", "answer": 27.0}, ["27"]),
        ("amc23", {"question": "?", "answer": 27}, ["27"]),
        ("amc23", {"question": "?", "answer": "27.0"}, ["27"]),
        ("math500", {"problem": "?", "answer": "x=5", "level": 2, "unique_id": "a"}, ["x=5"]),
        ("math500", {"problem": "?", "expected_answer": "5", "level": "Level 2", "id": "a"}, ["5"]),
        ("minerva", {"problem": "?", "solution": r"\boxed{1} so \boxed{1.6}"}, ["1.6"]),
        ("minerva", {"question": "?", "answer": "1.6\n"}, ["1.6"]),
        ("minerva", {"problem": "?", "solution": "…", "answer": ["9.6\n", r"9.6 \AA"]}, ["9.6", r"9.6 \AA"]),
        ("olympiadbench", {"id": 1, "question": "?", "final_answer": ["$69$,$84$"]}, ["$69$,$84$"]),
        (
            "simpleqa",
            {"problem": "?", "answer": "Michio Sugeno", "metadata": "{'topic': 'Science'}"},
            ["Michio Sugeno"],
        ),
        ("mathvision", {"id": "1", "question": "?", "options": ["A"], "answer": "A", "image": b"\x89PNG"}, ["A"]),
    ],
)
def test_golds(family: str, fields: dict[str, Any], gold: list[str]) -> None:
    found = problem(family, fields)
    assert found is not None
    assert found.gold == gold


@pytest.mark.parametrize(
    ("family", "fields", "sentence"),
    [
        (
            "aime24",
            {"problem": "?", "answer": "1/2"},
            "file.jsonl, row 1: the answer of an AIME problem is a whole number",
        ),
        ("aime24", {"problem": "?"}, "file.jsonl has no column answer or expected_answer; it has problem"),
        (
            "minerva",
            {"problem": "?", "solution": "no box"},
            "row 1 has no answer: neither a column of that name nor a box",
        ),
        ("simpleqa", {"problem": "?", "answer": "!", "metadata": "__import__('os')"}, "not the text of a dict"),
        ("math500", {"problem": " ", "answer": "5"}, "row 1: the column problem is empty"),
        (
            "scibench",
            {"problem_text": "?", "answer_number": "ten", "unit": "", "source": "a", "problemid": "1"},
            "the answer_number ten is not a number",
        ),
    ],
)
def test_rows_that_are_none_of_the_benchmark(family: str, fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LeashError, match=sentence):
        problem(family, fields)


SCIBENCH = {"problem_text": "How fast?", "source": "atkins", "problemid": " 1.1 "}


@pytest.mark.parametrize(
    ("number", "unit", "gold", "scale"),
    [
        (" 50.7 ", r"$\mathrm{atm}$ ", "50.7", 1.0),
        ("89,034.79", " $", "89034.79", 1.0),
        ("−1.642876", " ", "-1.642876", 1.0),
        ("+65.49", "", "65.49", 1.0),
        ("5.2", r"$10^{14}\mathrm{~Hz}$", "5.2", 1e14),
        ("5.2", r"$10^6$ m", "5.2", 1e6),
        ("5.2", r"$\mathrm{10^{-4}} \mathrm{~cm}^3/\mathrm{s}$", "5.2", 1e-4),
        ("5.2", r"$10 ^ {-6}m/s^2$", "5.2", 1e-6),
        ("5.2", "$\r\n10^{15} \\text { photon }\r\n$", "5.2", 1e15),
        ("5.2", r"$\mathrm{~m} / \mathrm{s}^{10}$", "5.2", 1.0),
    ],
)
def test_scibenchs_numbers_and_units(number: str, unit: str, gold: str, scale: float) -> None:
    found = problem("scibench", {**SCIBENCH, "answer_number": number, "unit": unit})
    assert found is not None
    assert found.gold == [gold]
    assert found.meta["scale"] == scale == scibench.scale(found.meta["unit"])
    assert found.meta["question"] == "How fast?"
    assert (f"The unit of the answer is {' '.join(unit.split())}." in found.question) is bool(unit.strip())


LIVEBENCH = {
    "question_id": "q",
    "category": "reasoning",
    "task": "spatial",
    "turns": ["How many?"],
    "ground_truth": "3",
    "livebench_release_date": "2024-07-26",
    "livebench_removal_date": "",
}


@pytest.mark.parametrize(
    ("changes", "settings", "part"),
    [
        ({}, {}, True),
        ({"task": "web_of_lies_v2", "livebench_removal_date": "2025-04-02"}, {}, True),
        ({"livebench_removal_date": "2024-11-25"}, {}, False),
        ({"livebench_release_date": "2025-04-02"}, {}, False),
        ({"livebench_release_date": datetime(2024, 7, 26)}, {}, True),  # as on the hub
        ({"livebench_release_date": datetime(2025, 4, 2)}, {}, False),
        ({"livebench_release_date": "2025-04-02"}, {"release": "2025-04-25"}, True),
        ({"task": "zebra_puzzle"}, {}, False),
        ({"task": "zebra_puzzle"}, {"tasks": ["zebra_puzzle"]}, True),
        ({"category": "language", "task": "typos"}, {}, True),
        ({"category": "language", "task": "connections"}, {}, False),
    ],
)
def test_livebenchs_release(changes: dict[str, Any], settings: dict[str, Any], part: bool) -> None:
    assert (problem("livebench-reasoning", LIVEBENCH | changes, **settings) is not None) is part


def test_olympiadbench_keeps_what_grading_needs() -> None:
    fields = {
        "id": 2592,
        "question": "?",
        "context": "Let x be …",
        "final_answer": ["4.2"],
        "unit": "%",
        "error": "1e-1",
    }
    found = problem("olympiadbench", {**fields, "is_multiple_answer": False, "answer_type": "Numerical"})
    assert found is not None
    assert found.question == "Let x be …\n\n?"
    assert (found.meta["unit"], found.meta["error"], found.meta["multiple"]) == ("%", "1e-1", False)


def test_mathvista_is_worded_with_its_options() -> None:
    fields = {"pid": "7", "question": "Square?", "choices": ["Yes", "No"], "answer": "No", "answer_type": "text"}
    found = problem("mathvista", {**fields, "decoded_image": {"bytes": b"\x89PNG", "path": None}})
    assert found is not None
    assert found.question == "Square?\n(A) Yes\n(B) No\n\nPut the letter of the right option within \\boxed{}."
    assert found.images == [b"\x89PNG"]
    assert found.meta["options"] == ["Yes", "No"]
    as_worded = problem("mathvista", {**fields, "decoded_image": {"bytes": b"\x89PNG"}, "query": "Hint: …"})
    assert as_worded is not None
    assert as_worded.question.startswith("Hint: …\n\nPut the letter")


def test_mathvisions_letters_in_the_image_are_not_listed() -> None:
    fields = {"id": "1", "question": "Which? <image1>", "answer": "B", "image": b"\x89PNG"}
    drawn, written = ({**fields, "options": options} for options in (["(A)", "(B)"], ["red", "blue"]))
    shown, listed = problem("mathvision", drawn), problem("mathvision", written)
    assert shown is not None
    assert listed is not None
    assert shown.question.startswith("Which? <image1>\n\nPlease")
    assert listed.question.startswith("Which? <image1>\n(A) red\n(B) blue\n\nPlease")


def test_an_unknown_family_gets_a_sentence(tmp_path: Path) -> None:
    raw = small()
    raw["datasets"]["x"] = {"family": "gsm8k"}
    with pytest.raises(LeashError, match=r"`datasets\.x\.family` is gsm8k, which is none of aime24, aime25, amc23"):
        fetch.problems(write_params(tmp_path, raw), "x")


FILES = {
    "aime24": ("aime24", 30),
    "aime24__nemo_variant": ("aime24", 30),
    "aime25": ("aime25", 30),
    "amc23": ("amc23", 40),
    "amc23__evalchemy_variant": ("amc23", 40),
    "livebench_reasoning": ("livebench-reasoning", 100),
    "math500": ("math500", 500),
    "math500__prime_cleaned_variant": ("math500", 500),
    "mathvision_testmini": ("mathvision", 304),
    "mathvista_testmini": ("mathvista", 1000),
    "minerva_math": ("minerva", 272),
    "minerva_math__deepscaler_variant": ("minerva", 272),
    "minerva_math__limo_question_answer": ("minerva", 272),
    "olympiadbench": ("olympiadbench", 675),
    "scibench": ("scibench", 692),
    "simpleqa": ("simpleqa", 433),
}


def real_params(folder: Path, name: str, **settings: Any) -> Params:
    """A real file, in a folder with images of the names it mentions: those themselves are not at hand."""
    source = Path(REAL or "") / f"{name}.jsonl"
    (folder / source.name).symlink_to(source.resolve())
    for line in source.read_text().splitlines() if name.startswith("mathvi") else []:
        image = folder / json.loads(line)["image"]
        image.parent.mkdir(exist_ok=True)
        image.write_bytes(b"\x89PNG " + image.name.encode())
    raw = small()
    raw["datasets"]["real"] = {"family": FILES[name][0], "path": str(folder / source.name), **settings}
    return write_params(folder, raw)


@real
@pytest.mark.parametrize("name", FILES)
def test_every_real_file_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """By the very loader that reads the hub: all problems, no empty question or gold, golds that are right by their own
    grader."""
    monkeypatch.chdir(tmp_path)
    fetched = fetch.run(real_params(tmp_path, name), "real")
    assert len(fetched.rows) == FILES[name][1]
    assert not [warning for warning in fetched.warnings if "is the file whole" in warning]
    assert all(row["question"].strip() and row["gold"] and all(row["gold"]) for row in fetched.rows)
    assert len({row["problem_id"] for row in fetched.rows}) == len(fetched.rows)
    if name.startswith("mathvi"):
        assert all(row["images"] and row["images"][0].startswith(b"\x89PNG") for row in fetched.rows)
    assert not wrong_by_their_own_grader(fetched)


def wrong_by_their_own_grader(fetched: Fetched) -> list[tuple[str, str]]:
    """Golds that would not be held correct as answers; a judge is not asked."""
    graded = [row for row in fetched.rows if not graders.costs_money(row["grader"])]
    return [
        (row["problem_id"], gold)
        for row in graded
        for gold in row["gold"]
        if graders.load(row["grader"]).grade(gold, row["gold"], json.loads(row["meta"])) < 1
    ]


@real
def test_a_file_that_was_cut_off_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    params = real_params(tmp_path, "olympiadbench")
    whole = (Path(REAL or "") / "olympiadbench.jsonl").read_text().splitlines()
    for count, said in (
        (674, []),
        (600, ["real has 600 problems where the paper's olympiadbench has 675 or 674; is the file whole?"]),
    ):
        (tmp_path / "olympiadbench.jsonl").unlink(missing_ok=True)
        (tmp_path / "olympiadbench.jsonl").write_text("\n".join(whole[:count]))
        assert [w for w in fetch.run(params, "real").warnings if "whole" in w] == said


@real
def test_simpleqa_is_a_uniform_tenth_by_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def drawn(**settings: Any) -> set[str]:
        folder = tmp_path / json.dumps(settings)
        folder.mkdir()
        return {row["problem_id"] for row in fetch.problems(real_params(folder, "simpleqa", **settings), "real").rows}

    first, again, other, everything = drawn(), drawn(seed=0), drawn(seed=1), drawn(size="all")
    assert first == again != other
    assert (len(first), len(other), len(everything)) == (433, 433, 4326)


STDIN = json.dumps([{"input": "1\n", "output": "2\n", "testtype": "stdin"}])
CODING = {
    **LIVEBENCH,
    "category": "coding",
    "task": "LCB_generation",
    "public_test_cases": STDIN,
    "private_test_cases": "[]",
}
CONTEST = {
    "question_id": "abc387_b",
    "question_content": "Add one.",
    "starter_code": "",
    "contest_date": "2025-01-04T00:00:00",
    "public_test_cases": STDIN,
    "private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(STDIN))).decode(),
    "metadata": "{}",
}


def test_programs_have_tests_for_golds() -> None:
    found = problem("livebench-coding", CODING)
    assert found is not None
    assert [json.loads(gold) for gold in found.gold] == [{"input": "1\n", "output": "2\n", "kind": "stdin"}]
    contest = problem("livecodebench-v5", CONTEST)
    assert contest is not None
    assert len(contest.gold) == 2
    assert "Add one." in contest.question


@pytest.mark.parametrize(
    ("day", "settings", "v5", "v6"),
    [
        ("2024-07-31", {}, False, False),
        ("2024-08-01", {}, True, False),
        ("2025-01-31", {}, True, False),
        ("2025-02-01", {}, False, True),
        ("2025-05-01", {}, False, False),
        ("2023-06-01", {"since": "2023-05-01", "until": "2024-01-01"}, True, True),
    ],
)
def test_livecodebenchs_windows(day: str, settings: dict[str, Any], v5: bool, v6: bool) -> None:
    row = {**CONTEST, "contest_date": f"{day}T00:00:00"}
    found = [problem(family, row, **settings) is not None for family in ("livecodebench-v5", "livecodebench-v6")]
    assert found == [v5, v6]


def test_tests_that_would_run_something_are_refused_with_their_row() -> None:
    hostile = base64.b64encode(zlib.compress(pickle.dumps(eval))).decode()
    with pytest.raises(LeashError, match=r"file\.jsonl, row 1: .* would load builtins\.eval, which no test needs"):
        problem("livecodebench-v5", {**CONTEST, "private_test_cases": hostile})


@pytest.mark.parametrize(
    ("family", "fields", "sentence"),
    [
        (
            "livecodebench-v5",
            {name: value for name, value in CONTEST.items() if name != "question_content"},
            r"file\.jsonl has no column question_content",
        ),
        (
            "mathvista",
            {"pid": "1", "question": "?", "answer": "1", "query": "?", "precision": "one"},
            r"file\.jsonl, row 1 is not as rows of mathvista are \(invalid literal",
        ),
        (
            "livebench-reasoning",
            {**CODING, "category": "reasoning", "task": "spatial", "turns": 7},
            r"file\.jsonl, row 1 is not as rows of livebench-reasoning are",
        ),
    ],
)
def test_a_row_of_something_else_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, fields: dict[str, Any], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.jsonl").write_text(json.dumps(fields) + "\n")
    params = write_params(tmp_path, small(datasets={"it": {"family": family, "path": "file.jsonl"}}))
    with pytest.raises(LeashError, match=sentence):
        fetch.problems(params, "it")

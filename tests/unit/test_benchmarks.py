"""The paper's benchmarks: rows of every copy become problems, or an error that names the row."""

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

from leash.benchmarks import scibench
from leash.benchmarks.benchmark import MissingColumnError, Problem, Row, RowError, RowLocation
from leash.benchmarks.families import FAMILIES
from leash.datasets import loading
from leash.datasets.loading import FetchResult
from leash.errors import UnknownNameError
from leash.grading.graders import registry
from leash.params.groups import Dataset, Params
from stages.fetch import stage
from tests.conftest import ROOT, small, write_params


def problem(family: str, fields: dict[str, Any], **settings: Any) -> Problem | None:
    row = Row({name.lower(): value for name, value in fields.items()}, RowLocation(Path("file.jsonl"), 0))
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
def test_every_copy_of_a_row_gives_the_same_kind_of_gold(family: str, fields: dict[str, Any], gold: list[str]) -> None:
    found = problem(family, fields)
    assert found is not None
    assert found.gold == gold


@pytest.mark.parametrize(
    ("family", "fields", "fact"),
    [
        ("aime24", {"problem": "?", "answer": "1/2"}, "1/2"),
        ("minerva", {"problem": "?", "solution": "no box"}, r"\\boxed"),
        ("simpleqa", {"problem": "?", "answer": "!", "metadata": "__import__('os')"}, "column metadata"),
        ("math500", {"problem": " ", "answer": "5"}, "column problem"),
        (
            "scibench",
            {"problem_text": "?", "answer_number": "ten", "unit": "", "source": "a", "problemid": "1"},
            "answer_number ten",
        ),
    ],
)
def test_a_wrong_row_is_named_with_its_fault(family: str, fields: dict[str, Any], fact: str) -> None:
    with pytest.raises(RowError, match=fact) as error:
        problem(family, fields)
    assert str(error.value.where) == "file.jsonl, row 1"


def test_a_missing_column_is_named_with_those_of_the_file() -> None:
    with pytest.raises(MissingColumnError) as error:
        problem("aime24", {"problem": "?"})
    assert error.value.names == ("answer", "expected_answer")
    assert error.value.columns == ("problem",)
    assert error.value.file == Path("file.jsonl")


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
def test_scibench_numbers_and_units(number: str, unit: str, gold: str, scale: float) -> None:
    found = problem("scibench", {**SCIBENCH, "answer_number": number, "unit": unit})
    assert found is not None
    assert found.gold == [gold]
    assert found.meta["scale"] == scale == scibench.parse_unit_scale(found.meta["unit"])
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
def test_livebench_questions_belong_to_a_release(changes: dict[str, Any], settings: dict[str, Any], part: bool) -> None:
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


def test_an_unknown_family_is_named_with_the_known_ones(tmp_path: Path) -> None:
    raw = small()
    raw["datasets"]["x"] = {"family": "gsm8k"}
    with pytest.raises(UnknownNameError, match=r"`datasets\.x\.family` is gsm8k") as error:
        loading.load_problems(write_params(tmp_path, raw), "x")
    assert set(error.value.known) >= {*FAMILIES, "reasoning_gym", "chain"}


FIXTURES = ROOT / "tests" / "fixtures" / "benchmarks"
REAL = os.environ.get("LEASH_BENCHMARKS")  # a folder with the real files, under the same names
FOLDERS = [FIXTURES, *([Path(REAL)] if REAL else [])]
# By file: its family, its problems in the fixture, and its problems in reality.
FILES = {
    "aime24": ("aime24", 2, 30),
    "aime24__nemo_variant": ("aime24", 2, 30),
    "aime25": ("aime25", 2, 30),
    "amc23": ("amc23", 2, 40),
    "amc23__evalchemy_variant": ("amc23", 2, 40),
    "livebench_reasoning": ("livebench-reasoning", 2, 100),
    "math500": ("math500", 3, 500),
    "math500__prime_cleaned_variant": ("math500", 2, 500),
    "mathvision_testmini": ("mathvision", 2, 304),
    "mathvista_testmini": ("mathvista", 2, 1000),
    "minerva_math": ("minerva", 2, 272),
    "minerva_math__deepscaler_variant": ("minerva", 2, 272),
    "minerva_math__limo_question_answer": ("minerva", 2, 272),
    "olympiadbench": ("olympiadbench", 3, 675),
    "scibench": ("scibench", 4, 692),
    "simpleqa": ("simpleqa", 10, 433),
}


def file_params(folder: Path, source: Path, **settings: Any) -> Params:
    """Parameters with the file as data set `it`, in a folder with made-up images of the names that it mentions."""
    (folder / source.name).symlink_to(source.resolve())
    for line in source.read_text().splitlines() if source.name.startswith("mathvi") else []:
        image = folder / json.loads(line)["image"]
        image.parent.mkdir(exist_ok=True)
        image.write_bytes(b"\x89PNG " + image.name.encode())
    raw = small()
    raw["datasets"]["it"] = {"family": FILES[source.stem][0], "path": str(folder / source.name), **settings}
    return write_params(folder, raw)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: "fixture" if folder == FIXTURES else "real")
@pytest.mark.parametrize("name", FILES)
def test_every_copy_of_every_benchmark_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path, name: str
) -> None:
    """With the loader that reads the hub: all problems, no empty question or gold, and golds that their own grader
    accepts."""
    monkeypatch.chdir(tmp_path)
    fetched = stage.run(file_params(tmp_path, folder / f"{name}.jsonl"), "it")
    family, in_fixture, in_reality = FILES[name]
    assert len(fetched.rows) == (in_fixture if folder == FIXTURES else in_reality)
    incomplete = [warning for warning in fetched.warnings if "is the file complete" in warning]
    assert len(incomplete) == (len(fetched.rows) not in FAMILIES[family].counts)
    assert all(row["question"].strip() and row["gold"] and all(row["gold"]) for row in fetched.rows)
    assert len({row["problem_id"] for row in fetched.rows}) == len(fetched.rows)
    if name.startswith("mathvi"):
        assert all(row["images"] and row["images"][0].startswith(b"\x89PNG") for row in fetched.rows)
    assert not golds_that_their_grader_refuses(fetched)


def golds_that_their_grader_refuses(fetched: FetchResult) -> list[tuple[str, str]]:
    """Golds that would not count as correct answers. A judge is not asked, because it costs money."""
    free = [row for row in fetched.rows if not registry.is_paid(row["grader"])]
    return [
        (row["problem_id"], gold)
        for row in free
        for gold in row["gold"]
        if registry.load_grader(row["grader"]).grade(gold, row["gold"], json.loads(row["meta"])) < 1
    ]


@pytest.mark.parametrize(("count", "warned"), [(675, False), (674, False), (600, True)])
def test_a_truncated_file_gives_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, warned: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    first = json.loads((FIXTURES / "olympiadbench.jsonl").read_text().splitlines()[0])
    file = tmp_path / "olympiadbench.jsonl"
    file.write_text("".join(json.dumps({**first, "id": n, "question": f"{n} + 1?"}) + "\n" for n in range(count)))
    raw = small(datasets={"it": {"family": "olympiadbench", "path": file.name}})
    warnings = stage.run(write_params(tmp_path, raw), "it").warnings
    expected = "it has 600 problems, but the paper's olympiadbench has 675 or 674; is the file complete?"
    assert [warning for warning in warnings if "complete" in warning] == [expected] * warned


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: "fixture" if folder == FIXTURES else "real")
def test_simpleqa_is_a_uniform_sample_by_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.chdir(tmp_path)
    size = {"size": 4} if folder == FIXTURES else {}

    def draw(**settings: Any) -> set[str]:
        place = tmp_path / json.dumps(settings)
        place.mkdir()
        params = file_params(place, folder / "simpleqa.jsonl", **settings)
        return {row["problem_id"] for row in loading.load_problems(params, "it").rows}

    first, again, other, everything = draw(**size), draw(**size, seed=0), draw(**size, seed=1), draw(size="all")
    assert first == again != other
    expected = (4, 4, 10) if folder == FIXTURES else (433, 433, 4326)
    assert (len(first), len(other), len(everything)) == expected


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


def test_the_golds_of_programs_are_their_tests() -> None:
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
def test_livecodebench_selects_by_date(day: str, settings: dict[str, Any], v5: bool, v6: bool) -> None:
    row = {**CONTEST, "contest_date": f"{day}T00:00:00"}
    found = [problem(family, row, **settings) is not None for family in ("livecodebench-v5", "livecodebench-v6")]
    assert found == [v5, v6]


def test_packed_tests_that_would_run_code_are_refused() -> None:
    hostile = base64.b64encode(zlib.compress(pickle.dumps(eval))).decode()
    with pytest.raises(RowError, match=r"file\.jsonl, row 1: .* would load builtins\.eval"):
        problem("livecodebench-v5", {**CONTEST, "private_test_cases": hostile})


@pytest.mark.parametrize(
    ("family", "fields", "fact"),
    [
        (
            "mathvista",
            {"pid": "1", "question": "?", "answer": "1", "query": "?", "precision": "one"},
            "invalid literal",
        ),
        ("livebench-reasoning", {**CODING, "category": "reasoning", "task": "spatial", "turns": 7}, "subscriptable"),
    ],
)
def test_a_row_of_another_benchmark_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, fields: dict[str, Any], fact: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.jsonl").write_text(json.dumps(fields) + "\n")
    params = write_params(tmp_path, small(datasets={"it": {"family": family, "path": "file.jsonl"}}))
    with pytest.raises(RowError, match=fact) as error:
        loading.load_problems(params, "it")
    assert str(error.value.where) == "file.jsonl, row 1"
    assert f"not a row of {family}" in error.value.fault

"""Graders as tables of what is right, and the stage: each distinct answer graded once, every completion a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stages import fetch, tables
from stages.errors import LeashError, Stopped
from stages.params import Params, Verify
from stages.verify import _found, checker, graders, grading, problems_of, run
from stages.verify.distinct import Distinct, joined, without_answer
from stages.verify.extract import extract
from stages.verify.graders import Asked, unanswered


@pytest.mark.parametrize(
    ("answer", "target", "numbers", "score"),
    [
        ("( 8 - 1 ) * 3", "21", [3, 8, 1], 1.0),
        ("8*3-1-2", "21", [1, 2, 3, 8], 1.0),
        ("21", "21", [21], 1.0),
        ("8 - 1 * 3", "21", [3, 8, 1], 0.0),  # precedence is the usual one
        ("7 * 3", "21", [3, 8, 1], 0.0),  # numbers that were not given
        ("( 8 - 1 ) * 3 + 0", "21", [3, 8, 1], 0.0),
        ("8 + 8 + 5", "21", [8, 5, 3], 0.0),  # one twice, one not at all
        ("42 / 2", "21", [42, 2], 0.0),  # division is not in the game
        ("2 ** 5", "32", [2, 5], 0.0),
        ("-21", "-21", [21], 0.0),
        ("21.0", "21", [21], 0.0),
        ("True + 20", "21", [1, 20], 0.0),
        ("__import__('os')", "21", [21], 0.0),
        ("f(21)", "21", [21], 0.0),
        ("(" * 300 + "1" + ")" * 300, "1", [1], 0.0),
        ("9" * 5000, "9", [9], 0.0),
        ("1 +", "1", [1], 0.0),
        ("\x00", "1", [1], 0.0),
        ("", "1", [1], 0.0),
    ],
)
def test_make(answer: str, target: str, numbers: list[int], score: float) -> None:
    assert graders.load("make").grade(answer, [target], {"numbers": numbers}) == score


@pytest.mark.parametrize(
    ("answer", "gold", "score"),
    [
        ("7", ["7"], 1.0),
        (" 7 ", ["7"], 1.0),
        ("07", ["7"], 0.0),
        ("7", ["6", "7"], 1.0),
        ("", ["7"], 0.0),
    ],
)
def test_exact(answer: str, gold: list[str], score: float) -> None:
    assert graders.load("exact").grade(answer, gold, {}) == score


def test_cut_off_and_without_answer_are_told_apart() -> None:
    assert unanswered("length")["status"] == "truncated"
    assert unanswered("stop")["status"] == "no_answer"


def test_unknown_grader() -> None:
    with pytest.raises(LeashError, match="There is no grader ghost; there are choice, code, exact, "):
        graders.load("ghost")


def test_a_graders_optional_parts_are_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = graders.load("exact")
    assert graders.complaint("exact", ["7"], {}) is None
    assert graders.seconds("exact", ["7"], {}, timeout=5) == 5
    assert graders.extract_for("exact") is extract
    monkeypatch.setattr(exact, "complaint", lambda gold, meta: f"the gold {gold[0]!r} is odd", raising=False)
    monkeypatch.setattr(exact, "seconds", lambda gold, meta: 60, raising=False)
    monkeypatch.setattr(exact, "extract", str.upper, raising=False)
    assert graders.complaint("exact", ["7"], {}) == "the gold '7' is odd"
    assert graders.seconds("exact", ["7"], {}, timeout=5) == 60
    assert graders.extract_for("exact")("a") == "A"


@pytest.mark.parametrize(
    ("score", "threshold", "correct"), [(1.0, None, True), (0.99, None, False), (0.5, 0.5, True), (True, None, True)]
)
def test_a_score_is_correct_from_its_threshold_on(
    monkeypatch: pytest.MonkeyPatch, score: float, threshold: float | None, correct: bool
) -> None:
    monkeypatch.setattr(graders.load("exact"), "grade", lambda *_: score)
    grade = graders.graded(Asked("p", "7", ("7",), {"threshold": threshold}))
    assert (grade["correct"], grade["score"], grade["status"]) == (correct, float(score), "ok")


@pytest.mark.parametrize("score", [float("nan"), -0.1, 2.0, None])
def test_a_score_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, score: Any) -> None:
    monkeypatch.setattr(graders.load("exact"), "grade", lambda *_: score)
    with pytest.raises((ValueError, TypeError)):
        graders.graded(Asked("p", "7", ("7",), {}))


def problems(project: Params, grader: str | None = None) -> list[str]:
    """The problems of chain, for another grader where one is named."""
    fetch.run(project, "chain")
    path = tables.problems_path("chain")
    rows = tables.read(path, tables.PROBLEMS, "").to_pylist()
    if grader:
        tables.write(path, tables.table([{**row, "grader": grader} for row in rows], tables.PROBLEMS), tables.PROBLEMS)
    return [row["problem_id"] for row in rows]


def completions(problem: str, texts: Sequence[str], name: str = "a", begin: int = 0, finish: str = "stop") -> Path:
    rows = [
        {"problem_id": problem, "sample": i, "text": text, "tokens": 3, "finish": finish, "logprob": -1.0}
        for i, text in enumerate(texts, start=begin)
    ]
    path = tables.completions_folder("base", "chain") / f"{name}.parquet"
    tables.write(path, tables.table(rows, tables.COMPLETIONS), tables.COMPLETIONS)
    return path


def verdicts(name: str = "a") -> list[dict[str, Any]]:
    path = tables.verdicts_folder("base", "chain") / f"{name}.parquet"
    found: list[dict[str, Any]] = tables.read(path, tables.VERDICTS, "").to_pylist()
    return found


def test_verdicts_are_made_once_and_again_when_something_changed(project: Params) -> None:
    path = completions(problems(project)[0], [r"\boxed{ 1 }", "?"])
    assert run(project, "base", "chain") == 2
    assert run(project, "base", "chain") == 0
    assert [v["status"] for v in verdicts()] == ["ok", "no_answer"]

    path.rename(path.with_name("b.parquet"))  # other completions have another name
    assert run(project, "base", "chain") == 2
    assert [p.name for p in tables.shards(tables.verdicts_folder("base", "chain"))] == ["b.parquet"]

    slower = project.model_copy(update={"verify": project.verify.model_copy(update={"timeout": 9})})
    assert run(slower, "base", "chain") == 2


def test_another_library_or_grader_of_ones_own_makes_verdicts_again(
    project: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.py").write_text("def score(answer, gold, meta):\n    return answer == '1'\n")
    completions(problems(project, "mine:score")[0], [r"\boxed{1}"])
    assert run(project, "base", "chain") == 1
    assert verdicts()[0]["correct"] is True
    assert run(project, "base", "chain") == 0
    Path("mine.py").write_text("def score(answer, gold, meta):\n    return answer == '2'\n")
    assert run(project, "base", "chain") == 1

    before = graders.identity(["math"])
    monkeypatch.setattr("stages.verify.graders.version", lambda library: "9.9")
    assert graders.identity(["math"]) != before


COUNTING = """
def score(answer, gold, meta):
    with open("graded", "a") as file:
        print(meta["question"], answer, file=file)
    if answer == "bad":
        raise ValueError
    return answer == "1"
"""


def test_each_distinct_answer_of_a_problem_is_graded_once(project: Params) -> None:
    """However many completions and shards give it, and also when more completions come later."""
    Path("once.py").write_text(COUNTING)
    first, second = problems(project, "once:score")[:2]
    completions(first, [r"\boxed{1}", r"\boxed{2}", "none", r"\boxed{bad}"] * 50, "a")
    completions(first, [r"\boxed{1}", r"\boxed{3}"] * 50, "b", begin=200)
    completions(second, [r"\boxed{1}"] * 50, "c")
    completions(second, ["cut off"], "d", begin=50, finish="length")
    assert run(project, "base", "chain") == 351
    assert len(Path("graded").read_text().splitlines()) == 5
    assert [v["correct"] for v in verdicts("a")] == [True, False, False, None] * 50
    assert [v["status"] for v in verdicts("a")] == ["ok", "ok", "no_answer", "error"] * 50
    assert [v["sample"] for v in verdicts("b")] == list(range(200, 300))
    assert [v["correct"] for v in verdicts("b")] == [True, False] * 50
    assert verdicts("d") == [
        {"problem_id": second, "sample": 50, "answer": None, "answer_class": None}
        | {"correct": False, "score": 0.0, "status": "truncated"}
    ]
    completions(first, [r"\boxed{3}", r"\boxed{bad}", r"\boxed{4}"], "e", begin=300)
    assert run(project, "base", "chain") == 3
    assert len(Path("graded").read_text().splitlines()) == 6  # only 4 is new
    assert [v["correct"] for v in verdicts("e")] == [False, None, False]


def test_what_is_finished_is_kept_when_a_run_is_stopped(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards are written as soon as all their answers are graded, not at the end."""
    first = problems(project)[0]
    completions(first, [rf"\boxed{{{i}}}" for i in range(50)], "a")
    completions(first, [rf"\boxed{{{i}}}" for i in range(100)], "b", begin=50)
    grades = grading.grades

    def stopped(*given: Any) -> Iterator[tuple[int, Any]]:
        found = sorted(grades(*given))
        yield from found[:60]
        raise Stopped

    monkeypatch.setattr("stages.verify.grading.grades", stopped)
    with pytest.raises(Stopped):
        run(project, "base", "chain")
    assert [v["answer"] for v in verdicts("a")] == [str(i) for i in range(50)]
    monkeypatch.undo()


def test_a_problem_that_left_the_data_set_has_no_verdicts(project: Params) -> None:
    completions(problems(project)[0], [r"\boxed{1}"])
    completions("gone", [r"\boxed{1}"], "b")
    assert run(project, "base", "chain") == 1
    assert verdicts("b") == []


def test_an_extraction_that_fails_is_an_error_not_a_wrong_answer() -> None:
    def broken(text: str) -> str:
        raise RecursionError

    row = {"problem_id": "p", "sample": 0, "text": "…", "finish": "stop"}
    assert _found(row, broken) == {"problem_id": "p", "sample": 0, "answer": None, "status": "error"}
    assert without_answer("error") == {"answer_class": None, "correct": None, "score": None, "status": "error"}


def test_a_grader_that_takes_all_answers_at_once_does_so_here(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Asked] = []

    def grade_all(these: Sequence[Asked], verify: Verify) -> Iterator[dict[str, Any]]:
        asked.extend(these)
        for one in these:
            yield {"answer_class": one.answer, "correct": one.answer == "1", "score": 0.5, "status": "ok"}

    monkeypatch.setattr(graders.load("exact"), "grade_all", grade_all, raising=False)
    name = problems(project, "exact")[0]
    completions(name, [r"\boxed{1}", r"\boxed{2}"] * 3)
    assert run(project, "base", "chain") == 6
    assert [v["correct"] for v in verdicts()] == [True, False] * 3
    assert [(one.problem_id, one.answer) for one in asked] == [(name, "1"), (name, "2")]
    assert checker(problems_of("chain"), project.verify)(name, r"\boxed{1}")


def test_the_checker_is_safe_and_asks_once(project: Params) -> None:
    Path("checked.py").write_text(COUNTING.replace("raise ValueError", "__import__('os')._exit(1)"))
    name = problems(project, "checked:score")[0]
    check = checker(problems_of("chain"), project.verify)
    assert check(name, r"\boxed{1}")
    assert check(name, r"so \boxed{1}")
    assert not check(name, r"\boxed{2}")
    assert not check(name, "no answer")
    assert not check(name, r"\boxed{bad}")
    assert check(name, r"\boxed{ 1 }")
    assert [line.rpartition(" ")[2] for line in Path("graded").read_text().splitlines()] == ["1", "2", "bad"]


def test_images_are_left_out(project: Params) -> None:
    name = problems(project)[0]
    assert "images" not in problems_of("chain")[name]
    assert problems_of("chain")[name]["meta"]["question"] == problems_of("chain")[name]["question"]


def test_a_grader_of_ones_own_that_is_not_there_is_a_sentence(project: Params) -> None:
    completions(problems(project, "nowhere:score")[0], [r"\boxed{1}"])
    with pytest.raises(LeashError, match=r"^The grader nowhere:score can't be imported \(ModuleNotFoundError"):
        run(project, "base", "chain")


def test_distinct_answers_are_numbered_as_they_appear() -> None:
    rows = [("p", "b"), ("p", None), ("q", "b"), ("p", "a"), ("p", "b"), ("q", None)]
    names, answers = zip(*rows, strict=True)
    found = Distinct(joined([pa.table({"problem_id": names, "answer": answers})]))
    assert list(found.numbers) == [0, -1, 1, 2, 0, -1]
    assert [found.asked(i) for i in range(len(found))] == [("p", "b"), ("q", "b"), ("p", "a")]
    assert found.ungraded() == [0, 1, 2]
    found.add(1, graders.unscored("b", "timeout"))
    assert (found.ungraded(), found.graded_below()) == ([0, 2], 0)
    found.add(0, graders.unscored("b", "error"))
    assert found.graded_below() == 2
    assert found.grade(1) == graders.unscored("b", "timeout")


def test_no_answer_anywhere() -> None:
    found = Distinct(joined([pa.table({"problem_id": ["p"], "answer": pa.array([None], pa.string())})]))
    assert (len(found), list(found.numbers), found.graded_below()) == (0, [-1], 0)

"""Extraction and graders, as tables of what is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stages import tables
from stages.errors import LeashError
from stages.params import Params
from stages.verify import graders, run, unanswered
from stages.verify.extract import extract


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"12 + 5 = 17 , \boxed{ 17 }", "17"),
        (r"\boxed{1} no, \boxed{2}", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1} and \boxed{cut off", "1"),
        (r"\boxed{{}", None),
        ("no box", None),
        ("", None),
        (r"\boxed{}", ""),
        ("I think <answer>\n17 </answer>.", "17"),
        ("<answer>1</answer> no, <answer>2</answer>", "2"),
        (r"<answer>1</answer> and \boxed{3}", "3"),
        ("<answer>cut off", None),
        ("</answer> 5 <answer>", None),
    ],
)
def test_extract(text: str, answer: str | None) -> None:
    assert extract(text) == answer


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


@pytest.mark.parametrize(
    ("answer", "gold", "score"),
    [
        (r"\frac{1}{2}", ["0.5"], 1.0),
        (r"\dfrac12", [r"\frac{1}{2}"], 1.0),
        ("1/3", ["0.5"], 0.0),
        (r"2\sqrt{3}", [r"\sqrt{12}"], 1.0),
        ("(1, 2)", ["(1,2)"], 1.0),
        ("(2, 1)", ["(1,2)"], 0.0),
        ("x" * 5000, ["1"], 0.0),
    ],
)
def test_math(answer: str, gold: list[str], score: float) -> None:
    assert graders.load("math").grade(answer, gold, {}) == score


def test_an_answer_that_takes_too_long_is_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(*_: Any) -> float:
        while True:
            try:
                while True:
                    pass
            except Exception:  # a library that swallows everything, as some do
                continue

    monkeypatch.setattr(graders.load("exact"), "grade", stuck)
    verdict = graders.graded({"grader": "exact", "gold": ["1"], "meta": {}}, "1", timeout=1)
    assert verdict == {"answer_class": "1", "correct": None, "score": None, "status": "timeout"}


def test_a_grader_that_fails_does_not_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graders.load("exact"), "grade", lambda *_: 1 / 0)
    assert graders.graded({"grader": "exact", "gold": ["1"], "meta": {}}, "1", timeout=1)["status"] == "error"


def test_cut_off_and_without_answer_are_told_apart() -> None:
    assert unanswered("length")["status"] == "truncated"
    assert unanswered("stop")["status"] == "no_answer"


def test_unknown_grader() -> None:
    with pytest.raises(LeashError, match="There is no grader ghost; there are exact, make, math"):
        graders.load("ghost")


def completions(project: Params, texts: list[str]) -> Path:
    from stages import fetch

    fetch.run(project, "chain")
    problem = tables.read(tables.problems_path("chain"), tables.PROBLEMS, "")["problem_id"][0].as_py()
    rows = [
        {"problem_id": problem, "sample": i, "text": text, "tokens": 3, "finish": "stop", "logprob": -1.0}
        for i, text in enumerate(texts)
    ]
    path = tables.completions_folder("base", "chain") / "a.parquet"
    tables.write(path, tables.table(rows, tables.COMPLETIONS), tables.COMPLETIONS)
    return path


def test_verdicts_are_made_once_and_again_when_something_changed(project: Params) -> None:
    path = completions(project, [r"\boxed{ 1 }", "?"])
    assert run(project, "base", "chain") == 2
    assert run(project, "base", "chain") == 0
    verdicts = tables.read(tables.verdicts_folder("base", "chain") / "a.parquet", tables.VERDICTS, "").to_pylist()
    assert [v["status"] for v in verdicts] == ["ok", "no_answer"]

    path.rename(path.with_name("b.parquet"))  # other completions have another name
    assert run(project, "base", "chain") == 2
    assert [p.name for p in tables.shards(tables.verdicts_folder("base", "chain"))] == ["b.parquet"]

    slower = project.model_copy(update={"verify": project.verify.model_copy(update={"timeout": 9})})
    assert run(slower, "base", "chain") == 2

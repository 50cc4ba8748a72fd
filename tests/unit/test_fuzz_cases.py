"""What fuzzing once found (fuzz_cases.jsonl, a case per line, with what was wrong) stays found.

{"reader": "math", "text": "\\mathrm{cm} ", "times": 60, "end": "!"}              a text that hung or broke a reader
{"grader": "math", "gold": "3:4", "answer": "0:0", "correct": false}              a wrong grade
{"reply": "CORRECT<think>\nINCORRECT", "word": null}                              a judge's reply that was misread
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leash.grading.ending import looks_finished
from leash.grading.graders import choice, math, numeric
from leash.grading.graders.registry import load_grader
from leash.grading.judge_words import WordReader
from tests.unit.fuzzing import ends_soon

CASES = [json.loads(line) for line in Path(__file__).with_name("fuzz_cases.jsonl").read_text().splitlines()]
JUDGE = WordReader(yes="CORRECT", no="INCORRECT", others=("NOT_ATTEMPTED",))
READERS: dict[str, Callable[[str], Any]] = {
    "looks_finished": looks_finished,
    "judge": JUDGE.read,
    "math": lambda text: (math.grade(text, ["7"], {}), math.canonical(text, {})),
    "numeric": lambda text: (numeric.grade(text, ["7"], {}), numeric.canonical(text, {})),
    "choice": lambda text: (choice.grade(text, ["7"], {}), choice.canonical(text, {})),
}


def cases(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [case for case in CASES if kind in case], ids=lambda case: case["was"])


@cases("reader")
def test_a_text_that_hung_or_broke_a_reader(case: dict[str, Any]) -> None:
    with ends_soon():
        READERS[case["reader"]](case["text"] * case["times"] + case["end"])


@cases("grader")
def test_an_answer_that_had_a_wrong_grade(case: dict[str, Any]) -> None:
    assert (load_grader(case["grader"]).grade(case["answer"], [case["gold"]], {}) == 1) == case["correct"]


@cases("reply")
def test_a_reply_that_was_misread(case: dict[str, Any]) -> None:
    assert JUDGE.read(case["reply"]) == case["word"]

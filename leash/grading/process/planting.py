r"""Plant one error into good working, to measure what a judge of the reasoning sees.

    plant_error(problem, r"12 + 5 = 17 , 17 - 3 = 14 , \boxed{ 14 }", "14", rng)
        ->  r"12 + 8 = 17 , 17 - 3 = 14 , \boxed{ 14 }"

One number of one true step or equation changes. The answer stays as it was, and so does everything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from leash.grading.extraction import BOX_COMMANDS, THINK_CLOSE_TAG, extract
from leash.grading.process.checkers import check_working, checker_name
from leash.grading.process.equations import read_equations
from leash.grading.process.steps import split_working
from leash.problems import Problem

MAX_TRIES = 40
# The second number of a step. Its result stays, so that all later steps are as true as before.
_STEP_OPERAND = re.compile(r"(?<=[+*-] )\d{1,9}(?= = )")
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def plant_error(problem: Problem, text: str, answer: str | None, rng: np.random.Generator) -> str | None:
    """Return a copy of sound working with one wrong step; None if the working is not sound or has nothing to change."""
    if check_working(problem, text, answer).process != "sound":
        return None
    spans = [*_number_spans(problem, text)]
    if not spans:
        return None
    for _ in range(MAX_TRIES):
        begin, end = spans[rng.integers(len(spans))]
        planted = text[:begin] + _change_number(text[begin:end], rng) + text[end:]
        flaw = check_working(problem, planted, answer).flaw
        # The flaw is a false equation of the text, not one that no longer follows: 0 * 3 = 0 is as true as 0 * 8 = 0.
        if flaw and flaw.rstrip("…") in " ".join(planted.split()) and extract(planted) == extract(text):
            return planted
    return None


def _number_spans(problem: Problem, text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the numbers that may change: those of true equations outside the box."""
    if checker_name(problem) == "steps" and (operands := [*_STEP_OPERAND.finditer(split_working(text))]):
        yield from (match.span() for match in operands)
        return
    last_box = max(text.rfind(command) for command in BOX_COMMANDS)
    thinking_end = text.rfind(THINK_CLOSE_TAG)
    begin = thinking_end + len(THINK_CLOSE_TAG) if thinking_end >= 0 else 0
    for offset, part in ((begin, text[begin:]), (0, text[: max(thinking_end, 0)])):
        equations = [equation for equation in read_equations(part) if equation.true]
        for equation in equations:
            for match in _NUMBER.finditer(part, equation.begin, equation.end):
                if last_box < 0 or offset + match.end() <= last_box:
                    yield offset + match.start(), offset + match.end()
        if equations:
            return


def _change_number(number: str, rng: np.random.Generator) -> str:
    """Change one digit. The first digit never becomes 0, so that the number keeps its length."""
    places = [i for i, char in enumerate(number) if char.isdigit()]
    # A change of a decimal's last digits may pass as rounding, one of the first half does not.
    place = places[rng.integers((len(places) + 1) // 2)] if "." in number else places[rng.integers(len(places))]
    lowest = 1 if place == places[0] and len(places) > 1 else 0
    digits = [str(digit) for digit in range(lowest, 10) if str(digit) != number[place]]
    return number[:place] + digits[rng.integers(len(digits))] + number[place + 1 :]

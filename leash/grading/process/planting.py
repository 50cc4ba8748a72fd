r"""Plant one error into good working, to measure what a judge of the reasoning sees.

    plant_error(problem, r"12 + 5 = 17 , 17 - 3 = 14 , \boxed{ 14 }", "14", rng)
        ->  r"12 + 8 = 17 , 17 - 3 = 14 , \boxed{ 14 }"

One number of one true step or equation changes. The answer that lenient reading finds, which is the strict one if there
is any, stays as it was, and so does everything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from leash.grading.extraction import BOX_COMMANDS
from leash.grading.process.checkers import check_working, checker_name
from leash.grading.process.equations import Equation, read_equations, working_parts
from leash.grading.process.steps import split_working
from leash.grading.reading import Reading, read_answer
from leash.grading.run_on import cut_run_on
from leash.problems import Problem

MAX_TRIES = 40
# The second number of a step. Its result stays, so that all later steps are as true as before.
_STEP_OPERAND = re.compile(r"(?<=[+*-] )\d{1,9}(?= = )")


def plant_error(problem: Problem, text: str, answer: str | None, rng: np.random.Generator) -> str | None:
    """Return a copy of sound working with one wrong step; None if the working is not sound or has nothing to change.
    What follows a question that the model invents is left out."""
    text = cut_run_on(text)
    if check_working(problem, text, answer).process != "sound":
        return None
    spans = [*_places(problem, text)]
    if not spans:
        return None
    for _ in range(MAX_TRIES):
        begin, end = spans[rng.integers(len(spans))]
        planted = text[:begin] + change_number(text[begin:end], rng) + text[end:]
        flaw = check_working(problem, planted, answer).flaw
        # The flaw is a false equation of the text, not one that no longer follows: 0 * 3 = 0 is as true as 0 * 8 = 0.
        if flaw and flaw.rstrip("…") in " ".join(planted.split()) and _read(problem, planted) == _read(problem, text):
            return planted
    return None


def _read(problem: Problem, text: str) -> Reading:
    return read_answer(text, problem["grader"], "stop")


def _places(problem: Problem, text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the numbers that may change: those of true equations outside the box."""
    if checker_name(problem) == "steps" and (operands := [*_STEP_OPERAND.finditer(split_working(text))]):
        yield from (match.span() for match in operands)
        return
    last_box = max(text.rfind(command) for command in BOX_COMMANDS)
    for part in working_parts(text):
        equations = [equation for equation in read_equations(text, *part) if equation.true]
        for equation in equations:
            yield from (span for span in number_spans(text, equation) if last_box < 0 or span[1] <= last_box)
        if equations:
            return


def number_spans(text: str, equation: Equation) -> Iterator[tuple[int, int]]:
    """Yield where the numbers of an equation are."""
    for side in (equation.link.left, equation.link.right):
        yield from ((token.begin, token.end) for token in side.tokens if token.kind == "num")


def change_number(number: str, rng: np.random.Generator) -> str:
    """Change one digit. The first digit never becomes 0, so that the number keeps its length."""
    places = [i for i, char in enumerate(number) if char.isdigit()]
    # A change of a decimal's last digits may pass as rounding, one of the first half does not.
    place = places[rng.integers((len(places) + 1) // 2)] if "." in number else places[rng.integers(len(places))]
    lowest = 1 if place == places[0] and len(places) > 1 else 0
    digits = [str(digit) for digit in range(lowest, 10) if str(digit) != number[place]]
    return number[:place] + digits[rng.integers(len(digits))] + number[place + 1 :]

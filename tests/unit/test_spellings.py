"""Strict reading on the table of spellings: right answers however they are written, and no wrong one."""

from __future__ import annotations

from collections import Counter

from leash.grading.graders import math
from tests.spellings import is_accepted, load_cases, show

MIN_CASES = 350
MIN_ACCEPTED = 0.97


def test_the_table_has_enough_cases_of_both_sorts() -> None:
    cases = load_cases()
    wrong, kinds = sum(not case["right"] for case in cases), Counter(case["kind"] for case in cases)
    assert len(cases) >= MIN_CASES
    assert 3 * wrong >= len(cases)
    assert min(kinds.values()) >= 10
    assert len({show(case) + case.get("grader", "") for case in cases}) == len(cases)
    assert {case["kind"] for case in cases if not case["right"]} == set(kinds), "every kind has a near miss"


def test_right_answers_are_accepted_but_for_known_misses() -> None:
    right = [case for case in load_cases() if case["right"]]
    missed = [show(case) for case in right if not is_accepted(case)]
    assert missed == [show(case) for case in right if "known_miss" in case]
    assert len(missed) <= (1 - MIN_ACCEPTED) * len(right)


def test_no_wrong_answer_is_accepted() -> None:
    assert [show(case) for case in load_cases() if not case["right"] and is_accepted(case)] == []


def test_wrong_answers_are_wrong_the_other_way_round_too() -> None:
    """If a is not b, b is not a. A few are so on purpose: the gold decides what may be left out."""
    cases = [case for case in load_cases() if not case["right"] and "answer" in case and "grader" not in case]
    swapped = [show(case) for case in cases if math.grade(case["gold"], [case["answer"]], {})]
    assert swapped == [
        r"percent: 0.28 <- 0.28\%",  # the percent sign may be missing
        "named values: x + y = 7 <- 7",  # the quantity may be named
        r"sets: 1, 1, 2 <- \{1, 2\}",  # a set has no repeats
        "equations: x = 5 <- 2x = 10",  # an equation may be solved
    ]


def test_every_answer_has_a_class() -> None:
    assert [show(case) for case in load_cases() if "answer" in case and not math.canonical(case["answer"], {})] == []

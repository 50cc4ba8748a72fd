"""Fuzzing of the readers of answers: any answer is graded, soon, alike each time, and true exactly if it is the gold.

The terms that Hypothesis makes have exact values (tests/unit/fuzzing.py), so a wrong verdict of either kind is found
without a list of right answers.
"""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from leash.grading.graders import choice, exact, livebench, make, math, numeric
from leash.grading.graders.types import Grader
from leash.grading.process.equations import check_equations
from tests.unit.fuzzing import (
    PHRASES,
    TOKENS,
    Term,
    bounded,
    ends_soon,
    every_repetition,
    plain,
    repeated,
    respelled,
    soups,
    terms,
)

ANSWERS = soups(TOKENS) | soups(TOKENS, PHRASES)
GRADERS = {
    "math": (math, ["\\frac{1}{2}"], {}),
    "math, several answers": (math, ["1, 2"], {"multiple": True}),
    "math, a unit": (math, ["5.20"], {"unit": "$m/s$", "rounded": True}),
    "numeric": (numeric, ["5.2"], {"unit": "$10^{14}$ Hz", "scale": 1e14}),
    "choice": (choice, ["B"], {"options": ["12", "7 cm", "x^2", "B"]}),
    "choice, a free answer": (choice, ["1.2"], {"answer_type": "float", "precision": 1}),
    "make": (make, ["21"], {"numbers": [3, 8, 1]}),
    "exact": (exact, ["7"], {}),
    "livebench, lies": (livebench, ["no, yes, yes"], {"task": "web_of_lies_v2"}),
    "livebench, zebra": (livebench, ["1, tea"], {"task": "zebra_puzzle"}),
    "livebench, spatial": (livebench, ["square"], {"task": "spatial"}),
}


@pytest.fixture(autouse=True, scope="module")
def _import_sympy() -> None:
    """What math-verify imports at its first formula takes longer than any answer."""
    math.grade("\\sum_{k=1}^{2} k", ["3"], {})


def grade(grader: Grader, answer: str, gold: str, **meta: object) -> bool:
    return grader.grade(answer, [gold], meta) == 1


@pytest.mark.parametrize("name", GRADERS)
@bounded(60)
@given(answer=ANSWERS)
def test_any_answer_has_one_grade_and_one_class(name: str, answer: str) -> None:
    grader, gold, meta = GRADERS[name]
    with ends_soon():
        score, kind = grader.grade(answer, gold, meta), grader.canonical(answer, meta)
    assert 0 <= score <= 1
    assert (score, kind) == (grader.grade(answer, gold, meta), grader.canonical(answer, meta))


@pytest.mark.parametrize("name", GRADERS)
@bounded(12)
@given(answer=repeated(TOKENS), size=st.sampled_from([290, 490, 990, 4_000, 20_000]))
def test_no_answer_takes_long(name: str, answer: str, size: int) -> None:
    grader, gold, meta = GRADERS[name]
    with ends_soon():
        grader.grade(answer[:size], gold, meta)
        grader.canonical(answer[:size], meta)


@pytest.mark.parametrize(("name", "size"), [("math", 990), ("numeric", 290), ("choice", 490)])
def test_no_repeated_word_takes_long(name: str, size: int) -> None:
    grader, gold, meta = GRADERS[name]
    for answer in every_repetition(size):
        with ends_soon():
            grader.grade(answer, gold, meta)
            grader.canonical(answer, meta)


@bounded(100)
@given(gold=ANSWERS)
def test_any_gold_is_complained_of_or_equal_to_itself(gold: str) -> None:
    for grader in (math, numeric):
        with ends_soon():
            complaint = grader.complaint([gold], {})
        if complaint is None:
            assert grade(grader, gold, gold), grader


@bounded(150)
@given(term=terms(), data=st.data())
def test_a_term_equals_its_value_in_any_spelling(term: Term, data: st.DataObject) -> None:
    spelling, value = data.draw(respelled(term.latex)), plain(term.value)
    assert grade(math, spelling, value)
    assert grade(math, value, spelling)
    assert math.canonical(spelling, {}) == math.canonical(value, {})


@bounded(300)
@given(first=terms(), second=terms(), data=st.data())
def test_terms_are_equal_if_their_values_are(first: Term, second: Term, data: st.DataObject) -> None:
    answer, gold = data.draw(respelled(first.latex)), data.draw(respelled(second.latex))
    same = first.value == second.value
    assert grade(math, answer, gold) == same
    assert grade(math, gold, answer) == same
    assert (math.canonical(answer, {}) == math.canonical(gold, {})) == same


@bounded(150)
@given(st.lists(terms(2), min_size=2, max_size=4), st.data(), st.sampled_from([", ", " \\text{ and } "]))
def test_a_list_is_its_items_in_any_order_and_nothing_else(items: list[Term], data: st.DataObject, comma: str) -> None:
    gold = ", ".join(plain(item.value) for item in items)
    shuffled = data.draw(st.permutations(items))
    assert grade(math, comma.join(item.latex for item in shuffled), gold, multiple=True)
    fewer, more = items[1:], [*items, Term("10001", items[0].value + 10001, 3)]
    assert not grade(math, comma.join(item.latex for item in fewer), gold, multiple=True)
    assert not grade(math, comma.join(item.latex for item in more), gold, multiple=True)


@bounded(150)
@given(term=terms(), data=st.data())
def test_a_number_is_read_as_it_is_or_not_at_all(term: Term, data: st.DataObject) -> None:
    value = numeric.parse_number(data.draw(respelled(term.latex)))
    assert value is None or value == pytest.approx(float(term.value), rel=1e-9, abs=1e-9)


@bounded(150)
@given(first=terms(), second=terms())
def test_an_equation_of_the_working_is_judged_by_its_values(first: Term, second: Term) -> None:
    # "3! = 6!" may be an exclamation.
    assume("!" not in first.latex + second.latex)
    judged = check_equations(f"We have ${first.latex} = {second.latex}$ here.", "7", "").process
    if judged == "unsound":
        assert first.value != second.value
    if judged == "sound":
        assert abs(first.value - second.value) < 1  # rounded to the digits shown
    assert check_equations(f"We have ${first.latex} = {plain(first.value)}$ here.", "7", "").process != "unsound"

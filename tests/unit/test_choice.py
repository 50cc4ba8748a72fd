"""The choice grader: which option an answer names, and when a free answer equals the gold."""

from __future__ import annotations

from typing import Any

import pytest

from leash.grading.graders.choice import canonical, complaint, extract, grade

ANGLES = {"options": ["135°", "140°", "145°", "150°"], "answer_type": "text"}
LENGTHS = {"options": ["$6 \\mathrm{~m}$", "$8 \\mathrm{~m}$", "$10 \\mathrm{~m}$", "$11 \\mathrm{~m}$"]}
YES_NO = {"options": ["Yes", "No"], "answer_type": "text"}
LABELS = {"options": ["A", "B", "C", "E", "Impossible to determine"]}
TWICE = {"options": ["9", "12", "18", "18"], "answer_type": "text"}
SYMBOLS = {"options": ["60-k", "k", "60+k", "120-k", "120-2*k"], "answer_type": "text"}
ORDERS = {"options": ["5-4-3-2-1", "5-2-3-4-1", "5-4-2-3-1", "5-3-2-1-4", "5-2-3-1-4"]}
EITHER = {"options": ["A", "B", "C", "D", "C or D"]}


@pytest.mark.parametrize(
    ("gold", "answer", "meta", "score", "why"),
    [
        ("145°", "C", ANGLES, 1.0, "the letter"),
        ("145°", "c", ANGLES, 1.0, "a small letter"),
        ("145°", "(C)", ANGLES, 1.0, "in parentheses"),
        ("145°", "C.", ANGLES, 1.0, "with a full stop"),
        ("145°", r"\text{C}", ANGLES, 1.0, "in LaTeX"),
        ("145°", "**C**", ANGLES, 1.0, "bold"),
        ("145°", "Option C", ANGLES, 1.0, "named"),
        ("145°", "The correct answer is (C)", ANGLES, 1.0, "in a sentence"),
        ("145°", "C) 145°", ANGLES, 1.0, "letter and text"),
        ("145°", r"\text{(C) } 145^\circ", ANGLES, 1.0, "letter and text in LaTeX"),
        ("145°", r"\text{C: $145^{\circ}$}", ANGLES, 1.0, "letter and text in nested LaTeX"),
        ("145°", "C, because the sum is 35", ANGLES, 0.0, "a sentence that only begins with a letter"),
        ("145°", "C) 140°", ANGLES, 0.0, "letter and text of two options"),
        ("145°", "145°", ANGLES, 1.0, "the text"),
        ("145°", r"145^{\circ}", ANGLES, 1.0, "the text in LaTeX"),
        ("145°", "145 degrees", ANGLES, 1.0, "the text in words"),
        ("145°", "145", ANGLES, 1.0, "the number without its unit"),
        ("145°", "145.0", ANGLES, 1.0, "another spelling of the number"),
        ("145°", "145 rad", ANGLES, 0.0, "another unit"),
        ("145°", "144°", ANGLES, 0.0, "a number that is no option is not the nearest one"),
        ("145°", "B", ANGLES, 0.0, "another letter"),
        ("145°", "E", ANGLES, 0.0, "a letter beyond the options"),
        ("145°", "", ANGLES, 0.0, "nothing"),
        ("145°", "A or C", ANGLES, 0.0, "two letters"),
        ("C", "10", LENGTHS, 1.0, "gold a letter, answer a number"),
        ("C", "10 m", LENGTHS, 1.0, "gold a letter, answer the text"),
        ("C", r"10 \mathrm{~m}", LENGTHS, 1.0, "gold a letter, answer the text in LaTeX"),
        ("C", "C", LENGTHS, 1.0, "gold a letter, answer a letter"),
        ("C", "8", LENGTHS, 0.0, "gold a letter, another number"),
        ("No", "no.", YES_NO, 1.0, "case and full stop aside"),
        ("No", "B", YES_NO, 1.0, "the letter of No"),
        ("No", "N", YES_NO, 0.0, "a letter that is no option's"),
        ("No", "Not at all", YES_NO, 0.0, "only begins alike"),
        ("D", "D", LABELS, 1.0, "options that are letters: the letter of the option comes first"),
        ("D", "E", LABELS, 0.0, "options that are letters: E is the fifth, not the one that reads E"),
        ("18", "C", TWICE, 1.0, "an option that is there twice, by its first letter"),
        ("18", "D", TWICE, 1.0, "and by its second"),
        ("18", "18", TWICE, 1.0, "and by its text"),
        ("18", "B", TWICE, 0.0, "another"),
        ("k", "k", SYMBOLS, 1.0, "a symbol that is no letter of an option"),
        ("60-k", "60 - k", SYMBOLS, 1.0, "spacing aside"),
        ("60-k", "A", SYMBOLS, 1.0, "the letter"),
        ("B", "5-2-3-4-1", ORDERS, 1.0, "an order is a text"),
        ("B", "-5", ORDERS, 0.0, "and not its value"),
        ("E", "C or D", EITHER, 1.0, "a text with letters in it"),
        ("C", "C or D", EITHER, 0.0, "is not its first letter"),
    ],
)
def test_an_answer_names_an_option_by_letter_or_text(
    gold: str, answer: str, meta: dict[str, Any], score: float, why: str
) -> None:
    assert grade(answer, [gold], meta) == score, why


WHOLE: dict[str, Any] = {"options": [], "answer_type": "integer", "precision": None}
TENTHS = {"options": [], "answer_type": "float", "precision": 1}
LIST = {"options": [], "answer_type": "list"}
TEXT = {"options": [], "answer_type": "text"}
OPEN: dict[str, Any] = {"options": [], "answer_type": None, "precision": None}


@pytest.mark.parametrize(
    ("gold", "answer", "meta", "score", "why"),
    [
        ("1000", "1000", WHOLE, 1.0, "an integer"),
        ("1000", "1,000 g", WHOLE, 1.0, "with comma and unit"),
        ("1000", "1000.0", WHOLE, 1.0, "as a decimal"),
        ("5", "5.7", WHOLE, 0.0, "is not cut off"),
        ("5", "five", WHOLE, 0.0, "a word"),
        ("1.2", "1.23", TENTHS, 1.0, "rounded to the benchmark's precision"),
        ("1.2", "1.26", TENTHS, 0.0, "rounded to another"),
        ("1.2", "1.2 cm", TENTHS, 1.0, "with a unit"),
        ("0.0", "0", TENTHS, 1.0, "zero"),
        ("51.04", "51.039", TENTHS | {"precision": 2}, 1.0, "two decimals"),
        ("51.04", "51.0", TENTHS | {"precision": 2}, 0.0, "one decimal where two are asked for"),
        ("[2014, 2016]", "[2014, 2016]", LIST, 1.0, "a list"),
        ("[2014, 2016]", "2014 and 2016", LIST, 1.0, "a list in words"),
        ("[2014, 2016]", "2016, 2014", LIST, 0.0, "another order"),
        ("[2014, 2016]", "2014", LIST, 0.0, "a part"),
        ("[0, 2, 0]", "0,2,0", LIST, 1.0, "without spaces"),
        ("Acuminate", "acuminate.", TEXT, 1.0, "a word"),
        ("7", "7.0", TEXT, 0.0, "a text is not a number"),
        ("0.5", r"\frac{1}{2}", OPEN, 1.0, "a fraction"),
        ("4.8", "4.79", OPEN, 0.0, "near is not equal where no precision is given"),
        ("(3,-4)", "(3, -4)", OPEN, 1.0, "a point"),
        ("(3,-4)", r"\left(3,\,-4\right)", OPEN, 1.0, "a point in LaTeX"),
        ("(3,-4)", "(-4, 3)", OPEN, 0.0, "another point"),
        ("C", "(C)", OPEN, 1.0, "a letter without options"),
        ("C", "D", OPEN, 0.0, "another letter"),
        ("6", "x" * 10_000, OPEN, 0.0, "too long to be read"),
    ],
)
def test_a_free_answer_is_compared_by_value_or_text(
    gold: str, answer: str, meta: dict[str, Any], score: float, why: str
) -> None:
    assert grade(answer, [gold], meta) == score, why


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"Thus \boxed{C}. The answer is B.", "C"),
        ("<answer>(B) 4</answer>", "(B) 4"),
        ("A is too small. So the answer is (B) 4.", "(B) 4"),
        ("The answer is A. No: the answer is **D**.", "D"),
        ("Answer: 12.5 cm\n", "12.5 cm"),
        ("It must be **B**, as shown.", "B"),
        ("Let me see.\n\n(D)", "(D)"),
        ("Let me see.\nD.", "D"),
        ("I don't know", None),
        ("<think>So it is **B**, or", None),
        ("<think>So it is **B**, no.</think>It is **D**.", "D"),
        ("", None),
    ],
)
def test_the_choice_is_extracted_from_a_reply(text: str, answer: str | None) -> None:
    assert extract(text) == answer


@pytest.mark.parametrize(
    ("same", "meta", "spelling"),
    [
        (["C", "(c)", "145°", "C) 145°", "145"], ANGLES, "C"),
        (["C", "D", "18"], TWICE, "C"),
        (["1.2", "1.23", "1.20 cm"], TENTHS, "1.2"),
        (["(3,-4)", "(3, -4)", "3, -4"], OPEN, "3, -4"),
        (["Acuminate", " acuminate. "], TEXT, "acuminate"),
    ],
)
def test_equal_answers_are_one_class(same: list[str], meta: dict[str, Any], spelling: str) -> None:
    assert {canonical(answer, meta) for answer in same} == {spelling}


def test_answers_that_name_no_option_are_different_classes() -> None:
    assert len({canonical(answer, ANGLES) for answer in ("155°", "none", "C")}) == 3


@pytest.mark.parametrize(
    ("gold", "meta", "message"),
    [
        (["145°"], ANGLES, None),
        (["D"], LENGTHS, None),
        (["3"], WHOLE, None),
        (["E"], LENGTHS, "the gold 'E' is neither one of the options nor the letter of one"),
        (["160°"], ANGLES, "the gold '160°' is neither one of the options nor the letter of one"),
        (["three"], WHOLE, "the gold 'three' is not a number"),
        (["A"], {"options": [str(i) for i in range(27)]}, "there are 27 options, but 26 letters"),
        ([], OPEN, "there is no gold"),
    ],
)
def test_a_gold_that_cannot_be_graded_is_reported(gold: list[str], meta: dict[str, Any], message: str | None) -> None:
    assert complaint(gold, meta) == message

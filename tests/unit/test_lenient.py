"""Lenient reading: the candidate answer of a reply without a marked one, as tables of (text, candidate, why)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leash.grading.extraction import extract
from leash.grading.graders import math
from leash.grading.lenient import find_candidate
from tests.unit.test_run_on import WORKED

FIXTURES = Path(__file__).parent.parent / "fixtures" / "grading"
Case = tuple[str, str | None, str]

SENTENCES: list[Case] = [
    ("The grooming costs 70 dollars.", "70", "a number with a unit"),
    ("He saved $10.", "10", "a price"),
    ("... = 26.", "26", "an equation"),
    ("x equals 5", "5", "no full stop"),
    ("So there are 1,234,567 ways.", "1,234,567", "thousands"),
    ("The temperature is -3.5 degrees.", "-3.5", "a sign and a decimal point"),
    ("The answer would then be 3/4.", "3/4", "a fraction"),
    ("That is 12.5% of them.", "12.5%", "percent"),
    ("The ratio is 3:4.", "3:4", "a ratio"),
    ("The point is (3, -2).", "(3, -2)", "a point"),
    ("So x = 2*sqrt(3).", "2*sqrt(3)", "an expression in plain text"),
    ("The area is 12 cm^2.", "12", "the exponent of a unit is no answer"),
    ("The area is 5cm.", "5", "a unit without a space"),
    ("We paid **42** euros.", "42", "bold"),
    ("So he is 7.\n\nI hope this helps! Let me know if you have any questions.", "7", "politeness follows"),
    ("So he is 7.\nThis is the final result.", "7", "the sentence before, if the last has no value"),
    ("The leftover amount is zero.", "0", "a number word"),
    ("He finished in 6th place.", "6", "an ordinal, if there is nothing else"),
    ("Tuesday.", "Tuesday", "a reply of a few words is the answer"),
]

SEVERAL: list[Case] = [
    ("Shannon needs to make 5 dozens of cookies to last her for 30 days.", "5", "a purpose follows"),
    ("Thus, the 42 kg bag of rice will last for 3 weeks.", "3", "the subject has a number"),
    ("Rosie can run a total of 50 miles in 7 hours.", "50", "a period follows"),
    ("Frankie watched 3 30-minute episodes on Wednesday.", "3", "a part of a word"),
    ("The number of carrots that will not be used is 120.", "120", "a relative clause denies nothing"),
    ("In 1990, he was 25 years old.", "25", "a year"),
    ("The total is 25 * 2 = 50 dollars.", "50", "a computation"),
    ("There are 5 bucks that are 8 points.", "5", "a relative clause"),
    ("The solutions are x = 1 or x = 3.", "1, 3", "plain equations of one name"),
    ("The values are 2 and 3.", "2, 3", "a list"),
    ("Since 3 > 2, the answer to step 4 gives us that there are 10 pairs.", "10", "the number of a step"),
]

FORMULAS: list[Case] = [
    (r"so the area is $\frac{3}{4}$ square units", r"\frac{3}{4}", "an inline formula"),
    ("We get\n\\[\nx = 5\n\\]", "5", "the right side of a display formula"),
    (r"\[ 3 + 4 = 7 = 7.0 \]", "7.0", "the last right side"),
    (r"\begin{align*} x &= 3 \\ y &= 4 \end{align*}", "4", "the last line"),
    (r"\[ x = \frac{1}{3} \approx 0.333 \]", r"\frac{1}{3}", "an exact value before its rounding"),
    (r"\[ x = 1.22 \times 3 \approx 3.66 \]", "3.66", "but not a computation"),
    (r"there are $10$ pairs $(a,b)$ for which it has $3$ roots.", "10", "the main clause"),
    (r"Therefore, $m = 4$ and $n = 5$, so $m + n = 4 + 5 = 9$.", "9", "a sum of what was found"),
    (r"the values are \( x = 2 \) or \( x = -2 \).", "2, -2", "several values"),
    (r"\[ x = -6, \quad x = -8 \]", "-6, -8", "several values in one formula"),
    (r"\[ k = 4 \quad \text{(a square)} \]", "4", "a remark"),
    (r"\[ b^2 = 4 \quad \Rightarrow \quad b = 2 \]", "2", "a step"),
    (r"The function is \( f(x) = 2x \).", "2x", "a function"),
    (r"It is \[ y + 2x = a y \]", "y + 2x = a y", "an equation between unknowns"),
    (r"The product is $1 \cdot \frac{1}{10} = \frac{1}{10}.", r"\frac{1}{10}", "the last dollar sign is missing"),
    (r"OC^2 = \frac{40}{64} = \frac{5}{8}.", r"\frac{5}{8}", "all dollar signs are missing"),
    ("It costs $5 and $10, in total $15.", "15", "prices are no formulas"),
    (r"The set is \( \emptyset \).", r"\emptyset", "a constant"),
]

WHOLE: list[Case] = [
    ("The price is 2 million dollars.", "2 million", "a magnitude"),
    ("That is 1 thousand.", "1 thousand", "a magnitude without a unit"),
    ("It costs $1.5 million", "1.5 million", "a price"),
    (r"It costs $2$ million.", "2 million", "a magnitude behind a formula"),
    ("The town has two million people.", "2 million", "a number word with a magnitude"),
    ("There are thirty-six of them.", "thirty-six", "a compound number word"),
    ("It is two thirds.", "two thirds", "a fraction in words"),
    ("The values are two and three.", "2, 3", "but not a list"),
    ("The probability is 3 out of 8.", "3 out of 8", "a share"),
    (r"So it is $3$ out of $8$.", "3 out of 8", "a share of formulas"),
    ("She earns $132 after 12 hours.", "132", "but not a preposition"),
    ("It takes 5 people 48 hours.", "48", "but not two things"),
    ("He has 40 dollars left out of the 100.", "40", "but not a rest"),
    ("The ratio is 3 to 2.", "3 to 2", "a ratio in words"),
    ("So the total is 3 hours and 20 minutes.", "3 hours and 20 minutes", "two units"),
    ("She is 5 feet 6 inches tall.", "5 feet 6 inches", "two units without a word between"),
    ("It takes 1 hour, 5 minutes", "1 hour, 5 minutes", "two units and a comma"),
    ("It is 9π.", "9π", "a factor"),
    ("So the area is 9π cm².", "9π", "a factor and a unit"),
    ("It is 5√2.", "5√2", "a root"),
    ("It is 2 + √3.", "2 + √3", "a sum with a root"),
    ("So it is (2 + √3)/4.", "(2 + √3)/4", "brackets"),
    ("(So it is 9π)", "9π", "brackets around the sentence"),
    ("So x = 2 + 10⁵.", "2 + 10⁵", "an equation"),
    ("The area is 12 m².", "12", "but not the exponent of a unit"),
    ("The result is negative 3.", "-3", "a sign in words"),
    ("It is minus $3$.", "-3", "a sign before a formula"),
    ("It is negative three.", "-3", "a sign before a number word"),
    ("It is 2½.", "2½", "a mixed number"),
    ("It is 2 1/2 cups.", "2 1/2", "a mixed number with a slash"),
    ("It is 10⁵.", "10⁵", "a power"),
    ("It is 3 × 10⁵.", "3 × 10⁵", "a product with a power"),
    ("There are two hundred fifty ways.", "two hundred fifty", "several number words"),
    ("There are two hundred and fifty ways.", "two hundred and fifty", "several number words with and"),
]

# In doubt there is no answer: none of these numbers is the whole value.
CUT: list[Case] = [
    *(
        (f"He has 7.\n\nIt is {value}.", None, "a part of a value")
        for value in (
            *("5!", "4k", "4 k", "5M", "5x", "5 x", "3i", "±3", "± 3", "3 pi", "5 squared", "5 cubed", "2**10", "2^10"),
            *(
                "3.2e-5",
                "1 200",
                "20 000 people",
                "1'000",
                "1.000.000",
                "3 and a half",
                "5 minus 3",
                "three and a half",
            ),
            *("9πr²", "5√2x"),
        )
    ),
    ("It is 5! So there are many.", None, "a factorial or an exclamation"),
    ("So n = 5!", None, "a factorial or an exclamation"),
]

DENIED: list[Case] = [
    *(
        (text, None, "a denial")
        for text in (
            *("x can't be 5", "x can’t be 5.", "x cannot be 5.", "x can not be 5", "x won't be 5.", "x != 5", "x ≠ 5"),
            *("5 is wrong", "5 would be wrong.", "The value 5 is false.", "5 is excluded.", "It never equals 5."),
            *("The result cannot possibly be 5.", "He says 5, which is wrong.", "It is not true that x is 5."),
            *("It shouldn't be 5.", "5 is ruled out.", "It is 7, I think. But x can't be 7."),
        )
    ),
    ("The number of wrong replies is 5.", "5", "wrong ones are counted"),
    ("Since x ≠ 0, the value is 5.", "5", "a condition"),
    ("It can't be 4, so it is 5.", "5", "another one is denied"),
    ("We can't buy a part of it, which gives a price of 50.", "50", "a remark"),
    ("There are 8 squares: 5^2, 10^2 and so on.", "8", "examples of another form"),
]

UNSOLVED: list[Case] = [
    *(
        (f"{begin}{left} = 24{end}", None, "still to be solved")
        for left in ("2x", "3n", "-2x", "2x + 3", "x + 3", "2^x", "x^2", "x^2 - 5x + 6", "|x|", "2(x + 1)", "x(x + 1)")
        for begin, end in (("So $", "$."), ("so \\(", "\\)."), ("\\[ ", " \\]"), ("So ", "."))
    ),
    *((f"So ${left} = 24$.", None, "unsolved") for left in (r"\sqrt{x}", r"\frac{x}{2}", r"\log x", r"\left|x\right|")),
    (r"It follows that \[ x > 0 \implies 4a = 24 \]", None, "behind an arrow"),
    *(
        (f"So ${left} = 24$.", "24", "a quantity")
        for left in ("m + n", "f(2)", "a^2", "|z|", "P(A)", "n!", "a_5", r"\alpha", r"\sin A", r"\angle A", "x", "AB^2")
    ),
    ("So $(5 - i)(5 + i) - 2 = 24$.", "24", "the imaginary unit is no unknown"),
    ("Since $x = 5$, $x^2 - 1 = 24$.", "24", "the unknown is given"),
    ("So x = 5.\n\nTherefore, $x^2 - 1 = 24$.", "24", "the unknown is given before"),
]

ASSUMED: list[Case] = [
    ("Let x = 5.", None, "a plan"),
    ("Suppose x = 5.", None, "a plan"),
    ("Next, assume n = 5", None, "a plan"),
    ("There are several cases, so consider 4.", None, "a plan within a sentence"),
    ("Check n = 4", None, "a plan"),
    ("Substituting x = 5.", None, "a plan"),
    ("If x = 5, then it works", None, "a condition"),
    ("when n = 4", None, "a condition"),
    ("Suppose n = 4, then the total is 8.", "8", "what follows from it"),
    ("If x is 5, we get 15.", "15", "what follows from it"),
    ("Assuming 7 days in a week, he earns 70 dollars.", "70", "what follows from it"),
    ("Let x be the price, so $x = 15$.", "15", "what follows from it"),
    ("There are 3 cases.", None, "the working, not its result"),
    (r"There are $3$ possible cases.", None, "the working, not its result"),
    ("We have 3 equations and 2 unknowns.", None, "the working, not its result"),
    ("The total is 12.\nThere are 3 cases.", None, "the working goes on"),
    ("The total is 12.\nThis holds in all cases.", "12", "a remark"),
    ("There are three cases of beer.", "3", "but a thing"),
    ("So the house needs 100 cases.", "100", "but a thing"),
    ("Substituting the weight: average = 540 / 3 = 180 pounds.", "180", "what follows from it"),
]

NONE: list[Case] = [
    ("", None, "nothing"),
    ("I do not know.", None, "no answer"),
    ("There is no number here, only words that go on and on.", None, "a sentence without a value"),
    ("Step 3:", None, "the number of a step"),
    ("See equation (1).", None, "the number of an equation"),
    ("This is shown in [12].", None, "a citation"),
    (r"This is in terms of \( x \) and \( AB \).", None, "names"),
    ("Hence n = 5 is not a solution.", None, "a denial"),
    (r"\[ 5 \neq 6 \]", None, "a denial in a formula"),
    ("Let's try n = 7.", None, "a plan"),
    ("We need to check whether 17 works.", None, "a plan"),
    ("Therefore, the remaining angle can be found by subtracting this from 360°.", None, "a plan"),
    ("Is it 5?", None, "a question"),
    (r"so we have \[ x = 5 +", None, "a formula that is cut off"),
    ("<think> so it is 5.", None, "thinking that never ends"),
    ("<think> so it is 5. </think>", None, "no reply after the thinking"),
    ("It is 7x/12.", None, "a term, of which a number is only a part"),
]


@pytest.mark.parametrize(
    ("text", "candidate", "why"), SENTENCES + SEVERAL + FORMULAS + WHOLE + CUT + DENIED + UNSOLVED + ASSUMED + NONE
)
def test_value_of_the_last_sentences(text: str, candidate: str | None, why: str) -> None:
    assert find_candidate(text, "math") == candidate, why


@pytest.mark.parametrize(
    ("text", "candidate", "why"),
    [
        ("it must be option (B)", "B", "in brackets"),
        ("So the best choice would be C.", "C", "at the end"),
        ("Therefore B) 14 fits.", "B", "with a bracket behind it"),
        ("It cannot be (A), so I would go with (D)", "D", "another one is denied"),
        ("So it is not (A).", None, "a denial"),
        ("I would say 145 degrees.", "145", "no letter, but a value"),
        ("A dog has 4 legs.", "4", "an article is no option"),
        ("(A) is incorrect.", None, "denied behind the letter"),
        ("Option A is wrong.", None, "denied behind the letter"),
        ("(A) 12 cm is false.", None, "denied behind the option's text"),
        ("Option A is right because (B) is not.", "A", "the other one is denied behind its letter"),
        ("(D) is right, while (A) is false.", "D", "the other one is denied behind its letter"),
        ("It must be (B).\n(A) is incorrect.", "B", "the other one is denied in a sentence of its own"),
        ("It must be (B).\nThe other options are not possible.", "B", "the others are denied"),
        ("It may be (B).\nBut that is not right.", None, "the option before is denied"),
        ("Is it (B)?", None, "a question"),
        ("So we can rule out option A.", None, "excluded"),
        ("Eliminate (A)", None, "excluded"),
        ("This leaves us unable to decide between (B) and (C).", None, "giving up"),
        ("It is either (B) or (C).", None, "two options"),
        ("I don't know; let's try option D.", None, "a plan"),
        ("I don't know, but it could be (D).", None, "giving up"),
        ("Let us check option D.", None, "a plan"),
        ("We need to check option D.", None, "a plan"),
        ("The incorrect statement is (B).", "B", "asked for what is incorrect"),
        *(
            (text, None, "two options")
            for text in (
                *(
                    "C rather than D",
                    "It is C instead of D",
                    "I prefer C over D.",
                    "C beats D",
                    "C > D",
                    "Both A and B",
                ),
                *("A & B", "A/B", "A, B", "All of A, B and C", "Anything but (D)", "Any option but (D)."),
            )
        ),
        ("(C) rather than (D)", "C", "the other one is denied before its letter"),
        ("It is not (C) but (D).", "D", "the other one is denied before its letter"),
    ],
)
def test_option(text: str, candidate: str | None, why: str) -> None:
    assert find_candidate(text, "choice") == candidate, why


@pytest.mark.parametrize(
    ("grader", "text", "candidate"),
    [
        ("exact", "12 + 1 = 13 , 13 - 9 = 4 , 4", "4"),
        ("exact", "12 + 1 = 13 , 13 - 9 = 4 , 5", "5"),
        ("exact", "9", "9"),
        ("exact", "1 - 3 = -2", "-2"),
        ("exact", "I think that it is 8.", "8"),
        ("exact", "Paris", "Paris"),
        ("make", "8 - 1 = 7 , 7 * 3 = 21 , ( 8 - 1 ) * 3", "( 8 - 1 ) * 3"),
        ("make", "( 8 - 1 ) * 3 = 21", "( 8 - 1 ) * 3"),
        ("make", r"We take $(8 - 1) \times 3$.", "(8 - 1) * 3"),
        ("make", "21", None),
        ("gym", "Teo", "Teo"),
        ("gym", "son-in-law", "son-in-law"),
        ("gym", "I see.\n\nThus, the final answer is:\n0 0 6\n6 0 0", "0 0 6\n6 0 0"),
        ("gym", "There are\nso many that we count 12 of them.", "12"),
        ("numeric", r"The energy is $5.1 \times 10^{14}$ Hz.", r"5.1 \times 10^{14}"),
        ("mine:score", "It is 5.", "5"),
        ("livebench", "It is 5.", None),
        ("judge", "It is 5.", None),
        ("code", "It is 5.", None),
    ],
)
def test_each_grader_has_its_candidates(grader: str, text: str, candidate: str | None) -> None:
    assert find_candidate(text, grader) == candidate


@pytest.mark.parametrize("begin", ["\n\nQuestion: what is 1 + 1?\nIt is 2.", "\nHuman: and 1 + 1?\nIt is 2."])
def test_an_invented_question_holds_no_candidate(begin: str) -> None:
    assert find_candidate(f"The grooming costs 70 dollars.{begin}", "math") == "70"


def test_thinking_before_the_reply_holds_no_candidate() -> None:
    assert find_candidate("<think>maybe 4, or 5.</think>So it is 6.", "math") == "6"
    assert find_candidate("maybe 4, or 5.</think>So it is 6.", "math") == "6"


@pytest.mark.parametrize("text", WORKED)
def test_a_solution_without_its_box_has_the_same_answer(text: str) -> None:
    """A model that never learned the format: the answer of the embedded tasks stays the same."""
    strict = extract(text)
    assert strict is not None
    unboxed = text.replace("\\boxed{", "").replace("}", "")
    assert extract(unboxed) is None
    assert find_candidate(unboxed, "make" if " from " in text or "*" in strict or "+" in strict else "exact") == strict


@pytest.mark.parametrize(
    "part", ["1 ", "$", "(1, ", "x = 1 and ", "\\[ ", "answer is ", "1/", "a b c ", "= ", "{", "is 5. "]
)
def test_only_the_tail_of_a_long_reply_is_read(part: str) -> None:
    """A reply ten times as long has the same candidate. A pattern that backtracks too much would take minutes here."""
    for grader in ("math", "choice", "make", "gym", "exact"):
        long, longer = (find_candidate(part * (length // len(part)), grader) for length in (12_000, 120_000))
        assert long == longer


def test_short_replies_give_the_gold_or_not_as_labelled() -> None:
    """The first 86 were labelled before the rules were read, the others after. The rules were then fitted to both, so
    this guards against regressions and says nothing of unseen replies. `known_miss`: why one is read otherwise."""
    cases = [json.loads(line) for line in (FIXTURES / "lenient_replies.jsonl").read_text().splitlines()]
    missed = []
    for case in cases:
        answer = extract(case["text"]) or find_candidate(case["text"], "math")
        if (answer is not None and math.grade(answer, [case["gold"]], {}) >= 1) != case["right"]:
            missed.append(case["text"])
    assert missed == [case["text"] for case in cases if "known_miss" in case]
    assert sum(case["right"] for case in cases) > 95
    assert len(cases) > 190

r"""The equation checker: true, false and skipped equations by kind, and hostile texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leash.grading.process.checkers import Working, check_working
from leash.grading.process.equations import check_equations, read_equations
from leash.grading.process.planting import plant_error
from leash.grading.reading import read_answer
from leash.problems import Problem
from leash.statistics import seeds

FIXTURES = Path(__file__).parent.parent / "fixtures" / "grading"
PROBLEM: Problem = {"question": "How much is it?", "gold": ["84"], "grader": "math", "meta": {}}


def check(text: str) -> Working:
    return check_working(PROBLEM, f"We compute. {text} So that is all we need to know about it, and we are done.", "84")


# A true spelling, and a false one that differs in one number.
PAIRS = [
    ("So 50% of 20 = 10.", "So 50% of 20 = 11."),
    (r"He eats $\frac{3}{20} = 0.15$ of the cake.", None),
    ("Thus 12 × 7 = 84.", "Thus 12 × 7 = 94."),
    (r"\frac{3}{20} = 0.15.", r"\frac{3}{20} = 0.25."),
    ("It is 2 + 3 = 5 = 10/2.", "It is 2 + 3 = 5 = 12/2."),
    ("He pays 3 * $4 = $12.", "He pays 3 * $4 = $13."),
    (r"\$3 \times 4 = \$12.", r"\$3 \times 4 = \$13."),
    ("It is 5 cm + 3 cm = 8 cm.", "It is 5 cm + 3 cm = 9 cm."),
    ("It is 5cm + 3cm = 8cm.", "It is 5cm + 3cm = 9cm."),
    ("Tom has 3 apples + 4 apples = 7 apples.", "Tom has 3 apples + 4 apples = 8 apples."),
    ("5 miles/hour * 3 hours = 15 miles.", "5 miles/hour * 3 hours = 17 miles."),
    (
        r"24 \text{ eggs/tray} \times 2 \text{ trays} = 48 \text{ eggs}.",
        r"24 \text{ eggs/tray} \times 2 \text{ trays} = 49 \text{ eggs}.",
    ),
    ("20% * 50 = 10.", "20% * 50 = 11."),
    ("10/50 * 100 = 20%.", "10/50 * 100 = 30%."),
    (r"0.2 \times 100\% = 20\%.", r"0.2 \times 100\% = 30\%."),
    ("$1,200 + $300 = $1,500.", "$1,200 + $300 = $1,600."),
    (r"32{,}000 + 1 = 32001.", r"32{,}000 + 1 = 33001."),
    (r"\sqrt{16} = 4.", r"\sqrt{16} = 5."),
    (r"\sqrt[3]{27} = 3.", r"\sqrt[3]{27} = 4."),
    ("√(16) + √(9) = 7.", "√(16) + √(9) = 8."),
    (r"2\pi = 6.28.", r"2\pi = 7.28."),
    (r"2\sqrt{3} = \sqrt{12}.", r"2\sqrt{3} = \sqrt{13}."),
    ("5! = 120.", "5! = 130."),
    (r"\binom{5}{2} = 10.", r"\binom{5}{2} = 11."),
    ("2**3 + 2^2 = 12.", "2**3 + 2^2 = 13."),
    ("5² + 1 = 26.", "5² + 1 = 27."),
    (r"\left(3 + 4\right)^2 = 49.", r"\left(3 + 4\right)^2 = 48."),
    ("2(3 + 4) = 14.", "2(3 + 4) = 15."),
    (r"3 - (-4) = 7.", r"3 - (-4) = 8."),
    (r"$1/3 = 0.33$.", r"$1/3 = 0.35$."),
    (r"2/3 = 0.66.", r"2/3 = 0.64."),
    (r"\frac{1}{3} \approx 0.333.", r"\frac{1}{3} \approx 0.533."),
    ("2 / 3 ≈ 0.7.", "2 / 3 ≈ 1.7."),
    ("100/3 ≈ 33.", "100/3 ≈ 43."),
    (r"4.5 \times 10^3 + 500 = 5000.", r"4.5 \times 10^3 + 500 = 6000."),
    (r"\begin{align*} 3 + 4 &= 7 \\ &= 14/2 \end{align*}", r"\begin{align*} 3 + 4 &= 7 \\ &= 16/2 \end{align*}"),
    ("\\[\n12 \\times 7\n= 84\n\\]", "\\[\n12 \\times 7\n= 94\n\\]"),
    ("12 * 7 =\n84.", "12 * 7 =\n94."),
    ("\n- 3 * 4 = 12\n", "\n- 3 * 4 = 13\n"),
    ("\n1. 3 * 4 = 12\n", "\n1. 3 * 4 = 13\n"),
    ("**12 * 7 = 84**.", "**12 * 7 = 94**."),
    ("12 * 7 = **84**.", "12 * 7 = **94**."),
    (r"Total = 12 \cdot 7 = \boxed{84}.", r"Total = 12 \cdot 7 = \boxed{94}."),
    ("84 apples (12 * 7 = 84).", "84 apples (12 * 7 = 94)."),
    ("12 * 7 = 84 (from above).", None),
    ("<<12*7=84>>84.", "<<12*7=94>>94."),
    ("3 x 4 = 12.", "3 x 4 = 13."),
    (r"so \(3 + 4 = 7\) and \(7 + 1 = 8\).", r"so \(3 + 4 = 7\) and \(7 + 1 = 9\)."),
    ("x = 3 + 4 = 7.", "x = 3 + 4 = 8."),
    ("f(3) = 2(3) + 4 = 10.", "f(3) = 2(3) + 4 = 11."),
    (r"m = \frac{8-1}{-9-3} = -\frac{7}{12}.", r"m = \frac{8-1}{-9-3} = -\frac{5}{12}."),
    ("It is -12 + 5 = -7.", "It is -12 + 5 = -8."),
    (r"90^\circ + 45^\circ = 135^\circ.", r"90^\circ + 45^\circ = 145^\circ."),
    ("56.0° + 152.0° = 208.0°.", "56.0° + 152.0° = 218.0°."),
    ("12 / 3 = 4 < 5.", "12 / 3 = 5 < 6."),
    ("1/2 * 6 * 8 = 24.", "1/2 * 6 * 8 = 25."),
    # the first digits of the terms cancel out
    (r"3(1074 - 46\sqrt{545}) = 3 \times 1074 - 3 \times 46\sqrt{545}.", r"3(1074 - 46\sqrt{545}) = 1 - \sqrt{2}."),
    (r"3\sqrt{2} - \sqrt{18} = \sqrt{8} - 2\sqrt{2}.", r"3\sqrt{2} - \sqrt{18} = \sqrt{8} - 3\sqrt{2}."),
    (r"\sqrt{2} \times 10^{-30} = \sqrt{2 \times 10^{-60}}.", r"\sqrt{2} \times 10^{-30} = \sqrt{3 \times 10^{-60}}."),
]


@pytest.mark.parametrize(("true", "false"), PAIRS)
def test_true_equations_are_sound_and_false_ones_are_not(true: str, false: str | None) -> None:
    assert check(true) == Working("sound")
    if false:
        assert check(false).process == "unsound", false


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("First 3 + 4 = 7, then 12 × 7 = 94 apples.", "12 × 7 = 94"),
        ("It is 2 + 3 = 5 = 12/2 = 6.", "5 = 12/2"),
        (r"\begin{align*} 3 + 4 &= 7 \\ &= 16/2 \end{align*}", r"7 \\ &= 16/2"),
        ("12 * 7 =\n  94.", "12 * 7 = 94"),
        ("We have 3 + 4 + 5 = 13 and 1 + 1 = 3.", "1 + 1 = 3"),
    ],
)
def test_the_flaw_is_the_shortest_false_link(text: str, flaw: str) -> None:
    assert check(text) == Working("unsound", flaw)


SKIPPED = [
    # symbols, functions, indices
    *("x = 5.", "x^2 + 3 = 7.", "2x + 3 = 7.", "2 x + 3 = 7.", "3 + x = 7.", "3 - 2y = 7.", "a_1 = 2.", "x_1 + 3 = 5."),
    *(
        r"3 \cdot f(2) = 6.",
        "f(2) = 7.",
        "g(1, 2) + 3 = 7.",
        "log_2 8 = 3.",
        r"\log 8 = 3.",
        "sin 30 = 1/2.",
        "C(5,2) = 11.",
    ),
    *(
        "P(X = 3) = 1/2 + 1/3.",
        "n = 3 + 4.",
        "2^x + 1 = 7.",
        "7 = 3 + x.",
        r"1 + 2 = 3\alpha.",
        "AB + 3 = 7.",
        "4AP^2 = 100 - 81.",
    ),
    *("540t^{2} = 498(540).", r"\pi = \frac{1}{300}.", r"a \left(1 + \frac{3}{2}\right) = 40.", "10 = 3 + 4i."),
    # modular arithmetic, bases, sets, ratios, dates, vectors
    *(
        "10 mod 3 = 1 + 1.",
        r"10 + 1 = 2 \pmod 3.",
        "7 + 5 = 2 (mod 10).",
        r"7 + 5 \equiv 2 = 2.",
        "7 + 5 ≡ 2 (mod 10).",
        "17 % 5 = 2 + 1.",
    ),
    *(
        "101_2 + 1 = 6.",
        "3:4 = 6:9.",
        "10:30 + 1 = 11.",
        r"|3 - 5| = 3.",
        "(1, 2) + (3, 4) = (4, 7).",
        "1, 2, 3 = 7.",
        "{1, 2} = 3 + 4.",
    ),
    *(
        "gcd(12, 8) = 5.",
        "max(3, 5) + 2 = 8.",
        "17 // 5 = 4 + 1.",
        "1 2 + 3 4 = 5.",
        "2 1/2 + 1 = 4.",
        "1.2.3 + 1 = 5.",
    ),
    # words that belong to the mathematics
    *(
        "half of 20 + 2 = 13.",
        "1.5 million + 1 = 3.",
        "2 dozen + 1 = 3.",
        "5 squared + 1 = 27.",
        "10 = 1/2 of 30.",
    ),
    *(
        "fees + 12 = 20.",
        "12 - fees = 20.",
        "Anakin's 3 fish + Locsin's 5 fish = 3 + 4 + 5.",
        "twice 5 + 1 = 12.",
        "12 = 3 + 4 more.",
    ),
    # units that differ, labels
    *(
        "2 hours = 120 minutes.",
        "2 hours + 0 = 120.",
        "3 feet + 5 inches = 41 inches.",
        "5 km = 3.1 miles.",
        "25 + 50 = $0.75.",
    ),
    *("On Day 3 = 490 * 6.", "the first 1000 = 30 * 10."),
    "The term after -320 would be -320 * -2 = 640.",
    "√0 + 400 = √400.",
    "720° - 552.0° = 168.0° - 552.0°.",
    # symbols and sizes
    *("x1 + x2 + x1 - x2 is 2x1 = 8.", "Of 2x2, 3x2 = 1 + 10 squares."),
    # other readings
    *(
        "6 ÷ 2(1+2) = 1.",
        "16*15 / 2*1 = 120.",
        "12 × 7 = 84 + 3.",
        "-2^2 = 4.",
        "7/2 = 3.",
        "100/3 = 33.",
        r"4\frac{1}{2} = 2.",
    ),
    *(
        "66.67 * 3 = 200.",
        "3 + 4 = 7 (1 + 2).",
        "1 + 2 = 3 (x + 1).",
        "0.333... + 1 = 2.",
        r"1 + \ldots + 9 = 45 + 1.",
        r"5 \pm 2 = 8.",
    ),
    # supposed, doubted or retracted
    *(
        "Suppose 2 + 2 = 5.",
        "If 2 + 2 = 5 we have a problem.",
        "2 + 2 = 5? No.",
        "2 + 2 = 5, which is wrong.",
        "2 + 2 = 5 is a contradiction.",
    ),
    *(
        "2 + 2 = 5. Wait, that is 4.",
        "2 + 2 = 5, but this is false.",
        "We can't have 2 + 2 = 5.",
        "2 + 2 ≠ 5.",
        r"2 + 2 \neq 5.",
        "2 + 2 != 5.",
    ),
    *("Check: 2 + 2 = 5 ✗.", "12 × 7 = 94. Then again, 12 × 7 = 84.", "2 + 2 <= 5.", "2 + 2 => 5.", "2 + 2 := 5."),
    # no equation at all
    *("```\n2 + 2 = 5\n```", "3 = 7.", "=====", "2 + = 5.", "= 5.", "2 + 2 =.", "The digits: 7^2 = 9."),
]


@pytest.mark.parametrize("text", SKIPPED)
def test_what_is_not_a_plain_numeric_claim_is_never_called_false(text: str) -> None:
    checked = check(text)
    assert checked.process in ("unchecked", "sound"), checked


def test_an_equation_of_the_question_is_not_the_models_own() -> None:
    text = "The puzzle says that 2 + 3 = 10 and more, and so on and so forth, as we can read in it."
    assert check_equations(text, None, "If 2 + 3 = 10, what is 7 + 2?") == Working("unchecked")
    assert check_equations(text, None, "What is 7 + 2?").process == "unsound"


def test_the_reply_counts_before_the_thinking() -> None:
    thinking = "<think> I start with 2 + 2 = 5 and go on to think about it. </think>"
    assert check_equations(f"{thinking} It is 2 + 2 = 4.", "4", "") == Working("sound")
    assert check_equations(f"{thinking} It is 4.", "4", "") == Working("unsound", "2 + 2 = 5")


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{84}",
        "84",
        "The answer is 84.",
        "<answer>84</answer>",
        "<think></think>\n\\boxed{84}",
        r"x = \boxed{84}",
        "B) 84 cm",
    ],
)
def test_an_answer_alone_is_direct(text: str) -> None:
    assert check_working(PROBLEM, text, "84") == Working("direct")


def test_working_without_numeric_equations_is_unchecked() -> None:
    assert check_working(PROBLEM, r"Let x be the price. Then 2x = 168 and therefore x = \boxed{84}.", "84") == Working(
        "unchecked"
    )


def test_a_text_that_was_cut_off_within_a_number_is_not_false() -> None:
    assert (
        check_equations("It follows for all of these many numbers that 5! + 3! = 12", None, "").process == "unchecked"
    )


@pytest.mark.parametrize(
    "text",
    [
        "9^9^9^9^9 = 5. ",
        "2^99999 / 3^60000 = 5. ",
        "(" * 3000 + "= 5. ",
        "1 = 1 " * 20_000,
        "=1" * 60_000,
        "= (" * 40_000,
        "1+" * 60_000 + "1 = 2. ",
        "\\frac{" * 20_000 + "= 3. ",
        "5000! = 4999! * 5001. " * 50,
        "\n=" * 60_000,
        "a " * 60_000 + "= 3. ",
        "```" * 40_000 + "1 + 1 = 3. ",
        "$" * 120_000 + "= 3",
        "1,111" * 20_000 + " = 3. ",
        "\\text{" * 20_000 + " = 3",
        "0.1 * " * 20 + "1 = 3. ",
    ],
)
def test_hostile_texts_end(text: str) -> None:
    assert check_working(PROBLEM, text, "84").process in ("sound", "unsound", "unchecked", "direct")


RUN_ON = "\n\nQuestion: Ann has 5 bags of 6 pears. How many pears?\nAnswer: "
APPLES: Problem = {"question": "3 boxes of 4 apples. How many apples?", "gold": ["12"], "grader": "math", "meta": {}}


@pytest.mark.parametrize(
    ("reply", "rest", "expected"),
    [
        ("3 * 4 = 12 apples.\n\\boxed{12}", RUN_ON + "5 * 6 = 35. \\boxed{35}", Working("sound")),
        ("\\boxed{12}", RUN_ON + "5 * 6 = 30. \\boxed{30}", Working("direct")),
        ("3 * 4 = 12\n\\boxed{12}", "<|im_end|>\n<|im_start|>user\n7 * 7 = 48", Working("sound")),
        ("3 * 4 = 13\n\\boxed{12}", RUN_ON + "3 * 4 = 12. \\boxed{12}", Working("unsound", "3 * 4 = 13")),
    ],
)
def test_equations_of_an_invented_question_do_not_count(reply: str, rest: str, expected: Working) -> None:
    assert check_working(APPLES, reply + rest, "12") == check_working(APPLES, reply, "12") == expected


def test_errors_are_planted_before_an_invented_question() -> None:
    text = f"3 * 4 = 12 apples.\n\\boxed{{12}}{RUN_ON}5 * 6 = 30. \\boxed{{30}}"
    rng = seeds.stream("test", "planting", "run-on")
    planted = {plant_error(APPLES, text, "12", rng) for _ in range(20)}
    assert all(each and each.endswith(" apples.\n\\boxed{12}\n") for each in planted), planted


@pytest.mark.parametrize(
    "text",
    [
        "He buys 3 boxes for 4 dollars each. So he pays 3 × 4 = 12 dollars.",
        "He buys 3 boxes for 4 dollars each, so the total is 3 * 4 = 12.",
        "First 1 + 2 = 3 boxes.\n\nThe final answer is 12, since 3 * 4 = 12.",
    ],
)
def test_a_planted_error_leaves_the_answer_of_either_reading(text: str) -> None:
    rng = seeds.stream("test", "planting", "candidates")
    planted = {plant_error(APPLES, text, "12", rng) for _ in range(60)}
    assert len(planted) > 5
    assert {planted_text and read_answer(planted_text, "math", "stop").answer for planted_text in planted} == {"12"}


def test_every_kind_of_true_equation_can_be_corrupted() -> None:
    rng = seeds.stream("test", "planting", "equations")
    for true, false in PAIRS:
        text = f"We compute. {true} So that is all we need to know about it: \\boxed{{84}}."
        planted = plant_error(PROBLEM, text, "84", rng)
        if false is None:
            continue
        assert planted, true
        assert check_working(PROBLEM, planted, "84").process == "unsound"
        assert sum(a != b for a, b in zip(text, planted, strict=True)) == 1
        assert planted.endswith("\\boxed{84}.")


ANSWER_AFTER = [
    r"6 + 6 = 12 \boxed{12}.",
    r"So $6 + 6 = 12$ \boxed{12}.",
    r"$6+6=12$ $\boxed{12}$.",
    r"\(6+6=12\) \(\boxed{12}\).",
    r"6 + 6 = 12 **\boxed{12}**.",
    r"6 + 6 = 12 \fbox{12}.",
    r"6 + 6 = \frac{24}{2} \boxed{12}.",
    r"6 + 6 = \boxed{12} \boxed{12}.",
    r"6 + 6 = 12\boxed{12}.",
]


@pytest.mark.parametrize("text", ANSWER_AFTER)
def test_an_answer_in_a_box_is_no_factor(text: str) -> None:
    assert check(text) == Working("sound")
    if "12\\boxed" not in text:  # they touch, so the box may be a factor
        assert check(text.replace("6", "7", 1)).process == "unsound"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\boxed{12} = 6 + 6.", "sound"),
        (r"\boxed{12} = 6 + 7.", "unsound"),
        (r"12 \boxed{12} = 6 + 6.", "sound"),
        (r"3 + \boxed{4} = 5 + 2.", "sound"),
        (r"3 + \boxed{4} = 5 + 3.", "unsound"),
        (r"\boxed{12} $6 + 6 = 12$.", "sound"),
        (r"\boxed{3} \frac{6}{2} = 3.", "sound"),
        # products, and signs to fill in
        (r"3 \cdot \boxed{4} = 12.", "sound"),
        (r"10 + 2 = 2\boxed{6}.", "unchecked"),
        (r"4 + 4 = 5 \boxed{+} 3.", "unchecked"),
        (r"5 \boxed{+} 3 + 1 = 9.", "unchecked"),
        # a formula that has ended
        (r"$6 + 6 = 12$ $\pi$.", "sound"),
        (r"$6 + 6 = 12$ $\frac{1}{2}$.", "sound"),
        (r"$6 + 6 = 12$ {done}.", "sound"),
        (r"$6 + 6 = 12$ $(x = 1)$.", "sound"),
        (r"$5$ $6 + 6 = 12$.", "sound"),
        (r"$\pi$ $6 + 6 = 12$.", "sound"),
        # it goes on as a sum, or as the same number
        (r"12 = $5$ + $7$.", "sound"),
        (r"12 = $5$ + $8$.", "unsound"),
        (r"$2$ $\cdot$ $6$ = $12$.", "sound"),
        (r"$20$% + $30$% = $50$%.", "sound"),
        (r"4 = 2 * 2 $\pi$.", "sound"),
        (r"2\pi \cdot 2 = 4 $\pi$.", "unchecked"),
    ],
)
def test_where_a_side_ends_beside_a_box_or_a_formula(text: str, expected: str) -> None:
    assert check(text).process == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$40 + 10% = $44.", "unchecked"),
        ("$40 + 10% = $50.", "unchecked"),
        ("$40 + 10% = $60.", "unchecked"),
        ("200 - 25% = 150.", "unchecked"),
        (r"200 - 25\% = 150.", "unchecked"),
        ("(200 + 5) - 25% = 150.", "unchecked"),
        ("10% + 40 = 44.", "unchecked"),
        ("60 - 10% - 10% = 48.6.", "unchecked"),
        # sums of percent, of the whole, and of a product
        ("100% - 30% = 70%.", "sound"),
        ("100% - 30% = 80%.", "unsound"),
        ("1 - 30% = 70%.", "sound"),
        ("200 * (1 - 25%) = 150.", "sound"),
        ("200 * (1 - 25%) = 160.", "unsound"),
        ("40 + 40 * 10% = 44.", "sound"),
        ("40 + 40 * 10% = 45.", "unsound"),
        ("40 + 10% * 40 = 44.", "sound"),
        ("40 + 10% * 40 = 45.", "unsound"),
        ("40 + 10% of 40 = 44.", "sound"),
    ],
)
def test_percent_that_is_added_to_an_amount_is_no_ordinary_sum(text: str, expected: str) -> None:
    assert check(text).process == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20% of 50 = 1000.", "unchecked"),
        (r"15\% \times 200 = 3000.", "unchecked"),
        ("50% × 40 = 2000.", "unchecked"),
        ("60% / 3 = 20.", "unchecked"),
        ("20% of 50 = 10%.", "unchecked"),
        ("20% = 20.", "unchecked"),
        ("20% of 50 = 900.", "unsound"),
        ("20% × 50% = 1000%.", "unchecked"),
        ("20% of 50 = 10.", "sound"),
        ("20% × 50% = 10%.", "sound"),
        ("12% + 5% = 17%.", "sound"),
        # the result of a sum, of 100% and of 100 may be told in percent or without the sign
        ("12% + 5% = 17.", "sound"),
        ("12% + 5% = 18.", "unsound"),
        (r"\frac{1}{4} \times 100\% = 25.", "sound"),
        ("100% × 1/4 = 25.", "sound"),
        ("1/4 * 100 = 25%.", "sound"),
        ("1/4 * 100 = 35%.", "unsound"),
    ],
)
def test_percent_is_a_unit_of_sums_only(text: str, expected: str) -> None:
    assert check(text).process == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/3 = 0.33.", "sound"),
        ("1/3 = 0.34.", "unsound"),
        ("2/3 = 0.66.", "sound"),
        ("2/3 = 0.67.", "sound"),
        ("2/3 = 0.68.", "unsound"),
        ("1/8 = 0.13.", "sound"),
        ("-2/3 = -0.66.", "sound"),
        ("-1/3 = -0.34.", "unsound"),
        ("100/3 = 33.3.", "sound"),
        ("100/3 = 33.4.", "unsound"),
        ("5/6 = 83%.", "sound"),
        ("5/6 = 84%.", "unsound"),
        (r"\sqrt{2} = 1.41.", "sound"),
        (r"\sqrt{2} = 1.42.", "unsound"),
        (r"\sqrt{3} = 1.73.", "sound"),
        (r"\sqrt{5} = 2.23.", "sound"),
        (r"10^5 / 3 = 3.4 \times 10^4.", "unsound"),
        (r"10^5 / 3 = 3.3 \times 10^4.", "sound"),
        ("1/3 ≈ 0.34.", "unchecked"),
        ("66.67 * 3 = 200.", "unchecked"),
    ],
)
def test_a_decimal_is_rounded_or_cut_and_nothing_else(text: str, expected: str) -> None:
    assert check(text).process == expected


@pytest.mark.parametrize(
    "text",
    [
        "45 + 45 = 1 hour 30 minutes.",
        "45 + 45 = 1 hour and 30 minutes.",
        "45 + 45 = 1 hour, 30 minutes.",
        "45 + 30 + 15 = $1$ hour $30$ minutes.",
        r"45 + 45 = 1 \text{ hour } 30 \text{ minutes}.",
        "45 min + 45 min = 1 hour 30 min.",
        "1 hour 30 minutes = 45 + 45.",
        "1 hour 30 minutes + 15 minutes = 105 minutes.",
        "15 minutes + 1 hour 30 minutes = 105 minutes.",
        "60 + 6 = 5 feet 6 inches.",
    ],
)
def test_a_value_of_two_units_is_no_flaw(text: str) -> None:
    assert check(text).process == "unchecked"


@pytest.mark.parametrize(
    "text",
    ["We have 3 boxes and 4 * 5 = 21.", "So 4 * 5 = 21 apples in 3 boxes.", "It is 4 * 5 = 21 apples. 3 are left."],
)
def test_another_number_near_an_equation_does_not_excuse_it(text: str) -> None:
    assert check(text).process == "unsound"


@pytest.mark.parametrize(
    "flawed",
    [
        "12 × 7 = 94. But he has 3 more.",
        "There is no tax: 12 × 7 = 94, no more.",
        "We look at each digit. Then 12 × 7 = 94.",
        "12 × 7 = 94, and the remainder is left.",
        "I would say 12 × 7 = 94.",
        "Suppose 2 + 2 = 5.",
        "12 × 7 = 94. Wait, 7 × 12 = 84.",
    ],
)
def test_a_flaw_that_is_dropped_for_doubt_leaves_nothing_sound(flawed: str) -> None:
    assert check(flawed).process == "unchecked"
    assert check(f"First 1 + 2 = 3.\n\n{flawed}").process == "unchecked"
    thinking = "<think> I start with 1 + 1 = 3 and go on to think about it. </think>"
    assert check_equations(f"{thinking} {flawed} That is all.", "84", "").process == "unchecked"


@pytest.mark.parametrize(
    "text",
    ["12 × 7 = 94. Wait, 12 × 7 = 84.", "12 × 7 = 94 is wrong, for 12 × 7 = 84.", "But 12 × 7 = 84, no more."],
)
def test_a_corrected_flaw_is_forgiven(text: str) -> None:
    assert check(text).process == "sound"


@pytest.mark.parametrize(
    "text",
    ["12 = 12", r"12 = \boxed{12}", "12.0 = 12", "-12 = -12", r"80% = \boxed{80\%}", r"3/4 = \boxed{\frac{3}{4}}"],
)
def test_the_same_number_on_both_sides_is_no_working(text: str) -> None:
    assert check(f"Hence {text}.").process == "unchecked"
    assert check(f"3 * 4 = 12. Hence {text}.").process == "sound"
    assert check_working(PROBLEM, f"The answer is {text}", "12").process == "direct"


@pytest.mark.parametrize("text", ["40% = 0.4", "0.4 = 40%", "6/2 = 3", "10^3 = 1000", "2/8 = 1/4"])
def test_the_same_value_in_another_form_is_working(text: str) -> None:
    assert check(f"Hence {text}.").process == "sound"


def test_each_link_of_a_chain_is_read() -> None:
    read = [(e.text, e.true) for e in read_equations("It is 2 + 3 = 5 = 10/2 = 6 - 2, I say.")]
    assert read == [("2 + 3 = 5", True), ("5 = 10/2", True), ("10/2 = 6 - 2", False)]


def test_workings_are_judged_as_labelled() -> None:
    """The first 120 were labelled before the rules were read, the others after. The rules were then fitted to both, so
    this guards against regressions and says nothing of unseen texts. `doubtful` ones may not be called a flaw."""
    cases = [json.loads(line) for line in (FIXTURES / "workings.jsonl").read_text().splitlines()]
    missed = []
    for case in cases:
        process = check(case["text"] if case["text"][-1] in ".!?" else f"{case['text']}.").process
        if (process == "unsound") if case["working"] == "doubtful" else (process != case["working"]):
            missed.append(case["text"])
    assert missed == [case["text"] for case in cases if "known_miss" in case]
    assert len(cases) > 450


@pytest.mark.parametrize(
    "sentence",
    [
        "Work in base 7.",
        "All numbers are in base seven.",
        "The base-7 numerals follow.",
        "We convert it from base 7 to base 10.",
        "The number is 101_7 here.",
        "The number is $101_{7}$ here.",
        "We write it in binary.",
        "The binary representation follows.",
        "It is a 12-hour clock.",
    ],
)
def test_sums_of_other_number_systems_are_no_flaws(sentence: str) -> None:
    assert check("9 + 5 = 2.").process == "unsound"
    assert check(f"{sentence}\n\n9 + 5 = 2.").process == "unchecked"
    # What can't be told from a flaw is no sound working, either.
    assert check(f"{sentence}\n\n9 + 5 = 2 and 1 + 1 = 2.").process == "unchecked"
    assert check_equations("We add and get 9 + 5 = 2, and that is all that there is.", "2", sentence) == Working(
        "unchecked"
    )
    assert check(f"{sentence}\n\n9 + 5 = 14.").process == "sound"


@pytest.mark.parametrize(
    "sentence",
    [
        "Use log base 2 here.",
        "The base 6 and height 4 are given.",
        "A triangle has base 6.",
        "There is a binary choice.",
        "Let x_2 and a_{3} be given.",
    ],
)
def test_a_word_alone_does_not_turn_the_checker_off(sentence: str) -> None:
    assert check(f"{sentence}\n\n9 + 5 = 2.").process == "unsound"
    assert check_equations("We add and get 9 + 5 = 2, and that is all that there is.", "2", sentence).process == (
        "unsound"
    )

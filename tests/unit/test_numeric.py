"""The numeric grader: which answers count as the gold's number."""

from __future__ import annotations

from typing import Any

import pytest

from leash.grading.graders.numeric import canonical, complaint, grade, parse_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("50.7", 50.7),
        (" +65.49 ", 65.49),
        ("−1.642876", -1.642876),
        ("89,034.79", 89034.79),
        (r"1{,}000", 1000),
        (r"12\,500", 12500),
        ("5.2e14", 5.2e14),
        (r"5.2 \times 10^{14} \text{ Hz}", 5.2e14),
        (r"$5.2\cdot10^{14}\,\mathrm{Hz}$", 5.2e14),
        ("5.2 × 10¹⁴ Hz", 5.2e14),
        ("5.2 x 10^14", 5.2e14),
        ("5.2*10**14", 5.2e14),
        ("3.0 x 10^-5 m", 3e-5),
        (r"10^{-3}", 1e-3),
        (r"\frac{1}{2}", 0.5),
        (r"-\dfrac{3}{4}", -0.75),
        (r"\frac12", 0.5),
        (r"3\frac{1}{2}", 3.5),
        ("1/2", 0.5),
        (r"\frac{\pi}{4}", 0.7853981633974483),
        ("9π", 28.274333882308138),
        (r"2\sqrt{2}", 2.8284271247461903),
        ("3 √2", 4.242640687119286),
        (r"2 + \sqrt 3", 3.732050807568877),
        (r"(6-\sqrt{2})/2", 2.2928932188134525),
        (r"x = 12 \text{ m}", 12),
        (r"P \approx 50.7 \mathrm{~atm}", 50.7),
        ("about 50.7 atm", 50.7),
        ("The pressure is 50.7 atm.", 50.7),
        ("Answer: 7", 7),
        (r"\text{50.7 atm}", 50.7),
        ("**50.7 atm**", 50.7),
        (r"-363 \mathrm{~J} \mathrm{~K}^{-1} \mathrm{~mol}^{-1}", -363),
        (r"9.8 \frac{\text{m}}{\text{s}^2}", 9.8),
        ("9.8 m/s^2", 9.8),
        (r"1.19 \times \mathrm{10^{-4}} \mathrm{~cm}^3/\mathrm{s}", 1.19e-4),
        ("3 / s", 3),
        (r"30^{\circ} \mathrm{C}", 30),
        ("145°", 145),
        (r"\$50", 50),
        ("$50", 50),
        (r"12\%", 12),
        ("5 e", 5),
        ("e^{-1}", 0.36787944117144233),
        ("3e^{-1}", 1.103638323514327),
        (r"1 - \frac{1}{e}", 0.6321205588285577),
        (r"(\ln 50) / 0.03", 130.40076684760487),
        (r"-\arctan (\sqrt{3} / 4)", -0.4086378550975924),
        ("5 eV", 5),
        ("10 g of C_2H_6", 10),
        ("50.7 atm (3 significant figures)", 50.7),
        ("5 (m/s)", 5),
        ("5 half-lives", 5),
        ("5 meters per second squared", 5),
        ("5½", 5.5),
        ("5 ¾ in", 5.75),
        ("½", 0.5),
        ("5 thousandths", 0.005),
        (r"5 \text{ tenths of a meter}", 0.5),
        ("5 grand", 5000),
        ("5 m3", 5),
        ("5 m2s-1", 5),
        ("5 J mol-1K-1", 5),
        ("5 kg m2s-2", 5),
        ("5 km/h2", 5),
    ],
)
def test_a_number_is_read_in_any_common_notation(text: str, value: float) -> None:
    assert parse_number(text) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "atm",
        "5 or 6",
        "5, 6",
        "(3,-4)",
        "3:2",
        "12 1/2",
        "1,2,3",
        "5 < x",
        "1/0",
        "10^{10^{10}}",
        "1e9999",
        "9" * 400,
        r"\sqrt{-1}",
        "(-8)^0.5",
        "(" * 200,
        r"\frac{" * 40,
        r"5 \pm 1",
        "5 ± 1",
        "--5",
        "\x00",
        "five",
        r"\ln 0",
        r"2400\cos(40^{\circ})",
        "infinity",
        "nan",
        "2^3^2",
        "5 and a half",
        "5 hours and a half",
        "5 halves",
        "5 fifths",
        "5h30",
        "5h3",
        "5 h30min",
        "5kg3g",
        "5ft3in",
        "5⑦",
        "5 m/s plus 2",
        "5 below zero",
        "5 °C below zero",
        "5 & a half",
        "5 three-quarters",
        "5 halved",
        "5 doubled",
        "5 score",
        "5 ‰",
    ],
)
def test_text_without_exactly_one_number_has_no_value(text: str) -> None:
    assert parse_number(text) is None


ETHANE: dict[str, Any] = {"unit": r"$\mathrm{atm}$", "scale": 1.0}
LIGHT: dict[str, Any] = {"unit": r"$10^{14} \mathrm{~Hz}$", "scale": 1e14}


@pytest.mark.parametrize(
    ("gold", "answer", "meta", "score", "why"),
    [
        ("50.7", "50.7", ETHANE, 1.0, "the same"),
        ("50.7", "53.2", ETHANE, 1.0, "4.9% more"),
        ("50.7", "48.2", ETHANE, 1.0, "4.9% less"),
        ("50.7", "53.3", ETHANE, 0.0, "5.1% more"),
        ("50.7", "48.1", ETHANE, 0.0, "5.1% less"),
        ("2", "2.1", {}, 1.0, "exactly 5%, despite floating point"),
        ("50.7", "-50.7", ETHANE, 0.0, "another sign"),
        ("50.7", "51.4 bar", ETHANE, 1.0, "the number alone is compared"),
        ("50.7", "50.7 or 12", ETHANE, 0.0, "two answers are none"),
        ("50.7", "fifty", ETHANE, 0.0, "no number"),
        ("50.7", "50.9", {"tolerance": 0.001}, 0.0, "a tolerance in meta"),
        ("5.2", "5.2", LIGHT, 1.0, "in the unit"),
        ("5.2", r"5.2 \times 10^{14} \mathrm{~Hz}", LIGHT, 1.0, "multiplied out"),
        ("5.2", "5.2e13", LIGHT, 0.0, "another power of ten"),
        ("5.2", "5.2e14", {"unit": "Hz"}, 0.0, "a unit without a power of ten"),
        ("0", "0.0", {}, 1.0, "zero"),
        ("0", "1e-12", {}, 1.0, "what rounding leaves of zero"),
        ("0", "0.04", {}, 0.0, "zero has no five percent"),
        ("0.5", r"50\%", {"unit": ""}, 1.0, "a share in percent"),
        ("50", r"50\%", {"unit": r"$\%$"}, 1.0, "percent where percent is the unit"),
        ("0.5", r"50\%", {"unit": " %"}, 0.0, "0.5% is not 50%"),
        ("−2", "-2", {}, 1.0, "a gold with a typographer's minus"),
        ("102,965.21", "102965.21", {}, 1.0, "a gold with a comma"),
    ],
)
def test_an_answer_is_correct_within_the_tolerance(
    gold: str, answer: str, meta: dict[str, Any], score: float, why: str
) -> None:
    assert grade(answer, [gold], meta) == score, why


def test_any_of_several_golds_is_accepted() -> None:
    assert grade("7", ["3", "7"], {}) == 1.0


@pytest.mark.parametrize(
    ("same", "meta"),
    [
        (["50.7", "50.70 atm", r"x = 50.7 \text{ bar}", "5.07e1"], ETHANE),
        (["5.2", "5.2e14", r"5.20 \times 10^{14} Hz"], LIGHT),
        (["0", "0.0", "-0"], {}),
        (["1e-320", r"10^{-320}"], LIGHT),
        (["no idea", " no  idea "], {}),
    ],
)
def test_equal_answers_are_one_class(same: list[str], meta: dict[str, Any]) -> None:
    assert len({canonical(answer, meta) for answer in same}) == 1


def test_different_numbers_are_different_classes() -> None:
    assert len({canonical(answer, {}) for answer in ("50.7", "50.8", "-50.7", "fifty")}) == 4


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        (["50.7"], None),
        ([" −2 "], None),
        (["89,034.79"], None),
        (["ten"], "the gold 'ten' is not a number"),
        (["1", "x"], "the gold 'x' is not a number"),
        ([], "there is no gold"),
    ],
)
def test_a_gold_that_is_no_number_is_reported(gold: list[str], message: str | None) -> None:
    assert complaint(gold, {}) == message

r"""Equivalence: whether two answers are the same, by value where they have one.

equivalent("0.5", r"\frac{1}{2}", Rules())             ->  True
equivalent(r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}", Rules())  ->  False
equivalent("1, -2", r"x = -2 \text{ or } x = 1", Rules())      ->  True

Both are read (reading.py), and compared part by part, values as identity.py says. Only what can't be read goes to
math-verify (fallback.py).

Decimals. A decimal and another number are equal when they are the same number, or when the coarser of the two shows at
least DIGITS significant digits and the other rounds to it: 1/3 is 0.3333 and not 0.333. A whole gold grants no such
leeway: 24.9999 is not 25. Where golds were rounded (`rounded`, as in physics), what rounds to the gold at the digits it
shows, and lies within NEAR of it, is right: 1.61 for 1.6, not 1.66, and never 2.6e6 for 3e6.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from stages.verify.mathematics.expression import LONGEST, Node, UnreadableError
from stages.verify.mathematics.fallback import held_equal
from stages.verify.mathematics.identity import QUICK, proportional, same_value
from stages.verify.mathematics.reading import Reading, read, wordy
from stages.verify.mathematics.spelling import normalised, text_key
from stages.verify.mathematics.values import printed, unknowns, value

DIGITS = 4  # the graders of the field take a relative 1e-4; four digits are never more than five times that
NEAR = Fraction(1, 100)
SIZES = (  # units of one kind, each with its other names: 5 m is not 5 cm
    "mm millimeter|cm centimeter centimetre|m meter metre|km kilometer kilometre|inch inche in|foot feet ft|mile mi|"
    "mg|g gram|kg kilogram|ml|l liter litre|ms|s sec second|min minute|h hr hour|day|week|month|year"
)
UNITS = {name: names.split()[0] for names in SIZES.split("|") for name in names.split()}

_PLAIN = re.compile(r"(-?)(?:\\[dt]?frac\{(\d{1,300})\}\{(\d{1,300})\}|(\d{1,300})(?:/(\d{1,300})|\.(\d{1,300}))?)")


@dataclass(frozen=True, slots=True)
class Rules:
    """What a problem says about its answer."""

    multiple: bool = False  # several answers, in any order
    unit: str = ""
    error: Fraction | None = None  # absolute
    rounded: bool = False  # the gold was rounded to the digits it shows


def equivalent(gold: str, answer: str, rules: Rules) -> bool:
    gold, answer = gold.strip(), answer.strip()
    if gold == answer or max(len(gold), len(answer)) > LONGEST:
        return bool(gold) and gold == answer
    exact, plain = _plain(gold), _plain(answer)
    if exact is not None and plain is not None:
        if exact == plain:
            return True
        if "." not in gold + answer and not rules.error and rules.unit != "%":
            return False
    if (same := normalised(gold)) == normalised(answer):
        return bool(same)
    right, given = read(gold, rules.multiple), read(answer, rules.multiple)
    return _same(right, given, rules) or ((unread(right) or unread(given)) and held_equal(right.text, given.text))


@lru_cache(maxsize=20_000)
def _plain(text: str) -> Fraction | None:
    """The value of a plain number, at a price of microseconds: most answers are one."""
    match = _PLAIN.fullmatch(text)
    if not match:
        return None
    sign, top, bottom, whole, below, decimals = match.groups()
    bottom = bottom or below or "1"
    if int(bottom) == 0:
        return None
    number = Fraction(f"{whole}.{decimals}") if decimals else Fraction(int(top or whole), int(bottom))
    return -number if sign else number


def unread(reading: Reading) -> bool:
    """Whether something is left that only math-verify may know: no words, but commands that are not known here."""
    return reading.kind == "text" and reading.node is None and "\\" in reading.text and not wordy(reading.text)


def _same(gold: Reading, answer: Reading, rules: Rules) -> bool:
    if "numeral" in (gold.kind, answer.kind):
        return _same_numeral(gold, answer)
    if "text" in (gold.kind, answer.kind):
        return _same_text(gold, answer)
    if gold.kind == answer.kind == "value":
        return _same_value(gold, answer, rules)
    if gold.equation and answer.equation and _open(gold):
        return proportional(gold.equation, answer.equation)
    return _same_parts(gold, answer, rules)


def _open(reading: Reading) -> bool:
    """Whether an equation is the answer itself: x = 5 is a solved one, and 2x = 10 no answer to it."""
    return reading.kind == "equation" or bool(reading.node and unknowns(reading.node))


def _same_numeral(gold: Reading, answer: Reading) -> bool:
    """204_5 is 204 where the question names the base, and never 204_6."""
    digits = [r.text.lstrip("0") or "0" for r in (gold, answer)]
    bases = {r.unit for r in (gold, answer) if r.kind == "numeral"}
    return len(bases) == 1 and digits[0] == digits[1]


def _same_text(gold: Reading, answer: Reading) -> bool:
    if unread(gold) or unread(answer):
        return "".join(gold.text.split()) == "".join(answer.text.split())
    if gold.kind != answer.kind and gold.node and answer.node:  # "ab" and a \cdot b
        return same_value(gold.node, answer.node)
    return bool(key := text_key(gold.text)) and key == text_key(answer.text)


def _same_value(gold: Reading, answer: Reading, rules: Rules) -> bool:
    if gold.node is None or answer.node is None:
        return False
    if gold.equation and answer.equation and proportional(gold.equation, answer.equation):
        return True
    if _differ(gold.name, answer.name) or not _units_agree(gold, answer, rules):
        return False
    percent = gold.percent or rules.unit == "%"
    if percent == answer.percent:
        return _close(gold.node, answer.node, rules)
    return _same_percent(gold.node, answer.node, percent, rules)


def _same_percent(gold: Node, answer: Node, percent: bool, rules: Rules) -> bool:
    """10% is 0.1, and also 10, where the sign was left out; but 0.1 is neither 10 nor 0.1%."""
    hundred = Node("num", number=Fraction(100))
    if percent:
        return _close(gold, answer, rules) or _close(gold, Node("mul", (answer, hundred)), rules)
    if _close(gold, Node("div", (answer, hundred)), rules):
        return True
    bare = None if unknowns(gold) else _real(gold)
    return bare is not None and abs(bare) >= 1 and _close(gold, answer, rules)


def _differ(name: str, other: str) -> bool:
    """Whether two answers are given for different letters: y = 2 is not x = 2. What f(x) is called doesn't matter."""
    return len(name) == len(other) == 1 and name.lower() != other.lower()


def _units_agree(gold: Reading, answer: Reading, rules: Rules) -> bool:
    """Units are free to be left out or to be worded differently, but not to be of another size."""
    known = [_size(gold.unit or rules.unit), _size(answer.unit)]
    return None in known or known[0] == known[1]


def _size(unit: str) -> tuple[str, ...] | None:
    """A unit by its parts, km/h as (km, h); None where one of them is not known."""
    words = re.sub(r"\\[A-Za-z]+|[{}$\\./]|\^\{?-?\d+|\b(?:per|square|sq)\b", " ", unit.lower()).split()
    names = [word.removesuffix("s") if len(word) > 2 else word for word in words]
    return tuple(UNITS[name] for name in names) if names and all(name in UNITS for name in names) else None


def _same_parts(gold: Reading, answer: Reading, rules: Rules) -> bool:
    kinds = gold.kind, answer.kind
    if kinds in (("tuple", "tuple"), ("matrix", "matrix")):
        return gold.brackets == answer.brackets and _in_order(gold.items, answer.items, rules)
    if kinds in (("tuple", "list"), ("list", "tuple")):  # (1, 2) and 1, 2; but no interval is a list
        return "()" in (gold.brackets, answer.brackets) and _in_order(gold.items, answer.items, rules)
    if kinds in (("list", "list"), ("set", "set"), ("set", "list"), ("list", "set"), ("union", "union")):
        return _in_any_order(gold.items, answer.items, rules)
    if kinds in (("set", "value"), ("value", "set")):  # {5} and 5
        return _in_order(gold.items or (gold,), answer.items or (answer,), rules)
    if kinds == ("value", "list"):  # 1/2 or 0.5: one answer in two ways
        return all(_same(gold, item, rules) for item in answer.items)
    return False


def _in_order(gold: Sequence[Reading], answer: Sequence[Reading], rules: Rules) -> bool:
    return len(gold) == len(answer) and all(_same(g, a, rules) for g, a in zip(gold, answer, strict=True))


def _in_any_order(gold: Sequence[Reading], answer: Sequence[Reading], rules: Rules) -> bool:
    left = list(answer)
    for wanted in gold:
        found = next((i for i, given in enumerate(left) if _same(wanted, given, rules)), None)
        if found is None:
            return False
        left.pop(found)
    return not left


def _close(gold: Node, answer: Node, rules: Rules) -> bool:
    """Equal, or equal as far as the decimals go."""
    if same_value(gold, answer):
        return True
    if unknowns(gold) | unknowns(answer):
        return False
    shown, right, given = (printed(gold), printed(answer)), _real(gold), _real(answer)
    if right is None or given is None or (shown == (None, None) and not rules.error):
        return False
    return _near(right, given, *shown, rules)


def _real(node: Node) -> Fraction | None:
    """A value to compare with decimals, to more digits than they have; None where it is not real."""
    import mpmath

    with mpmath.workdps(QUICK):
        try:
            number = value(node, {})
        except UnreadableError:
            return None
        if isinstance(number, Fraction):
            return number
        real = mpmath.isfinite(number) and abs(number.imag) <= abs(number.real) / 10 ** (QUICK // 2)
        return Fraction(str(number.real)) if real else None


Shown = tuple[Fraction, Fraction] | None


def _near(right: Fraction, given: Fraction, gold: Shown, answer: Shown, rules: Rules) -> bool:
    off = abs(right - given)
    if rules.error is not None and off <= rules.error:
        return True
    ulp = gold[1] if gold else Fraction(1)
    if rules.rounded and gold and off <= ulp / 2 and off <= abs(right) * NEAR:
        return True
    if right.denominator == 1 and ulp <= 1:
        return False
    coarser = max((shown for shown in (gold, answer) if shown), key=lambda shown: shown[1], default=None)
    return coarser is not None and abs(coarser[0]) >= coarser[1] * 10 ** (DIGITS - 1) and off <= coarser[1] / 2

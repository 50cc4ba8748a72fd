r"""A second opinion on an answer that was graded right. It shares no code with the graders, and says less.

recheck(r"\frac{1}{2}", ["0.5"], {}, "math")  ->  "agrees"
recheck("0.25", ["0.5"], {}, "math")          ->  "disagrees"
recheck("x+1", ["1+x"], {}, "math")           ->  "can't tell"

It agrees where answer and gold are the same letter for letter, spacing aside, or where both are numbers (sums,
products, powers, fractions, roots and pi, worked out here) and equal; for lists, element by element.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

Opinion = Literal["agrees", "disagrees", "can't tell"]
Number = Fraction | float

LONGEST = 300  # characters: longer ones are no numbers, and the recursion below is bounded by it
LARGEST = 20_000  # bits of an exact number
COMPARABLE = (
    "exact",
    "math",
    "make",
    "numeric",
    "choice",
)  # graders by which two different numbers can't both be right

SPACING = re.compile(r"\s|\\[,;:!> ]|~|\\q?quad|\\left|\\right|\\displaystyle|\$")
UNITS = re.compile(r"\\(?:text|mathrm|mbox|textbf)\{[^{}]*\}|\^\{?\\circ\}?|°|\\?%")
NAME = re.compile(r"^[A-Za-z]=")
THOUSANDS = re.compile(r"\d{1,3}(?:(?:,|\{,\})\d{3})+(?:\.\d+)?")
TOKEN = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?|\\[A-Za-z]+|[-+*/^(){}\[\]]")
SIGNS = {"\\cdot": "*", "\\times": "*", "\\div": "/", "\\dfrac": "\\frac", "\\tfrac": "\\frac"}


def recheck(answer: str, gold: Sequence[str], meta: Mapping[str, Any], grader: str) -> Opinion:
    opinions = {_opinion(answer, one, meta, grader) for one in gold}
    if "agrees" in opinions:
        return "agrees"
    return "disagrees" if opinions == {"disagrees"} else "can't tell"


def number(text: str) -> Number | None:
    """The value of a text that is a number, and nothing else."""
    plain = UNITS.sub("", text).replace("−", "-").rstrip(".")
    plain = NAME.sub("", plain)
    if THOUSANDS.fullmatch(plain.lstrip("-")):
        plain = plain.replace("{,}", "").replace(",", "")
    if not plain or len(plain) > LONGEST:
        return None
    try:
        return Reader(plain).value()
    except (ArithmeticError, ValueError, IndexError, RecursionError):
        return None


class Reader:
    """Works out an expression, by descent: a sum of products of signed powers of atoms."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [SIGNS.get(token, token) for token in TOKEN.findall(text)]
        if "".join(TOKEN.findall(text)) != text:
            raise ValueError("something that is no part of a number")
        self._tokens.append("")
        self._at = 0

    def value(self) -> Number:
        value = self._sum()
        if self._next:
            raise ValueError("something is left over")
        return value

    @property
    def _next(self) -> str:
        return self._tokens[self._at]

    def _took(self, *tokens: str) -> str:
        """The next token if it is one of these, which is then behind us."""
        found = self._next if self._next in tokens else ""
        self._at += bool(found)
        return found

    def _sum(self) -> Number:
        value = self._product()
        while sign := self._took("+", "-"):
            term = self._product()
            value = value + term if sign == "+" else value - term
        return value

    def _product(self) -> Number:
        value = self._signed()
        while True:
            if sign := self._took("*", "/"):
                factor = self._signed()
                value = value * factor if sign == "*" else value / factor
            elif self._next in ("(", "\\sqrt", "\\pi", "\\frac"):
                value = value * self._power()
            else:
                return value

    def _signed(self) -> Number:
        if sign := self._took("+", "-"):
            value = self._signed()
            return -value if sign == "-" else value
        return self._power()

    def _power(self) -> Number:
        base = self._atom()
        if not self._took("^"):
            return base
        return _raised(base, self._closed("}") if self._took("{") else self._signed())

    def _atom(self) -> Number:
        if bracket := self._took("(", "{"):
            return self._closed(")" if bracket == "(" else "}")
        if self._took("\\frac"):
            return self._argument() / self._argument()
        if self._took("\\pi"):
            return math.pi
        if self._took("\\sqrt"):
            degree = self._closed("]") if self._took("[") else Fraction(2)
            return math.pow(self._argument(), 1 / degree)
        value = Fraction(self._next)
        self._at += 1
        if value.denominator == 1 and self._next == "\\frac":  # 3\frac{1}{2} is a mixed number
            self._at += 1
            return value + self._argument() / self._argument()
        return value

    def _argument(self) -> Number:
        """What stands in braces, or one digit where there are none: \\frac12."""
        if self._took("{"):
            return self._closed("}")
        if self._next[:1].isdigit():
            digit, self._tokens[self._at] = self._next[0], self._next[1:]
            self._at += not self._tokens[self._at]
            return Fraction(digit)
        return self._signed()

    def _closed(self, bracket: str) -> Number:
        value = self._sum()
        if not self._took(bracket):
            raise ValueError(f"no {bracket}")
        return value


def _raised(base: Number, exponent: Number) -> Number:
    """A power, exact where that stays small."""
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if bits * abs(exponent) <= LARGEST:
            return Fraction(base ** int(exponent))
    return math.pow(base, exponent)


def _opinion(answer: str, gold: str, meta: Mapping[str, Any], grader: str) -> Opinion:
    left, right = SPACING.sub("", answer), SPACING.sub("", gold)
    if left == right:
        return "agrees"
    values, golds = _numbers(left), _numbers(right)
    if values is None or golds is None or grader not in COMPARABLE:
        return "can't tell"
    if len(values) != len(golds):
        return "disagrees"
    if _same(values, golds, right, meta):
        return "agrees"
    if len(golds) > 1 and _same(sorted(values), sorted(golds), right, meta):
        return "agrees" if meta.get("multiple") else "can't tell"
    return "disagrees"


def _numbers(text: str) -> list[Number] | None:
    """A number, or the numbers of a list, a tuple or a set; None where anything else is there."""
    if (one := number(text)) is not None:
        return [one]
    inner = text.replace("\\{", "(").replace("\\}", ")")
    if inner[:1] in ("(", "[") and inner[-1:] in (")", "]"):
        inner = inner[1:-1]
    found = [number(part) for part in inner.split(",")]
    return None if None in found else [value for value in found if value is not None]


def _same(values: Sequence[Number], golds: Sequence[Number], written: str, meta: Mapping[str, Any]) -> bool:
    return all(_equal(value, gold, written, meta) for value, gold in zip(values, golds, strict=True))


def _equal(value: Number, gold: Number, written: str, meta: Mapping[str, Any]) -> bool:
    """Equal, or as near as the problem allows: its tolerance, its error, or half of the gold's last decimal."""
    if value == gold or math.isclose(value, gold, rel_tol=1e-9):
        return True
    scale = Fraction(meta.get("scale") or 1)
    near = meta.get("tolerance") or (0.05 if "scale" in meta else 0)
    if near and any(math.isclose(value, g, rel_tol=near) for g in (gold, gold * scale)):
        return True
    decimals = re.fullmatch(r"-?\d+\.(\d+)", written)
    slack = number(str(meta.get("error"))) or (Fraction(1, 2 * 10 ** len(decimals[1])) if decimals else 0)
    return abs(float(value - gold)) <= float(slack) * (1 + 1e-9)

r"""A second check of an answer that was graded correct. It shares no code with the graders, and claims less.

recheck_answer(r"\frac{1}{2}", ["0.5"], {}, "math")  ->  "agrees"
recheck_answer("0.25", ["0.5"], {}, "math")          ->  "disagrees"
recheck_answer("x+1", ["1+x"], {}, "math")           ->  "can't tell"

It agrees if answer and gold are equal letter for letter (spacing aside), or if both are numbers (sums, products,
powers, fractions, roots and pi, evaluated here) and equal. Lists are compared element by element. Algebra, words and
units are not covered: the result is "can't tell".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

Opinion = Literal["agrees", "disagrees", "can't tell"]
Number = Fraction | float

# Longer texts are no numbers. It also bounds the recursion of the parser.
MAX_NUMBER_CHARS = 300
MAX_EXACT_BITS = 20_000
# Only these graders never accept two different numbers for one gold.
NUMERIC_GRADERS = ("exact", "math", "make", "numeric", "choice")

LATEX_SPACING = re.compile(r"\s|\\[,;:!> ]|~|\\q?quad|\\left|\\right|\\displaystyle|\$")
UNIT_PATTERN = re.compile(r"\\(?:text|mathrm|mbox|textbf)\{[^{}]*\}|\^\{?\\circ\}?|°|\\?%")
VARIABLE_PREFIX = re.compile(r"^[A-Za-z]=")
THOUSANDS_NUMBER = re.compile(r"\d{1,3}(?:(?:,|\{,\})\d{3})+(?:\.\d+)?")
TOKEN_PATTERN = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3})?|\\[A-Za-z]+|[-+*/^(){}\[\]]")
OPERATOR_ALIASES = {"\\cdot": "*", "\\times": "*", "\\div": "/", "\\dfrac": "\\frac", "\\tfrac": "\\frac"}


def recheck_answer(answer: str, gold: Sequence[str], meta: Mapping[str, Any], grader: str) -> Opinion:
    """Compare an answer with every accepted gold; `meta` has the problem's tolerance, scale, error and `multiple`."""
    opinions = {_compare_with_gold(answer, accepted, meta, grader) for accepted in gold}
    if "agrees" in opinions:
        return "agrees"
    return "disagrees" if opinions == {"disagrees"} else "can't tell"


def parse_number(text: str) -> Number | None:
    """The value of a text that is a number and nothing else."""
    plain = VARIABLE_PREFIX.sub("", UNIT_PATTERN.sub("", text).replace("−", "-").rstrip("."))
    if THOUSANDS_NUMBER.fullmatch(plain.lstrip("-")):
        plain = plain.replace("{,}", "").replace(",", "")
    if not plain or len(plain) > MAX_NUMBER_CHARS:
        return None
    try:
        return NumberParser(plain).value()
    except (ArithmeticError, ValueError, IndexError, RecursionError):
        return None


class NumberParser:
    """Evaluate an expression by recursive descent: a sum of products of signed powers of atoms."""

    def __init__(self, text: str) -> None:
        tokens = TOKEN_PATTERN.findall(text)
        if "".join(tokens) != text:
            raise ValueError("a character that is no part of a number")
        # The empty token marks the end, so that looking ahead never fails.
        self._tokens: list[str] = [*(OPERATOR_ALIASES.get(token, token) for token in tokens), ""]
        self._at = 0

    def value(self) -> Number:
        value = self._sum()
        if self._next:
            raise ValueError("tokens after the number")
        return value

    @property
    def _next(self) -> str:
        return self._tokens[self._at]

    def _accept(self, *tokens: str) -> str:
        """Consume and return the next token if it is one of these; otherwise return an empty string."""
        token = self._next if self._next in tokens else ""
        self._at += bool(token)
        return token

    def _sum(self) -> Number:
        value = self._product()
        while sign := self._accept("+", "-"):
            term = self._product()
            value = value + term if sign == "+" else value - term
        return value

    def _product(self) -> Number:
        value = self._signed()
        while True:
            if sign := self._accept("*", "/"):
                factor = self._signed()
                value = value * factor if sign == "*" else value / factor
            elif self._next in ("(", "\\sqrt", "\\pi", "\\frac"):  # 2\sqrt{3}: a product without a sign
                value = value * self._power()
            else:
                return value

    def _signed(self) -> Number:
        if sign := self._accept("+", "-"):
            value = self._signed()
            return -value if sign == "-" else value
        return self._power()

    def _power(self) -> Number:
        base = self._atom()
        if not self._accept("^"):
            return base
        exponent = self._until("}") if self._accept("{") else self._signed()
        if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if bits * abs(exponent) <= MAX_EXACT_BITS:  # 9^{9^{9^9}} must not fill the memory
                return Fraction(base ** int(exponent))
        return math.pow(base, exponent)

    def _atom(self) -> Number:
        if bracket := self._accept("(", "{"):
            return self._until(")" if bracket == "(" else "}")
        if self._accept("\\frac"):
            return self._argument() / self._argument()
        if self._accept("\\pi"):
            return math.pi
        if self._accept("\\sqrt"):
            degree = self._until("]") if self._accept("[") else Fraction(2)
            return math.pow(self._argument(), 1 / degree)
        value = Fraction(self._next)
        self._at += 1
        if value.denominator == 1 and self._accept("\\frac"):  # 3\frac{1}{2} is a mixed number
            return value + self._argument() / self._argument()
        return value

    def _argument(self) -> Number:
        """The argument of a command: in braces, or one digit without them (\\frac12)."""
        if self._accept("{"):
            return self._until("}")
        if self._next[:1].isdigit():
            digit, self._tokens[self._at] = self._next[0], self._next[1:]
            self._at += not self._tokens[self._at]
            return Fraction(digit)
        return self._signed()

    def _until(self, bracket: str) -> Number:
        value = self._sum()
        if not self._accept(bracket):
            raise ValueError(f"no {bracket}")
        return value


def _compare_with_gold(answer: str, gold: str, meta: Mapping[str, Any], grader: str) -> Opinion:
    answer, gold = LATEX_SPACING.sub("", answer), LATEX_SPACING.sub("", gold)
    if answer == gold:
        return "agrees"
    values, golds = _parse_numbers(answer), _parse_numbers(gold)
    if values is None or golds is None or grader not in NUMERIC_GRADERS:
        return "can't tell"
    if len(values) != len(golds):
        return "disagrees"

    def match(values: Sequence[Number], golds: Sequence[Number]) -> bool:
        return all(_is_within_tolerance(*both, gold, meta) for both in zip(values, golds, strict=True))

    if match(values, golds):
        return "agrees"
    # (1, 2) and (2, 1) are equal as sets and different as points; only some problems say which they mean.
    if len(golds) > 1 and match(sorted(values), sorted(golds)):
        return "agrees" if meta.get("multiple") else "can't tell"
    return "disagrees"


def _parse_numbers(text: str) -> list[Number] | None:
    """A number, or the numbers of a list, a tuple or a set; None for anything else."""
    if (number := parse_number(text)) is not None:
        return [number]
    inner = text.replace("\\{", "(").replace("\\}", ")")
    if inner[:1] in ("(", "[") and inner[-1:] in (")", "]"):
        inner = inner[1:-1]
    numbers = [parse_number(part) for part in inner.split(",")]
    return None if None in numbers else [number for number in numbers if number is not None]


def _is_within_tolerance(value: Number, gold: Number, written: str, meta: Mapping[str, Any]) -> bool:
    """Equal, or within the problem's tolerance or error, or within half of the last decimal of the written gold."""
    if value == gold or math.isclose(value, gold, rel_tol=1e-9):
        return True
    scale = Fraction(meta.get("scale") or 1)
    near = meta.get("tolerance") or (0.05 if "scale" in meta else 0)
    if near and any(math.isclose(value, target, rel_tol=near) for target in (gold, gold * scale)):
        return True
    decimals = re.fullmatch(r"-?\d+\.(\d+)", written)
    slack = parse_number(str(meta.get("error"))) or (Fraction(1, 2 * 10 ** len(decimals[1])) if decimals else 0)
    return abs(float(value - gold)) <= float(slack) * (1 + 1e-9)

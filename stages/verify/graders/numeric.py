r"""`numeric`: a measured or computed number, right within a relative tolerance (SciBench: 5%).

grade(r"5.1 \times 10^{14} \text{ Hz}", ["5.2"], {"unit": r"$10^{14} \mathrm{~Hz}$", "scale": 1e14})  ->  1.0

Where the gold's unit carries a power of ten, both ways to say the value are right: 5.2, and 5.2e14. The number alone
is compared, as SciBench does: a unit that the answer writes out is read past, not converted, so that "51.4 bar" counts
for 50.7 atm and "50.7 mm" for 50.7 cm.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

TOLERANCE = 0.05
ZERO = 1e-9  # what rounding may leave of a gold that is 0, of which no share can be taken
SLACK = 1e-12  # of the gold: 5% of 2 is not quite 0.1 in floating point
LONGEST = 300  # characters: a number with its unit needs far fewer
DEEPEST = 20  # parentheses, fractions and roots inside each other

WRITTEN = {
    **dict.fromkeys("−–", "-"),
    **dict.fromkeys("×⋅·∙∗", "*"),
    "÷": "/",
    "π": r"\pi ",
    "√": r"\sqrt ",
    "**": "^",
    "\u00a0": " ",
    **dict.fromkeys("\u2009\u202f", ""),  # thin spaces, between thousands
}
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
FONTS = "text|mathrm|mathbf|mathit|mathsf|textbf|textrm|mbox|operatorname|bf|rm"
# LaTeX that says nothing about the value, and what stands for it.
LATEX: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"\\[,!]|\\(?:left|right|displaystyle|big|Big)(?![a-zA-Z])"), ""),
    (re.compile(r"\\[;: ()\[\]]|~|(?<!\\)\$"), " "),
    (re.compile(r"\\(?:times|cdot|ast)(?![a-zA-Z])"), "*"),
    (re.compile(r"\\div(?![a-zA-Z])"), "/"),
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(rf"\\(?:{FONTS})\s*\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}"), r" \1 "),
    (re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ|\\degree)|\\degree(?![a-zA-Z])"), "°"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+"), lambda m: f"^{{{m[0].translate(SUPERSCRIPTS)}}}"),
]
WRAPPED = re.compile(r"\$?\\(?:text|mathrm|mathbf|textbf|textrm|mbox)\s*\{(.*)\}\$?", re.DOTALL)
NUMBER = re.compile(
    r"(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d*)?(?:[eE][-+]?\d{1,4}(?!\d))?|\.\d+(?:[eE][-+]?\d{1,4})?"
)
WHOLE, DIGIT = re.compile(r"[-+]?\d+(?:\.\d+)?"), re.compile(r"\d")
MIXED = re.compile(r"\s*\\frac\s*(?:\d|\{\s*\d+\s*\}\s*\{\s*\d+\s*\})")
TIMES_TEN = re.compile(r"\s*[xX]\s*10(?![\d.,])")
FUNCTIONS = {"ln": math.log, "exp": math.exp, "sin": math.sin, "cos": math.cos, "tan": math.tan, "arctan": math.atan}
FUNCTION = re.compile(rf"\\({'|'.join(FUNCTIONS)})(?![a-zA-Z])")
EULER = re.compile(r"e(?![a-zA-Z])")
# An e beside a number is the unit of charge, unless it has a power.
BESIDE = re.compile(rf"\\pi|\\sqrt|\\frac|\(|e\s*\^|{FUNCTION.pattern}")
SAID = re.compile(r".*(?:=|≈|≃|\\(?:approx|simeq|sim|cong)(?![a-zA-Z])|\bis\b|[A-Za-z]\s*:)", re.DOTALL)
ABOUT = re.compile(
    r"\s*(?:about|approximately|approx\.?|around|roughly|exactly|~|\\approx)?\s*(?:\\\$|\$|€|£)?\s*", re.I
)
REMARK = re.compile(r"\([^()]*[A-Za-z][^()]*\)")
POWER = re.compile(r"[\^_]\s*(?:\{\s*[-+]?\s*\d+(?:\s*/\s*\d+)?\s*\}|[-+]?\d+)|(?<=[A-Za-z}])[-+]?\d+(?![\d.])")


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    """1 where a way to read the answer is close to a way to read a gold."""
    tolerance = float(meta.get("tolerance") or TOLERANCE)
    golds = [value for g in gold for value in _gold_values(g, meta)]
    return float(any(close(value, g, tolerance) for value in _values(answer, meta) for g in golds))


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    """The number to six digits, in the unit: of a value and its multiple, the one that is nearer to 1."""
    value = number(answer)
    if value is None:
        return " ".join(answer.split())
    ways = [way for way in (value / _scale(meta), value) if way]
    return f"{min(ways, key=lambda way: abs(math.log10(abs(way)))):.6g}" if ways else "0"


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    bad = next((g for g in gold if number(g) is None), None)
    if bad is not None:
        return f"the gold {bad!r} is not a number"
    return None if gold else "there is no gold"


def close(value: float, gold: float, tolerance: float) -> bool:
    return abs(value - gold) <= (tolerance + SLACK) * abs(gold) if gold else abs(value) <= ZERO


def number(text: str) -> float | None:
    """The number that an answer says: "x = 5 m", "about 5 m"; None where it says none, or several."""
    quantity = quantity_in(text)
    return quantity.value if quantity else None


@dataclass(frozen=True)
class Quantity:
    value: float
    unit: str  # what stands after the number, without white space


def quantity_in(text: str) -> Quantity | None:
    """The quantity that an answer says, after the last "=" or "is" where there is one."""
    if len(text) > LONGEST:
        return None
    return quantity(SAID.sub("", plain(text)))


def quantity(text: str) -> Quantity | None:
    """A text that is a number, with or without a unit."""
    if len(text) > LONGEST:
        return None
    written = ABOUT.sub("", plain(text), count=1).rstrip(" .")
    reader = _Reader(written)
    try:
        value = reader.sum()
    except (_UnreadError, OverflowError, ZeroDivisionError, ValueError):
        return None
    rest = REMARK.sub("", written[reader.at :]).strip()
    return Quantity(value, "".join(rest.split())) if math.isfinite(value) and _is_unit(rest) else None


def plain(text: str) -> str:
    """The text with one spelling for signs, and without LaTeX that says nothing about a value."""
    text = _unwrapped(text.strip().strip("*"))
    for sign, written in WRITTEN.items():
        text = text.replace(sign, written)
    for pattern, replacement in LATEX:
        text = pattern.sub(replacement, text)
    return text.strip()


def _unwrapped(text: str) -> str:
    """The content of the \\text{…} that is the whole text, whatever braces are inside."""
    wrapped = WRAPPED.fullmatch(text)
    if not wrapped:
        return text
    depths = list(accumulate({"{": 1, "}": -1}.get(sign, 0) for sign in wrapped[1]))
    return wrapped[1].strip() if min(depths, default=0) >= 0 else text


def _is_unit(text: str) -> bool:
    """Letters, signs and powers, but no other number: "5 or 6" is no quantity."""
    return not text or (text[0] not in ".,;:=<>+-*^|±)" and not re.search(r"\d", POWER.sub("", text)))


def _values(answer: str, meta: Mapping[str, Any]) -> list[float]:
    found = quantity_in(answer)
    if found is None:
        return []
    hundredth = found.unit.startswith("%") and "%" not in str(meta.get("unit") or "")
    return [found.value, found.value / 100] if hundredth else [found.value]


def _gold_values(gold: str, meta: Mapping[str, Any]) -> list[float]:
    value = number(gold)
    if value is None:
        raise ValueError(f"the gold {gold!r} is not a number")
    return [value, value * _scale(meta)]


def _scale(meta: Mapping[str, Any]) -> float:
    return float(meta.get("scale") or 1)


class _UnreadError(Exception):
    """There is no number where one should be."""


class _Reader:
    """Reads the longest expression of numbers that a text begins with; `at` is where it ends."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def sum(self) -> float:
        value = self.product()
        while (sign := self._peek()) in ("+", "-"):
            term = self._tried(sign, self.product)
            if term is None:
                break
            value += term if sign == "+" else -term
        return value

    def product(self) -> float:
        value = self.signed()
        while True:
            if self._peek() in ("*", "/"):
                sign = self._peek()
                factor = self._tried(sign, self.signed)
            else:
                sign, factor = "*", self._beside()
            if factor is None:
                return value
            value = value * factor if sign == "*" else value / factor

    def signed(self) -> float:
        sign = self._peek()
        if sign in ("+", "-"):
            self._take(sign)
            return -self.power() if sign == "-" else self.power()
        return self.power()

    def power(self) -> float:
        base = self.atom()
        exponent = self._tried("^", self._argument) if self._peek() == "^" else None
        if exponent is None:
            return base
        value = base**exponent
        if isinstance(value, complex):
            raise _UnreadError
        return float(value)

    def atom(self) -> float:
        if self._took("("):
            return self._enclosed(")")
        if self._took("{"):
            return self._enclosed("}")
        if self._took(r"\frac"):
            return self._fraction()
        if self._took(r"\sqrt"):
            return math.sqrt(self._argument())
        if self._took(r"\pi"):
            return math.pi
        if found := FUNCTION.match(self.text, self.at):
            self._take(found[0])
            return FUNCTIONS[found[1]](self._argument())
        if EULER.match(self.text, self.at):
            self._take("e")
            return math.e
        return self._number()

    def _number(self) -> float:
        self._peek()
        found = NUMBER.match(self.text, self.at)
        if not found:
            raise _UnreadError
        self.at = found.end()
        value = float(found[0].replace(",", ""))
        # A whole number and a fraction beside it are a mixed number.
        if found[0].isdigit() and MIXED.match(self.text, self.at):
            return value + self.atom()
        return value

    def _beside(self) -> float | None:
        """A factor without a sign before it: 2\\pi, 3\\sqrt{2}, 5(10^3), and "5.2 x 10^14"."""
        if TIMES_TEN.match(self.text, self.at):
            self._peek()
            return self._tried(self.text[self.at], self.power)
        self._peek()
        return self._tried("", self.power) if BESIDE.match(self.text, self.at) else None

    def _fraction(self) -> float:
        above = self._argument(DIGIT)
        return above / self._argument(DIGIT)

    def _argument(self, bare: re.Pattern[str] = WHOLE) -> float:
        """What stands in braces or parentheses; without them, the next number or, in \\frac12, the next digit."""
        if self._peek() in ("{", "("):
            return self.atom()
        found = bare.match(self.text, self.at)
        if not found:
            return self.atom()
        self.at = found.end()
        return float(found[0])

    def _enclosed(self, end: str) -> float:
        self.depth += 1
        if self.depth > DEEPEST:
            raise _UnreadError
        value = self.sum()
        if not self._took(end):
            raise _UnreadError
        self.depth -= 1
        return value

    def _tried(self, sign: str, read: Callable[[], float]) -> float | None:
        """What follows a sign; None, with nothing taken, where that is no number (the "/" of "3 / s")."""
        before = self.at, self.depth
        self._take(sign)
        try:
            return read()
        except _UnreadError:
            self.at, self.depth = before
            return None

    def _peek(self) -> str:
        """The next sign, past white space; "" at the end."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _took(self, sign: str) -> bool:
        self._peek()
        if not self.text.startswith(sign, self.at):
            return False
        self._take(sign)
        return True

    def _take(self, sign: str) -> None:
        self.at += len(sign)

r"""`numeric`: a measured or computed number, correct within a relative tolerance (default 5%, as in SciBench).

    grade(r"5.1 \times 10^{14} \text{ Hz}", ["5.2"], {"unit": r"$10^{14} \mathrm{~Hz}$", "scale": 1e14})  ->  1.0

If the gold's unit carries a power of ten, both ways to write the value count: 5.2 and 5.2e14. As in SciBench, only the
number is compared. The answer's unit is skipped, not converted, so "51.4 bar" counts for 50.7 atm and "50.7 mm" for
50.7 cm.

What follows the number must be a unit, not a part of the value: "5 squared", "5 and a half", 5h30, 5x, 12_3 and
5\\infty are no quantities.

The reader here is not that of leash/grading/mathematics: it reads the longest number that a text begins with and leaves
the rest as a unit, where mathematics/expression.py must read everything and takes the letters of a unit for variables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from leash.grading.extraction import find_closing_brace, strip_special_tokens
from leash.grading.mathematics.expression import ENCLOSING_OPERATORS
from leash.grading.mathematics.spelling import (
    SUPERSCRIPTS,
    VALUE_WORDS,
    VULGAR_FRACTIONS,
    expand_magnitudes,
    expand_repeating_decimals,
    unescape_backslashes,
)
from leash.grading.mathematics.units import is_letter, parse_units

DEFAULT_TOLERANCE = 0.05
ZERO_TOLERANCE = 1e-9  # absolute: a gold of 0 has no relative tolerance
FLOAT_SLACK = 1e-12  # relative: 5% of 2 is not exactly 0.1 in floating point
MAX_ANSWER_CHARS = 300
MAX_FACTORIAL = 170  # the largest that a float can hold
MAX_PARSE_DEPTH = 40  # nested brackets, bars, fractions and roots

CHARACTER_REPLACEMENTS = {
    **dict.fromkeys("−–", "-"),
    **dict.fromkeys("×⋅·∙∗", "*"),
    "÷": "/",
    "π": r"\pi ",
    "√": r"\sqrt ",
    "**": "^",
    "\u00a0": " ",
    **dict.fromkeys("\u2009\u202f", ""),  # thin spaces, between thousands
    **{char: "\\frac{{{}}}{{{}}}".format(*text.split("/")) for char, text in VULGAR_FRACTIONS.items()},
}
FONT_COMMANDS = (
    "text|mathrm|mathbf|mathit|mathsf|textbf|textrm|textit|textnormal|textsf|texttt|emph|boldsymbol|mbox|operatorname|bf|rm"
    "|boxed"
)
# LaTeX that does not change the value, with its replacement. The order matters.
LATEX_REPLACEMENTS: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"\\[,!]|\\(?:left|right|displaystyle|big|Big)(?![a-zA-Z])"), ""),
    (re.compile(r"\\[;: ()\[\]]|~|(?<!\\)\$"), " "),
    (re.compile(r"\\(?:times|cdot|ast)(?![a-zA-Z])"), "*"),
    (re.compile(r"\\div(?![a-zA-Z])"), "/"),
    (re.compile(r"\\[dtc]frac(?![a-zA-Z])"), r"\\frac"),
    (re.compile(rf"\\(?:{FONT_COMMANDS})\s*\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}"), r" \1 "),
    (re.compile(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ|\\degree)|\\degree(?![a-zA-Z])"), "°"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\%|(?<=\d)\s*(?:pct|per cent)\b"), "%"),
    # 12 000, between digits that are no part of another number
    (re.compile(r"(?<![\d.,] )(?<![\d.,])\d{1,3}(?: \d{3})+(?![\d,])"), lambda m: m[0].replace(" ", "")),
    (re.compile(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+"), lambda m: f"^{{{m[0].translate(SUPERSCRIPTS)}}}"),
]
BOLD = re.compile(r"^\*+|\*\*+$|(?<=^\*[^*])\*$")
TEXT_COMMAND = re.compile(r"\$?\\(?:text|mathrm|mathbf|textbf|textrm|mbox)\s*\{(.*)\}\$?", re.DOTALL)
NUMBER_PATTERN = re.compile(
    r"(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d*)?(?:[eE][-+]?\d{1,4}(?!\d))?|\.\d+(?:[eE][-+]?\d{1,4})?"
)
BARE_NUMBER, SINGLE_DIGIT = re.compile(r"[-+]?\d+(?:\.\d+)?"), re.compile(r"\d")
MIXED_FRACTION = re.compile(r"\s*\\frac\s*(?:\d|\{\s*\d+\s*\}\s*\{\s*\d+\s*\})")
TIMES_TEN = re.compile(r"\s*[xX]\s*10(?![\d.,])")
FUNCTIONS = {"ln": math.log, "exp": math.exp, "sin": math.sin, "cos": math.cos, "tan": math.tan, "arctan": math.atan}
ENCLOSED: dict[str, Callable[[float], float]] = {"abs": abs, "floor": math.floor, "ceil": math.ceil}
FUNCTION_PATTERN = re.compile(rf"\\({'|'.join(FUNCTIONS)})(?![a-zA-Z])")
EULER_NUMBER = re.compile(r"e(?![a-zA-Z])")
# After a number, e is the unit of charge unless it has a power.
IMPLICIT_FACTOR = re.compile(rf"\\pi|\\sqrt|\\frac|\(|e\s*\^|{FUNCTION_PATTERN.pattern}")
ANSWER_PREFIX = re.compile(r".*(?:=|≈|≃|\\(?:approx|simeq|sim|cong)(?![a-zA-Z])|\bis\b|[A-Za-z]\s*:)", re.DOTALL)
APPROXIMATION_PREFIX = re.compile(
    r"\s*(?:about|approximately|approx\.?|around|roughly|exactly|~|\\approx)?\s*(?:\\\$|\$|€|£)?\s*", re.I
)
PARENTHESIZED_REMARK = re.compile(r"\([^()]*[A-Za-z][^()]*\)")
# What may follow a number without being a unit.
NO_UNIT = re.compile(
    r"[.,;:=<>+\-*^_|±!()]|\\(?:infty|pm|[lr]floor|[lr]ceil)(?![A-Za-z])|(?:squared|cubed|under)\b", re.I
)
# "5 and a half", "5 °C below zero", "5 three-quarters", but 5 half-lives
VALUE_BEHIND = re.compile(
    rf"\b(?:and|{'|'.join(VALUE_WORDS)})\b(?!-?li[fv]e)|\b(?:a|one|two|three)[-\s]+quarters?\b|[&‰]", re.IGNORECASE
)
# 5h30 and 5kg3g are two numbers, m3 and J mol-1K-1 are units.
JOINED_MEASURE = re.compile(r"([A-Za-z]+)(\d+)([A-Za-z]*)")
UNIT_POWER = re.compile(r"[\^_]\s*(?:\{\s*[-+]?\s*\d+(?:\s*/\s*\d+)?\s*\}|[-+]?\d+)|(?<=[A-Za-z}])[-+]?\d+(?![\d.])")


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    """Return 1 if one reading of the answer is close to one reading of a gold."""
    tolerance = float(meta.get("tolerance") or DEFAULT_TOLERANCE)
    golds: list[float] = []
    for accepted in gold:
        if (value := parse_number(accepted)) is None:
            raise ValueError(f"the gold {accepted!r} is not a number")
        golds += [value, value * _scale(meta)]
    if (quantity := find_quantity(answer)) is None:
        return 0.0
    if quantity.unit.startswith("%") and "%" not in str(meta.get("unit") or ""):
        # 28% is 0.28, and 28 if the gold lacks the sign; but 0.28% is not 0.28.
        if any(is_close(quantity.value / 100, accepted, tolerance) for accepted in golds):
            return 1.0
        golds = [accepted for accepted in golds if abs(accepted) >= 1]
    return float(any(is_close(quantity.value, accepted, tolerance) for accepted in golds))


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    """Return the number to six digits: the value or the value over `scale`, whichever is nearer to 1."""
    if (value := parse_number(answer)) is None:
        return " ".join(answer.split())
    readings = [reading for reading in (value / _scale(meta), value) if reading]
    return f"{min(readings, key=lambda reading: abs(math.log10(abs(reading)))):.6g}" if readings else "0"


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    bad = next((accepted for accepted in gold if parse_number(accepted) is None), None)
    if bad is not None:
        return f"the gold {bad!r} is not a number"
    return None if gold else "there is no gold"


def is_close(value: float, gold: float, tolerance: float) -> bool:
    return abs(value - gold) <= (tolerance + FLOAT_SLACK) * abs(gold) if gold else abs(value) <= ZERO_TOLERANCE


def _scale(meta: Mapping[str, Any]) -> float:
    return float(meta.get("scale") or 1)


class Quantity(NamedTuple):
    value: float
    unit: str  # what stands after the number, without white space


def parse_number(text: str) -> float | None:
    """Return the number of an answer such as "x = 5 m" or "about 5 m"; None if it has none or several."""
    quantity = find_quantity(text)
    return quantity.value if quantity else None


def find_quantity(text: str) -> Quantity | None:
    """Read the quantity of an answer, after the last "=" or "is" if there is one."""
    too_long = len(text) > MAX_ANSWER_CHARS
    return None if too_long else parse_quantity(ANSWER_PREFIX.sub("", strip_latex(text)))


def parse_quantity(text: str) -> Quantity | None:
    """Read a text that is a number, with or without a unit."""
    if len(text) > MAX_ANSWER_CHARS:
        return None
    plain = APPROXIMATION_PREFIX.sub("", strip_latex(text), count=1).rstrip(" .")
    parser = _NumberParser(plain)
    try:
        value = parser.sum()
    except (_ParseError, OverflowError, ZeroDivisionError, ValueError):
        return None
    unit = PARENTHESIZED_REMARK.sub("", plain[parser.at :]).strip()
    # A unit has letters, signs and powers, but no other number: "5 or 6" is no quantity. A letter alone is
    # a variable, but for e, the unit of charge.
    is_variable = is_letter(unit) and unit != "e"
    has_numbers = any(char.isnumeric() for char in UNIT_POWER.sub("", unit)) or _is_joined_measure(unit)
    is_unit = not (NO_UNIT.match(unit) or VALUE_BEHIND.search(unit) or is_variable or has_numbers)
    return Quantity(value, "".join(unit.split())) if math.isfinite(value) and is_unit else None


def _is_joined_measure(unit: str) -> bool:
    """Return whether a unit goes on with a number in a smaller one, as in 5h30, 5h3 and 5kg3g."""
    if not (joined := JOINED_MEASURE.match(unit)):
        return False
    larger, smaller = parse_units(joined[1]), parse_units(joined[3])
    dimensions = {one.dimension for one in larger if one.dimension}
    is_time = any(one.dimension == (("s", 1),) and one.factor >= 60 for one in larger)
    return len(joined[2]) > 1 or is_time or any(one.dimension in dimensions for one in smaller)


def strip_latex(text: str) -> str:
    """Write signs one way and remove LaTeX that does not change the value."""
    text = BOLD.sub("", unescape_backslashes(strip_special_tokens(text.strip())))
    wrapped = TEXT_COMMAND.fullmatch(text)
    # A \text{…} around the whole text is removed unless its brace closes earlier, as in \text{a} b \text{c}.
    if wrapped and find_closing_brace(text, wrapped.start(1) - 1) in (wrapped.end(1), None):
        text = wrapped[1].strip()
    for sign, replacement in CHARACTER_REPLACEMENTS.items():
        text = text.replace(sign, replacement)
    for pattern, latex_replacement in LATEX_REPLACEMENTS:
        text = pattern.sub(latex_replacement, text)
    return expand_magnitudes(expand_repeating_decimals(text), "*").strip()


class _ParseError(Exception):
    """There is no number where one must be."""


class _NumberParser:
    """Recursive descent: reads the longest numeric expression that a text begins with. `at` is where it ends."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0

    def sum(self) -> float:
        value = self._product()
        while (sign := self._peek()) in ("+", "-"):
            term = self._try_after(sign, self._product)
            if term is None:
                break
            value += term if sign == "+" else -term
        return value

    def _product(self) -> float:
        value = self._signed()
        while True:
            if (sign := self._peek()) in ("*", "/"):
                factor = self._try_after(sign, self._signed)
            elif TIMES_TEN.match(self.text, self.at):  # 5.2 x 10^14
                factor = self._try_after(sign, self._power)
            elif IMPLICIT_FACTOR.match(self.text, self.at):  # 2\pi, 3\sqrt{2}, 5(10^3)
                factor = self._try_after("", self._power)
            else:
                return value
            if factor is None:
                return value
            value = value / factor if sign == "/" else value * factor

    def _signed(self) -> float:
        if self._accept("-"):
            return -self._power()
        self._accept("+")
        return self._power()

    def _power(self) -> float:
        base = self._factorial(self._atom())
        exponent = self._try_after("^", self._argument) if self._peek() == "^" else None
        if exponent is None:
            return base
        value = base**exponent
        if isinstance(value, complex):
            raise _ParseError
        return float(value)

    def _atom(self) -> float:
        self.depth += 1
        if self.depth > MAX_PARSE_DEPTH:
            raise _ParseError
        value = self._read_atom()
        self.depth -= 1
        return value

    def _read_atom(self) -> float:
        for opening, closing in (("(", ")"), ("{", "}")):
            if self._accept(opening):
                value = self.sum()
                if not self._accept(closing):
                    raise _ParseError
                return value
        for opening, (closing, name) in ENCLOSING_OPERATORS.items():
            if self._accept(opening):
                value = self.sum()
                if not self._accept(closing):
                    raise _ParseError
                return float(ENCLOSED[name](value))
        if self._accept(r"\frac"):
            numerator = self._argument(SINGLE_DIGIT)
            return numerator / self._argument(SINGLE_DIGIT)
        if self._accept(r"\sqrt"):
            return math.sqrt(self._argument())
        if self._accept(r"\pi"):
            return math.pi
        if function := FUNCTION_PATTERN.match(self.text, self.at):
            self.at = function.end()
            return FUNCTIONS[function[1]](self._argument())
        if EULER_NUMBER.match(self.text, self.at):
            self.at += 1
            return math.e
        literal = NUMBER_PATTERN.match(self.text, self.at)
        if not literal:
            raise _ParseError
        self.at = literal.end()
        value = float(literal[0].replace(",", ""))
        # A whole number with a fraction after it is a mixed number.
        mixed = literal[0].isdigit() and MIXED_FRACTION.match(self.text, self.at)
        return value + self._atom() if mixed else value

    def _factorial(self, value: float) -> float:
        """Read the signs of a factorial; two are a double factorial."""
        while self._accept("!"):
            step = 2 if self._accept("!") else 1
            if not (value.is_integer() and 0 <= value <= MAX_FACTORIAL):
                raise _ParseError
            value = float(math.prod(range(int(value), 0, -step)))
        return value

    def _argument(self, bare: re.Pattern[str] = BARE_NUMBER) -> float:
        r"""Read braces or parentheses; without them, the next number or, in \frac12, the next digit."""
        if self._peek() not in ("{", "(") and (number := bare.match(self.text, self.at)):
            self.at = number.end()
            return float(number[0])
        return self._atom()

    def _try_after(self, sign: str, read: Callable[[], float]) -> float | None:
        """Read what follows a sign. If that is no number (the "/" of "3 / s"), go back and return None."""
        before = self.at, self.depth
        self.at += len(sign)
        try:
            return read()
        except _ParseError:
            self.at, self.depth = before
            return None

    def _peek(self) -> str:
        """Skip white space and return the next character, or "" at the end."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _accept(self, sign: str) -> bool:
        self._peek()
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

r"""Answer types: parse an answer to its kind (value, list, interval, …) and the expressions in it.

    parse_answer(r"x \in (-\infty, 2) \cup [3, 5)")   ->  a union of two intervals
    parse_answer(r"1 \pm \sqrt{19}")                  ->  a list of two values
    parse_answer(r"864 \mbox{ inches}^2")             ->  the value 864, unit "inches^2"
    parse_answer("Evelyn")                            ->  a text

A word is never read as the product of its letters: "no" is not "on". Comparing answers is for equivalence.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from math import gcd

from leash.grading.mathematics.expression import (
    FUNCTIONS,
    MAX_ANSWER_CHARS,
    MAX_PARSE_DEPTH,
    TRIG_FUNCTIONS,
    Node,
    UnreadableError,
    operations,
    parse_expression,
    symbols,
)
from leash.grading.mathematics.identity import is_same_value
from leash.grading.mathematics.spelling import (
    CURRENCY_SIGNS,
    DOLLAR_SIGN,
    NUMBER_WORDS,
    QUANTITY_SIGNS,
    VALUE_WORDS,
    find_closing_bracket,
    normalize_latex,
    split_outside_brackets,
    strip_outer_braces,
)
from leash.grading.mathematics.units import is_letter, parse_units
from leash.grading.mathematics.values import decimal_and_ulp, real_value

MAX_LIST_ITEMS = 60  # a longer list is a table, not an answer


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """kind: value, equation, ratio, relation, list, set, tuple (or interval), union, matrix, numeral, time, text."""

    kind: str
    text: str
    node: Node | None = None  # of a value; of an equation, left minus right
    items: tuple[ParsedAnswer, ...] = ()  # of an equation such as m + n = 7, its right side
    name: str = ""  # the x of x = 5
    equation: Node | None = None  # of a named value, left minus right
    unit: str = ""  # of a numeral, its base; of a time, am or pm
    percent: bool = False
    brackets: str = ""  # of a relation, its signs


_TEXT_COMMAND = r"\\(?:text|textbf|textit|textrm|mbox|mathrm|rm)\s*\{[^{}]*\}"
_SYMBOL = r"(?:[A-Za-z]|\\[A-Za-z]+)(?:_(?:\{[^{}]*\}|\w))?'*"
_NAMED_ANSWER = re.compile(
    rf"(?P<name>{_SYMBOL}(?:\s*\([^()=]*\))?|[A-Za-z]{{2,20}}|{_TEXT_COMMAND}"
    rf"|m?\s*\\angle[\sA-Za-z_{{}}\d]*|\([A-Za-z, ]*\)|{_SYMBOL}(?:\s*:\s*{_SYMBOL})+"
    # A length, an area or a modulus. |x| = 5 is an equation for x.
    r"|\|(?:[A-Z]{2}|[zw]|\\(?:vec|overrightarrow|mathbf)\{[A-Za-z]{1,2}\})\||\\\|[^|=]{1,20}\\\||\\overline\{[A-Z]{2}\}"
    r"|\[[A-Z]{3,6}\]|\\(?:vec|mathbf|overrightarrow|hat)\s*\{[A-Za-z]{1,2}\})"
    r"\s*(?:=|\\in(?![A-Za-z])|\\approx(?![A-Za-z]))\s*(?P<rest>.+)"
)
_MATRIX = re.compile(
    r"[(\[]?\s*\\begin\{(?P<kind>[pbB]?matrix|smallmatrix|array)\}(?:\{[clr|]*\})?(?P<rows>.*)\\end\{(?P=kind)\}\s*[)\]]?"
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)")
_NUMERAL = re.compile(
    r"(?:\\text\{|\()?(?P<digits>[0-9A-Fa-f]*[0-9][0-9A-Fa-f]*)[})]?"
    r"(?:_\{?\s*(?:base\s*)?|\s*\(?(?:\\text\{\s*)?\(?(?:in\s+)?base\s*\}?\s*)"
    rf"(?P<base>\d+|{'|'.join(NUMBER_WORDS)})\s*[)}}]*"
)
_RELATION = re.compile(r"[<>≤≥]")
_SET_BUILDER = re.compile(
    rf"\\\{{\s*{_SYMBOL}(?:\s*\\in\s*\\mathbb\{{R\}})?\s*(?:\\mid(?![A-Za-z])|\||:)(?P<condition>.*)\\\}}"
)
_MODULUS = re.compile(rf"\|\s*({_SYMBOL})\s*\|")
_REALS_WITHOUT = re.compile(r"(?:\\mathbb\{R\}|\(-\\infty\s*,\s*\+?\\infty\s*\))\s*∖\s*\\\{(?P<points>.*)\\\}")
CLOCK = re.compile(r"(\d{1,2})\s*:\s*([0-5]\d)")
_TIME = re.compile(
    r"(?P<hour>\d{1,2})(?:\s*:\s*(?P<minute>[0-5]\d))?(?:\s*:\s*(?P<second>[0-5]\d))?\s*"
    r"(?:\\[a-z]+\s*\{)?\s*(?P<half>[ap])\s*\.?\s*m\b\.?\s*\}?",
    re.IGNORECASE,
)
_PART_OF_DAY = re.compile(
    r"(?P<hour>\d{1,2})(?:\s*:\s*(?P<minute>[0-5]\d))?\s*(?:o'?clock)?\s*(?:\\[a-z]+\s*\{)?\s*(?:o'?clock)?\s*,?\s*"
    r"(?:(?:in\s+)?(?:the\s+)?(?P<part>morning|afternoon|evening)|(?:at\s+)?(?P<night>noon|midnight|night))\s*\}?",
    re.IGNORECASE,
)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH = rf"(?P<month>{'|'.join(f'{name[:3]}(?:{name[3:]})?' for name in _MONTHS)}|sept)\.?"
_DATES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_MONTH}\s*(?P<day>\d{{1,2}})(?:\s*,?\s+(?P<year>\d{{4}}))?",
        rf"(?P<day>\d{{1,2}})\s+(?:of\s+)?{_MONTH}(?:\s*,?\s+(?P<year>\d{{4}}))?",
        r"(?P<year>\d{4})-(?P<month>0\d|1[0-2])-(?P<day>0\d|[12]\d|3[01])",
    )
]
_TIMES_OF_DAY = {"noon": "12 pm", "midnight": "12 am"}
_REALS = frozenset([r"\mathbb{R}", r"\R", "all real numbers", "all reals"])
_NO_SOLUTION = frozenset([r"\emptyset", "no solution", "no solutions", "empty set", "the empty set"])
_TEXT_AROUND = re.compile(r"\\(?:text|mathrm)\s*\{([^{}]*)\}")
_UPRIGHT = r"\\(?:text|textbf|textit|textrm|mbox|mathrm|rm)\s*\{(?:[^{}]|\{[^{}]*\})*\}"
_UNIT_POWER = r"(?:\^\{?-?\d+\}?)?"
_UNIT_FACTOR = (
    rf"(?:(?:{_UPRIGHT}\s*)?\\(?:Omega|mu)(?![A-Za-z])|{_UPRIGHT}"
    rf"|\\frac\s*\{{\s*{_UPRIGHT}{_UNIT_POWER}\s*\}}\s*\{{\s*{_UPRIGHT}{_UNIT_POWER}\s*\}})"
)
# Possessive: a space between factors is read in one way only, or 25 of them would take for ever.
_TEXT_UNIT = re.compile(rf"\s*((?:°\s*)?(?:{_UNIT_FACTOR}\s*+{_UNIT_POWER}(?:[\s/]|\\cdot(?![A-Za-z]))*+)++)$")
_POWER_IN_UNIT = re.compile(r"\^\s*\{?\s*-?\d+\s*\}?|(?<=[A-Za-z])-?\d(?!\d)")
_SIGN_UNIT = re.compile(r"(?<=[\d}\w)])\s*(°[CF]?|(?<=[\d}])''|(?<=\d)['\"′″]|[€£₹¥])$")
_PREFIXED_CURRENCY = re.compile(rf"(-?)\s*([{CURRENCY_SIGNS}])\s*(-?)\s*(?=[\d.\\(])")
# A letter for a power of ten or a letter for a unit: 5k, 5M and 5K are neither 5 nor surely 5000.
_DOUBTFUL_UNIT = re.compile(r"(?:\\[a-z]+\s*\{)?[kKMB]\}?")
_MEASURE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>°|''|['\"′″]|\\(?:text|mathrm)\s*\{[^{}]*\}|[a-z]+)\s*")
_WORD_UNIT = re.compile(
    r"(?:(?<=[\d})%])\s*|(?<=\\pi)\s+)((?:(?:square|cubic|sq\.?|cu\.?)\s+)?"
    r"(?:[a-z]{4,}|day|hrs?|min|sec|mph|kph|mol|[kcmnµ]m|[mk]g|mL|[kM]?Hz|[kM]?J|[kM]W|kWh|eV|k?Pa|m[AV]|[MGT]B"
    r"|ft|mi|lbs?|in|m/s)"
    r"(?:[\s/][a-z]{1,12})*)"
    r"(?:\^\{?-?\d+\}?)?\.?$"
)
_ONLY_LETTERS = re.compile(r"[A-Za-z][A-Za-z\s]*[A-Za-z]")
_WORD_PATTERN = re.compile(
    rf"(?<![\\A-Za-z])(?<!_\{{)(?!(?:{'|'.join(FUNCTIONS)})\b)[A-Z]?[a-z]{{4,}}|\\(?:text|mbox|textbf)"
)
_NUMERIC_PART = re.compile(r"\d|\\pi")
_NON_UNIT_WORDS = (
    "is are if for where when with not any all only no or and more less most least than times mod base over "
    "by hundred thousand million billion trillion dozen root factorial point infinity "
    "hundreds thousands millions billions trillions dozens lakh lakhs crore crores bc bce "
    f"under {' '.join(VALUE_WORDS)} noon midnight morning afternoon evening"
)
_NON_UNIT_PATTERN = re.compile(
    rf"(?<![a-z])(?:(?i:{'|'.join((*_NON_UNIT_WORDS.split(), *(set(FUNCTIONS) - {'min'})))})|k(?!\}}?\s*\\Omega))"
    r"(?![A-Za-z])|^\W*(?:\\[a-z]+\s*\{)?\s*(?:squared|cubed|st|nd|rd|th)\b"
)
_APPROXIMATION_PREFIX = re.compile(r"^(?:\\approx|approximately|about|roughly|\\sim)(?![A-Za-z])\s*")


@lru_cache(maxsize=20_000)
def parse_answer(text: str, multiple: bool = False) -> ParsedAnswer:
    """Parse an answer. If `multiple`, commas separate answers, not thousands."""
    depths = accumulate((char in "([{") - (char in ")]}") for char in text)
    if len(text) > MAX_ANSWER_CHARS or max(depths, default=0) > MAX_PARSE_DEPTH:
        return ParsedAnswer("text", text)
    plain = _APPROXIMATION_PREFIX.sub("", normalize_latex(text))
    # Inside brackets commas separate coordinates. "1,350, 864" has both kinds of comma.
    if not any(bracket in plain for bracket in "([") and (not multiple or ", " in plain):
        plain = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), plain)
    return _parse(plain)


def _parse(text: str) -> ParsedAnswer:
    """Return what the first parser that accepts the text makes of it."""
    text = strip_outer_braces(text)
    for parser in _PARSERS:
        if parsed := parser(text):
            return parsed
    return ParsedAnswer("text", text)


def _parse_numeral(text: str) -> ParsedAnswer | None:
    """Parse 2516_8 or 2516 (base eight)."""
    if not (match := _NUMERAL.fullmatch(text)):
        return None
    base = NUMBER_WORDS.get(match["base"], match["base"])
    if re.search("[a-f]", match["digits"]) and int(base) <= 10:  # 2a_3 has a variable
        return None
    return ParsedAnswer("numeral", match["digits"].upper().lstrip("0") or "0", unit=base)


def _parse_time(text: str) -> ParsedAnswer | None:
    """Parse a time of day with a.m. or p.m. to its minutes after midnight."""
    text = _TIMES_OF_DAY.get(text.casefold(), text)
    if named := _PART_OF_DAY.fullmatch(text):
        text = _write_half_day(named)
    if not (match := _TIME.fullmatch(text)) or not 1 <= int(match["hour"]) <= 12:
        return None
    half = match["half"].lower()
    minutes = int(match["hour"]) % 12 * 60 + 720 * (half == "p") + int(match["minute"] or 0)
    number = Node("num", number=Fraction(minutes) + Fraction(int(match["second"] or 0), 60))
    return ParsedAnswer("time", text, node=number, unit=f"{half}m")


def _write_half_day(named: re.Match[str]) -> str:
    """Write 10 in the morning as 10 am. 10 noon is no time."""
    hour, part = int(named["hour"]), (named["part"] or named["night"]).lower()
    if part in ("noon", "midnight") and hour != 12:
        return ""
    # 12 at night is midnight, and 2 at night is in the morning.
    is_late = part in ("noon", "afternoon", "evening") or (part == "night" and hour >= 6)
    half = "pm" if is_late and not (part in ("evening", "night") and hour == 12) else "am"
    return f"{hour}:{named['minute'] or '00'} {half}"


def _parse_date(text: str) -> ParsedAnswer | None:
    """Parse July 4 1776, 4 July 1776 or 1776-07-04. 2010-10-10 may be a difference, so a part must begin with 0."""
    plain = _TEXT_AROUND.sub(r" \1 ", text).strip()
    match = next(filter(None, (pattern.fullmatch(plain) for pattern in _DATES)), None)
    if not match or (match["month"].isdigit() and "-0" not in plain):
        return None
    name = match["month"].lower()
    month = int(name) if name.isdigit() else 1 + [month[:3] for month in _MONTHS].index(name[:3])
    return ParsedAnswer("text", f"date {match.groupdict().get('year') or ''}-{month}-{int(match['day'])}")


def _parse_measures(text: str) -> ParsedAnswer | None:
    """Parse a quantity in several units, such as 30° 15' or 5 ft 3 in, to one value in the first unit."""
    parts, end = [], 0
    while part := _MEASURE.match(text, end):
        parts.append(part)
        end = part.end()
    if len(parts) < 2 or end < len(text):
        return None
    readings = [parse_units(part["unit"]) for part in parts]
    for first in readings[0]:
        chosen = [next((unit for unit in units if unit.dimension == first.dimension), None) for units in readings]
        ratios = [unit.factor / first.factor for unit in chosen if unit and unit.is_complete and unit.pi == first.pi]
        # Each unit is smaller than the one before: "2 hours 90 hours" is no time.
        if first.dimension and len(ratios) == len(parts) and all(a > b for a, b in pairwise(ratios)):
            value = sum(
                (Fraction(part["number"]) * ratio for part, ratio in zip(parts, ratios, strict=True)), Fraction(0)
            )
            return ParsedAnswer("value", text, node=Node("num", number=value), unit=parts[0]["unit"])
    return None


def _parse_known_set(text: str) -> ParsedAnswer | None:
    r"""Parse the real numbers, with or without some points, and the empty set."""
    if text in _REALS or text.casefold() in _REALS:
        return _interval(text, "-\\infty", "\\infty")
    if without := _REALS_WITHOUT.fullmatch(text):
        return _reals_without(text, without["points"])
    return ParsedAnswer("set", text) if text.casefold() in _NO_SOLUTION else None


def _interval(text: str, low: str, high: str, brackets: str = "()") -> ParsedAnswer:
    return ParsedAnswer("tuple", text, items=(_parse(low), _parse(high)), brackets=brackets)


def _reals_without(text: str, points: str) -> ParsedAnswer | None:
    """Parse the real numbers without these points to a union of intervals."""
    parsed = _parse(points)
    items = parsed.items if parsed.kind == "list" else (parsed,)
    values = [(real_value(item.node), item.text) for item in items if item.kind == "value" and item.node]
    if len(values) < len(items) or any(value is None for value, _ in values):
        return None
    ends = ["-\\infty", *(point for _, point in sorted(values, key=lambda value: value[0] or 0)), "\\infty"]
    return ParsedAnswer("union", text, items=tuple(_interval("", *pair) for pair in pairwise(ends)))


def _parse_matrix(text: str) -> ParsedAnswer | None:
    if not (match := _MATRIX.fullmatch(text)):
        return None
    rows = [row.strip() for row in match["rows"].split("↵")]
    cells = [[_parse(cell.strip()) for cell in row.split("&")] for row in rows if row]
    if all(len(row) == 1 for row in cells):  # a column is a vector
        return ParsedAnswer("tuple", text, items=tuple(row[0] for row in cells), brackets="()")
    lines = tuple(ParsedAnswer("tuple", "", items=tuple(row), brackets="()") for row in cells)
    return ParsedAnswer("matrix", text, items=lines)


def _parse_named(text: str) -> ParsedAnswer | None:
    r"""Parse x = 5, f(x) = 2x, x \in [1, 2] or (x, y) = (1, 2) to the right side with a name."""
    match = _NAMED_ANSWER.fullmatch(text)
    if not match or len(split_outside_brackets(text, ",")) > 1 or _RELATION.search(text):
        return None
    name, rest = "".join(match["name"].split()), match["rest"].partition("\\approx")[0]
    if name.removeprefix("\\") in FUNCTIONS:
        return None
    inner = _parse_chain(rest)
    # x = x^2 + 1 is an equation for x, not its value.
    symbol = name.removeprefix("\\").replace("{", "").replace("}", "")
    if inner.kind == "text" or (inner.node and symbol in symbols(inner.node)):
        return None
    return replace(inner, name=name, equation=_parse_difference(match["name"], inner.text))


def _parse_chain(chain: str) -> ParsedAnswer:
    """Return the last link of a chain such as 2 + 3 = 5, but the exact one of 10/3 = 3.33."""
    links = split_outside_brackets(chain, "=")
    last = _parse(links[-1])
    if len(links) == 1 or last.node is None or decimal_and_ulp(last.node) is None:
        return last
    before = _parse(links[-2])
    closed = before.kind == "value" and before.node is not None and not symbols(before.node)
    return before if closed and before.node and not is_same_value(before.node, last.node) else last


def _parse_difference(left: str, right: str) -> Node | None:
    try:
        node = Node("add", (_read_expression(left), Node("neg", (_read_expression(right),))))
    except UnreadableError:
        return None
    return None if "infty" in symbols(node) else node


def _read_expression(text: str) -> Node:
    """Read an expression without its degree and currency signs."""
    return parse_expression(text.translate(_NO_QUANTITY_SIGNS))


def _parse_list(text: str) -> ParsedAnswer | None:
    """Parse parts between commas: a list without order, or a tuple if each part has its own name."""
    parts = [part for part in split_outside_brackets(text, ",;") if part]
    if len(parts) < 2 or len(parts) > MAX_LIST_ITEMS:
        return None
    items = _parse_items(parts)
    # Long texts with words are a sentence with commas.
    if any(item.kind == "text" and has_words(item.text) and len(item.text) > 30 for item in items):
        return None
    names = [item.name for item in items]
    if items[0].name and not any(names[1:]):  # x = 1, 2, 3
        return ParsedAnswer("list", text, items=(replace(items[0], name="", equation=None), *items[1:]), name=names[0])
    if len(set(names)) == len(names) and all(names):  # x = 1, y = 2
        ordered = sorted(items, key=lambda item: item.name)
        return ParsedAnswer("tuple", text, items=tuple(ordered), brackets="()", name=",".join(sorted(names)))
    if all(item.kind == "tuple" and _RELATION.search(item.text) for item in items):  # x < 2 or x > 3
        return _overlap(text, items) or ParsedAnswer("union", text, items=items)
    if all(item.kind == "tuple" and len(item.items) == 2 for item in items) and any(
        "\\infty" in item.text or item.brackets != "()" for item in items
    ):  # intervals, not points
        return ParsedAnswer("union", text, items=items)
    return ParsedAnswer("list", text, items=items)


def _overlap(text: str, items: tuple[ParsedAnswer, ...]) -> ParsedAnswer | None:
    """Read x > 3 and x < 5 as 3 < x < 5. Nobody would say "or" here."""
    lower = [item for item in items if item.items[1].text == "\\infty"]
    upper = [item for item in items if item.items[0].text == "-\\infty"]
    if len(items) != 2 or len(lower) != 1 or len(upper) != 1 or not (lower[0].items[0].node and upper[0].items[1].node):
        return None
    low, high = real_value(lower[0].items[0].node), real_value(upper[0].items[1].node)
    if low is None or high is None or low >= high:
        return None
    ends = lower[0].items[0], upper[0].items[1]
    return ParsedAnswer("tuple", text, items=ends, brackets=lower[0].brackets[0] + upper[0].brackets[1])


def _parse_items(parts: list[str]) -> tuple[ParsedAnswer, ...]:
    """Parse the parts of a list. A part that is itself a list, such as ±1, gives its items."""
    parsed = [_parse(part) for part in parts]
    return tuple(item for one in parsed for item in (one.items if one.kind == "list" else (one,)))


def _parse_union(text: str) -> ParsedAnswer | None:
    parts = split_outside_brackets(text.replace("\\cup", "∪"), "∪")
    return ParsedAnswer("union", text, items=tuple(_parse(part) for part in parts)) if len(parts) > 1 else None


def _parse_inequality(text: str) -> ParsedAnswer | None:
    """Parse 2 ≤ x < 5 as [2, 5), x > 3 as (3, ∞) and a < b + c as a relation."""
    signs = _RELATION.findall(text)
    parts = [part.strip() for part in _RELATION.split(text)]
    if not signs or not all(parts):
        return None
    if len(parts) == 2 and any(re.fullmatch(rf"-\s*{_SYMBOL}", part) for part in parts):  # -x > -1 is 1 > x
        parts = [part[1:].strip() if part[0] == "-" else f"-({part})" for part in reversed(parts)]
    if bounded := _parse_bounded_modulus(parts, signs):
        return bounded
    if signs[0] in ">≥":
        # Turn the chain around, so that its signs are < or ≤.
        flipped = str.maketrans("<>≤≥", "><≥≤")
        parts, signs = parts[::-1], [s.translate(flipped) for s in signs[::-1]]
    if any(sign in ">≥" for sign in signs):
        return None
    names = [i for i, part in enumerate(parts) if re.fullmatch(_SYMBOL, part) and part != "\\infty"]
    if len(signs) > 2 or len(names) != 1 or (len(signs) == 2 and names != [1]):
        items = tuple(_parse(part) for part in parts)
        is_readable = all(item.kind == "value" or (item.kind == "text" and item.node) for item in items)
        return ParsedAnswer("relation", text, items=items, brackets="".join(signs)) if is_readable else None
    low = parts[names[0] - 1] if names[0] else "-\\infty"
    high = parts[names[0] + 1] if names[0] + 1 < len(parts) else "\\infty"
    opening = "[" if names[0] and signs[0] == "≤" else "("
    closing = "]" if names[0] + 1 < len(parts) and signs[-1] == "≤" else ")"
    return _interval(text, low, high, opening + closing)


def _parse_bounded_modulus(parts: list[str], signs: list[str]) -> ParsedAnswer | None:
    """Parse |x| < 2 as -2 < x < 2, and |x| > 2 as x < -2 or x > 2."""
    if len(parts) != 2:
        return None
    flip = str.maketrans("<>≤≥", "><≥≤")
    if _MODULUS.fullmatch(parts[1]):  # 2 > |x|
        parts, signs = parts[::-1], [signs[0].translate(flip)]
    bound = _parse(parts[1]) if (modulus := _MODULUS.fullmatch(parts[0])) else None
    if not modulus or not bound or not bound.node or (real_value(bound.node) or 0) <= 0:
        return None
    name, sign = modulus[1], signs[0]
    if sign in "<≤":
        return _parse(f"-({parts[1]}) {sign} {name} {sign} {parts[1]}")
    return _parse(f"{name} {sign.translate(flip)} -({parts[1]}), {name} {sign} {parts[1]}")


def _parse_exclusion(text: str) -> ParsedAnswer | None:
    """Parse x ≠ 3 as the real numbers without 3."""
    parts = [part.strip() for part in text.split("≠")]
    if len(parts) != 2 or not all(parts):
        return None
    # A name goes before its value.
    parts.sort(key=lambda part: not re.fullmatch(_SYMBOL, part))
    if re.fullmatch(_SYMBOL, parts[0]) and (union := _reals_without(text, parts[1])):
        return union
    items = tuple(_parse(part) for part in parts)
    return ParsedAnswer("relation", text, items=items, brackets="≠") if all(item.node for item in items) else None


def _parse_ratio(text: str) -> ParsedAnswer | None:
    """Parse 11:21. A time of day such as 6:30 or 7:05 is no ratio; 1:30 may be one."""
    parts = split_outside_brackets(text, ":")
    if not 2 <= len(parts) <= 6 or not all(parts):
        return None
    clock = CLOCK.fullmatch(text)
    if clock and (gcd(int(clock[1]), int(clock[2])) > 1 or clock[2].startswith("0")):
        return None
    items = tuple(_parse(part) for part in parts)
    is_ratio = all(item.kind == "value" and not item.unit for item in items)  # 3:30 \text{ PM} is none
    return ParsedAnswer("ratio", text, items=items) if is_ratio else None


def _parse_bracketed(text: str) -> ParsedAnswer | None:
    if built := _SET_BUILDER.fullmatch(text):
        condition = _parse(built["condition"].strip())
        return condition if condition.kind in ("tuple", "union") else None
    if text.startswith("\\{") and text.endswith("\\}") and find_closing_bracket(text, 1) == len(text) - 1:
        parts = [part for part in split_outside_brackets(text[2:-2].strip(), ",;") if part]
        items = _parse_items(parts)
        return ParsedAnswer("set", text, items=items) if len(items) <= MAX_LIST_ITEMS else None
    if outward := re.fullmatch(r"([\[\]])([^\[\],;]+)[,;]([^\[\],;]+)([\[\]])", text):  # ]2, 3[ is (2, 3)
        brackets = "(" * (outward[1] == "]") or "[", ")" * (outward[4] == "[") or "]"
        return _interval(text, outward[2].strip(), outward[3].strip(), "".join(brackets))
    if labelled := re.fullmatch(r"[A-Z]\s*(\(.*,.*\))", text):  # the point P(1, 2)
        text = labelled[1]
    # A gold of OlympiadBench is t(0,4]: half-open brackets make an interval, not a product.
    if half := re.fullmatch(r"[a-z]\s*((?:\(.*\]|\[.*\)))", text):
        text = half[1]
    if not text or text[0] not in "([" or find_closing_bracket(text, 0) != len(text) - 1:
        return None
    parts = [part for part in split_outside_brackets(text[1:-1], ",;") if part]
    if len(parts) == 1 and text[0] == "(":
        return _parse(parts[0])
    if not 2 <= len(parts) <= MAX_LIST_ITEMS:
        return None
    items = tuple(_parse(part) for part in parts)
    if text[0] == "[" and all(item.brackets == "[]" and len(item.items) == len(items[0].items) for item in items):
        rows = tuple(replace(item, brackets="()") for item in items)  # [[1, 2], [3, 4]]
        return ParsedAnswer("matrix", text, items=rows)
    return ParsedAnswer("tuple", text, items=items, brackets=text[0] + text[-1])


def _parse_equation(text: str) -> ParsedAnswer | None:
    """Parse an equation of two sides. 5 = x is x = 5, and a chain of numbers such as 2 + 3 = 5 is its last link."""
    parts = split_outside_brackets(text, "=")
    if len(parts) < 2 or not all(parts) or _RELATION.search(text):
        return None
    swapped = len(parts) == 2 and re.fullmatch(_SYMBOL, parts[1]) and not re.fullmatch(_SYMBOL, parts[0])
    if swapped and (named := _parse_named(f"{parts[1]} = {parts[0]}")):
        return named
    if (difference := _parse_difference(parts[0], parts[-1])) is None:
        return None
    if not symbols(difference):
        return _parse_chain(text)
    quantity = _parse_quantity(parts)
    if len(parts) > 2 and not quantity:
        return None
    return ParsedAnswer("equation", text, node=difference, items=quantity, equation=difference)


def _parse_quantity(sides: list[str]) -> tuple[ParsedAnswer, ...]:
    r"""Return the value that an equation gives to a quantity such as m + n, AB \cdot CD or \sin A, else nothing.

    A side with a number or a power in it is no such quantity: 2x = 10 and x^2 = 4 are not solved. A zero on the right
    makes an equation of a line.
    """
    try:
        nodes = [_read_expression(side) for side in sides]
    except UnreadableError:
        return ()
    inner = _parse_chain("=".join(sides[1:]))
    is_named = operations(nodes[0]) - symbols(nodes[0]) <= _QUANTITY_OPERATIONS and not _has_numbers(nodes[0])
    is_closed = inner.kind == "value" and not any(symbols(node) - {"pi", "e"} for node in nodes[1:])
    is_value = is_named and is_closed and inner.node is not None and real_value(inner.node) not in (None, 0)
    return (inner,) if is_value else ()


def _has_numbers(node: Node) -> bool:
    return node.op == "num" or any(map(_has_numbers, node.args))


def _parse_plus_minus(text: str) -> ParsedAnswer | None:
    # Nobody knows whether two signs go together.
    if text.count("\\pm") != 1:
        return None
    upper = _parse(text.replace("\\pm", "+").replace("\\mp", "-").lstrip("+ "))
    lower = _parse(text.replace("\\pm", "-").replace("\\mp", "+").lstrip("+ "))
    return None if "text" in (upper.kind, lower.kind) else ParsedAnswer("list", text, items=(upper, lower))


def _parse_value(text: str) -> ParsedAnswer | None:
    number, unit = _split_unit(text)
    percent = number.endswith("%")
    number = number.rstrip("% ")
    if "\\approx" in number:
        number = number.partition("\\approx")[0].strip() or number
    if has_words(number):
        return None
    try:
        node = _read_expression(number)
    except UnreadableError:
        return None
    if "infty" in symbols(node) and node != _INFINITY and node != Node("neg", (_INFINITY,)):
        return None  # infinity over infinity has no value
    # "ab" may be a product or a word: it stays a text, with its product as node.
    kind = "text" if _ONLY_LETTERS.fullmatch(number) else "value"
    return ParsedAnswer(kind, text if kind == "text" else number, node=node, unit=unit, percent=percent)


def has_words(text: str) -> bool:
    return _WORD_PATTERN.search(text) is not None


def _split_unit(text: str) -> tuple[str, str]:
    """Split "5 cm" to the number and its unit. "5 million", "5 or more" and 5\\text{x} have none."""
    if prefixed := _PREFIXED_CURRENCY.match(text):
        sign = prefixed[1] or prefixed[3]
        number, unit = _split_unit(text[prefixed.end() :])
        return sign + number, unit or prefixed[2].replace(DOLLAR_SIGN, "$")
    for pattern in (_TEXT_UNIT, _WORD_UNIT, _SIGN_UNIT):
        match = pattern.search(text)
        if not match or not _NUMERIC_PART.search(text[: match.start()]) or _NON_UNIT_PATTERN.search(match[1]):
            continue
        if re.search(r"\d", _POWER_IN_UNIT.sub("", match[1])):  # "hours and 30 minutes" goes on with another number
            continue
        if is_letter(match[1]) or (not match[0][0].isspace() and _DOUBTFUL_UNIT.fullmatch(match[0])):
            continue
        return text[: match.start()].rstrip(" \\/"), match[0].strip()
    return text, ""


_INFINITY = Node("symbol", name="infty")
_NO_QUANTITY_SIGNS = str.maketrans("", "", QUANTITY_SIGNS)
_QUANTITY_OPERATIONS = frozenset(["add", "neg", "mul", "div", *TRIG_FUNCTIONS])

# The order matters: a list may hold equations, an equation may hold values.
_PARSERS = (
    *(
        _parse_numeral,
        _parse_time,
        _parse_date,
        _parse_measures,
        _parse_known_set,
        _parse_matrix,
        _parse_named,
        _parse_list,
        _parse_union,
        _parse_inequality,
    ),
    *(_parse_exclusion, _parse_bracketed, _parse_equation, _parse_plus_minus, _parse_ratio, _parse_value),
)

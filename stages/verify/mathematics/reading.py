r"""Readings: what kind of thing an answer is, and the expressions it is made of.

read(r"x \in (-\infty, 2) \cup [3, 5)")     ->  a union of two intervals
read(r"1 \pm \sqrt{19}")                    ->  a list of two values
read(r"864 \mbox{ inches}^2")               ->  the value 864, unit "inches^2"
read("Evelyn")                              ->  a text

A text is never read as a product of its letters: "no" is not "on".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

from stages.verify.mathematics.expression import DEEPEST, FUNCTIONS, LONGEST, Node, UnreadableError, parsed, symbols
from stages.verify.mathematics.identity import same_value
from stages.verify.mathematics.spelling import closes_at, normalised, split, unbraced
from stages.verify.mathematics.values import printed

MOST = 60  # parts of a list: beyond this it is no answer but a table


@dataclass(frozen=True, slots=True)
class Reading:
    """kind: value, equation, list, set, tuple (or interval), union, matrix, numeral (in a base), text."""

    kind: str
    text: str
    node: Node | None = None  # of a value; of an equation, left less right
    items: tuple[Reading, ...] = ()
    name: str = ""  # what the answer calls itself: the x of x = 5
    equation: Node | None = None  # of a named value, the equation it also is
    unit: str = ""
    percent: bool = False
    brackets: str = ""


_TEXT = r"\\(?:text|textbf|textit|textrm|mbox|mathrm|rm)\s*\{[^{}]*\}"
_SYMBOL = r"(?:[A-Za-z]|\\[A-Za-z]+)(?:_(?:\{[^{}]*\}|\w))?'*"
_NAMED = re.compile(
    rf"(?P<name>{_SYMBOL}(?:\s*\([^()=]*\))?|[A-Za-z]{{2,20}}|{_TEXT}|\\angle[\sA-Za-z_{{}}\d]*|\([A-Za-z, ]*\))"
    r"\s*(?:=|\\in(?![A-Za-z])|\\approx(?![A-Za-z]))\s*(?P<rest>.+)"
)
_MATRIX = re.compile(r"\\begin\{(?P<kind>[pbB]?matrix|array)\}(?:\{[clr|]*\})?(?P<rows>.*)\\end\{(?P=kind)\}")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)")
_NUMERAL = re.compile(r"(?P<digits>[0-9A-F]*[0-9][0-9A-F]*)_\{?(?P<base>\d+)\}?")
_RELATION = re.compile(r"[<>≤≥]")
_TEXT_UNIT = re.compile(rf"\s*((?:{_TEXT}\s*(?:\^\{{?-?\d+\}}?)?[\s/]*)+)$")
_WORD_UNIT = re.compile(
    r"(?<=[\d})%])\s*((?:(?:square|cubic|sq\.?|cu\.?)\s+)?"
    r"(?:[a-z]{4,}|day|hrs|min|sec|mph|mol|[kcmnµ]m|[mk]g|mL|[kM]?Hz|[kM]?J|[kM]W|eV|Pa|ft|mi|lb|m/s)"
    r"(?:[\s/][a-z]{1,12})*)"
    r"(?:\^\{?-?\d+\}?)?\.?$"
)
_LETTERS = re.compile(r"[A-Za-z][A-Za-z\s]*[A-Za-z]")
_WORDY = re.compile(rf"(?<![\\A-Za-z])(?<!_\{{)(?!(?:{'|'.join(FUNCTIONS)})\b)[A-Z]?[a-z]{{4,}}|\\(?:text|mbox|textbf)")
_MEASURED = re.compile(r"\d|\\pi")
_NO_UNITS = (
    "is are if for where when with not any all only no or and more less most least than times mod base plus minus over "
    "by hundred thousand million billion trillion dozen half halves squared cubed root factorial point infinity"
)
_NO_UNIT = re.compile(rf"(?<![a-z])(?:{'|'.join((*_NO_UNITS.split(), *FUNCTIONS))})(?![a-z])", re.IGNORECASE)
_ABOUT = re.compile(r"^(?:\\approx|approximately|about|roughly|\\sim)(?![A-Za-z])\s*")


@lru_cache(maxsize=20_000)
def read(text: str, multiple: bool = False) -> Reading:
    """A reading of an answer; `multiple` says that commas separate answers rather than thousands."""
    if len(text) > LONGEST or _depth(text) > DEEPEST:
        return Reading("text", text)
    spelt = _ABOUT.sub("", normalised(text))
    if not any(bracket in spelt for bracket in "([") and (not multiple or ", " in spelt):
        spelt = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), spelt)
    return _read(spelt)


def _depth(text: str) -> int:
    depths = accumulate((char in "([{") - (char in ")]}") for char in text)
    return max(depths, default=0)


def _read(text: str) -> Reading:
    text = unbraced(text)
    for reader in (_numeral, _matrix, _named, _parts, _union, _bounds, _bracketed, _equation, _plus_minus, _value):
        if reading := reader(text):
            return reading
    return Reading("text", text)


def _numeral(text: str) -> Reading | None:
    """2516_8: its digits, and its base in the place of a unit."""
    match = _NUMERAL.fullmatch(text)
    return Reading("numeral", match["digits"].lstrip("0") or "0", unit=match["base"]) if match else None


def _matrix(text: str) -> Reading | None:
    match = _MATRIX.fullmatch(text)
    if not match:
        return None
    rows = [row.strip() for row in match["rows"].split("↵")]
    cells = [[_read(cell.strip()) for cell in row.split("&")] for row in rows if row]
    if all(len(row) == 1 for row in cells):  # a column is a vector
        return Reading("tuple", text, items=tuple(row[0] for row in cells), brackets="()")
    lines = tuple(Reading("tuple", "", items=tuple(row), brackets="()") for row in cells)
    return Reading("matrix", text, items=lines)


def _named(text: str) -> Reading | None:
    """x = 5, f(x) = 2x, x \\in [1, 2], (x, y) = (1, 2): the thing itself, under its name."""
    match = _NAMED.fullmatch(text)
    if not match or len(split(text, ",")) > 1 or _RELATION.search(text):
        return None
    name, rest = "".join(match["name"].split()), match["rest"].partition("\\approx")[0]
    if name.removeprefix("\\") in FUNCTIONS:
        return None
    inner = _last(rest)
    if inner.kind == "text" or (inner.node and _bare(name) in symbols(inner.node)):
        return None
    return replace(inner, name=name, equation=_difference(match["name"], inner.text))


def _last(chain: str) -> Reading:
    """What a chain such as 2 + 3 = 5 comes to: its last link, but for 10/3 = 3.33, where the decimal is less."""
    links = split(chain, "=")
    last = _read(links[-1])
    if len(links) == 1 or last.node is None or printed(last.node) is None:
        return last
    before = _read(links[-2])
    closed = before.kind == "value" and before.node is not None and not symbols(before.node)
    return before if closed and before.node and not same_value(before.node, last.node) else last


def _bare(name: str) -> str:
    return name.removeprefix("\\").replace("{", "").replace("}", "")


def _difference(left: str, right: str) -> Node | None:
    try:
        return Node("add", (parsed(left), Node("neg", (parsed(right),))))
    except UnreadableError:
        return None


def _parts(text: str) -> Reading | None:
    """What is separated by commas: a list, which has no order, unless each part has a name of its own."""
    parts = [part for part in split(text, ",;") if part]
    if len(parts) < 2 or len(parts) > MOST:
        return None
    items = tuple(item for part in parts for item in _spread(_read(part)))
    if any(item.kind == "text" and wordy(item.text) and len(item.text) > 30 for item in items):
        return None
    names = [item.name for item in items]
    if items[0].name and not any(names[1:]):  # x = 1, 2, 3
        return Reading("list", text, items=(replace(items[0], name="", equation=None), *items[1:]), name=names[0])
    if len(set(names)) == len(names) and all(names):  # x = 1, y = 2
        ordered = sorted(items, key=lambda item: item.name)
        return Reading("tuple", text, items=tuple(ordered), brackets="()", name=",".join(sorted(names)))
    if all(item.kind == "tuple" and _RELATION.search(item.text) for item in items):  # x < 2 or x > 3
        return Reading("union", text, items=items)
    return Reading("list", text, items=items)


def _spread(item: Reading) -> tuple[Reading, ...]:
    return item.items if item.kind == "list" else (item,)


def _union(text: str) -> Reading | None:
    parts = split(text.replace("\\cup", "∪"), "∪")
    return Reading("union", text, items=tuple(_read(part) for part in parts)) if len(parts) > 1 else None


def _bounds(text: str) -> Reading | None:
    """2 ≤ x < 5 as [2, 5), x > 3 as (3, ∞)."""
    signs = _RELATION.findall(text)
    parts = [part.strip() for part in _RELATION.split(text)]
    names = [i for i, part in enumerate(parts) if re.fullmatch(_SYMBOL, part) and part != "\\infty"]
    if len(signs) not in (1, 2) or len(names) != 1 or (len(signs) == 2 and names != [1]):
        return None
    if signs[0] in ">≥":
        parts, signs, names = parts[::-1], [_turned(sign) for sign in signs[::-1]], [len(parts) - 1 - names[0]]
    if any(sign in ">≥" for sign in signs):
        return None
    low = parts[names[0] - 1] if names[0] else "-\\infty"
    high = parts[names[0] + 1] if names[0] + 1 < len(parts) else "\\infty"
    opening = "[" if names[0] and signs[0] == "≤" else "("
    closing = "]" if names[0] + 1 < len(parts) and signs[-1] == "≤" else ")"
    return Reading("tuple", text, items=(_read(low), _read(high)), brackets=opening + closing)


def _turned(sign: str) -> str:
    return sign.translate(str.maketrans("<>≤≥", "><≥≤"))


def _bracketed(text: str) -> Reading | None:
    if text.startswith("\\{") and text.endswith("\\}") and closes_at(text, 1) == len(text) - 1:
        parts = [part for part in split(text[2:-2].strip(), ",;") if part]
        items = tuple(item for part in parts for item in _spread(_read(part)))
        return Reading("set", text, items=items) if items and len(items) <= MOST else None
    if half := re.fullmatch(r"[a-z]\s*((?:\(.*\]|\[.*\)))", text):  # t(0,4]: no product has such brackets
        text = half[1]
    if not text or text[0] not in "([" or closes_at(text, 0) != len(text) - 1:
        return None
    parts = [part for part in split(text[1:-1], ",;") if part]
    if len(parts) == 1 and text[0] == "(":
        return _read(parts[0])
    if not 2 <= len(parts) <= MOST:
        return None
    return Reading("tuple", text, items=tuple(_read(part) for part in parts), brackets=text[0] + text[-1])


def _equation(text: str) -> Reading | None:
    """An equation of two sides; 5 = x is x = 5; 2 + 3 = 5 is what it ends with, where both sides are numbers."""
    parts = split(text, "=")
    if len(parts) < 2 or not all(parts) or _RELATION.search(text):
        return None
    swapped = len(parts) == 2 and re.fullmatch(_SYMBOL, parts[1]) and not re.fullmatch(_SYMBOL, parts[0])
    if swapped and (named := _named(f"{parts[1]} = {parts[0]}")):
        return named
    difference = _difference(parts[0], parts[-1])
    if difference is None:
        return None
    if not symbols(difference):
        return _last(text)
    return None if len(parts) > 2 else Reading("equation", text, node=difference, equation=difference)


def _plus_minus(text: str) -> Reading | None:
    if text.count("\\pm") != 1:  # several may go together or not
        return None
    upper = _read(text.replace("\\pm", "+").replace("\\mp", "-").lstrip("+ "))
    lower = _read(text.replace("\\pm", "-").replace("\\mp", "+").lstrip("+ "))
    return None if "text" in (upper.kind, lower.kind) else Reading("list", text, items=(upper, lower))


def _value(text: str) -> Reading | None:
    number, unit = _without_unit(text)
    percent = number.endswith("%")
    number = number.rstrip("% ")
    if "\\approx" in number:
        number = number.partition("\\approx")[0].strip() or number
    if wordy(number):
        return None
    try:
        node = parsed(number)
    except UnreadableError:
        return None
    kind = "text" if _LETTERS.fullmatch(number) else "value"
    return Reading(kind, text if kind == "text" else number, node=node, unit=unit, percent=percent)


def wordy(text: str) -> bool:
    """Whether there are words in a text, rather than symbols."""
    return _WORDY.search(text) is not None


def _without_unit(text: str) -> tuple[str, str]:
    for pattern in (_TEXT_UNIT, _WORD_UNIT):
        match = pattern.search(text)
        if match and _MEASURED.search(text[: match.start()]) and not _NO_UNIT.search(match[1]):
            return text[: match.start()].rstrip(" \\/"), match[0].strip()
    return text, ""

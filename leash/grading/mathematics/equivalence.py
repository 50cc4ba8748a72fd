r"""Equivalence: whether two answers are the same, by value if they have one.

    is_equivalent("0.5", r"\frac{1}{2}", EquivalenceRules())                       ->  True
    is_equivalent(r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}", EquivalenceRules())    ->  False
    is_equivalent("1, -2", r"x = -2 \text{ or } x = 1", EquivalenceRules())       ->  True

Both answers are parsed (answer_parsing.py) and compared part by part, values as in identity.py. Only what the parser
cannot read goes to math-verify (math_verify_fallback.py).

Decimals. A decimal equals another number if they are the same number, or if the coarser of the two shows at least
MIN_SIGNIFICANT_DIGITS significant digits and the other rounds to it: 1/3 is 0.3333 but not 0.333. A whole gold has no
such tolerance: 24.9999 is not 25. If golds were rounded (`rounded`, as in physics), an answer is correct if it rounds
to the gold at the gold's digits and lies within MAX_ROUNDING_RATIO of it: 1.61 for 1.6, but not 1.64, and not 2.6e6 for
3e6.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from leash.grading.mathematics.answer_parsing import CLOCK, ParsedAnswer, has_words, parse_answer
from leash.grading.mathematics.expression import FUNCTIONS, MAX_ANSWER_CHARS, Node, symbols
from leash.grading.mathematics.identity import is_proportional, is_same_value
from leash.grading.mathematics.math_verify_fallback import is_math_verify_equal
from leash.grading.mathematics.spelling import mark_digit_gaps, normalize_latex, text_key
from leash.grading.mathematics.units import Unit, have_same_words, parse_units, read_words
from leash.grading.mathematics.values import decimal_and_ulp, real_value, unknowns

# Other graders accept a relative error of 1e-4. Half a unit in the fourth digit is at most five times that.
MIN_SIGNIFICANT_DIGITS = 4
MAX_ROUNDING_RATIO = Fraction(1, 100)
HALF_DAY_MINUTES = 720

_PLAIN_NUMBER = re.compile(r"-?\d{1,300}(?:[/.]\d{1,300})?")
_NAMED_OPTION = re.compile(r"(?i:option|choice)\s+\(?([A-H])\)?")
_LABELLED_OPTION = re.compile(
    r"(?:\\text[a-z]*\s*\{\s*)?\(?([A-H])(?:\)|[.:](?=[\s\\}]))(?:[.:]|\s)*(?:\}\s*|(?<=\s)|(?=\\))(\S.*)"
)
_LONE_OPTION = re.compile(r"\(?[A-H]\)?")
_OTHER_OPTION = re.compile(r"^(?:,|and|or|not)\b|\b[A-H](?:\)|[.:]\s)")
_INDEXED_NAME = re.compile(r"([A-Za-z])_\{?\d+\}?")
_SHORT_WORD = re.compile(rf"(?<![\\A-Za-z])(?!(?:{'|'.join(FUNCTIONS)}|pi)(?![A-Za-z]))[A-Za-z]{{2,}}")
_PLAIN_FRACTION = re.compile(r"(-?)\\[dt]?frac\{(\d{1,300})\}\{(\d{1,300})\}")


_ZERO = Node("num")
_ONE = ParsedAnswer("value", "1", node=Node("num", number=Fraction(1)))


@dataclass(frozen=True, slots=True)
class EquivalenceRules:
    multiple: bool = False  # several answers, in any order
    unit: str = ""
    error: Fraction | None = None  # absolute
    rounded: bool = False  # the gold was rounded to the digits it shows


def is_equivalent(gold: str, answer: str, rules: EquivalenceRules) -> bool:
    gold, answer = gold.strip(), answer.strip()
    if gold == answer or max(len(gold), len(answer)) > MAX_ANSWER_CHARS:
        return bool(gold) and gold == answer
    # Most answers are plain numbers: this path takes microseconds.
    gold_number, answer_number = _parse_plain_number(gold), _parse_plain_number(answer)
    if gold_number is not None and answer_number is not None:
        if gold_number == answer_number:
            return True
        if "." not in gold + answer and not rules.error and rules.unit != "%":
            return False
    normalized = [normalize_latex(text) for text in (gold, answer)]
    if normalized[0] == normalized[1]:
        return bool(normalized[0])
    # White space says nothing, unless it parts digits or words.
    keys = ["".join(mark_digit_gaps(text).split()) for text in normalized]
    if keys[0] == keys[1] and not any(map(has_words, normalized)):
        return True
    expected, given = parse_answer(gold, rules.multiple), parse_answer(answer, rules.multiple)
    if _is_same(expected, given, rules):
        return True
    if option := _split_option(normalize_latex(answer)):
        letter, content = option
        if _LONE_OPTION.fullmatch(normalize_latex(gold)):  # "(B) A" is B
            content = ""
        return text_key(normalize_latex(gold)) in (letter, f"({letter})") or (
            bool(content) and is_equivalent(gold, content, rules)
        )
    return (is_unparsed(expected) or is_unparsed(given)) and is_math_verify_equal(expected.text, given.text)


@lru_cache(maxsize=20_000)
def _parse_plain_number(text: str) -> Fraction | None:
    if fraction := _PLAIN_FRACTION.fullmatch(text):
        text = "{}{}/{}".format(*fraction.groups())
    try:
        return Fraction(text) if _PLAIN_NUMBER.fullmatch(text) else None
    except ZeroDivisionError:
        return None


def _split_option(text: str) -> tuple[str, str] | None:
    """Split "(C) 42", "C. 42" or "Option C" to the letter and the content. "(C) and (D)" is no option."""
    if named := _NAMED_OPTION.fullmatch(text):
        return named[1], ""
    labelled = _LABELLED_OPTION.fullmatch(text)
    return (labelled[1], labelled[2]) if labelled and not _OTHER_OPTION.search(labelled[2]) else None


def is_unparsed(parsed: ParsedAnswer) -> bool:
    """Return whether only math-verify may read a text: no words, but commands that our parser does not know."""
    return parsed.kind == "text" and parsed.node is None and "\\" in parsed.text and not has_words(parsed.text)


def _is_same(gold: ParsedAnswer, answer: ParsedAnswer, rules: EquivalenceRules) -> bool:
    if "numeral" in (gold.kind, answer.kind):
        # Accept 204 for 204_5, and 204_5 for 204: the question may name the base, and copies of MATH-500 drop it from
        # their golds. But 204_6 is not 204_5.
        bases = {parsed.unit for parsed in (gold, answer) if parsed.kind == "numeral"}
        digits = [(parsed.text.lstrip("0") or "0").upper() for parsed in (gold, answer)]
        return len(bases) == 1 and digits[0] == digits[1]
    if "time" in (gold.kind, answer.kind):
        return _is_same_time(gold, answer)
    if "text" in (gold.kind, answer.kind):
        return _is_same_text(gold, answer)
    # m + n = 7 is an answer to "find m + n", but 7 is none to "find the line".
    if answer.kind == "equation" and answer.items and gold.kind in ("value", "ratio") and not gold.equation:
        return _is_same(gold, answer.items[0], rules)
    if "ratio" in (gold.kind, answer.kind):
        return _is_same_ratio(gold, answer)
    if gold.kind == answer.kind == "relation":
        return gold.brackets == answer.brackets and _is_same_sequence(gold.items, answer.items, rules)
    if gold.kind == answer.kind == "value":
        return _is_same_quantity(gold, answer, rules)
    # x = 5 is solved, so 2x = 10 is no answer to it. y = 2x + 3 is an equation in any form.
    is_open = gold.kind == "equation" or (gold.node and unknowns(gold.node))
    if gold.equation and answer.equation and is_open:
        return is_proportional(gold.equation, answer.equation)
    return _is_same_collection(gold, answer, rules)


def _is_same_text(gold: ParsedAnswer, answer: ParsedAnswer) -> bool:
    if is_unparsed(gold) or is_unparsed(answer):
        keys = ["".join(mark_digit_gaps(parsed.text).split()) for parsed in (gold, answer)]
        return keys[0] == keys[1]
    if gold.kind != answer.kind and gold.node and answer.node:  # "ab" and a \cdot b
        return is_same_value(gold.node, answer.node)
    return bool(key := text_key(gold.text)) and key == text_key(answer.text)


def _is_same_time(gold: ParsedAnswer, answer: ParsedAnswer) -> bool:
    """Compare 3:30 PM with 3:30 p.m., 15:30 or 3:30, and 10 a.m. with 10. A whole hour alone is not 10:00 a.m."""
    first, second = _read_minutes(gold), _read_minutes(answer)
    if first is None or second is None or ("value" in (gold.kind, answer.kind) and ":" in gold.text + answer.text):
        return False
    has_half = all(parsed.kind == "time" or minutes >= 13 * 60 for parsed, minutes in ((gold, first), (answer, second)))
    return (first - second) % (2 * HALF_DAY_MINUTES if has_half else HALF_DAY_MINUTES) == 0


def _read_minutes(parsed: ParsedAnswer) -> Fraction | None:
    """Return the minutes after midnight of a time of day, of 15:30 or of a whole hour; None for anything else."""
    if parsed.kind == "time" and parsed.node:
        return parsed.node.number
    if clock := CLOCK.fullmatch(parsed.text):
        return Fraction(int(clock[1]) * 60 + int(clock[2])) if int(clock[1]) < 24 else None
    number = parsed.node.number if parsed.kind == "value" and parsed.node and parsed.node.op == "num" else None
    is_hour = number is not None and number.denominator == 1 and 1 <= number <= 12 and not parsed.unit
    return number * 60 if number is not None and is_hour else None


def _is_same_ratio(gold: ParsedAnswer, answer: ParsedAnswer) -> bool:
    """Compare 3:4 with 6:8, or with the fraction 3/4."""
    sides = [parsed.items if parsed.kind == "ratio" else (parsed, _ONE) for parsed in (gold, answer)]
    nodes = [[item.node for item in side if item.kind == "value" and item.node] for side in sides]
    if not (len(sides[0]) == len(sides[1]) == len(nodes[0]) == len(nodes[1])):
        return False
    if any(is_same_value(node, _ZERO) for side in nodes for node in side):  # 0:0 is in proportion to everything
        return False
    pairs = list(zip(*nodes, strict=True))
    # a : b is c : d if ad = bc.
    return all(
        is_same_value(Node("mul", (pairs[0][0], second)), Node("mul", (pairs[0][1], first)))
        for first, second in pairs[1:]
    )


def _is_same_quantity(gold: ParsedAnswer, answer: ParsedAnswer, rules: EquivalenceRules) -> bool:
    if gold.node is None or answer.node is None:
        return False
    # The letters of "not 0" are no factors of 0.
    has_letters = [bool(unknowns(node)) for node in (gold.node, answer.node)]
    if has_letters[0] != has_letters[1] and any(_SHORT_WORD.search(parsed.text) for parsed in (gold, answer)):
        return False
    if gold.equation and answer.equation and is_proportional(gold.equation, answer.equation):
        return True
    # y = 2 is not x = 2. Longer names, such as f(x), do not matter.
    if len(gold.name) == len(answer.name) == 1 and gold.name.lower() != answer.name.lower():
        return False
    percent = gold.percent or rules.unit == "%"
    # The unit of a data set is LaTeX, such as $cm^2$.
    expected, given = (
        _read_units(gold.unit or ("" if rules.unit == "%" else normalize_latex(rules.unit))),
        _read_units(answer.unit),
    )
    if expected and given and not have_same_words(expected, given):
        return False
    golds, units = _measuring_units(expected), _measuring_units(given)
    if golds and units and rules.unit != "%":
        pairs = [(first, second) for first in golds for second in units if first.dimension == second.dimension]
        return any(_is_close(*_convert(gold.node, answer.node, *pair), rules) for pair in pairs)
    # A unit may be missing or unknown. But a multiple of pi is an angle in radians, not in degrees.
    if not gold.unit and answer.unit == "°" and "pi" in symbols(gold.node):
        return False
    if percent == answer.percent:
        return _is_close(gold.node, answer.node, rules)
    return _is_same_percent(gold.node, answer.node, percent, rules)


def _is_same_percent(gold: Node, answer: Node, percent: bool, rules: EquivalenceRules) -> bool:
    """Compare when one side has a percent sign: 10% is 0.1, and also 10 without its sign, but 0.1 is not 0.1%."""
    hundred = Node("num", number=Fraction(100))
    if percent:
        return _is_close(gold, answer, rules) or _is_close(gold, Node("mul", (answer, hundred)), rules)
    if _is_close(gold, Node("div", (answer, hundred)), rules):
        return True
    bare = None if unknowns(gold) else real_value(gold)
    return bare is not None and abs(bare) >= 1 and _is_close(gold, answer, rules)


def _read_units(text: str) -> Sequence[Unit]:
    """Return the units that a text can mean; its words if they make no unit."""
    return (parse_units(text) or (read_words(text),)) if text.strip() else ()


def _measuring_units(units: Sequence[Unit]) -> list[Unit]:
    """Return the units that measure something: not those of "15 apples"."""
    return [unit for unit in units if unit.dimension]


def _convert(gold: Node, answer: Node, gold_unit: Unit, unit: Unit) -> tuple[Node, Node]:
    """Return a gold and an answer in one unit: in the gold's, or in kelvin."""
    if (gold_unit.factor, gold_unit.pi, gold_unit.offset) == (unit.factor, unit.pi, unit.offset):
        return gold, answer
    if gold_unit.offset == unit.offset == 0:
        ratio = Node("num", number=unit.factor / gold_unit.factor)
        power = Node("pow", (Node("symbol", name="pi"), Node("num", number=Fraction(unit.pi - gold_unit.pi))))
        return gold, Node("mul", (answer, ratio if unit.pi == gold_unit.pi else Node("mul", (ratio, power))))
    return _to_base(gold, gold_unit), _to_base(answer, unit)


def _to_base(value: Node, unit: Unit) -> Node:
    scaled = Node("mul", (value, Node("num", number=unit.factor)))
    return Node("add", (scaled, Node("num", number=unit.offset)))


def _is_same_collection(gold: ParsedAnswer, answer: ParsedAnswer, rules: EquivalenceRules) -> bool:
    kinds = gold.kind, answer.kind
    if kinds in (("tuple", "tuple"), ("matrix", "matrix")):
        return gold.brackets == answer.brackets and _is_same_sequence(gold.items, answer.items, rules)
    if kinds in (("tuple", "list"), ("list", "tuple"), ("set", "tuple"), ("tuple", "set")):
        # x_1 = 2, x_2 = 3 has no order, and neither has [1, 2, 3], which is too long for an interval.
        if _is_indexed(gold) or _is_indexed(answer) or (kinds[0] == "list" and _is_long_list(answer)):
            return _is_same_multiset(gold.items, answer.items, rules)
        # (1, 2) and 1, 2; but no interval is a list, and no set is a tuple
        return (
            "set" not in kinds
            and "()" in (gold.brackets, answer.brackets)
            and _is_same_sequence(gold.items, answer.items, rules)
        )
    if "set" in kinds and set(kinds) <= {"set", "list"}:  # {1, 1, 2} is {1, 2}
        golds = _distinct(gold.items, rules) if gold.kind == "set" else gold.items
        return _is_same_multiset(golds, _distinct(answer.items, rules), rules)
    if kinds in (("list", "list"), ("union", "union")):
        return _is_same_multiset(gold.items, answer.items, rules)
    if kinds in (("set", "value"), ("value", "set")):  # {5} and 5
        sides = [parsed.items if parsed.kind == "set" else (parsed,) for parsed in (gold, answer)]
        return _is_same_sequence(sides[0], _distinct(sides[1], rules), rules)
    if kinds == ("value", "list"):  # 1/2 or 0.5: one answer in two ways
        return all(_is_same(gold, item, rules) for item in answer.items)
    return False


def _is_indexed(parsed: ParsedAnswer) -> bool:
    names = [_INDEXED_NAME.fullmatch(name) for name in parsed.name.split(",")]
    return parsed.kind == "tuple" and len({name[1] for name in names if name}) == 1 and all(names)


def _is_long_list(parsed: ParsedAnswer) -> bool:
    return parsed.brackets == "[]" and len(parsed.items) > 2


def _distinct(items: Sequence[ParsedAnswer], rules: EquivalenceRules) -> list[ParsedAnswer]:
    kept: list[ParsedAnswer] = []
    for item in items:
        if not any(_is_same(other, item, rules) for other in kept):
            kept.append(item)
    return kept


def _is_same_sequence(gold: Sequence[ParsedAnswer], answer: Sequence[ParsedAnswer], rules: EquivalenceRules) -> bool:
    return len(gold) == len(answer) and all(_is_same(g, a, rules) for g, a in zip(gold, answer, strict=True))


def _is_same_multiset(gold: Sequence[ParsedAnswer], answer: Sequence[ParsedAnswer], rules: EquivalenceRules) -> bool:
    unmatched = list(answer)
    for expected in gold:
        match = next((i for i, given in enumerate(unmatched) if _is_same(expected, given, rules)), None)
        if match is None:
            return False
        unmatched.pop(match)
    return not unmatched


def _is_close(gold: Node, answer: Node, rules: EquivalenceRules) -> bool:
    """Return whether two values are equal, or equal within the rounding of decimals."""
    if is_same_value(gold, answer):
        return True
    if unknowns(gold) | unknowns(answer):
        return False
    expected, given = real_value(gold), real_value(answer)
    if expected is None or given is None:
        return False
    gold_decimal, error = decimal_and_ulp(gold), abs(expected - given)
    decimals = [decimal for decimal in (gold_decimal, decimal_and_ulp(answer)) if decimal]
    if not decimals and not rules.error:
        return False
    if rules.error is not None and error <= rules.error:
        return True
    if not decimals:
        return False
    gold_ulp = gold_decimal[1] if gold_decimal else Fraction(1)
    if rules.rounded and gold_decimal and error <= min(gold_ulp / 2, abs(expected) * MAX_ROUNDING_RATIO):
        return True
    if expected.denominator == 1 and gold_ulp <= 1:
        return False
    coarser, ulp = max(decimals, key=lambda decimal: decimal[1])
    return abs(coarser) >= ulp * 10 ** (MIN_SIGNIFICANT_DIGITS - 1) and error <= ulp / 2

r"""Decide whether the two sides of a numeric equation are equal.

    12 × 7 = 84         True
    1/3 = 0.33          True: rounded to the digits shown
    2/3 = 0.66          True: cut to them
    1/3 = 0.34          False: neither
    66.67 * 3 = 200     None: 66.67 may have been rounded
    7 / 2 = 3           None: a quotient without its remainder, or a slip
    12 × 7 = 94         False
    12 = 12             None: it says nothing

None means that there is a reading under which the equation may hold, that it says nothing, or that a side could not be
computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from leash.grading.mathematics.expression import Node, UnreadableError, parse_expression
from leash.grading.mathematics.values import REAL_DIGITS, Number, decimal_and_ulp, evaluate, number_to_mpmath
from leash.grading.process.equation_reader import Link, Side
from leash.grading.process.equation_tokens import OPERANDS, Token

MAX_DECIMALS = 12  # in one side; each is shifted to see how much its rounding matters
LOOSE_APPROXIMATION = Fraction(1, 10)  # relative; ≈ may be a rough estimate
RELATIVE_PRECISION = Fraction(1, 10**12)
# Factors between units of one kind: inches and feet, hours and days, days and weeks, seconds and hours. The second set
# is for equations with different units on both sides.
COMMON_UNIT_FACTORS = frozenset([12, 24, 52, 60, 365, 3600])
MAX_POWER_OF_TEN, UNIT_ROUNDING = 10**30, Fraction(1, 100)
UNIT_FACTORS = COMMON_UNIT_FACTORS | {2, 3, 4, 7, 8, 16, 30, 36, 360, 1440, 5280, 86400}


def holds(link: Link) -> bool | None:
    """Whether an equation is true (None: no verdict)."""
    if _says_nothing(link):
        return None
    if is_literal(link.left) and is_literal(link.right) and not _has_percent(link):
        # "4 = 10" is an end of a list, a label or a contradiction more often than a claim.
        return True if _compare_readings(link) else None
    verdict = _compare_readings(link)
    if verdict is False and _is_doubtful(link):
        return None
    return verdict


def _says_nothing(link: Link) -> bool:
    """Whether both sides are the same number or expression, as in 12 = \\boxed{12}. 40% = 0.4 are two forms of one."""
    if _side_has_percent(link.left) != _side_has_percent(link.right):
        return False
    left, right = (next(_read_nodes(side)) for side in (link.left, link.right))
    return left == right or (left.op == right.op == "num" and left.number == right.number)


def is_literal(side: Side) -> bool:
    """Whether a side is a plain number."""
    return len([token for token in side.tokens if token.kind not in ("percent", "degree")]) == 1 or (
        len(side.tokens) == 2 and side.tokens[0].value == "-"
    )


def _has_percent(link: Link) -> bool:
    return _side_has_percent(link.left) or _side_has_percent(link.right)


def _side_has_percent(side: Side) -> bool:
    return any(token.kind == "percent" for token in side.tokens)


def _adds_percent(tokens: tuple[Token, ...]) -> bool:
    """Whether a side adds a percentage to an amount: $40 + 10% may be $44. 100% - 30% and 1 - 30% are ordinary sums."""
    kinds = ["percent" if token.kind == "percent" else token.value for token in tokens]
    for i, kind in enumerate(kinds):
        if kind not in ("+", "-") or i == 0 or tokens[i - 1].kind not in OPERANDS:
            continue
        is_percent_after = kinds[i + 2 : i + 3] == ["percent"] and kinds[i + 3 : i + 4] not in (["*"], ["/"])
        is_percent_before = kinds[i - 1] == "percent" and kinds[i - 3 : i - 2] not in (["*"], ["/"])
        is_whole = kinds[i - 1] == "1" and (i == 1 or tokens[i - 2].kind in ("open", "boxed"))
        if is_percent_after != is_percent_before and not (is_percent_after and is_whole):
            return True
    return False


def _compare_readings(link: Link) -> bool | None:
    """Return True if the sides are equal in some reading of percent signs, bullets and remarks; False if in none."""
    readings = [*itertools.product(_read_nodes(link.left), _read_nodes(link.right))]
    if _may_drop_percent(link):
        readings.append((_read_without_percent(link.left), _read_without_percent(link.right)))
    verdicts = [_compare(left, right, link.approximate) for left, right in readings]
    if True in verdicts:
        return True
    return None if None in verdicts or not verdicts else False


def _read_nodes(side: Side) -> Iterator[Node]:
    yield parse_expression(_spell(side.tokens))
    if side.bullet and side.tokens[0].value == "-":
        yield parse_expression(_spell(side.tokens[1:]))


def _may_drop_percent(link: Link) -> bool:
    """Whether percent may be a unit that one side leaves out: 1/4 * 100 = 25%, 1/4 * 100% = 25, 12% + 5% = 17.

    A percentage of something is no such unit: 20% of 50 is 10, not 1000."""
    sides = [side for side in (link.left, link.right) if _side_has_percent(side)]
    if len(sides) != 1 or (is_literal(link.left) and is_literal(link.right)) or _adds_percent(sides[0].tokens):
        return False
    tokens = [token for token in sides[0].tokens if token.kind != "degree"]
    numbers = {tokens[i - 1].value for i, token in enumerate(tokens) if token.kind == "percent"}
    is_sum = all(token.kind in ("num", "percent") or token.value in ("+", "-") for token in tokens)
    return is_sum or numbers == {"100"}


def _read_without_percent(side: Side) -> Node:
    return parse_expression("".join(token.value for token in side.tokens if token.kind not in ("percent", "degree")))


def _spell(tokens: tuple[Token, ...]) -> str:
    """Spell a side for the parser, with percent signs as hundredths."""
    return "".join(_spell_percent(tokens))


def _spell_percent(tokens: tuple[Token, ...]) -> Iterator[str]:
    for i, token in enumerate(tokens):
        if token.kind in ("percent", "degree"):
            continue
        is_percent = i + 1 < len(tokens) and tokens[i + 1].kind == "percent"
        if is_percent and token.kind == "num":
            whole, _, places = token.value.partition(".")
            whole = whole.zfill(3)
            yield f"{whole[:-2]}.{whole[-2:]}{places}"
        else:
            yield token.value + ("/100" if is_percent else "")


def _compare(left: Node, right: Node, approximate: bool) -> bool | None:
    try:
        a, b = evaluate(left, {}), evaluate(right, {})
        is_exact = isinstance(a, Fraction) and isinstance(b, Fraction)
        difference, lost = (abs(a - b), Fraction(0)) if is_exact else _real_difference(left, right)
        size = _largest(a, b)
        if difference <= size * RELATIVE_PRECISION + lost:
            return True
        literals = [(literal, value) for node, value in ((left, b), (right, a)) if (literal := decimal_and_ulp(node))]
        if any(_is_rounded(*literal, _to_fraction(value), difference) for literal, value in literals):
            return True
        # 66.67 * 3 = 200 is true of the number that 66.67 was rounded from.
        hidden = _hidden_rounding(left, a) + _hidden_rounding(right, b)
        if hidden and difference <= hidden + max([ulp for (_, ulp), _ in literals], default=Fraction(0)):
            return None
    except (UnreadableError, KeyError):
        return None
    # 100/3 = 33 and 7/2 = 3: rounded or without the remainder.
    whole = any(node.op == "num" and node.ulp is None for node in map(_without_sign, (left, right)))
    if whole and difference < 1 and not (_is_whole(a) and _is_whole(b)):
        return True if approximate else None
    if approximate and difference <= size * LOOSE_APPROXIMATION:
        return None
    return False


def _is_rounded(shown: Fraction, ulp: Fraction, value: Fraction, difference: Fraction) -> bool:
    """Whether a decimal shows a value rounded (0.67 for 2/3) or cut (0.66) to its digits."""
    is_cut = shown * value >= 0 and abs(shown) < abs(value) and difference < ulp
    return is_cut or difference <= ulp / 2


def _largest(a: Number, b: Number) -> Fraction:
    left, right = abs(_to_fraction(a)), abs(_to_fraction(b))
    return left if left > right else right


def _real_difference(left: Node, right: Node) -> tuple[Fraction, Fraction]:
    """Return how far two irrational values are apart, and how much of that may be lost digits.

    1074 - 46\\sqrt{545} is 0.12: the first four digits of its terms cancel out.
    """
    import mpmath

    with mpmath.workdps(REAL_DIGITS):
        difference = number_to_mpmath(evaluate(left, {})) - number_to_mpmath(evaluate(right, {}))
        if abs(difference.imag) > 1e-9:
            raise UnreadableError("a complex number")
        lost = max(_largest_term(left), _largest_term(right)) / 10 ** (REAL_DIGITS // 2)
        return _to_fraction(abs(difference.real)), lost


def _largest_term(node: Node) -> Fraction:
    """Return the largest absolute value of a term of a sum in an expression, or 0 if it has no sum."""
    terms = [abs(_to_fraction(evaluate(arg, {}))) for arg in node.args] if node.op == "add" else []
    return max([Fraction(0), *terms, *map(_largest_term, node.args)])


def _to_fraction(number: Number) -> Fraction:
    if isinstance(number, Fraction):
        return number
    try:
        return Fraction(float(number.real))
    except (OverflowError, ValueError):
        raise UnreadableError("the number is too large") from None


def _is_whole(number: Number) -> bool:
    return isinstance(number, Fraction) and number.denominator == 1


def _without_sign(node: Node) -> Node:
    return node.args[0] if node.op == "neg" else node


def _hidden_rounding(node: Node, value: Number) -> Fraction:
    """Return how far a side may be off because the decimals that it computes with were rounded before."""
    if decimal_and_ulp(node) is not None:
        return Fraction(0)
    count = _count_decimals(node)
    if count > MAX_DECIMALS:
        raise UnreadableError("too many decimals")
    off = Fraction(0)
    for i in range(count):
        shifted, _ = _shift_decimal(node, i)
        off += abs(_to_fraction(evaluate(shifted, {})) - _to_fraction(value))
    return off * Fraction(101, 100)


def _count_decimals(node: Node) -> int:
    return (node.op == "num" and node.ulp is not None) + sum(_count_decimals(arg) for arg in node.args)


def _shift_decimal(node: Node, index: int) -> tuple[Node, int]:
    """Add half a unit in the last place to the decimal with this index. Also returns the index left to find."""
    if node.op == "num" and node.ulp is not None:
        return (replace(node, number=node.number + node.ulp / 2) if index == 0 else node), index - 1
    args = []
    for arg in node.args:
        if index >= 0:
            arg, index = _shift_decimal(arg, index)
        args.append(arg)
    return (replace(node, args=tuple(args)) if args else node), index


def _is_doubtful(link: Link) -> bool:
    """Whether a false equation may be true in another sense than the one that was read."""
    left, right = link.left, link.right
    if left.doubtful or right.doubtful or any([t.kind for t in side.tokens] == ["pi"] for side in (left, right)):
        return True  # a lone π is a name as often as a number
    if _adds_percent(left.tokens) or _adds_percent(right.tokens):
        return True
    if left.labelled and (is_literal(left) or _is_range(left)):
        return True
    converts = left.units and right.units and left.units != right.units
    # 5 km = 3.1 miles, 3 feet + 5 inches = 41 inches
    mixed_sum = any(len(side.units) > 1 and _has_sum(side) for side in (left, right))
    if converts and (mixed_sum or len(left.units) == len(right.units) == 1):
        return True
    if _is_ambiguous_product(left.tokens) or _is_ambiguous_product(right.tokens):
        return True
    try:
        a, b = (_to_fraction(evaluate(next(_read_nodes(side)), {})) for side in (left, right))
        # 12 × 7 = 84 + 3 = 87: the result goes on into the next step.
        first = _leading_value(right)
        if first is not None and abs(first[0] - a) <= first[1]:
            return True
        # 12 * 11 / 2 * 1 = 66: a product below the line, written without brackets.
        if any(_compare(*nodes, link.approximate) for nodes in (*_group_divisors(link), *_other_spellings(link))):
            return True
    except (UnreadableError, StopIteration, KeyError):
        return True
    factors = UNIT_FACTORS if converts else COMMON_UNIT_FACTORS
    if a and b and a / b in (100, Fraction(1, 100)) and any(token.delimited for token in (*left.tokens, *right.tokens)):
        return True  # cents and dollars
    has_units = left.units or right.units or _has_percent(link)
    return bool(has_units and a and b and _is_unit_factor(abs(a / b), factors))


def _group_divisors(link: Link) -> Iterator[tuple[Node, Node]]:
    sides = [_spell_grouped(side.tokens) for side in (link.left, link.right)]
    if any(sides):
        plain = [_spell(side.tokens) for side in (link.left, link.right)]
        yield parse_expression(sides[0] or plain[0]), parse_expression(sides[1] or plain[1])


def _spell_grouped(tokens: tuple[Token, ...]) -> str:
    """Spell a side so that / divides by the whole product after it; "" if that is no other reading."""
    spelled: list[str] = []
    open_groups = [0]
    changed = False
    for token in tokens:
        if token.kind in ("percent", "degree"):
            continue
        is_op = token.kind == "op"
        if token.kind == "close" or (is_op and token.value in "+-/"):
            spelled.append(")" * open_groups[-1])
            open_groups[-1] = 0
        if token.kind in ("open", "boxed"):
            open_groups.append(0)
        elif token.kind == "close":
            open_groups.pop()
        changed |= is_op and token.value == "*" and open_groups[-1] > 0
        spelled.append(token.value)
        if is_op and token.value == "/":
            spelled.append("(")
            open_groups[-1] += 1
    return "".join(spelled) + ")" * open_groups[-1] if changed else ""


def _other_spellings(link: Link) -> Iterator[tuple[Node, Node]]:
    """Read 3 + 4 + 5 / 3 as one fraction, 16^1/2 as a root, and 3.500 as thousands."""
    left, right = ([t for t in side.tokens if t.kind not in ("percent", "degree")] for side in (link.left, link.right))
    for spell in (_spell_fraction, _spell_exponent, _spell_thousands):
        spelled = [spell(left), spell(right)]
        if any(spelled):
            plain = ["".join(token.value for token in side) for side in (left, right)]
            yield parse_expression(spelled[0] or plain[0]), parse_expression(spelled[1] or plain[1])


def _spell_fraction(tokens: list[Token]) -> str:
    """Spell a side so that its only slash divides all before it by all after it; "" if that is no other reading."""
    slashes = [i for i, token in enumerate(tokens) if token.kind == "op" and token.value == "/"]
    if len(slashes) != 1 or any(token.kind in ("open", "boxed", "close", "command") for token in tokens):
        return ""
    sides = ["".join(token.value for token in part) for part in (tokens[: slashes[0]], tokens[slashes[0] + 1 :])]
    return f"({sides[0]})/({sides[1]})" if any(sign in side[1:] for side in sides for sign in "+-") else ""


def _spell_exponent(tokens: list[Token]) -> str:
    """Spell a^b/c as a^(b/c); "" if there is none."""
    spelled = [token.value for token in tokens]
    for i in range(len(spelled) - 3):
        if spelled[i] == "^" and spelled[i + 2] == "/" and tokens[i + 1].kind == tokens[i + 3].kind == "num":
            spelled[i + 1], spelled[i + 3] = "{" + spelled[i + 1], spelled[i + 3] + "}"
    return "".join(spelled) if "{" in "".join(spelled[1:]) and spelled != [token.value for token in tokens] else ""


def _spell_thousands(tokens: list[Token]) -> str:
    """Spell 3.500 as 3500; "" if no number has three places."""
    spelled = [
        token.value.replace(".", "") if token.kind == "num" and token.value[-4:-3] == "." else token.value
        for token in tokens
    ]
    return "".join(spelled) if spelled != [token.value for token in tokens] else ""


def _is_range(side: Side) -> bool:
    """Whether a side is like the 10-12 of "pages 10-12"."""
    first, *rest = side.tokens
    is_difference = len(rest) == 2 and first.kind == rest[1].kind == "num" and rest[0].value == "-"
    return is_difference and first.end == rest[0].begin and rest[0].end == rest[1].begin


def _has_sum(side: Side) -> bool:
    return any(token.kind == "op" and token.value in "+-" for token in side.tokens)


def _is_unit_factor(ratio: Fraction, factors: frozenset[int]) -> bool:
    """Whether two values differ by a factor between units, or by a power of ten up to rounding."""
    ratio = ratio if ratio > 1 else 1 / ratio
    if ratio > MAX_POWER_OF_TEN:
        return False
    power = 10 ** (len(str(round(ratio * Fraction(101, 100)))) - 1)
    return ratio in factors or (power > 1 and abs(ratio / power - 1) < UNIT_ROUNDING)


def _leading_value(side: Side) -> tuple[Fraction, Fraction] | None:
    """Return the first number of a side that goes on after it, and its unit in the last place."""
    tokens = [token for token in side.tokens if token.kind not in ("percent", "degree")]
    if len(tokens) < 3 or tokens[0].kind != "num" or tokens[1].kind != "op":
        return None
    node = parse_expression(tokens[0].value)
    return node.number, node.ulp or Fraction(0)


def _is_ambiguous_product(tokens: tuple[Token, ...]) -> bool:
    """Whether a side has a product without a sign after a quotient (6/2(1+2)), or a sign before a power (-2^2)."""
    divided = [False]  # at each depth of brackets, whether a quotient has begun
    for i, token in enumerate(tokens):
        previous = tokens[i - 1] if i else None
        begins_factor = token.kind in ("open", "boxed", "command", "pi")
        if divided[-1] and begins_factor and previous and previous.kind in ("num", "close", "pi", "superscript"):
            return True
        if token.kind in ("open", "boxed"):
            divided.append(False)
        elif token.kind == "close":
            divided.pop()
        elif token.kind == "op":
            divided[-1] = token.value == "/" or (divided[-1] and token.value == "^")
    values = [token.value for token in tokens[:3]]
    return values[:1] == ["-"] and "^" in values[2:]

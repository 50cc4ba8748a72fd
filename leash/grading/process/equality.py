r"""Decide whether the two sides of a numeric equation are equal.

    12 × 7 = 84         True
    1/3 = 0.33          True: rounded to the digits shown
    66.67 * 3 = 200     None: 66.67 may have been rounded
    7 / 2 = 3           None: a quotient without its remainder, or a slip
    12 × 7 = 94         False

None means that there is a reading under which the equation may hold, or that a side could not be computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from leash.grading.mathematics.expression import Node, UnreadableError, parse_expression
from leash.grading.mathematics.values import Number, decimal_and_ulp, evaluate, number_to_mpmath
from leash.grading.process.equation_reader import Link, Side, Token

MAX_DECIMALS = 12  # in one side; each is shifted to see how much its rounding matters
LOOSE_APPROXIMATION = 0.1  # relative; ≈ may be a rough estimate
RELATIVE_PRECISION = Fraction(1, 10**12)
# Factors between units of one kind: seconds and hours, inches and feet, days and weeks, ounces and pounds.
UNIT_FACTORS = frozenset([2, 3, 4, 7, 8, 12, 16, 24, 30, 36, 52, 60, 100, 360, 365, 1440, 3600, 5280, 86400])


def holds(link: Link) -> bool | None:
    """Whether an equation is true (None: no verdict)."""
    if is_literal(link.left) and is_literal(link.right) and not _has_percent(link):
        # "4 = 10" is an end of a list, a label or a contradiction more often than a claim.
        return True if _compare_readings(link) else None
    verdict = _compare_readings(link)
    if verdict is False and _is_doubtful(link):
        return None
    return verdict


def is_literal(side: Side) -> bool:
    """Whether a side is a plain number."""
    return len([token for token in side.tokens if token.kind not in ("percent", "degree")]) == 1 or (
        len(side.tokens) == 2 and side.tokens[0].value == "-"
    )


def _has_percent(link: Link) -> bool:
    return any(token.kind == "percent" for token in (*link.left.tokens, *link.right.tokens))


def _compare_readings(link: Link) -> bool | None:
    """Return True if the sides are equal in some reading of percent signs, bullets and remarks; False if in none."""
    lefts, rights = [*_read_nodes(link.left)], [*_read_nodes(link.right)]
    verdicts = [_compare(left, right, link.approximate) for left in lefts for right in rights]
    if True in verdicts:
        return True
    return None if None in verdicts or not verdicts else False


def _read_nodes(side: Side) -> Iterator[Node]:
    for spelled in _spellings(side.tokens):
        yield parse_expression(spelled)
    if side.bullet and side.tokens[0].value == "-":
        yield parse_expression(next(_spellings(side.tokens[1:])))


def _spellings(tokens: tuple[Token, ...]) -> Iterator[str]:
    """Spell a side for the parser, with percent signs as hundredths and, if there are any, also as a unit."""
    yield "".join(_spell_percent(tokens))
    if any(token.kind == "percent" for token in tokens):
        yield "".join(token.value for token in tokens if token.kind not in ("percent", "degree"))


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
        difference = abs(a - b) if isinstance(a, Fraction) and isinstance(b, Fraction) else _real_difference(a, b)
        size = max(abs(_to_fraction(a)), abs(_to_fraction(b)))
        if difference <= size * RELATIVE_PRECISION:
            return True
        # 0.66 for 2/3 is cut, not rounded: anything below one unit in the last place is fine.
        shown = max((literal[1] for node in (left, right) if (literal := decimal_and_ulp(node))), default=Fraction(0))
        if difference < shown:
            return True
        # 66.67 * 3 = 200 is true of the number that 66.67 was rounded from.
        if difference <= shown + _hidden_rounding(left, a) + _hidden_rounding(right, b):
            return None
    except (UnreadableError, KeyError):
        return None
    if approximate and difference <= max(1, size * Fraction(LOOSE_APPROXIMATION)):
        return True if difference <= size / 100 else None
    # 100/3 = 33 and 7/2 = 3: rounded or without the remainder.
    whole = [node.op == "num" and node.ulp is None for node in map(_without_sign, (left, right))]
    if any(whole) and difference < 1 and not (_is_whole(a) and _is_whole(b)):
        return None
    return False


def _real_difference(a: Number, b: Number) -> Fraction:
    difference = number_to_mpmath(a) - number_to_mpmath(b)
    if abs(difference.imag) > 1e-9:
        raise UnreadableError("a complex number")
    return _to_fraction(abs(difference.real))


def _to_fraction(number: Number) -> Fraction:
    if isinstance(number, Fraction):
        return number
    real = getattr(number, "real", number)
    try:
        return Fraction(float(real))
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
    if left.doubtful or right.doubtful or (left.units and right.units and left.units != right.units):
        return True
    tokens = (*left.tokens, *right.tokens)
    if _is_ambiguous_product(left.tokens) or _is_ambiguous_product(right.tokens):
        return True
    try:
        a, b = (_to_fraction(evaluate(next(_read_nodes(side)), {})) for side in (left, right))
        # 12 × 7 = 84 + 3 = 87: the result goes on into the next step.
        first = _leading_value(right)
        if first is not None and abs(first[0] - a) <= first[1]:
            return True
    except (UnreadableError, StopIteration, KeyError):
        return True
    has_units = left.units or right.units or any(token.kind in ("percent", "degree") for token in tokens)
    return bool(has_units and a and b and _is_unit_factor(abs(a / b)))


def _is_unit_factor(ratio: Fraction) -> bool:
    ratio = ratio if ratio > 1 else 1 / ratio
    if ratio.denominator != 1:
        return False
    return ratio.numerator in UNIT_FACTORS or set(str(ratio.numerator).lstrip("1")) <= {"0"}


def _leading_value(side: Side) -> tuple[Fraction, Fraction] | None:
    """Return the first number of a side that goes on after it, and its unit in the last place."""
    tokens = side.tokens
    if len(tokens) < 3 or tokens[0].kind != "num" or tokens[1].kind != "op":
        return None
    node = parse_expression(tokens[0].value)
    return node.number, node.ulp or Fraction(0)


def _is_ambiguous_product(tokens: tuple[Token, ...]) -> bool:
    """Whether a side has a product without a sign after a quotient (6/2(1+2)), or a sign before a power (-2^2)."""
    after_division = False
    for i, token in enumerate(tokens):
        previous = tokens[i - 1].kind if i else ""
        after_division |= token.value == "/"
        if after_division and previous in ("num", "close", "pi") and token.kind in ("open", "command", "pi"):
            return token.value != "{"
    values = [token.value for token in tokens[:4]]
    return values[:1] == ["-"] and "^" in values[2:3]

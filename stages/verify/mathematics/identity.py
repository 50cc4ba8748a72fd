r"""Identity: whether two expressions are one and the same, found by evaluating both rather than by rewriting either.

same_value(parsed(r"\sec^2 y"), parsed(r"\tan^2 y + 1"))             ->  True
same_value(parsed(r"\frac{1}{2^{99}}"), parsed(r"\frac{1}{2^{98}}")) ->  False
proportional(parsed("2x+4y-3"), parsed("y+x/2-3/4"))                 ->  True, so as equations they are the same

Rational values are compared exactly; irrational ones to 60 digits and, where these agree, to 200. Expressions with
symbols are compared at places drawn for the names of the symbols, where two that differ have no chance to agree: at
rational ones above 2, or at whole ones where there is a floor, a factorial or the like. So x and \sqrt{x^2} are one.
A letter may be written in either case, as constants of integration are, where neither side tells its two cases apart.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from stages.verify.mathematics.expression import Node, UnreadableError, operations
from stages.verify.mathematics.values import WHOLE, floated, unknowns, value

POINTS = 3
WHOLE_POINTS = 10
QUICK, SURE = 60, 200  # digits


def same_value(one: Node, other: Node) -> bool:
    """Whether two expressions have the same value wherever they are compared."""
    bases = (True, False) if "log" in operations(one) | operations(other) else (True,)
    return any(_agree(one, other, natural) for natural in bases)


def _agree(one: Node, other: Node, natural: bool) -> bool:
    compared, needed = 0, 2 if _whole(one, other) and unknowns(one) else 1
    for at in places(one, other):
        try:
            if not _equal_numbers(one, other, at, natural):
                return False
            compared += 1
        except UnreadableError:
            continue
    return compared >= needed


def _whole(one: Node, other: Node) -> bool:
    return not WHOLE.isdisjoint(operations(one) | operations(other))


def places(one: Node, other: Node) -> Iterator[dict[str, Fraction]]:
    """Values for the symbols, the same for the same names."""
    names, whole = unknowns(one) | unknowns(other), _whole(one, other)
    if not names:
        yield {}
        return
    spelt = str.lower if _caseless(unknowns(one)) and _caseless(unknowns(other)) else str
    for point in range(WHOLE_POINTS if whole else POINTS):
        yield {name: _coordinate(spelt(name), point, whole) for name in names}


def _caseless(names: frozenset[str]) -> bool:
    """Whether no two of the names differ in case alone: then C may as well be called c."""
    return len({name.lower() for name in names}) == len(names)


@lru_cache(maxsize=2000)
def _coordinate(name: str, point: int, whole: bool) -> Fraction:
    draw = random.Random(f"{name} {point}")
    return Fraction(draw.randint(2, 12 + 4 * point)) if whole else Fraction(draw.randint(2003, 6997), 997)


def _equal_numbers(one: Node, other: Node, at: dict[str, Fraction], natural: bool) -> bool:
    import mpmath

    for digits in (QUICK, SURE):
        with mpmath.workdps(digits):
            a, b = value(one, at, natural), value(other, at, natural)
            if isinstance(a, Fraction) and isinstance(b, Fraction):
                return a == b
            a, b = floated(a), floated(b)
            near = mpmath.mpf(10) ** (-digits * 3 // 4) * max(1, abs(a), abs(b))
            if not abs(a - b) <= near:  # nor where one is no number
                return False
    return True


def proportional(one: Node, other: Node) -> bool:
    """Whether two equations, as left less right, differ by a factor that is the same everywhere, and not zero."""
    import mpmath

    with mpmath.workdps(QUICK):
        try:
            ratios = [floated(value(one, at)) / floated(value(other, at)) for at in places(one, other)]
        except (UnreadableError, ZeroDivisionError):
            return False
        return ratios[0] != 0 and all(abs(ratio / ratios[0] - 1) < mpmath.mpf(10) ** -45 for ratio in ratios)

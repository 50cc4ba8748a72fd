r"""Identity: whether two expressions are the same, found by evaluating both rather than by rewriting them.

    is_same_value(parse_expression(r"\sec^2 y"), parse_expression(r"\tan^2 y + 1"))              ->  True
    is_same_value(parse_expression(r"\frac{1}{2^{99}}"), parse_expression(r"\frac{1}{2^{98}}"))  ->  False
    is_proportional(parse_expression("2x+4y-3"), parse_expression("y+x/2-3/4"))                  ->  True

Rational values are compared exactly, irrational values to 60 digits and, if these agree, to 200. Expressions with
symbols are compared at points derived from the symbols' names: rational numbers above 2, or whole numbers if there is a
floor, a factorial or the like. Different expressions practically never agree there. All points are positive, so x and
\sqrt{x^2} count as the same; but if there is an absolute value outside a logarithm, they are negative, so that |x| is
not x. A letter may be written in either case, as constants of integration are, unless one side uses both cases.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache

from leash.grading.mathematics.expression import Node, UnreadableError, operations
from leash.grading.mathematics.values import INTEGER_FUNCTIONS, evaluate, number_to_mpmath, unknowns

RATIONAL_POINTS = 3
INTEGER_POINTS = 10
COARSE_DIGITS, FINE_DIGITS = 60, 200


def is_same_value(first: Node, second: Node) -> bool:
    """Return whether two expressions have the same value at all points. A bare log is natural or decimal."""
    bases = (True, False) if "log" in operations(first) | operations(second) else (True,)
    return any(_is_equal_everywhere(first, second, natural) for natural in bases)


def _is_equal_everywhere(first: Node, second: Node, natural: bool) -> bool:
    # Small whole numbers can agree by chance, so one of them is not enough.
    compared, required = 0, 2 if _has_integer_functions(first, second) and unknowns(first) else 1
    for point in evaluation_points(first, second):
        with suppress(UnreadableError):
            if not _is_equal_at(first, second, point, natural):
                return False
            compared += 1
    return compared >= required


def _has_integer_functions(first: Node, second: Node) -> bool:
    return not INTEGER_FUNCTIONS.isdisjoint(operations(first) | operations(second))


def evaluation_points(first: Node, second: Node) -> Iterator[dict[str, Fraction]]:
    """Yield values for the symbols: the same values for the same names."""
    names, whole = unknowns(first) | unknowns(second), _has_integer_functions(first, second)
    if not names:
        yield {}
        return
    # C may also be written c unless one side has both.
    sides = unknowns(first), unknowns(second)
    caseless = all(len({name.lower() for name in side}) == len(side) for side in sides)
    points = range(INTEGER_POINTS if whole else RATIONAL_POINTS)
    signed = has_absolute_value(first) or has_absolute_value(second)
    for point, sign in [(point, -1 if signed and point % 2 == 0 else 1) for point in points]:
        yield {name: sign * _draw_coordinate(name.lower() if caseless else name, point, whole) for name in names}


def has_absolute_value(node: Node) -> bool:
    r"""Return whether a value is taken without its sign. \ln|x| is written \ln x as often as not."""
    if node.op == "call" and node.name in ("ln", "log", "log10") and node.args[0].op == "abs":
        return has_absolute_value(node.args[0].args[0])
    return node.op == "abs" or any(map(has_absolute_value, node.args))


@lru_cache(maxsize=2000)
def _draw_coordinate(name: str, point: int, whole: bool) -> Fraction:
    rng = random.Random(f"{name} {point}")
    return Fraction(rng.randint(2, 12 + 4 * point)) if whole else Fraction(rng.randint(2003, 6997), 997)


def _is_equal_at(first: Node, second: Node, point: dict[str, Fraction], natural: bool) -> bool:
    import mpmath

    for digits in (COARSE_DIGITS, FINE_DIGITS):
        with mpmath.workdps(digits):
            a, b = evaluate(first, point, natural), evaluate(second, point, natural)
            if isinstance(a, Fraction) and isinstance(b, Fraction):
                return a == b
            a, b = number_to_mpmath(a), number_to_mpmath(b)
            tolerance = mpmath.mpf(10) ** (-digits * 3 // 4) * max(1, abs(a), abs(b))
            # `not <=` rather than `>`: NaN is equal to nothing.
            if not abs(a - b) <= tolerance:
                return False
    return True


def is_proportional(first: Node, second: Node) -> bool:
    """Return whether two equations, each as left minus right, differ by one constant factor that is not zero."""
    import mpmath

    with mpmath.workdps(COARSE_DIGITS):
        try:
            points = evaluation_points(first, second)
            ratios = [
                number_to_mpmath(evaluate(first, point)) / number_to_mpmath(evaluate(second, point)) for point in points
            ]
        except (UnreadableError, ZeroDivisionError):
            return False
        return ratios[0] != 0 and all(abs(ratio / ratios[0] - 1) < mpmath.mpf(10) ** -45 for ratio in ratios)

r"""Identity: whether two expressions are the same, found by evaluating both rather than by rewriting them.

    is_same_value(parse_expression(r"\sec^2 y"), parse_expression(r"\tan^2 y + 1"))              ->  True
    is_same_value(parse_expression(r"\frac{1}{2^{99}}"), parse_expression(r"\frac{1}{2^{98}}"))  ->  False
    is_proportional(parse_expression("2x+4y-3"), parse_expression("y+x/2-3/4"))                  ->  True

Rational values are compared exactly, irrational values to 60 digits and, if these agree, to 200. Expressions with
symbols are compared at points derived from the symbols' names: rational numbers above 2, or whole numbers if there is a
factorial or the like. Different expressions practically never agree there. All points are positive, but for these:

- With an absolute value outside a logarithm, a minimum or a maximum they have all signs and sizes: |x| is not x.
- With a radical each letter is also negative alone, where all radicands stay positive, so that \sqrt{x^2} is not x. But
  m\sqrt{k/m} is \sqrt{km}: where the letters are quantities, they have one sign.
- Under a floor or ceiling they have all signs, too, and only the letters from i to n are whole at all points, so that
  \lfloor x \rfloor is not x.

A letter may be written in either case, as constants of integration are, unless one side uses both cases.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache

from leash.grading.mathematics.expression import Node, UnreadableError, operations
from leash.grading.mathematics.values import INTEGER_FUNCTIONS, evaluate, number_to_mpmath, real_value, unknowns

RATIONAL_POINTS = 3
SIGNED_POINTS = 16  # of expressions that depend on signs
INTEGER_POINTS = 10
MAX_FLIPPED_NAMES = 6  # of expressions with radicals
ROUNDING_FUNCTIONS = frozenset(["floor", "ceil"])
WHOLE_LETTERS = frozenset("ijklmnIJKLMN")
COARSE_DIGITS, FINE_DIGITS = 60, 200
# Of the points of expressions that depend on signs: some lie between 0 and 1, some between 1 and 2, and some far out.
SIZES = Fraction(1), Fraction(1), Fraction(1, 7), Fraction(11), Fraction(1, 3), Fraction(1, 4)


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
    rounded = not (operations(first) | operations(second)).isdisjoint(ROUNDING_FUNCTIONS)
    if not names:
        yield {}
        return
    # C may also be written c unless one side has both.
    sides = unknowns(first), unknowns(second)
    caseless = all(len({name.lower() for name in side}) == len(side) for side in sides)
    signed = has_absolute_value(first) or has_absolute_value(second)
    needs_whole = not (operations(first) | operations(second)).isdisjoint(INTEGER_FUNCTIONS - ROUNDING_FUNCTIONS)
    for point in range(INTEGER_POINTS if whole else SIGNED_POINTS if signed else RATIONAL_POINTS):
        at = {}
        for name in names:
            key = name.lower() if caseless else name
            # A floor is a ceiling at whole numbers only, so some points are whole and most are not.
            is_whole = needs_whole or (rounded and (name[0] in WHOLE_LETTERS or point % 5 == 4))
            at[name] = _draw_coordinate(key, point, is_whole)
            if signed or (rounded and not is_whole):
                at[name] *= _draw_sign(key, point) * (1 if is_whole else SIZES[point % len(SIZES)])
        yield at
    if not (whole or signed) and (has_radical(first) or has_radical(second)):
        for flipped in _flip_each_sign(at):
            if _has_real_radicals(first, flipped) and _has_real_radicals(second, flipped):
                yield flipped


def _flip_each_sign(at: dict[str, Fraction]) -> Iterator[dict[str, Fraction]]:
    """Yield points at which one letter is negative, in two sizes."""
    for flipped in sorted(set(at.values()))[:MAX_FLIPPED_NAMES]:  # C and c may have one value
        for size in (1, Fraction(1, 11)):
            yield {name: -value * size if value == flipped else value for name, value in at.items()}


def has_radical(node: Node) -> bool:
    """Return whether there is a root or a broken power of something with a letter."""
    is_radical = node.op == "root" or (node.op == "pow" and _is_broken(node.args[1]))
    return (is_radical and bool(unknowns(node.args[0]))) or any(map(has_radical, node.args))


def _is_broken(exponent: Node) -> bool:
    value = exponent.number if exponent.op == "num" else real_value(exponent)
    return value is not None and value.denominator != 1


def _has_real_radicals(node: Node, at: dict[str, Fraction]) -> bool:
    """Return whether all radicands and arguments of logarithms are positive at a point."""
    is_radical = node.op == "root" or (node.op == "pow" and _is_broken(node.args[1]))
    if is_radical or (node.op == "call" and node.name in ("ln", "log", "log10")):
        try:
            value = number_to_mpmath(evaluate(node.args[0], at))
        except UnreadableError:
            return False
        if not (value.imag == 0 and value.real > 0):
            return False
    return all(_has_real_radicals(arg, at) for arg in node.args)


def has_absolute_value(node: Node) -> bool:
    r"""Return whether a value depends on signs: |x|, \max(x, y). \ln|x| is written \ln x as often as not."""
    if node.op == "call" and node.name in ("ln", "log", "log10") and node.args[0].op == "abs":
        return has_absolute_value(node.args[0].args[0])
    is_extreme = node.op == "call" and node.name in ("min", "max")
    return node.op == "abs" or is_extreme or any(map(has_absolute_value, node.args))


def _draw_sign(name: str, point: int) -> int:
    """Return a sign: minus for all names at the first point, plus at the second, then any."""
    return (-1, 1)[point] if point < 2 else random.Random(f"sign of {name} {point}").choice((-1, 1))


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

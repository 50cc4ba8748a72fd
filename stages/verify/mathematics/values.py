r"""Values: what an expression comes to, exactly where it is rational.

value(parsed(r"3\frac{1}{2}"), {})              ->  Fraction(7, 2)
value(parsed(r"2\sqrt{3}"), {})                 ->  3.4641… to as many digits as mpmath is set to
value(parsed("x^2"), {"x": Fraction(1, 3)})     ->  Fraction(1, 9)
printed(parsed("4.50"))                         ->  (Fraction(9, 2), Fraction(1, 100)), the unit in its last place

A whole number keeps all its digits up to LARGEST bits; what has more, as a power tower does, is an UnreadableError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import comb, factorial, gcd, lcm
from typing import Any

from stages.verify.mathematics.expression import CIRCULAR, POWERS, TENS, Node, UnreadableError, symbols

LARGEST = 200_000  # bits of an exact number: 2^1009 has 1,010 and 2006! has 19,000
FACTORIALS = 5000
WHOLE = frozenset(["floor", "ceil", "factorial", "binom", "gcd", "lcm"])  # these mean something at whole numbers only
CONSTANTS = frozenset(["pi", "e", "i"])

Number = Any  # Fraction, or mpmath's mpc
Values = Mapping[str, Fraction]


def unknowns(node: Node) -> frozenset[str]:
    return symbols(node) - CONSTANTS


def printed(node: Node) -> tuple[Fraction, Fraction] | None:
    r"""The value and the unit in the last place of a decimal such as -1.50 or 4.5 \times 10^{33}; None for the rest."""
    if node.op == "num":
        return (node.number, node.ulp) if node.ulp is not None else None
    if node.op == "neg":
        inner = printed(node.args[0])
        return (-inner[0], inner[1]) if inner else None
    if node.op == "mul" and (scale := _power_of_ten(node.args[1])):
        mantissa = node.args[0]
        number, ulp = printed(mantissa) or (mantissa.number, Fraction(1))
        return (number * scale, ulp * scale) if mantissa.op in ("num", "neg") else None
    return None


def _power_of_ten(node: Node) -> Fraction | None:
    """10^{33} or 10^{-7}, where the exponent is a whole number that was written out."""
    if node.op != "pow" or node.args[0].number != 10:
        return None
    exponent, sign = (node.args[1].args[0], -1) if node.args[1].op == "neg" else (node.args[1], 1)
    whole = exponent.op == "num" and exponent.number.denominator == 1 and exponent.number <= TENS
    return Fraction(10) ** (sign * exponent.number.numerator) if whole else None


def value(node: Node, at: Values, natural: bool = True) -> Number:
    r"""The value where the symbols have these values; `natural` says which base a bare \log has (e, or else 10)."""
    if node.op == "num":
        return node.number
    if node.op == "symbol":
        return _constant(node.name) if node.name in CONSTANTS and node.name not in at else at[node.name]
    args = [value(arg, at, natural) for arg in node.args]
    try:
        if node.op == "call":
            return _called("log10" if node.name == "log" and len(args) == 1 and not natural else node.name, args)
        return _OPERATIONS[node.op](*args)
    except (ZeroDivisionError, OverflowError, TypeError, ValueError) as error:
        raise UnreadableError(str(error)) from None


def _constant(name: str) -> Number:
    import mpmath

    return mpmath.mpc({"pi": mpmath.pi, "e": mpmath.e, "i": mpmath.mpc(0, 1)}[name])


def floated(number: Number) -> Number:
    import mpmath

    if isinstance(number, Fraction):
        return mpmath.mpc(mpmath.mpf(number.numerator) / number.denominator)
    return number


def _both(exact: Callable[[Fraction, Fraction], Fraction]) -> Callable[[Number, Number], Number]:
    """An operation on fractions where both are, else on floats."""

    def operation(a: Number, b: Number) -> Number:
        if isinstance(a, Fraction) and isinstance(b, Fraction):
            return _bounded(exact(a, b))
        return exact(floated(a), floated(b))

    return operation


def _bounded(number: Fraction) -> Fraction:
    if number.numerator.bit_length() + number.denominator.bit_length() > LARGEST:
        raise UnreadableError("too large a number")
    return number


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(exponent, Fraction) and abs(exponent) > POWERS:
        raise UnreadableError("too large an exponent")
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator == 1:
            size = max(base.numerator.bit_length(), base.denominator.bit_length())
            if size * abs(exponent.numerator) > LARGEST:
                raise UnreadableError("too large a power")
            return base**exponent.numerator
        root = _root(base, Fraction(exponent.denominator)) if base >= 0 else None
        if isinstance(root, Fraction):
            return _power(root, Fraction(exponent.numerator))
    return _float_power(floated(base), floated(exponent))


def _float_power(base: Number, exponent: Number) -> Number:
    import mpmath

    if abs(exponent) > POWERS or (base != 0 and abs(mpmath.mag(base)) > POWERS):
        raise UnreadableError("too large a power")
    return base**exponent


def _root(radicand: Number, index: Number) -> Number:
    import mpmath

    if isinstance(radicand, Fraction) and isinstance(index, Fraction) and index.denominator == 1 and 0 < index < 100:
        if radicand < 0 and index % 2:
            return -_root(-radicand, index)
        n = int(index)
        top, bottom = (_whole_root(part, n) for part in (radicand.numerator, radicand.denominator))
        if top is not None and bottom is not None:
            return Fraction(top, bottom)
    return mpmath.power(floated(radicand), 1 / floated(index))


def _whole_root(number: int, n: int) -> int | None:
    """The nth root of a number where it is whole."""
    if number < 0 or number.bit_length() > 2000:
        return None
    low, high = 0, 1 << (number.bit_length() // n + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**n < number else (low, middle)
    return low if low**n == number else None


def _factorial(n: Number) -> Number:
    if not isinstance(n, Fraction) or n.denominator != 1 or not 0 <= n <= FACTORIALS:
        raise UnreadableError("no factorial that can be had exactly")
    return Fraction(factorial(n.numerator))


def _binom(n: Number, k: Number) -> Number:
    if not all(isinstance(x, Fraction) and x.denominator == 1 and 0 <= x <= FACTORIALS for x in (n, k)):
        raise UnreadableError("no binomial that can be had exactly")
    return Fraction(comb(n.numerator, k.numerator))


def _rounded(up: bool) -> Callable[[Number], Number]:
    def operation(number: Number) -> Number:
        import mpmath

        if isinstance(number, Fraction):
            return Fraction(
                -(-number.numerator // number.denominator) if up else number.numerator // number.denominator
            )
        if abs(number.imag) > 0 or abs(number.real) > 10**30:
            raise UnreadableError("nothing to round")
        return Fraction(int((mpmath.ceil if up else mpmath.floor)(number.real)))

    return operation


def _absolute(number: Number) -> Number:
    return abs(number) if isinstance(number, Fraction) else floated(Fraction(0)) + abs(number)


def _called(name: str, args: list[Number]) -> Number:
    import mpmath

    if name in ("min", "max", "gcd", "lcm"):
        return _chosen(name, args)
    if name in ("log", "log10", "ln") and args[0] == 0:
        raise UnreadableError("the logarithm of zero")
    if name in ("log", "ln") and len(args) == 2:
        return mpmath.log(floated(args[0])) / mpmath.log(floated(args[1]))
    if len(args) != 1:
        raise UnreadableError(f"{name} of {len(args)}")
    x = floated(args[0])
    if name in ("exp", "sinh", "cosh", "tanh", *CIRCULAR) and abs(x) > POWERS:
        raise UnreadableError("too large an argument")
    if name == "log10":
        return mpmath.log(x) / mpmath.log(10)
    return mpmath.mpc(getattr(mpmath, name.replace("arc", "a", 1))(x))


def _chosen(name: str, args: list[Number]) -> Number:
    if not all(isinstance(arg, Fraction) for arg in args):
        raise UnreadableError(f"{name} of what is not rational")
    if name in ("min", "max"):
        return min(args) if name == "min" else max(args)
    if any(arg.denominator != 1 for arg in args):
        raise UnreadableError(f"{name} of what is not whole")
    return Fraction((gcd if name == "gcd" else lcm)(*(arg.numerator for arg in args)))


_OPERATIONS: dict[str, Callable[..., Number]] = {
    "add": _both(lambda a, b: a + b),
    "mul": _both(lambda a, b: a * b),
    "div": _both(lambda a, b: a / b),
    "neg": lambda a: -a,
    "pow": _power,
    "root": _root,
    "factorial": _factorial,
    "binom": _binom,
    "floor": _rounded(up=False),
    "ceil": _rounded(up=True),
    "abs": _absolute,
}

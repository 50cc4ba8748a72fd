r"""Values: evaluate an expression, exactly if the value is rational.

    evaluate(parse_expression(r"3\frac{1}{2}"), {})            ->  Fraction(7, 2)
    evaluate(parse_expression(r"2\sqrt{3}"), {})               ->  3.4641… to the digits of mpmath's precision
    evaluate(parse_expression("x^2"), {"x": Fraction(1, 3)})   ->  Fraction(1, 9)
    decimal_and_ulp(parse_expression("4.50"))                  ->  (Fraction(9, 2), Fraction(1, 100))

An exact number has at most MAX_EXACT_BITS bits. Larger ones, such as power towers, raise UnreadableError before they
are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, comb, factorial, floor, gcd, lcm, prod
from typing import Any

from leash.grading.mathematics.expression import MAX_DECIMAL_EXPONENT, TRIG_FUNCTIONS, Node, UnreadableError, symbols

MAX_EXPONENT = 100_000  # larger exponents belong to power towers
MAX_EXACT_BITS = 200_000  # 2^1009 has 1,010 bits and 2006! has 19,000
MAX_FACTORIAL = 5000
REAL_DIGITS = 60  # more than decimals have
# Functions that are meaningful only at whole numbers.
INTEGER_FUNCTIONS = frozenset(["floor", "ceil", "factorial", "semifactorial", "binom", "gcd", "lcm"])
CONSTANTS = frozenset(["pi", "e", "i"])

Number = Any  # Fraction, or mpmath's mpc


def unknowns(node: Node) -> frozenset[str]:
    return symbols(node) - CONSTANTS


def decimal_and_ulp(node: Node) -> tuple[Fraction, Fraction] | None:
    r"""Return the value of a decimal such as -1.50 or 4.5 \times 10^{33} and its unit in the last place, else None."""
    if node.op == "num":
        return (node.number, node.ulp) if node.ulp is not None else None
    if node.op == "neg":
        inner = decimal_and_ulp(node.args[0])
        return (-inner[0], inner[1]) if inner else None
    if node.op == "mul" and (scale := _power_of_ten(node.args[1])):
        mantissa = node.args[0]
        number, ulp = decimal_and_ulp(mantissa) or (mantissa.number, Fraction(1))
        return (number * scale, ulp * scale) if mantissa.op in ("num", "neg") else None
    return None


def _power_of_ten(node: Node) -> Fraction | None:
    """Return the value of 10^{33} or 10^{-7}; None unless the exponent is a literal whole number."""
    if node.op != "pow" or node.args[0].number != 10:
        return None
    exponent, sign = (node.args[1].args[0], -1) if node.args[1].op == "neg" else (node.args[1], 1)
    is_whole = exponent.op == "num" and exponent.number.denominator == 1 and exponent.number <= MAX_DECIMAL_EXPONENT
    return Fraction(10) ** (sign * exponent.number.numerator) if is_whole else None


def evaluate(node: Node, at: Mapping[str, Fraction], natural: bool = True) -> Number:
    r"""Evaluate an expression for these values of its symbols. A bare \log has base e if `natural`, else 10."""
    if node.op == "num":
        return node.number
    if node.op == "symbol":
        if node.name in at or node.name not in CONSTANTS:
            return at[node.name]
        import mpmath

        return mpmath.mpc({"pi": mpmath.pi, "e": mpmath.e, "i": mpmath.mpc(0, 1)}[node.name])
    args = [evaluate(arg, at, natural) for arg in node.args]
    try:
        if node.op == "call":
            return _call_function("log10" if node.name == "log" and len(args) == 1 and not natural else node.name, args)
        return _OPERATIONS[node.op](*args)
    except (ZeroDivisionError, OverflowError, TypeError, ValueError) as error:
        raise UnreadableError(str(error)) from None


def real_value(node: Node) -> Fraction | None:
    """Return a value to REAL_DIGITS digits, or None if it is not real or has unknowns."""
    import mpmath

    if unknowns(node):
        return None
    with mpmath.workdps(REAL_DIGITS):
        try:
            number = evaluate(node, {})
        except UnreadableError:
            return None
        if isinstance(number, Fraction):
            return number
        real = mpmath.isfinite(number) and abs(number.imag) <= abs(number.real) / 10 ** (REAL_DIGITS // 2)
        return Fraction(str(number.real)) if real else None


def number_to_mpmath(number: Number) -> Number:
    import mpmath

    if isinstance(number, Fraction):
        return mpmath.mpc(mpmath.mpf(number.numerator) / number.denominator)
    return number


def _exact_or_float(exact: Callable[[Fraction, Fraction], Fraction]) -> Callable[[Number, Number], Number]:
    """Compute with fractions if both numbers are, else with mpmath."""

    def operation(a: Number, b: Number) -> Number:
        if not (isinstance(a, Fraction) and isinstance(b, Fraction)):
            return exact(number_to_mpmath(a), number_to_mpmath(b))
        number = exact(a, b)
        if number.numerator.bit_length() + number.denominator.bit_length() > MAX_EXACT_BITS:
            raise UnreadableError("the number is too large")
        return number

    return operation


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(exponent, Fraction) and abs(exponent) > MAX_EXPONENT:
        raise UnreadableError("the exponent is too large")
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator == 1:
            # The size is checked before the power is computed, which could take forever.
            size = max(base.numerator.bit_length(), base.denominator.bit_length())
            if size * abs(exponent.numerator) > MAX_EXACT_BITS:
                raise UnreadableError("the power is too large")
            return base**exponent.numerator
        root = _root(base, Fraction(exponent.denominator)) if base >= 0 else None
        if isinstance(root, Fraction):
            return _power(root, Fraction(exponent.numerator))
    import mpmath

    base, exponent = number_to_mpmath(base), number_to_mpmath(exponent)
    if abs(exponent) > MAX_EXPONENT or (base != 0 and abs(mpmath.mag(base)) > MAX_EXPONENT):
        raise UnreadableError("the power is too large")
    return base**exponent


def _root(radicand: Number, index: Number) -> Number:
    import mpmath

    if isinstance(radicand, Fraction) and isinstance(index, Fraction) and index.denominator == 1 and 0 < index < 100:
        if radicand < 0 and index % 2:
            return -_root(-radicand, index)
        parts = [_integer_root(part, int(index)) for part in (radicand.numerator, radicand.denominator)]
        if parts[0] is not None and parts[1] is not None:
            return Fraction(parts[0], parts[1])
    return mpmath.power(number_to_mpmath(radicand), 1 / number_to_mpmath(index))


def _integer_root(number: int, n: int) -> int | None:
    """Return the nth root of a number if it is whole, else None."""
    if number < 0 or number.bit_length() > 2000:
        return None
    low, high = 0, 1 << (number.bit_length() // n + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if middle**n < number else (low, middle)
    return low if low**n == number else None


def _combinatorial(function: Callable[..., int]) -> Callable[..., Number]:
    """Apply a function to whole numbers up to MAX_FACTORIAL."""

    def operation(*args: Number) -> Number:
        if not all(isinstance(n, Fraction) and n.denominator == 1 and 0 <= n <= MAX_FACTORIAL for n in args):
            raise UnreadableError("a factorial or binomial that is not exact")
        return Fraction(function(*(n.numerator for n in args)))

    return operation


def _round(number: Number, up: bool) -> Number:
    import mpmath

    if isinstance(number, Fraction):
        return Fraction(ceil(number) if up else floor(number))
    if abs(number.imag) > 0 or abs(number.real) > 10**30:
        raise UnreadableError("no real number to round")
    return Fraction(int((mpmath.ceil if up else mpmath.floor)(number.real)))


def _call_function(name: str, args: list[Number]) -> Number:
    import mpmath

    if name in ("min", "max", "gcd", "lcm"):
        if not all(isinstance(arg, Fraction) for arg in args):
            raise UnreadableError(f"{name} of irrational numbers")
        if name in ("min", "max"):
            return min(args) if name == "min" else max(args)
        if any(arg.denominator != 1 for arg in args):
            raise UnreadableError(f"{name} of numbers that are not whole")
        return Fraction((gcd if name == "gcd" else lcm)(*(arg.numerator for arg in args)))
    if name in ("log", "log10", "ln") and args[0] == 0:
        raise UnreadableError("the logarithm of zero")
    if name in ("log", "ln") and len(args) == 2:
        return mpmath.log(number_to_mpmath(args[0])) / mpmath.log(number_to_mpmath(args[1]))
    if len(args) != 1:
        raise UnreadableError(f"{name} takes one argument, not {len(args)}")
    x = number_to_mpmath(args[0])
    if name in ("exp", "sinh", "cosh", "tanh", *TRIG_FUNCTIONS) and abs(x) > MAX_EXPONENT:
        raise UnreadableError("the argument is too large")
    if name == "log10":
        return mpmath.log(x) / mpmath.log(10)
    return mpmath.mpc(getattr(mpmath, name.replace("arc", "a", 1))(x))  # arcsin is asin in mpmath


_OPERATIONS: dict[str, Callable[..., Number]] = {
    "add": _exact_or_float(lambda a, b: a + b),
    "mul": _exact_or_float(lambda a, b: a * b),
    "div": _exact_or_float(lambda a, b: a / b),
    "neg": lambda a: -a,
    "pow": _power,
    "root": _root,
    "factorial": _combinatorial(factorial),
    "semifactorial": _combinatorial(lambda n: prod(range(n, 0, -2))),
    "binom": _combinatorial(comb),
    "floor": lambda a: _round(a, up=False),
    "ceil": lambda a: _round(a, up=True),
    "abs": lambda a: abs(a) if isinstance(a, Fraction) else number_to_mpmath(Fraction(0)) + abs(a),
}

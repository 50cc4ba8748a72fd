r"""Answer classes: one spelling for answers that are the same, found for each by itself rather than for all pairs.

class_of(read("0.5")) == class_of(read(r"\frac{2}{4}")) == "1/2"
class_of(read(r"\sqrt{12}"))                            == "3.4641016151377545871"
class_of(read("2, 1"))                                  == "1, 2"
class_of(read("2n + 1")) == class_of(read("1 + n + n"))      (its symbols, and its value at one place)
"""

from __future__ import annotations

from fractions import Fraction
from hashlib import blake2b

from stages.verify.mathematics.expression import Node, UnreadableError
from stages.verify.mathematics.identity import WHOLE_POINTS, places
from stages.verify.mathematics.reading import Reading
from stages.verify.mathematics.spelling import text_key
from stages.verify.mathematics.values import Number, floated, unknowns, value

SHOWN = 20  # digits of an irrational number
PRINTED = 4000  # bits of a whole number that is spelt out


def class_of(reading: Reading) -> str:
    items = [class_of(item) for item in reading.items]
    if reading.kind == "tuple":
        return f"{reading.brackets[0]}{', '.join(items)}{reading.brackets[1]}"
    if reading.kind == "matrix":
        return f"[{'; '.join(items)}]"
    if reading.kind in ("list", "set", "union"):
        return (" ∪ " if reading.kind == "union" else ", ").join(sorted(items))
    if reading.kind in ("value", "equation") and reading.node:
        return _value_class(reading.node, reading)
    return text_key(reading.text) or reading.text


def _value_class(node: Node, reading: Reading) -> str:
    import mpmath

    names = ",".join(sorted(name.lower() for name in unknowns(node)))
    with mpmath.workdps(SHOWN + 20):
        try:
            values = [value(node, at) for at in places(node, node)]
            if reading.kind == "equation":  # the same whatever factor both sides are multiplied by
                return f"{names}: {_spelt(_ratio(values))} = 0"
        except (UnreadableError, ZeroDivisionError):
            return "".join(reading.text.split())
        spelt = ", ".join(_spelt(number) for number in (values if len(values) == WHOLE_POINTS else values[:1]))
    return f"{names}: {spelt}" if names else spelt


def _ratio(values: list[Number]) -> Number:
    first, second = values[:2]
    exact = isinstance(first, Fraction) and isinstance(second, Fraction)
    return first / second if exact else floated(first) / floated(second)


def _spelt(number: Number) -> str:
    import mpmath

    if isinstance(number, Fraction):
        return _fraction(number)
    real, imaginary = (
        part if abs(part) > mpmath.mpf(10) ** -SHOWN else mpmath.mpf(0) for part in (number.real, number.imag)
    )
    shown = mpmath.nstr(real, SHOWN)
    return shown if not imaginary else f"{shown} + {mpmath.nstr(imaginary, SHOWN)}i"


def _fraction(number: Fraction) -> str:
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > PRINTED:
        return blake2b(f"{number.numerator:x}/{number.denominator:x}".encode(), digest_size=12).hexdigest()
    return str(number)

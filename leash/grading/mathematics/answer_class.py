r"""Answer classes: one name for all answers that are the same, computed for each answer alone, not for pairs.

    answer_class(parse_answer("0.5"))        ==  answer_class(parse_answer(r"\frac{2}{4}"))  ==  "1/2"
    answer_class(parse_answer(r"\sqrt{12}"))  ==  "3.4641016151377545871"
    answer_class(parse_answer("2, 1"))       ==  "1, 2"
    answer_class(parse_answer("2n + 1"))     ==  answer_class(parse_answer("1 + n + n"))    (symbols and a value)

A class is for counting distinct answers. It does not know the gold, so it has no tolerance: 0.3333 and 1/3 are two
classes, though equivalence.py accepts one for the other.
"""

from __future__ import annotations

from fractions import Fraction
from hashlib import blake2b

from leash.grading.mathematics.answer_types import ParsedAnswer
from leash.grading.mathematics.expression import Node, UnreadableError
from leash.grading.mathematics.identity import INTEGER_POINTS, evaluation_points
from leash.grading.mathematics.spelling import text_key
from leash.grading.mathematics.values import Number, evaluate, to_mpmath, unknowns

IRRATIONAL_DIGITS = 20
MAX_PRINTED_BITS = 4000  # larger numbers are hashed: writing out 2006! takes longer than grading


def answer_class(parsed: ParsedAnswer) -> str:
    items = [answer_class(item) for item in parsed.items]
    if parsed.kind == "tuple":
        return f"{parsed.brackets[0]}{', '.join(items)}{parsed.brackets[1]}"
    if parsed.kind == "matrix":
        return f"[{'; '.join(items)}]"
    if parsed.kind in ("list", "set", "union"):
        return (" ∪ " if parsed.kind == "union" else ", ").join(sorted(items))
    if parsed.kind in ("value", "equation") and parsed.node:
        return _value_class(parsed.node, parsed)
    return text_key(parsed.text) or parsed.text


def _value_class(node: Node, parsed: ParsedAnswer) -> str:
    import mpmath

    names = ",".join(sorted(name.lower() for name in unknowns(node)))
    with mpmath.workdps(IRRATIONAL_DIGITS + 20):
        try:
            values = [evaluate(node, point) for point in evaluation_points(node, node)]
            if parsed.kind == "equation":
                # A ratio of two values stays the same if both sides are multiplied by a factor.
                first, second = values[:2]
                if not (isinstance(first, Fraction) and isinstance(second, Fraction)):
                    first, second = to_mpmath(first), to_mpmath(second)
                return f"{names}: {_format_number(first / second)} = 0"
        except (UnreadableError, ZeroDivisionError):
            return "".join(parsed.text.split())
        # At whole points one value is not enough: floor(n/2) and floor(n/3) agree at some of them.
        shown = ", ".join(_format_number(value) for value in (values if len(values) == INTEGER_POINTS else values[:1]))
    return f"{names}: {shown}" if names else shown


def _format_number(number: Number) -> str:
    import mpmath

    if isinstance(number, Fraction):
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > MAX_PRINTED_BITS:
            return blake2b(f"{number.numerator:x}/{number.denominator:x}".encode(), digest_size=12).hexdigest()
        return str(number)
    negligible = mpmath.mpf(10) ** -IRRATIONAL_DIGITS
    real, imaginary = (part if abs(part) > negligible else mpmath.mpf(0) for part in (number.real, number.imag))
    shown: str = mpmath.nstr(real, IRRATIONAL_DIGITS)
    return f"{shown} + {mpmath.nstr(imaginary, IRRATIONAL_DIGITS)}i" if imaginary else shown

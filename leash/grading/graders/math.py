r"""`math`: mathematical equivalence, by value where the answers have one.

    grade(r"\frac{1}{2}", ["0.5"], {})                                ->  1.0
    grade(r"x = 3 \text{ or } x = 1", ["1,3"], {"multiple": True})    ->  1.0
    grade("4.19", ["4.2"], {"error": "1e-1", "unit": "%"})            ->  1.0
    canonical("2/4", {})                                              ->  "1/2"
    canonical(r"\sqrt{12}", {})                                       ->  "3.4641016151377545871"
    canonical("2n + 1", {})  ==  canonical("1 + n + n", {})           (symbols and a value)

Keys of `meta`: `multiple` (the gold holds several answers, in any order), `unit`, `error` (absolute, as text),
`rounded` (the golds were rounded to the digits they show). The rules are in leash/grading/mathematics/equivalence.py.

`canonical` is for counting distinct answers. It does not know the gold, so it has no tolerance: 0.3333 and 1/3 are two
classes, though `grade` accepts one for the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from leash.grading.mathematics.answer_parsing import ParsedAnswer, parse_answer
from leash.grading.mathematics.equivalence import EquivalenceRules, is_equivalent, is_unparsed
from leash.grading.mathematics.expression import MAX_ANSWER_CHARS, Node, UnreadableError
from leash.grading.mathematics.identity import INTEGER_POINTS, evaluation_points, has_absolute_value, has_radical
from leash.grading.mathematics.math_verify_fallback import is_math_verify_parsable
from leash.grading.mathematics.spelling import text_key
from leash.grading.mathematics.values import Number, evaluate, number_to_mpmath, unknowns

IRRATIONAL_DIGITS = 20
MAX_PRINTED_BITS = 4000  # larger numbers are hashed: writing out 2006! takes longer than grading


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    rules = _build_rules(bool(meta.get("multiple")), meta.get("unit"), meta.get("error"), bool(meta.get("rounded")))
    return float(any(is_equivalent(accepted, answer, rules) for accepted in gold))


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    return _answer_class(parse_answer(answer, bool(meta.get("multiple"))))


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    if not gold:
        return "there is no gold"
    try:
        _build_rules(False, None, meta.get("error"), False)
    except (ValueError, ZeroDivisionError):
        return f"its error '{meta['error']}' is not a number"
    for accepted in gold:
        if not accepted.strip():
            return "a gold is empty"
        if len(accepted) > MAX_ANSWER_CHARS:
            return f"the gold '{accepted[:40]}…' has more than {MAX_ANSWER_CHARS} characters"
        if accepted.replace("\\{", "").count("{") != accepted.replace("\\}", "").count("}"):
            return f"the braces of the gold '{accepted}' don't match"
        if is_unparsed(parse_answer(accepted)) and not is_math_verify_parsable(accepted):
            return f"the gold '{accepted}' is neither words nor mathematics that can be read"
    return None


# One problem is graded thousands of times with the same meta.
@lru_cache(maxsize=1000)
def _build_rules(multiple: bool, unit: str | None, error: str | None, rounded: bool) -> EquivalenceRules:
    return EquivalenceRules(multiple, (unit or "").strip(), Fraction(error) if error else None, rounded)


def _answer_class(parsed: ParsedAnswer) -> str:
    items = [_answer_class(item) for item in parsed.items]
    if parsed.kind == "tuple":
        return f"{parsed.brackets[0]}{', '.join(items)}{parsed.brackets[1]}"
    if parsed.kind == "matrix":
        return f"[{'; '.join(items)}]"
    if parsed.kind in ("list", "union"):
        return (" ∪ " if parsed.kind == "union" else ", ").join(sorted(items))
    if parsed.kind == "set":
        return ", ".join(sorted(set(items))) or "∅"
    if parsed.kind == "relation":
        return " ".join(part for pair in zip(items, f"{parsed.brackets} ", strict=True) for part in pair).strip()
    if parsed.kind == "ratio":
        return _ratio_class(parsed)
    if parsed.kind in ("value", "equation") and parsed.node:
        return _value_class(parsed.node, parsed)
    return text_key(parsed.text) or parsed.text


def _ratio_class(parsed: ParsedAnswer) -> str:
    """3:4 and 6:8 are 3/4. A ratio of more numbers has the ratio of each to the last."""
    nodes = [item.node for item in parsed.items if item.node]
    ratios = [Node("div", (node, nodes[-1])) for node in nodes[:-1]]
    return ":".join(_value_class(ratio, parsed) for ratio in ratios) + ":1" * (len(ratios) > 1)


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
                    first, second = number_to_mpmath(first), number_to_mpmath(second)
                return f"{names}: {_format_number(first / second)} = 0"
        except (UnreadableError, ZeroDivisionError):
            return "".join(parsed.text.split())
        # At whole points one value is not enough: floor(n/2) and floor(n/3) agree at some of them. Nor is it for |x|,
        # which is x where x is positive, or for \sqrt{x^2}.
        all_values = len(values) == INTEGER_POINTS or has_absolute_value(node) or has_radical(node)
        shown = ", ".join(_format_number(value) for value in (values if all_values else values[:1]))
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

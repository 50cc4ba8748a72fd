r"""math-verify behind limits: for what Leash's own parser cannot read, such as sums, products, integrals and limits.

    is_math_verify_equal(r"\sum_{k=1}^{10} k", "55")     ->  True
    is_math_verify_equal(r"\sum_{k=1}^{10} k", "54")     ->  False

math-verify calls different things equal (0 and 3x-y+13=0, 1/2^99 and 1/2^98, texts that share a number), and a power
tower keeps it busy forever. Therefore its input is bounded, it must read the whole answer as one formula, and the
values must also agree numerically. Its own timeout is off: it uses a signal and turns a timeout into a silent False.
Leash's worker pool kills a grading process that takes too long.
"""

from __future__ import annotations

import logging
import re
from typing import Any

MAX_FORMULA_CHARS = 300
MAX_BRACE_DEPTH = 8
# Both values are computed to PRECISION_DIGITS and must agree in AGREEMENT_DIGITS of them.
PRECISION_DIGITS = 40
AGREEMENT_DIGITS = 30
TEST_POINTS = 3

_SUPPORTED_COMMAND = re.compile(r"\\(?:sum|prod|i?int|oint|lim|coth|pmod|det|Re|Im)(?![A-Za-z])")
_UNSAFE_PATTERN = re.compile(
    r"\d{13,}"  # numbers, powers and factorials that sympy would write out
    r"|\^\s*\{?\s*-?\d{4,}|\d{4,}\s*!"
    r"|\^[^{}^]*\{?[^{}^]*\^[^{}^]*\{?[^{}^]*\^"  # a tower of three
    r"|\\(?:text|mbox|mathrm|operatorname)"  # words, which math-verify drops
)


def is_math_verify_equal(gold: str, answer: str) -> bool:
    is_supported = _SUPPORTED_COMMAND.search(gold) or _SUPPORTED_COMMAND.search(answer)
    if not (is_supported and _is_bounded(gold) and _is_bounded(answer)):
        return False
    expected, given = _parse_formula(gold), _parse_formula(answer)
    if expected is None or given is None:
        return False
    from math_verify import verify

    # The gold comes first: math-verify's comparison is not symmetric.
    verified = verify(expected, given, timeout_seconds=None, raise_on_error=True)
    return bool(verified) and _is_numerically_equal(expected, given)


def is_math_verify_parsable(text: str) -> bool:
    """Return whether a text is within the limits and math-verify reads it."""
    return _is_bounded(text) and _parse_formula(text) is not None


def _is_bounded(text: str) -> bool:
    depth = deepest = 0
    for char in text:
        depth += (char == "{") - (char == "}")
        deepest = max(deepest, depth)
        # math-verify may read one side of a relation and drop the other.
        if depth == 0 and char in "=<>≤≥":
            return False
    short = len(text) <= MAX_FORMULA_CHARS
    return short and deepest <= MAX_BRACE_DEPTH and depth == 0 and not _UNSAFE_PATTERN.search(text)


def _parse_formula(text: str) -> Any:
    """Return the whole text as one sympy expression, or None for a relation, a set and text it cannot read."""
    from math_verify import LatexExtractionConfig, parse
    from sympy import Expr

    # math-verify logs every text that it cannot read.
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    boxed = f"\\boxed{{{text}}}"
    latex = [LatexExtractionConfig(boxed_match_priority=0)]
    parsed = parse(boxed, latex, fallback_mode="no_fallback", parsing_timeout=None, raise_on_error=False)
    return parsed[0] if parsed and isinstance(parsed[0], Expr) else None


def _is_numerically_equal(gold: Any, answer: Any) -> bool:
    """Return whether both have the same finite value at TEST_POINTS points."""
    from sympy import Rational

    names = sorted(gold.free_symbols | answer.free_symbols, key=str)
    for point in range(TEST_POINTS):
        at = {name: Rational(1009 + 37 * i + 101 * point, 997) for i, name in enumerate(names)}
        a, b = (formula.subs(at).doit().evalf(PRECISION_DIGITS) for formula in (gold, answer))
        if not (a.is_number and b.is_number and a.is_finite and b.is_finite):
            return False
        if abs(a - b) > abs(a) / 10**AGREEMENT_DIGITS:
            return False
    return True

r"""math-verify, fenced: for what Leash's own reader can't read, such as sums, products, integrals and limits.

held_equal(r"\sum_{k=1}^{10} k", "55")     ->  True
held_equal(r"\sum_{k=1}^{10} k", "54")     ->  False

math-verify holds things equal that are not (0 and 3x-y+13=0, 1/2^99 and 1/2^98, whatever shares a number it picked),
and a power tower keeps it busy for ever. So what it gets is bounded, it must read the whole answer as one formula, and
where it says equal, numbers must agree. Its own timeout is off: that is a signal, and it turns into a silent False.
"""

from __future__ import annotations

import logging
import re
from typing import Any

LONGEST = 300  # characters
DEEPEST = 8  # nested braces
PRECISION = 40  # digits
AGREED = 30  # of them
POINTS = 3

_KNOWN = re.compile(r"\\(?:sum|prod|i?int|oint|lim|coth|pmod|det|Re|Im)(?![A-Za-z])")
_REFUSED = re.compile(
    r"\d{13,}"  # numbers, powers and factorials that sympy would write out
    r"|\^\s*\{?\s*-?\d{4,}|\d{4,}\s*!"
    r"|\^[^{}^]*\{?[^{}^]*\^[^{}^]*\{?[^{}^]*\^"  # a tower of three
    r"|\\(?:text|mbox|mathrm|operatorname)"  # words, which it would leave out
)


def held_equal(gold: str, answer: str) -> bool:
    if not (_KNOWN.search(gold) or _KNOWN.search(answer)) or not (_bounded(gold) and _bounded(answer)):
        return False
    right, given = _formula(gold), _formula(answer)
    return right is not None and given is not None and _verified(right, given) and _agree(right, given)


def understood(text: str) -> bool:
    """Whether math-verify may be asked about a text, and reads it."""
    return _bounded(text) and _formula(text) is not None


def _bounded(text: str) -> bool:
    depth = deepest = 0
    for char in text:
        depth += (char == "{") - (char == "}")
        deepest = max(deepest, depth)
        if depth == 0 and char in "=<>≤≥":  # of a relation it may take one side
            return False
    return len(text) <= LONGEST and deepest <= DEEPEST and depth == 0 and not _REFUSED.search(text)


def _formula(text: str) -> Any:
    """The whole text as one sympy expression; None for a relation, a set, or what was not understood."""
    from math_verify import LatexExtractionConfig, parse
    from sympy import Expr

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # that it can't read something is nothing to report
    boxed = f"\\boxed{{{text}}}"
    latex = [LatexExtractionConfig(boxed_match_priority=0)]
    found = parse(boxed, latex, fallback_mode="no_fallback", parsing_timeout=None, raise_on_error=False)
    return found[0] if found and isinstance(found[0], Expr) else None


def _verified(gold: Any, answer: Any) -> bool:
    from math_verify import verify

    # The gold comes first: math-verify's comparison is not symmetric.
    return bool(verify(gold, answer, timeout_seconds=None, raise_on_error=True))


def _agree(gold: Any, answer: Any) -> bool:
    """Whether both have the same numbers at a few places."""
    from sympy import Rational

    names = sorted(gold.free_symbols | answer.free_symbols, key=str)
    for point in range(POINTS):
        at = {name: Rational(1009 + 37 * i + 101 * point, 997) for i, name in enumerate(names)}
        a, b = (formula.subs(at).doit().evalf(PRECISION) for formula in (gold, answer))
        if not (a.is_number and b.is_number and a.is_finite and b.is_finite) or abs(a - b) > abs(a) / 10**AGREED:
            return False
    return True

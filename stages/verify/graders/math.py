r"""`math`: mathematical equivalence by math-verify, behind an exact comparison.

grade(r"\frac{1}{2}", ["0.5"], {})  ->  1.0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 1000  # characters: no gold of the paper's benchmarks needs more, and sympy's cost grows fast


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    from math_verify import verify

    if canonical(answer) in {canonical(g) for g in gold}:
        return 1.0
    if len(answer) > LONGEST:
        return 0.0
    parsed = _parsed(answer)
    # The gold comes first: math-verify's comparison is not symmetric.
    return float(any(verify(_parsed(g), parsed, timeout_seconds=None, raise_on_error=True) for g in gold))


def canonical(answer: str) -> str:
    return "".join(answer.split())


def _parsed(text: str) -> Any:
    from math_verify import parse

    return parse(f"\\boxed{{{text}}}", parsing_timeout=None, raise_on_error=True)

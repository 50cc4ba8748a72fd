r"""`math`: mathematical equivalence, by value where the answers have one.

    grade(r"\frac{1}{2}", ["0.5"], {})                                ->  1.0
    grade(r"x = 3 \text{ or } x = 1", ["1,3"], {"multiple": True})    ->  1.0
    grade("4.19", ["4.2"], {"error": "1e-1", "unit": "%"})            ->  1.0
    canonical("2/4", {})                                              ->  "1/2"

Keys of `meta`: `multiple` (the gold holds several answers, in any order), `unit`, `error` (absolute, as text),
`rounded` (the golds were rounded to the digits they show). The rules are in leash/grading/mathematics/equivalence.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from leash.grading.mathematics.answer_class import answer_class
from leash.grading.mathematics.answer_types import parse_answer
from leash.grading.mathematics.equivalence import EquivalenceRules, is_equivalent, is_unparsed
from leash.grading.mathematics.expression import MAX_ANSWER_CHARS
from leash.grading.mathematics.math_verify_fallback import is_math_verify_parsable


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    rules = _build_rules(bool(meta.get("multiple")), meta.get("unit"), meta.get("error"), bool(meta.get("rounded")))
    return float(any(is_equivalent(accepted, answer, rules) for accepted in gold))


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    return answer_class(parse_answer(answer, bool(meta.get("multiple"))))


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

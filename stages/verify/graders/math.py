r"""`math`: mathematical equivalence, by value where the answers have one.

grade(r"\frac{1}{2}", ["0.5"], {})                                        ->  1.0
grade(r"x = 3 \text{ or } x = 1", ["1,3"], {"multiple": True})            ->  1.0
grade("4.19", ["4.2"], {"error": "1e-1", "unit": "%"})                    ->  1.0
canonical("2/4", {})                                                      ->  "1/2"

meta: `multiple` (the gold holds several answers, in any order), `unit`, `error` (absolute, as text), `rounded` (the
golds were rounded to the digits they show). What is equal to what is said in stages/verify/mathematics/equivalence.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from stages.verify.mathematics.classes import class_of
from stages.verify.mathematics.equivalence import Rules, equivalent, unread
from stages.verify.mathematics.expression import LONGEST
from stages.verify.mathematics.fallback import understood
from stages.verify.mathematics.reading import read


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    rules = _rules(bool(meta.get("multiple")), meta.get("unit"), meta.get("error"), bool(meta.get("rounded")))
    return float(any(equivalent(accepted, answer, rules) for accepted in gold))


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    return class_of(read(answer, bool(meta.get("multiple"))))


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    if not gold:
        return "there is no gold"
    try:
        _rules(False, None, meta.get("error"), False)
    except (ValueError, ZeroDivisionError):
        return f"its error '{meta['error']}' is not a number"
    return next((wrong for accepted in gold if (wrong := _wrong_with(accepted))), None)


def _wrong_with(gold: str) -> str | None:
    if not gold.strip():
        return "a gold is empty"
    if len(gold) > LONGEST:
        return f"the gold '{gold[:40]}…' has more than {LONGEST} characters"
    if gold.replace("\\{", "").count("{") != gold.replace("\\}", "").count("}"):
        return f"the braces of the gold '{gold}' don't match"
    if unread(read(gold)) and not understood(gold):
        return f"the gold '{gold}' is neither words nor mathematics that can be read"
    return None


@lru_cache(maxsize=1000)
def _rules(multiple: bool, unit: str | None, error: str | None, rounded: bool) -> Rules:
    return Rules(multiple, (unit or "").strip(), Fraction(error) if error else None, rounded)

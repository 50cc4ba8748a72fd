"""`exact`: the answer is one of the golds, letter for letter but for white space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    return float(canonical(answer, meta) in {canonical(g, meta) for g in gold})


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    return " ".join(answer.split())

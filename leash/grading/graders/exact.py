"""`exact`: the answer equals one of the golds, except for white space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    return float(canonical(answer, meta) in {canonical(accepted, meta) for accepted in gold})


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    return " ".join(answer.split())

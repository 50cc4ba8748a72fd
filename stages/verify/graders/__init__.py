"""Graders: is this answer right? One file each.

A grader is two functions in a module of its name: `grade(answer, gold, meta)` gives the score in [0, 1], 1
being correct, and `canonical(answer)` one spelling for all answers that mean the same.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from stages.errors import LeashError

NAMES = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if file.stem != "__init__")


class OutOfTime(BaseException):
    """Not an Exception: libraries that catch everything must not swallow it."""


class Grader(Protocol):
    def grade(self, answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float: ...

    def canonical(self, answer: str) -> str: ...


def load(name: str) -> Grader:
    if name not in NAMES:
        raise LeashError(f"There is no grader {name}; there are {', '.join(NAMES)}.")
    return cast(Grader, import_module(f"{__name__}.{name}"))


def costs_money(name: str) -> bool:
    """Whether a grader says so of itself (`PAID = True`): such a one is not called without being asked for."""
    return bool(getattr(load(name), "PAID", False))


def graded(problem: Mapping[str, Any], answer: str, timeout: int) -> dict[str, Any]:
    """An answer's part of a verdict. What takes too long or fails is not scored, which is not wrong."""
    grader = load(problem["grader"])
    try:
        with _limit(timeout):
            score = grader.grade(answer, problem["gold"], problem["meta"])
            answer_class = grader.canonical(answer)
    except OutOfTime:
        return {"answer_class": answer, "correct": None, "score": None, "status": "timeout"}
    except Exception:
        return {"answer_class": answer, "correct": None, "score": None, "status": "error"}
    return {"answer_class": answer_class, "correct": score >= 1, "score": score, "status": "ok"}


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    """Raise OutOfTime in the block after some seconds. Workers grade in their main thread, where this holds."""

    def ring(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

"""Work for the tests of the scheduler: squares of numbers, errors and deaths. It is a separate module because every
Ray worker imports the module of its work."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from leash.errors import LeashError, MissingVerdictsError


class Squares:
    """Squares numbers: directly, or step by step. Every second step finishes the unit that was started last."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.steps = 0

    def square(self, number: int) -> int:
        if number < 0:
            raise LeashError(f"{number} is below zero; give another.")
        return number * number

    def start(self, number: int) -> str:
        self.square(number)
        self.begun.append(number)
        return f"ticket {len(self.begun)} for {number}"

    def step(self) -> list[tuple[str, int]]:
        self.steps += 1
        if self.steps % 2:
            return []
        ticket = f"ticket {len(self.begun)} for {self.begun[-1]}"
        return [(ticket, self.square(self.begun.pop()))]


def unready() -> Squares:
    raise LeashError("The squares are not there; fetch them.")


def raise_facts(_: Squares, model: str) -> None:
    raise MissingVerdictsError(model, "chain")


def die(_: Squares, number: int) -> int:
    os._exit(3)


def killed(_: Squares, number: int) -> None:
    os.kill(os.getpid(), number)


def die_once(_: Squares, mark: Path) -> str:
    if mark.exists():
        return mark.name
    mark.touch()
    os._exit(3)


def surroundings(_: Squares, module: str) -> tuple[bool, str | None]:
    """Whether a worker has this module preloaded, and how many threads it may use."""
    return module in sys.modules, os.environ.get("OMP_NUM_THREADS")

"""Work for the tests of workers: squares of numbers, and deaths. It stands alone, since every worker process of Ray
imports the file that its work is in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stages.errors import LeashError


class Squares:
    """Squares numbers: at once, or a step at a time, when the last to come is the first to go and every other step
    finishes nothing."""

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
    """Whether a worker has this module before it asks for it, and how many threads it may use."""
    return module in sys.modules, os.environ.get("OMP_NUM_THREADS")

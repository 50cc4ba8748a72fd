r"""What a benchmark is: where its files are on the hub, how many problems it has, and how a row becomes a problem.

    Benchmark(hub="HuggingFaceH4/MATH-500", files=("test.jsonl",), counts=(500,), grader="math", problem=problem)

A row is asked for a column by all the names that copies of the benchmark give it. A column that is not there, or holds
nothing, is a sentence with the file and the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stages.errors import LeashError
from stages.params import Dataset

BOXED = "Please reason step by step, and put your final answer within \\boxed{}."


@dataclass(frozen=True)
class Place:
    """Where a row stands."""

    file: Path
    number: int

    def __str__(self) -> str:
        return f"{self.file}, row {self.number + 1}"


@dataclass(frozen=True)
class Row:
    """A row of a file, its columns in lower case: one hub copy of AIME 2024 has `Problem`, the others `problem`."""

    fields: Mapping[str, Any]
    where: Place

    def get(self, *names: str) -> Any:
        """What stands in the first of these columns that is there and holds something, or None."""
        held = (self.fields.get(name.lower()) for name in names)
        return next((value for value in held if not _nothing(value)), None)

    def need(self, *names: str) -> Any:
        value = self.get(*names)
        if value is not None:
            return value
        if there := [name for name in names if name.lower() in self.fields]:
            raise LeashError(f"{self.where}: the column {there[0]} is empty; fill it in or remove the row.")
        raise LeashError(
            f"{self.where.file} has no column {' or '.join(names)}; it has {', '.join(self.fields) or 'no columns'}."
        )

    def text(self, *names: str) -> str:
        return str(self.need(*names)).strip()

    def text_or_none(self, *names: str) -> str | None:
        value = self.get(*names)
        return None if value is None else str(value)


@dataclass(frozen=True)
class Problem:
    """A row's problem. `id` is the benchmark's own; without one, problems are numbered."""

    question: str
    gold: list[str]
    id: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    images: list[bytes] | None = None


@dataclass(frozen=True)
class Benchmark:
    """`files` are patterns of the files of its split in the hub's repository; `counts` how many problems it may have;
    `size` how many of them are drawn where params.yaml does not say; `instruction` what a model is told below the
    question; `images` whether its questions have some. `problem` gives None for a row that is no part of what
    params.yaml asks for."""

    hub: str | None
    files: tuple[str, ...]
    problem: Callable[[Row, Dataset], Problem | None]
    grader: str
    counts: tuple[int, ...] = ()
    size: int | None = None
    instruction: str | None = None
    images: bool = False


def golds(value: Any) -> list[str]:
    """One gold or several, as text; a whole number that was read as 27.0 is 27."""
    if isinstance(value, list):
        return [gold for item in value for gold in golds(item)]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return [] if _nothing(value) else [str(value).strip()]


def _nothing(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value.strip()) or value == []

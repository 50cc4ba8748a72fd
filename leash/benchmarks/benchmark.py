r"""What a benchmark is: its files on the hub, its number of problems, and how a row becomes a problem.

    Benchmark(hub="HuggingFaceH4/MATH-500", files=("test.jsonl",), counts=(500,), grader="math", problem=parse_problem)

Copies of a benchmark name the same column differently, so a parser asks a row for all known names. A column that is
missing or empty is an error that names the file and the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leash.errors import LeashError
from leash.params.groups import Dataset


@dataclass(frozen=True)
class RowLocation:
    file: Path
    number: int

    def __str__(self) -> str:
        return f"{self.file}, row {self.number + 1}"


class RowError(LeashError):
    """A row of a data set cannot be used."""

    def __init__(self, where: RowLocation, fault: str) -> None:
        self.where, self.fault = where, fault
        super().__init__(f"{where}: {fault}.")


class MissingColumnError(LeashError):
    """A file has none of the columns that hold a part of the problem."""

    def __init__(self, file: Path, names: Sequence[str], columns: Sequence[str]) -> None:
        self.file, self.names, self.columns = file, tuple(names), tuple(columns)
        super().__init__(
            f"{file} has no column {' or '.join(names)}; its columns are: {', '.join(columns) or 'none'}. Rename one, "
            f"or name the column in params.yaml."
        )


@dataclass(frozen=True)
class Row:
    """A row of a file, with column names in lower case: one hub copy of AIME 2024 has `Problem`, others `problem`."""

    fields: Mapping[str, Any]
    where: RowLocation

    def get(self, *names: str) -> Any:
        """The value of the first of these columns that is not empty, or None."""
        values = (self.fields.get(name.lower()) for name in names)
        return next((value for value in values if not _is_empty(value)), None)

    def need(self, *names: str) -> Any:
        value = self.get(*names)
        if value is not None:
            return value
        for name in names:
            if name.lower() in self.fields:
                raise RowError(self.where, f"the column {name} is empty; fill it in or remove the row")
        raise MissingColumnError(self.where.file, names, list(self.fields))

    def text(self, *names: str) -> str:
        return str(self.need(*names)).strip()

    def label(self, name: str) -> str | None:
        """A word or a number as text; None if the column is missing or empty. A whole number read as 3.0 is 3."""
        value = self.get(name)
        if isinstance(value, dict | list):
            raise RowError(self.where, f"the column {name} must hold a word or a number; correct it")
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return None if value is None else str(value).strip()

    def text_or_none(self, *names: str) -> str | None:
        value = self.get(*names)
        return None if value is None else str(value)


@dataclass(frozen=True)
class Problem:
    """`id` is the benchmark's own; without one, the hash of the question names the problem. `level` is how hard the
    benchmark says it is, `cluster` names the problems that may come and go together (None: this one alone)."""

    question: str
    gold: list[str]
    id: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    images: list[bytes] | None = None
    level: str | None = None
    cluster: str | None = None


@dataclass(frozen=True)
class Benchmark:
    """How a benchmark's rows become problems.

    files: patterns of the files of its split in the hub's repository. counts: the numbers of problems that it can have.
    size: how many problems are drawn by default (None: all). images: whether its questions have images. problem: parses
    a row, or returns None for a row that params.yaml excludes.
    """

    hub: str | None
    files: tuple[str, ...]
    problem: Callable[[Row, Dataset], Problem | None]
    grader: str
    counts: tuple[int, ...] = ()
    size: int | None = None
    images: bool = False


def parse_golds(value: Any) -> list[str]:
    """One gold or several, as text. A whole number that was read as 27.0 is 27."""
    if isinstance(value, list):
        return [gold for item in value for gold in parse_golds(item)]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return [] if _is_empty(value) else [str(value).strip()]


def _is_empty(value: Any) -> bool:
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and not value.strip()) or value == []

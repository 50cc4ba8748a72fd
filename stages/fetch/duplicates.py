"""Questions that stand twice, within a data set or in two of them: a hit on one is a hit on the other, and a count of
problems counts them twice.

    duplicates(problems)  ->  [Pair("scibench", "atkins-1.4", "scibench", "matter-36.1", same=True, likeness=1.0)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from stages import tables

QUERY = Path(__file__).parent / "duplicates.sql"
LIKENESS = 0.8  # the share of their telling runs of words that two questions must have in common
SHOWN = 3
LONGEST_ID = 40  # LiveBench has ids of 64 digits


@dataclass(frozen=True)
class Pair:
    dataset: str
    problem_id: str
    other_dataset: str
    other_problem_id: str
    same: bool
    likeness: float

    def __str__(self) -> str:
        alike = "the same" if self.same else f"{self.likeness:.0%} alike"
        return f"{_brief(self.problem_id)} and {_brief(self.other_problem_id)} ({alike})"


def duplicates(problems: pa.Table, likeness: float = LIKENESS) -> list[Pair]:
    """Pairs of questions in some problems tables, put together, that are the same or nearly so."""
    with duckdb.connect() as connection:
        connection.register("problems", problems.select(["dataset", "problem_id", "question", "meta"]))
        return [Pair(**row) for row in tables.query(connection, QUERY, {"likeness": likeness}).to_pylist()]


def sentences(pairs: Sequence[Pair]) -> list[str]:
    """One sentence for each two data sets (or one) that have questions in common."""
    groups: dict[tuple[str, str], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.dataset, pair.other_dataset), []).append(pair)
    return [_sentence(first, second, found) for (first, second), found in groups.items()]


def _sentence(first: str, second: str, found: Sequence[Pair]) -> str:
    place = f"within {first}" if first == second else f"of {first} and {second}"
    pairs = "one pair of questions" if len(found) == 1 else f"{len(found)} pairs of questions"
    more = "; …" if len(found) > SHOWN else ""
    listed = "; ".join(str(pair) for pair in found[:SHOWN])
    return f"{pairs} {place} {'is' if len(found) == 1 else 'are'} the same or nearly so: {listed}{more}."


def _brief(problem_id: str) -> str:
    return problem_id if len(problem_id) <= LONGEST_ID else f"{problem_id[:LONGEST_ID]}…"

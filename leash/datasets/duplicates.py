"""Find questions that occur twice, within a data set or in two of them.

A correct answer to one is a correct answer to the other, so a count of problems counts them twice.

    find_duplicates(problems)
        ->  [DuplicatePair("scibench", "atkins-1.4", "scibench", "matter-36.1", same=True, likeness=1.0)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from leash import database
from leash.formatting import pluralize, truncate

QUERY_PATH = Path(__file__).parent / "duplicates.sql"
MIN_SIMILARITY = 0.8  # the share of their distinctive five-word runs that two questions have in common
MAX_PAIRS_SHOWN = 3
MAX_ID_CHARS = 40  # LiveBench has ids of 64 digits


@dataclass(frozen=True)
class DuplicatePair:
    dataset: str
    problem_id: str
    other_dataset: str
    other_problem_id: str
    same: bool
    likeness: float

    def __str__(self) -> str:
        first, second = (truncate(name, MAX_ID_CHARS) for name in (self.problem_id, self.other_problem_id))
        return f"{first} and {second} ({'the same' if self.same else f'{self.likeness:.0%} alike'})"


def find_duplicates(problems: pa.Table, likeness: float = MIN_SIMILARITY) -> list[DuplicatePair]:
    """Pairs of equal or nearly equal questions in the concatenated problems tables of some data sets."""
    with duckdb.connect() as connection:
        connection.register("problems", problems.select(["dataset", "problem_id", "question", "meta"]))
        rows = database.query(connection, QUERY_PATH, {"likeness": likeness}).to_pylist()
    return [DuplicatePair(**row) for row in rows]


def cluster_duplicates(rows: Sequence[dict[str, Any]], pairs: Sequence[DuplicatePair]) -> list[dict[str, Any]]:
    """Rows of one data set, with duplicates in one cluster, which is named for its first problem. A cluster that a row
    already has is kept, and its duplicates without one join it."""
    first = {row["problem_id"]: row["problem_id"] for row in rows}

    def find(problem: str) -> str:
        while first[problem] != problem:
            problem = first[problem]
        return problem

    order = {problem: place for place, problem in enumerate(first)}
    duplicated: set[str] = set()
    for pair in pairs:
        if pair.dataset == pair.other_dataset and pair.problem_id in first and pair.other_problem_id in first:
            duplicated |= {pair.problem_id, pair.other_problem_id}
            one, other = sorted((find(pair.problem_id), find(pair.other_problem_id)), key=order.__getitem__)
            first[other] = one
    names: dict[str, str] = {}
    for row in rows:
        if row["cluster"] is not None:
            names.setdefault(find(row["problem_id"]), row["cluster"])
    clustered = []
    for row in rows:
        own = row["cluster"]
        if own is None and row["problem_id"] in duplicated:
            head = find(row["problem_id"])
            own = names.get(head, head)
        clustered.append({**row, "cluster": own})
    return clustered


def describe_duplicates(pairs: Sequence[DuplicatePair]) -> list[str]:
    """One sentence for each data set, or two of them, with questions in common."""
    groups: dict[tuple[str, str], list[DuplicatePair]] = {}
    for pair in pairs:
        groups.setdefault((pair.dataset, pair.other_dataset), []).append(pair)
    sentences = []
    for (first, second), group in groups.items():
        where = f"within {first}" if first == second else f"of {first} and {second}"
        examples = "; ".join(map(str, group[:MAX_PAIRS_SHOWN])) + ("; …" if len(group) > MAX_PAIRS_SHOWN else "")
        count = f"{pluralize(len(group), 'pair')} of questions {where} {'is' if len(group) == 1 else 'are'}"
        sentences.append(f"{count} equal or nearly so: {examples}.")
    return sentences

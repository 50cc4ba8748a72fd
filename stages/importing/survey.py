"""The first reading of a file: that all of it can be imported, and how much it holds.

surveyed(source, problems)  ->  Surveyed(source, rows=30, counts=Counter({"aime24-00000": 64, …}), …)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

from stages import tables
from stages.errors import LeashError
from stages.importing.problems import Problems
from stages.importing.reading import Source, first_row, records
from stages.importing.reading.record import Record, brief, listing
from stages.verify.extract import extract

FIRST = 200  # records of a file that show whether its questions stand in a prompt template


@dataclass
class Surveyed:
    """What a source holds: how many rows, samples of each problem, and recorded scores."""

    source: Source
    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    scored: int = 0
    correct: int = 0
    unanswered: int = 0  # where verify will find no answer
    says: dict[str, str] = field(default_factory=dict)

    def entry(self, first: Mapping[str, int]) -> dict[str, Any]:
        """The source as the manifest keeps it; `numbers` are the samples that are its own."""
        numbers = {p: f"{first.get(p, 0)}-{first.get(p, 0) + count}" for p, count in self.counts.items()}
        kept = {"file": self.source.file.name, "hash": self.source.hash, "format": self.source.format}
        chosen = {name: sorted(values) for name, values in self.source.where.items()}
        named = {name: value for name, value in asdict(self.source.mapping).items() if value}
        return {**kept, "where": chosen, "fields": named, "rows": self.rows, "says": self.says, "numbers": numbers}


def span(numbers: str) -> tuple[int, int]:
    """The first sample number of a source and the one after its last, as its entry has them: `0-50`."""
    first, _, stop = numbers.partition("-")
    return int(first), int(stop)


def surveyed(source: Source, problems: Problems) -> Surveyed:
    found = Surveyed(source)
    problems.learn(islice(records(source), FIRST))
    lacking: list[Record] = []
    taken: set[tuple[str, int]] = set()
    for record in records(source):
        found.rows += 1
        problem = problems.place(record)
        if problem is None:
            lacking.append(replace(record, completions=[]))  # a whole file of them is not kept in memory
            continue
        if record.sample is not None:
            _take_once(taken, problem, record)
        found.counts[problem] += len(record.completions)
        found.unanswered += sum(extract(completion.text) is None for completion in record.completions)
        scores = [completion.score for completion in record.completions if completion.score is not None]
        found.scored += len(scores)
        found.correct += sum(score >= 1 for score in scores)
        _note_said(found, record)
    if lacking:
        raise LeashError(_lacking(lacking, source, problems))
    if not found.counts.total():
        raise LeashError(f"{source.file} has {found.rows:,} rows, but no completion in them.")
    return found


def _take_once(taken: set[tuple[str, int]], problem: str, record: Record) -> None:
    assert record.sample is not None
    if (problem, record.sample) in taken:
        raise LeashError(f"{record.where}: sample {record.sample} of problem {problem} stands in the file twice.")
    taken.add((problem, record.sample))


def _note_said(survey: Surveyed, record: Record) -> None:
    for name, value in record.says.items():
        if survey.says.setdefault(name, value) != value:
            raise LeashError(
                f"{record.where}: {name} is {value}, but {survey.says[name]} before; samples of several must not be "
                f"mixed: choose with --where FIELD=VALUE (fields: {listing(first_row(survey.source.file).fields)})."
            )


def _lacking(lacking: Sequence[Record], source: Source, problems: Problems) -> str:
    first, question = lacking[0].where.rpartition(", ")[2], brief(lacking[0].question or "")
    return (
        f"{source.file}: {len(lacking)} rows ask what no problem of {tables.problems_path(problems.dataset)} asks, the "
        f"first in {first}: “{question}”; choose rows with --where, or another --dataset."
    )


def agreed(surveys: Sequence[Surveyed]) -> dict[str, str]:
    """What the files say about model and decoding, in which they must not differ."""
    says: dict[str, str] = {}
    for survey in surveys:
        for name, value in survey.says.items():
            if says.setdefault(name, value) != value:
                raise LeashError(
                    f"{survey.source.file}: {name} is {value}, but {says[name]} in the files before; import them apart."
                )
    return says

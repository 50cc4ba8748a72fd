"""The first pass over a file: check that all of it can be imported, and count what it holds.

    survey_source(source, problems)  ->  SourceSurvey(source, rows=30, counts=Counter({"aime24-00000": 64, …}), …)

Nothing is written here. The second pass, which writes, is in importer.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from leash import tables
from leash.grading.extraction import extract
from leash.importing.formats import ImportSource, read_first_row, read_records
from leash.importing.problem_matching import ProblemIndex
from leash.importing.raw_rows import ImportFileError, content_hash
from leash.importing.record import Record, format_names, quote

MAX_TEMPLATE_RECORDS = 200  # records that show whether a file wraps its questions in a prompt template


class MixedRunsError(ImportFileError):
    """Two models or decodings in what would become the samples of one model. `name` is the setting that differs."""

    def __init__(self, where: str | Path, name: str, value: str, previous: str, remedy: str) -> None:
        self.name, self.value, self.previous = name, value, previous
        super().__init__(
            where, f"{name} is {value}, but {previous} before; samples of several runs cannot be mixed: {remedy}."
        )


class UnmatchedQuestionsError(ImportFileError):
    """Rows whose question is none of the data set's, which was fetched and so takes no new problems."""

    def __init__(self, file: Path, records: Sequence[Record], dataset: str) -> None:
        self.records, self.dataset = tuple(records), dataset
        line = records[0].where.rpartition(", ")[2]
        super().__init__(
            file,
            f"{len(records)} rows have a question that is not in {tables.problems_path(dataset)}, the first in {line}: "
            f"“{quote(records[0].question or '')}”; select rows with --where, or choose another --dataset.",
        )


@dataclass
class SourceSurvey:
    """How many rows a source has, how many samples of each problem, and how many recorded scores."""

    source: ImportSource
    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    scored: int = 0
    correct: int = 0
    unanswered: int = 0  # completions in which verify will find no answer
    run_metadata: dict[str, str] = field(default_factory=dict)

    def manifest_entry(self, next_sample: Mapping[str, int]) -> dict[str, Any]:
        """The source as the manifest records it. `numbers` are the sample numbers that belong to it."""
        return {
            "file": self.source.file.name,
            "hash": content_hash(self.source.file),
            "format": self.source.format,
            "where": {name: sorted(values) for name, values in self.source.where.items()},
            "fields": {name: value for name, value in asdict(self.source.mapping).items() if value},
            "rows": self.rows,
            "says": self.run_metadata,
            "numbers": {p: f"{next_sample.get(p, 0)}-{next_sample.get(p, 0) + n}" for p, n in self.counts.items()},
        }


def parse_sample_ranges(entries: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int, int]]:
    """The samples of problems in manifest entries: the id, the first number, and the one after the last (`0-50`)."""
    for entry in entries:
        for problem_id, numbers in entry["numbers"].items():
            first, _, stop = numbers.partition("-")
            yield problem_id, int(first), int(stop)


def survey_source(source: ImportSource, problems: ProblemIndex) -> SourceSurvey:
    survey = SourceSurvey(source)
    problems.learn_template(islice(read_records(source), MAX_TEMPLATE_RECORDS))
    unmatched: list[Record] = []
    samples: set[tuple[str, int]] = set()
    for record in read_records(source):
        survey.rows += 1
        problem_id = problems.match(record)
        if problem_id is None:
            unmatched.append(replace(record, completions=[]))  # without the texts: they could fill the memory
            continue
        if record.sample is not None:
            if (problem_id, record.sample) in samples:
                fault = f"sample {record.sample} of problem {problem_id} is in the file twice; remove one."
                raise ImportFileError(record.where, fault)
            samples.add((problem_id, record.sample))
        survey.counts[problem_id] += len(record.completions)
        survey.unanswered += sum(extract(completion.text) is None for completion in record.completions)
        scores = [completion.score for completion in record.completions if completion.score is not None]
        survey.scored += len(scores)
        survey.correct += sum(score >= 1 for score in scores)
        for name, value in record.run_metadata.items():
            if survey.run_metadata.setdefault(name, value) != value:
                fields = format_names(read_first_row(source.file).fields)
                remedy = f"select one with --where FIELD=VALUE (fields: {fields})"
                raise MixedRunsError(record.where, name, value, survey.run_metadata[name], remedy)
    if unmatched:
        raise UnmatchedQuestionsError(source.file, unmatched, problems.dataset)
    if not survey.counts.total():
        raise ImportFileError(source.file, f"none of its {survey.rows:,} rows has a completion.")
    return survey


def merge_run_metadata(surveys: Sequence[SourceSurvey]) -> dict[str, str]:
    """Model and decoding of all files together, which must not differ."""
    merged: dict[str, str] = {}
    for survey in surveys:
        for name, value in survey.run_metadata.items():
            if merged.setdefault(name, value) != value:
                raise MixedRunsError(survey.source.file, name, value, merged[name], "import the files as two models")
    return merged

"""importing: completions that people already have become our tables, and the rest of the DAG runs on them.

In:  files of other harnesses or of your own (see `reading`).
Out: data/problems/{dataset}.parquet, where it is not there, and data/completions/{model}/{dataset}/, a ledger like
     that of drawn samples, whose manifest tells which file every sample came from.

A file is read twice: once to see that all of it can be imported, then to write. So nothing is written of a file that
is wrong anywhere, and memory does not grow with its size.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from stages import disk, tables
from stages.errors import LeashError
from stages.importing.problems import Problems
from stages.importing.reading import Source, conditions, first_row, jsonl, recognised, records
from stages.importing.reading.record import Record, brief, listing
from stages.params import NAME
from stages.sample.engine import Completion
from stages.sample.ledger import Ledger
from stages.verify import graders
from stages.verify.extract import extract

ENGINE = "import"
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


@dataclass(frozen=True)
class Imported:
    """What came of an import, for the sentences that end it."""

    model: str
    dataset: str
    problems: Problems
    surveys: Sequence[Surveyed]
    there: Mapping[str, int]
    new: int


def run(
    files: Sequence[Path],
    model: str,
    dataset: str,
    *,
    format: str = "auto",
    grader: str | None = None,
    where: tuple[str, ...] = (),
    mapping: jsonl.Mapping = jsonl.DEFAULTS,
    replace: bool = False,
) -> Imported:
    """Import some files as the completions of a model on a data set."""
    _check_names(model, dataset)
    sources = _sources(files, format, where, mapping)
    ledger = Ledger(tables.completions_folder(model, dataset))
    problems = _problems(model, dataset, grader, replace)
    surveys = [_survey(source, problems) for source in sources]
    says = _agreed(surveys)
    manifest = {} if replace else ledger.manifest()
    entries = _entries(surveys, manifest.get("sources", []), _next_numbers(manifest, ledger), f"{model} on {dataset}")
    try:
        new = _write(ledger, problems, surveys, entries, _fingerprint(manifest, says), replace)
        there = {problem: len(samples) for problem, samples in ledger.have().items()}
    finally:
        ledger.close()
    return Imported(model, dataset, problems, surveys, there, new)


def held(model: str, dataset: str) -> int:
    """How many imported samples of a model on a data set there are: all that its sources gave."""
    ledger = Ledger(tables.completions_folder(model, dataset))
    samples = sum(len(numbers) for numbers in ledger.have().values())
    manifest = ledger.manifest()
    sources = manifest.get("sources", [])
    given = sum(stop - first for source in sources for first, stop in map(_span, source["numbers"].values()))
    if 0 < samples < given:
        files = listing(source["file"] for source in sources)
        raise LeashError(
            f"{given - samples:,} of the {given:,} completions imported for {model} on {dataset} are lacking: an "
            f"import was cut short or a file damaged; import again ({files})."
        )
    if not samples or manifest.get("fingerprint", {}).get("engine") != ENGINE:
        raise LeashError(
            f"The engine of {model} is import, but there are no imported completions of it on {dataset}; bring them in "
            f"with `leash import FILE --model {model} --dataset {dataset}`."
        )
    return samples


def _span(numbers: str) -> tuple[int, int]:
    """The first sample number of a source and the one after its last, as its entry has them: `0-50`."""
    first, _, stop = numbers.partition("-")
    return int(first), int(stop)


def _check_names(model: str, dataset: str) -> None:
    for option, name in (("--model", model), ("--dataset", dataset)):
        if not re.fullmatch(NAME, name) or name == "all":
            raise LeashError(
                f"{option} {name} can't be a name: names are letters, digits, single dots, dashes and underscores, and "
                f"`all` stands for all."
            )


def _sources(files: Sequence[Path], format: str, where: tuple[str, ...], mapping: jsonl.Mapping) -> list[Source]:
    if mapping != jsonl.DEFAULTS and format not in ("auto", "jsonl"):
        raise LeashError(f"--question, --answer, --text, --id and --sample are for --format jsonl, not {format}.")
    if format == "auto" and mapping != jsonl.DEFAULTS:
        format = "jsonl"
    chosen = conditions(where)
    return [Source(f, recognised(f) if format == "auto" else format, chosen, mapping) for f in dict.fromkeys(files)]


def _problems(model: str, dataset: str, grader: str | None, replace: bool) -> Problems:
    """The problems that are there; replaced with the completions where only those refer to them."""
    graders.load(grader or "math")
    path = tables.problems_path(dataset)
    rows = tables.read(path, tables.PROBLEMS, f"leash fetch {dataset}").to_pylist() if path.exists() else []
    problems = Problems(dataset, rows, grader or (rows[0]["grader"] if rows else "math"))
    if rows and replace and problems.grows and not _others(model, dataset):
        return Problems(dataset, [], problems.grader)
    if rows and grader not in (None, rows[0]["grader"]):
        raise LeashError(
            f"The problems of {dataset} are there and have the grader {rows[0]['grader']}; change it in params.yaml "
            f"(`datasets.{dataset}.grader`) and leave --grader out."
        )
    return problems


def _others(model: str, dataset: str) -> list[str]:
    """Other models that have completions of a data set."""
    folders = tables.completions_folder(model, dataset).parent.parent.glob(f"*/{dataset}")
    return [folder.parent.name for folder in folders if folder.parent.name != model]


def _survey(source: Source, problems: Problems) -> Surveyed:
    survey = Surveyed(source)
    problems.learn(islice(records(source), FIRST))
    lacking: list[Record] = []
    taken: set[tuple[str, int]] = set()
    for record in records(source):
        survey.rows += 1
        problem = problems.place(record)
        if problem is None:
            lacking.append(record)
            continue
        if record.sample is not None:
            _take_once(taken, problem, record)
        survey.counts[problem] += len(record.completions)
        survey.unanswered += sum(extract(completion.text) is None for completion in record.completions)
        scores = [completion.score for completion in record.completions if completion.score is not None]
        survey.scored += len(scores)
        survey.correct += sum(score >= 1 for score in scores)
        _note_said(survey, record)
    if lacking:
        raise LeashError(_lacking(lacking, source, problems))
    if not survey.counts.total():
        raise LeashError(f"{source.file} has {survey.rows:,} rows, but no completion in them.")
    return survey


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


def _agreed(surveys: Sequence[Surveyed]) -> dict[str, str]:
    """What the files say about model and decoding, in which they must not differ."""
    says: dict[str, str] = {}
    for survey in surveys:
        for name, value in survey.says.items():
            if says.setdefault(name, value) != value:
                raise LeashError(
                    f"{survey.source.file}: {name} is {value}, but {says[name]} in the files before; import them apart."
                )
    return says


def _next_numbers(manifest: Mapping[str, Any], ledger: Ledger) -> dict[str, int]:
    """The first free sample number of each problem, after those that earlier sources were given."""
    free: dict[str, int] = {}
    if manifest:
        for problem, samples in ledger.have().items():
            free[problem] = int(max(samples)) + 1
    for source in manifest.get("sources", []):
        for problem, numbers in source["numbers"].items():
            free[problem] = max(free.get(problem, 0), _span(numbers)[1])
    return free


def _entries(
    surveys: Sequence[Surveyed], known: Sequence[Mapping[str, Any]], free: dict[str, int], what: str
) -> list[dict[str, Any]]:
    """An entry of the manifest for each source; that of a file which is there already is the one it has."""
    entries: list[dict[str, Any]] = []
    for survey in surveys:
        entry = survey.entry(free)
        same = next((dict(e) for e in (*known, *entries) if e["hash"] == entry["hash"]), None)
        if same and {**same, "numbers": 0, "file": 0} != {**entry, "numbers": 0, "file": 0}:
            raise LeashError(
                f"{survey.source.file} is part of {what} already, with other conditions or as another format; start "
                f"anew with --replace."
            )
        if not same:
            free.update({p: _span(numbers)[1] for p, numbers in entry["numbers"].items()})
        entries.append(same or entry)
    return entries


def _fingerprint(manifest: Mapping[str, Any], says: Mapping[str, str]) -> dict[str, str]:
    """What all samples share. Where the first file did not tell something, a later one may."""
    before = manifest.get("fingerprint", {})
    compared = {name: value for name, value in says.items() if not before or name in before}
    return {**before, "engine": ENGINE, **compared}


def _write(
    ledger: Ledger,
    problems: Problems,
    surveys: Sequence[Surveyed],
    entries: Sequence[Mapping[str, Any]],
    fingerprint: Mapping[str, str],
    replace: bool,
) -> int:
    """Write the problems and the samples that are not there; return how many samples were."""
    if replace:
        ledger.clear()
    known = [e["hash"] for e in ledger.manifest().get("sources", [])]
    fresh = list({e["hash"]: e for e in entries if e["hash"] not in known}.values())
    prompts = {problem: disk.hash_of(row["question"]) for problem, row in problems.rows.items()}
    command = f"leash import … --model {ledger.folder.parent.name} --dataset {ledger.folder.name} --replace"
    ledger.open(fingerprint, prompts, again=command, engine=ENGINE, sources=fresh)
    if problems.added:
        rows = tables.table(list(problems.rows.values()), tables.PROBLEMS)
        tables.write(tables.problems_path(problems.dataset), rows, tables.PROBLEMS)
    have = {problem: set(map(int, samples)) for problem, samples in ledger.have().items()}
    written = 0
    for survey, entry in zip(surveys, entries, strict=True):
        for completion in _completions(survey.source, problems, entry["numbers"]):
            if completion.sample not in have.setdefault(completion.problem_id, set()):
                have[completion.problem_id].add(completion.sample)
                ledger.add([completion])
                written += 1
    ledger.settle()
    return written


def _completions(source: Source, problems: Problems, numbers: Mapping[str, str]) -> Iterator[Completion]:
    """The samples of a source with their numbers: those of its entry, in the order met."""
    free = {problem: _span(span)[0] for problem, span in numbers.items()}
    for record in records(source):
        problem = problems.place(record)
        assert problem is not None
        for told in record.completions:
            yield Completion(problem, free[problem], told.text, told.tokens, told.finish, told.logprob)
            free[problem] += 1

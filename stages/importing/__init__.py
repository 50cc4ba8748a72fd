"""importing: completions that people already have become our tables, and the rest of the DAG runs on them.

In:  files of other harnesses or of your own (see `reading`).
Out: data/problems/{dataset}.parquet, where it is not there, and data/completions/{model}/{dataset}/, a ledger like
     that of drawn samples, whose manifest tells which file every sample came from.

A file is read twice: once to see that all of it can be imported, then to write. So nothing is written of a file that
is wrong anywhere, and memory does not grow with its size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stages import disk, tables
from stages.errors import LeashError
from stages.importing.problems import Problems
from stages.importing.reading import Source, conditions, jsonl, recognised, records
from stages.importing.reading.record import listing
from stages.importing.survey import Surveyed, agreed, span, surveyed
from stages.params import NAME
from stages.sample.engine import Completion
from stages.sample.ledger import Ledger
from stages.verify import graders

ENGINE = "import"


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
    surveys = [surveyed(source, problems) for source in sources]
    says = agreed(surveys)
    manifest = {} if replace or ledger.empty else ledger.manifest()
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
    given = sum(stop - first for source in sources for first, stop in map(span, source["numbers"].values()))
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


def _next_numbers(manifest: Mapping[str, Any], ledger: Ledger) -> dict[str, int]:
    """The first free sample number of each problem, after those that earlier sources were given."""
    free: dict[str, int] = {}
    if manifest:
        for problem, samples in ledger.have().items():
            free[problem] = int(max(samples)) + 1
    for source in manifest.get("sources", []):
        for problem, numbers in source["numbers"].items():
            free[problem] = max(free.get(problem, 0), span(numbers)[1])
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
            free.update({p: span(numbers)[1] for p, numbers in entry["numbers"].items()})
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
    known = [] if ledger.empty else [e["hash"] for e in ledger.manifest().get("sources", [])]
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
    free = {problem: span(own)[0] for problem, own in numbers.items()}
    for record in records(source):
        problem = problems.place(record)
        assert problem is not None
        for told in record.completions:
            yield Completion(problem, free[problem], told.text, told.tokens, told.finish, told.logprob)
            free[problem] += 1

"""Import files of completions as the samples of a model on a data set, so that the rest of the DAG runs on them.

In:  files of other harnesses or your own (see formats.py).
Out: data/problems/{dataset}.parquet, if it does not exist, and data/completions/{model}/{dataset}/, a ledger like that
     of drawn samples. Its manifest records which file every sample came from.

Every file is read twice: first to check that all of it can be imported (survey.py), then to write. So nothing is
written if any row is wrong, and memory does not grow with the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from leash import tables
from leash.engines.protocol import Completion
from leash.errors import LeashError
from leash.formatting import pluralize
from leash.grading.graders import registry
from leash.importing import jsonl
from leash.importing.formats import ImportOptionError, ImportSource, detect_format, parse_row_filter, read_records
from leash.importing.problem_matching import ProblemIndex
from leash.importing.raw_rows import ImportFileError
from leash.importing.record import format_names
from leash.importing.survey import SourceSurvey, merge_run_metadata, parse_sample_ranges, survey_source
from leash.params.groups import NAME_PATTERN
from leash.problems import load_question_hashes, question_hash
from leash.sample_ledger import Ledger

IMPORT_ENGINE = "import"


class MissingImportError(LeashError):
    """The engine of a model is `import`, but none of its completions on a data set was imported."""

    def __init__(self, model: str, dataset: str) -> None:
        self.model, self.dataset = model, dataset
        super().__init__(
            f"The engine of {model} is import, but no completions of it on {dataset} were imported; import them with "
            f"`leash import FILE --model {model} --dataset {dataset}`."
        )


class LostSamplesError(LeashError):
    """Imported samples that the manifest lists are not on disk."""

    def __init__(self, model: str, dataset: str, lost: int, imported: int, files: Sequence[str]) -> None:
        self.model, self.dataset, self.lost, self.imported, self.files = model, dataset, lost, imported, tuple(files)
        super().__init__(
            f"{lost:,} of {pluralize(imported, 'completion')} imported for {model} on {dataset} are lost: an import "
            f"was interrupted or a file is damaged; import again ({format_names(files)})."
        )


@dataclass(frozen=True)
class ImportResult:
    """What an import did. `samples` is the number of samples that each problem has now, `new` those just written."""

    model: str
    dataset: str
    problems: ProblemIndex
    surveys: Sequence[SourceSurvey]
    samples: Mapping[str, int]
    new: int


def run(
    files: Sequence[Path],
    model: str,
    dataset: str,
    *,
    format: str = "auto",
    grader: str | None = None,
    where: tuple[str, ...] = (),
    mapping: jsonl.FieldMapping = jsonl.DEFAULT_MAPPING,
    replace: bool = False,
) -> ImportResult:
    """Import files as the completions of a model on a data set."""
    for option, name in (("--model", model), ("--dataset", dataset)):
        if not re.fullmatch(NAME_PATTERN, name) or name == "all":
            fault = "is not a valid name: use letters, digits, single dots, dashes and underscores, and not `all`."
            raise ImportOptionError(f"{option} {name}", fault)
    if mapping != jsonl.DEFAULT_MAPPING:  # naming fields implies the format that has no fixed ones
        if format not in ("auto", "jsonl"):
            raise ImportOptionError(f"--format {format}", "has fixed fields; use --text and the like only with jsonl.")
        format = "jsonl"
    row_filter = parse_row_filter(where)
    sources = [
        ImportSource(file, detect_format(file) if format == "auto" else format, row_filter, mapping)
        for file in dict.fromkeys(files)
    ]
    ledger = Ledger(tables.completions_folder(model, dataset))
    problems = _load_problems(model, dataset, grader, replace)
    surveys = [survey_source(source, problems) for source in sources]
    run_metadata = merge_run_metadata(surveys)
    manifest = {} if replace or ledger.empty else ledger.manifest()
    entries = _build_manifest_entries(surveys, manifest, ledger, f"{model} on {dataset}")
    # If the first file did not state a setting, a later one may; what it did state must not change.
    before = manifest.get("fingerprint", {})
    stated = {name: value for name, value in run_metadata.items() if not before or name in before}
    fingerprint = {**before, "engine": IMPORT_ENGINE, **stated}
    try:
        new = _write_samples(ledger, problems, surveys, entries, fingerprint, replace)
        samples = {problem_id: len(numbers) for problem_id, numbers in ledger.have().items()}
    finally:
        ledger.close()
    return ImportResult(model, dataset, problems, surveys, samples, new)


def count_imported_samples(model: str, dataset: str) -> int:
    """The number of imported samples of a model on a data set; an error if some are lost, there are none, or they are
    of other questions than those of the data set."""
    ledger = Ledger(tables.completions_folder(model, dataset))
    samples = sum(len(numbers) for numbers in ledger.have().values())
    manifest = ledger.manifest()
    sources = manifest.get("sources", [])
    imported = sum(stop - first for _, first, stop in parse_sample_ranges(sources))
    if 0 < samples < imported:
        raise LostSamplesError(model, dataset, imported - samples, imported, [source["file"] for source in sources])
    if not samples or manifest.get("fingerprint", {}).get("engine") != IMPORT_ENGINE:
        raise MissingImportError(model, dataset)
    ledger.require_problems(load_question_hashes(dataset), ledger.replace_command)
    return samples


def _load_problems(model: str, dataset: str, grader: str | None, replace: bool) -> ProblemIndex:
    """The problems of the data set. With `replace`, imported problems that no other model uses are dropped."""
    registry.load_grader(grader or "math")
    path = tables.problems_path(dataset)
    rows = tables.read(path, tables.PROBLEMS_SCHEMA, f"leash fetch {dataset}").to_pylist() if path.exists() else []
    problems = ProblemIndex(dataset, rows, grader or (rows[0]["grader"] if rows else "math"))
    if rows and replace and problems.accepts_new_problems:
        folders = tables.completions_folder(model, dataset).parent.parent.glob(f"*/{dataset}")
        if all(folder.parent.name == model for folder in folders):
            return ProblemIndex(dataset, [], problems.grader)
    if rows and grader not in (None, rows[0]["grader"]):
        fault = f"differs from {rows[0]['grader']}, which grades {dataset} already"
        remedy = f"leave --grader out and set `datasets.{dataset}.grader` in params.yaml"
        raise ImportOptionError(f"--grader {grader}", f"{fault}; {remedy}.")
    return problems


def _build_manifest_entries(
    surveys: Sequence[SourceSurvey], manifest: Mapping[str, Any], ledger: Ledger, what: str
) -> list[dict[str, Any]]:
    """A manifest entry per source. A file that was imported before keeps its entry and so its sample numbers."""
    known = manifest.get("sources", [])
    # New sources number their samples after all others, those of interrupted imports included.
    next_sample = {p: int(max(samples)) + 1 for p, samples in ledger.have().items()} if manifest else {}
    for problem_id, _, stop in parse_sample_ranges(known):
        next_sample[problem_id] = max(next_sample.get(problem_id, 0), stop)
    entries: list[dict[str, Any]] = []
    for survey in surveys:
        entry = survey.manifest_entry(next_sample)
        same = next((dict(e) for e in (*known, *entries) if e["hash"] == entry["hash"]), None)
        if same and {**same, "numbers": 0, "file": 0} != {**entry, "numbers": 0, "file": 0}:
            fault = f"the file is part of {what} already, with other conditions or as another format"
            raise ImportFileError(survey.source.file, f"{fault}; start over with --replace.")
        if not same:
            next_sample.update({problem_id: stop for problem_id, _, stop in parse_sample_ranges([entry])})
        entries.append(same or entry)
    return entries


def _write_samples(
    ledger: Ledger,
    problems: ProblemIndex,
    surveys: Sequence[SourceSurvey],
    entries: Sequence[Mapping[str, Any]],
    fingerprint: Mapping[str, str],
    replace: bool,
) -> int:
    """Write the new problems and the samples that are not on disk; return the number of these samples."""
    if replace:
        ledger.clear()
    known = [] if ledger.empty else [entry["hash"] for entry in ledger.manifest().get("sources", [])]
    new_entries = list({entry["hash"]: entry for entry in entries if entry["hash"] not in known}.values())
    prompts = {problem_id: question_hash(row["question"], row["images"]) for problem_id, row in problems.rows.items()}
    ledger.open(fingerprint, prompts, again=ledger.replace_command, engine=IMPORT_ENGINE, sources=new_entries)
    if problems.added:
        rows = tables.table_from_rows(list(problems.rows.values()), tables.PROBLEMS_SCHEMA)
        tables.write(tables.problems_path(problems.dataset), rows, tables.PROBLEMS_SCHEMA)
    on_disk = {problem_id: set(map(int, samples)) for problem_id, samples in ledger.have().items()}
    written = 0
    for survey, entry in zip(surveys, entries, strict=True):
        # The samples of a source are numbered in the order of the file.
        numbers = {problem_id: count(first) for problem_id, first, _ in parse_sample_ranges([entry])}
        for record in read_records(survey.source):
            problem_id = problems.match(record)
            assert problem_id is not None
            for c in record.completions:
                sample = next(numbers[problem_id])
                if sample not in on_disk.setdefault(problem_id, set()):
                    on_disk[problem_id].add(sample)
                    ledger.add([Completion(problem_id, sample, c.text, c.tokens, c.finish, c.logprob)])
                    written += 1
    ledger.settle()
    return written

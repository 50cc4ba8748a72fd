r"""Load the problems of a data set as rows of the problems table, whatever their origin.

In:  a data set of params.yaml: a benchmark, your own file, an embedded or Reasoning Gym task, or imported problems.
Out: FetchResult: rows, a sentence on their origin, and warnings. Nothing is written here (see stages/fetch).

Your own file is any JSONL, JSON, CSV or Parquet file with a question and an answer column, here or on the hub:

    mine: {path: mine.jsonl, question: problem, answer: answer, grader: math, prompt: "{question} Use \\boxed{}."}

For the hub: `hub`, `revision` and `files`, a pattern such as "data/test-*.parquet". `images` names an image column.
Columns `level` (how hard a problem is) and `cluster` (problems that belong together) are used if the file has them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.parquet as pq

from leash import prompts, tables
from leash.benchmarks.benchmark import Benchmark, Problem, Row, RowError, RowLocation, parse_golds
from leash.benchmarks.images import load_images
from leash.datasets import embedded, source_files
from leash.errors import UnknownNameError, first_line
from leash.formatting import pluralize
from leash.grading.graders import registry
from leash.params.groups import EMBEDDED_FAMILIES, Dataset, Params
from leash.problems import question_hash
from leash.statistics import seeds

GYM_FAMILY = "reasoning_gym"
# Among a million questions, two have the same digits with a probability of 0.2%. Then one of them gets "#2".
ID_HEX_DIGITS = 12
TableRow = dict[str, Any]


@dataclass(frozen=True)
class FetchResult:
    """`stored` is true if the problems table holds exactly these rows already."""

    rows: list[TableRow]
    origin: str | None = None
    warnings: list[str] = field(default_factory=list)
    stored: bool = False


def load_problems(params: Params, name: str) -> FetchResult:
    dataset = params.known_dataset(name)
    if dataset.imported:
        return _load_imported_problems(name, dataset)
    if dataset.family in EMBEDDED_FAMILIES:
        return FetchResult(list(embedded.generate_problems(name, dataset)))
    if dataset.family == GYM_FAMILY:
        from leash.datasets import reasoning_gym

        return FetchResult(list(reasoning_gym.generate_problems(name, dataset)))
    return _load_benchmark_problems(name, dataset)


def is_on_hub(dataset: Dataset) -> bool:
    """Whether `load_problems` downloads this data set; all others need no network."""
    return not (dataset.imported or dataset.path or dataset.family in (*EMBEDDED_FAMILIES, GYM_FAMILY))


def known_problem_count(name: str, dataset: Dataset) -> int | None:
    """How many problems a hub data set has, before it is downloaded: at most `size`, or as many as its benchmark has.
    None if neither is known. `release`, `since`, `until` and `tasks` can select fewer."""
    benchmark = benchmark_of(name, dataset)
    size = dataset.size or benchmark.size
    counts = [*([size] if isinstance(size, int) else []), *([max(benchmark.counts)] if benchmark.counts else [])]
    return min(counts, default=None)


def has_images(name: str, dataset: Dataset) -> bool:
    """Whether questions of this data set have images: by its table if it was fetched, else by its parameters."""
    if tables.problems_path(name).exists():
        return bool(prompts.load_problem_images(name))
    if dataset.imported or dataset.family in (*EMBEDDED_FAMILIES, GYM_FAMILY):
        return False
    return dataset.images is not None or benchmark_of(name, dataset).images


def benchmark_of(name: str, dataset: Dataset) -> Benchmark:
    if dataset.family is None:
        patterns = tuple(f"*{suffix}" for suffix in source_files.FILE_SUFFIXES)
        return Benchmark(dataset.hub, patterns, parse_own_row, dataset.grader or "exact")
    from leash.benchmarks.families import FAMILIES

    if dataset.family not in FAMILIES:
        families = [*FAMILIES, GYM_FAMILY, *EMBEDDED_FAMILIES]
        raise UnknownNameError(f"`datasets.{name}.family`", dataset.family, families)
    return FAMILIES[dataset.family]


def parse_own_row(row: Row, dataset: Dataset) -> Problem:
    """A row of your own file, by the columns that params.yaml names."""
    question = row.text(dataset.question)
    return Problem(
        question=dataset.prompt.replace("{question}", question),
        gold=parse_golds(row.need(dataset.answer)),
        meta={"question": question},
        images=load_images(row, dataset.images) if dataset.images else None,
        level=row.label("level"),
        cluster=row.label("cluster"),
    )


def import_command(name: str) -> str:
    """The command that makes the problems table of an imported data set."""
    return f"leash import FILE --model MODEL --dataset {name}"


def _load_imported_problems(name: str, dataset: Dataset) -> FetchResult:
    """The rows of the existing table, with the grader of params.yaml if it names one."""
    path, schema = tables.problems_path(name), tables.PROBLEMS_SCHEMA
    stored: list[TableRow] = tables.read(path, schema, import_command(name)).to_pylist()
    complete = not tables.missing_columns(pq.ParquetFile(path), schema)
    if dataset.grader is None:
        return FetchResult(stored, stored=complete)
    registry.load_grader(dataset.grader)
    rows = [{**row, "grader": dataset.grader} for row in stored]
    return FetchResult(rows, stored=complete and rows == stored)


def _load_benchmark_problems(name: str, dataset: Dataset) -> FetchResult:
    benchmark = benchmark_of(name, dataset)
    grader = dataset.grader or benchmark.grader
    registry.load_grader(grader)  # reports a misspelt grader now, not after sampling
    patterns = (dataset.files,) if dataset.files else benchmark.files
    files = source_files.find_source(name, dataset, dataset.hub or benchmark.hub, patterns)
    parsed = [(row.where, problem) for row in files.rows() if (problem := _parse_row(benchmark, row, dataset))]
    chosen = _draw_subset(parsed, dataset.size or benchmark.size or "all", dataset.seed or 0)
    ids = _assign_ids(name, chosen, own_ids=dataset.id is not None)
    if not chosen:
        no_row = f"has no problem: no row of {files.files[0]} fits; correct its filters."
        raise source_files.DatasetSourceError(f"datasets.{name}", no_row)
    options = {"threshold": dataset.threshold, "tolerance": dataset.tolerance, "rounded": dataset.rounded or None}
    given = {option: value for option, value in options.items() if value is not None}
    rows: list[TableRow] = []
    faults: list[tuple[RowLocation, str]] = []  # what makes a problem useless, found before anything is sampled for it
    fault: str | None
    for problem_id, (where, problem) in zip(ids, chosen, strict=True):
        row = tables.problem_row(
            dataset=name,
            problem_id=problem_id,
            question=problem.question,
            gold=problem.gold,
            grader=grader,
            images=problem.images,
            meta={"question": problem.question, **problem.meta, **given, "source": files.origin},
            level=problem.level,
            cluster=problem.cluster,
        )
        rows.append(row)
        if not problem.gold:
            fault = "the gold answer is empty; fill it in or remove the row"
        elif not problem.question.strip():
            fault = "the question is empty; fill it in or remove the row"
        else:
            fault = registry.gold_complaint(grader, problem.gold, json.loads(row["meta"]))
        if fault:
            faults.append((where, fault))
    if faults:
        more = f" (and {len(faults) - 1} more such rows)" if len(faults) > 1 else ""
        raise RowError(faults[0][0], faults[0][1] + more)
    warnings = []
    filtered = dataset.size or dataset.tasks or dataset.release or dataset.since or dataset.until
    if benchmark.counts and len(rows) not in benchmark.counts and not filtered:
        paper = " or ".join(f"{count:,}" for count in benchmark.counts)
        count = f"{name} has {pluralize(len(rows), 'problem')}"
        warnings = [f"{count}, but the paper's {dataset.family} has {paper}; is the file complete?"]
    origin, revision = files.origin.get("file"), files.origin.get("revision")
    if revision:
        origin = f"{files.origin['hub']} at {revision}; `revision: {revision}` pins it"
    return FetchResult(rows, f"{name} was read from {origin}.", warnings)


def _parse_row(benchmark: Benchmark, row: Row, dataset: Dataset) -> Problem | None:
    try:
        problem = benchmark.problem(row, dataset)
        return replace(problem, id=row.text(dataset.id)) if problem and dataset.id else problem
    except RecursionError:
        raise RowError(row.where, "a value is nested too deeply; write it as text") from None
    # A file of something else breaks the parser in ways that only the row explains.
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        kind = dataset.family or "a data set"
        raise RowError(row.where, f"this is not a row of {kind} ({first_line(error)}); correct it") from None


def _draw_subset(
    parsed: Sequence[tuple[RowLocation, Problem]], size: int | str, seed: int
) -> list[tuple[RowLocation, Problem]]:
    """Draw `size` problems uniformly and keep their order. A problem's key depends only on the seed and its question,
    so a copy of the file in another order gives the same problems."""
    if not isinstance(size, int) or size >= len(parsed):
        return list(parsed)
    keys = [seeds.stream_key("fetch", seed, problem.question) for _, problem in parsed]
    limit = sorted(keys)[size - 1]
    return [pair for pair, key in zip(parsed, keys, strict=True) if key <= limit][:size]


def _assign_ids(name: str, chosen: Sequence[tuple[RowLocation, Problem]], *, own_ids: bool) -> list[str]:
    """The benchmark's own ids, if it has them, or else ids from what is asked: so a row that is inserted or moved takes
    no other problem's samples. An id can come twice (in SciBench, or if a question does): then "#2" is added."""
    given = [problem.id or _content_id(name, problem) for _, problem in chosen]
    if own_ids and len(set(given)) < len(given):
        raise source_files.SourceFileError(
            chosen[0][0].file, "the column for `id` has the same value twice; choose another."
        )
    seen: Counter[str] = Counter()
    ids = []
    for problem_id in given:
        seen[problem_id] += 1
        ids.append(problem_id if seen[problem_id] == 1 else f"{problem_id}#{seen[problem_id]}")
    return ids


def _content_id(name: str, problem: Problem) -> str:
    """Of the question as its file has it: another `prompt` around it makes no other problem."""
    question = problem.meta.get("question", problem.question)
    return f"{name}-{question_hash(question, problem.images)[:ID_HEX_DIGITS]}"

"""fetch: problems, whatever their origin, into one table.

In:  a data set of params.yaml: a benchmark of the paper or a file of your own, from the hub or from a path; generated;
     or imported with its completions.
Out: data/problems/{dataset}.parquet

What is odd about a data set is said, not swallowed: another number of problems than the benchmark has, questions that
stand twice, golds that their grader can't read.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from stages import prompts, seeds, tables
from stages.errors import LeashError, first_line
from stages.fetch import duplicates, embedded, own, source
from stages.fetch.benchmark import Benchmark, Place, Problem, Row
from stages.params import EMBEDDED, Dataset, Params
from stages.verify import graders

GYM = "reasoning_gym"
TableRow = dict[str, Any]


@dataclass(frozen=True)
class Fetched:
    """Rows of the problems table, and sentences on where they are from and what is odd about them."""

    rows: list[TableRow]
    origin: str | None
    warnings: list[str]


def run(params: Params, name: str) -> Fetched:
    """Write the problems table of a data set."""
    fetched = problems(params, name)
    table = tables.table(fetched.rows, tables.PROBLEMS)
    if not params.datasets[name].imported or fetched.rows != _imported_rows(name):
        tables.write(tables.problems_path(name), table, tables.PROBLEMS)
    twice = duplicates.sentences(_duplicates(params, name, table))
    return replace(fetched, warnings=[*fetched.warnings, *twice])


def _duplicates(params: Params, name: str, table: pa.Table) -> list[duplicates.Pair]:
    """Questions of this data set that stand twice, in it or in another of the run that is there."""
    others = [other for other in params.run.datasets if other != name]
    pairs = duplicates.duplicates(pa.concat_tables([table, *filter(None, map(_there, others))]))
    return [pair for pair in pairs if name in (pair.dataset, pair.other_dataset)]


def _there(name: str) -> pa.Table | None:
    """Another data set's problems; one that is not there or damaged is fetched in its own time."""
    try:
        return tables.read(tables.problems_path(name), tables.PROBLEMS, f"leash fetch {name}")
    except LeashError:
        return None


def problems(params: Params, name: str) -> Fetched:
    """The problems of a data set, not yet written anywhere."""
    dataset = params.known_dataset(name)
    if dataset.imported:
        return Fetched(_imported(name, dataset), None, [])
    if dataset.family in EMBEDDED:
        return Fetched(list(embedded.problems(name, dataset)), None, [])
    if dataset.family == GYM:
        from stages.fetch import reasoning_gym

        return Fetched(list(reasoning_gym.problems(name, dataset)), None, [])
    return _read(name, dataset)


def is_on_hub(dataset: Dataset) -> bool:
    """Whether `problems` would ask the hub for this data set; all others are made or read without a network."""
    return not (dataset.imported or dataset.path or dataset.family in (*EMBEDDED, GYM))


def known_count(name: str, dataset: Dataset) -> int | None:
    """How many problems a hub data set has, before it is downloaded: at most `size`, or what its benchmark has. None if
    neither is known. `release`, `since`, `until` and `tasks` may leave fewer."""
    benchmark = benchmark_of(name, dataset)
    size = dataset.size or benchmark.size
    known = [*([size] if isinstance(size, int) else []), *([max(benchmark.counts)] if benchmark.counts else [])]
    return min(known, default=None)


def has_images(name: str, dataset: Dataset) -> bool:
    """Whether questions of this data set have images: by its table if it was fetched, else by its parameters."""
    if tables.problems_path(name).exists():
        return bool(prompts.images_of(name))
    if dataset.imported or dataset.family in (*EMBEDDED, GYM):
        return False
    return dataset.images is not None or benchmark_of(name, dataset).images


def benchmark_of(name: str, dataset: Dataset) -> Benchmark:
    if dataset.family is None:
        return own.benchmark(dataset)
    from stages.fetch.benchmarks import FAMILIES

    if dataset.family not in FAMILIES:
        there = ", ".join([*FAMILIES, GYM, *EMBEDDED])
        raise LeashError(f"`datasets.{name}.family` is {dataset.family}, which is none of {there}.")
    return FAMILIES[dataset.family]


def _read(name: str, dataset: Dataset) -> Fetched:
    benchmark = benchmark_of(name, dataset)
    grader = dataset.grader or benchmark.grader
    graders.load(grader)  # a misspelt grader is said now, not after sampling
    patterns = (dataset.files,) if dataset.files else benchmark.files
    found = source.find(name, dataset, dataset.hub or benchmark.hub, patterns)
    read = [(row.where, problem) for row in found.rows() if (problem := _problem(benchmark, row, dataset))]
    chosen = _drawn(read, dataset.size or benchmark.size or "all", dataset.seed or 0)
    names = _ids(name, chosen, own_ids=dataset.family is None and dataset.id is not None)
    rows = [
        _table_row(name, identity, problem, grader, dataset, found.origin)
        for identity, (_, problem) in zip(names, chosen, strict=True)
    ]
    complaints = [
        f"{where}: {complaint}."
        for table_row, (where, problem) in zip(rows, chosen, strict=True)
        if (complaint := _complaint(table_row, problem))
    ]
    if not rows:
        raise LeashError(f"{name} has no problem: nothing in {found.files[0]} is what `datasets.{name}` asks for.")
    if complaints:
        more = f" (and {len(complaints) - 1} more such rows)" if len(complaints) > 1 else ""
        raise LeashError(complaints[0] + more)
    return Fetched(rows, _told(name, found.origin), list(_count_warning(name, dataset, benchmark, len(rows))))


def _problem(benchmark: Benchmark, row: Row, dataset: Dataset) -> Problem | None:
    try:
        return benchmark.problem(row, dataset)
    except RecursionError:
        raise LeashError(f"{row.where}: a value is nested too deeply; write it as text.") from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        whose = dataset.family or "a data set"
        raise LeashError(f"{row.where} is not as rows of {whose} are ({first_line(error)}); correct it.") from None


def _table_row(
    name: str,
    identity: str,
    problem: Problem,
    grader: str,
    dataset: Dataset,
    origin: dict[str, str],
) -> TableRow:
    meta = {
        "question": problem.question,
        **problem.meta,
        **({"threshold": dataset.threshold} if dataset.threshold is not None else {}),
        **({"tolerance": dataset.tolerance} if dataset.tolerance is not None else {}),
        **({"rounded": True} if dataset.rounded else {}),
        "source": origin,
    }
    return tables.problem_row(
        dataset=name,
        problem_id=identity,
        question=problem.question,
        gold=problem.gold,
        grader=grader,
        images=problem.images,
        meta=meta,
    )


def _complaint(table_row: TableRow, problem: Problem) -> str | None:
    """What would make a problem useless, before anything is sampled for it."""
    if not problem.gold:
        return "the gold answer is empty; fill it in or remove the row"
    if not problem.question.strip():
        return "the question is empty; fill it in or remove the row"
    return graders.complaint(table_row["grader"], problem.gold, json.loads(table_row["meta"]))


def _drawn(read: Sequence[tuple[Place, Problem]], size: int | str, seed: int) -> list[tuple[Place, Problem]]:
    """So many of the problems, each as likely as any other, in the order they stand in. A problem's lot depends on the
    seed and its question alone: the same are drawn from a copy in another order."""
    if not isinstance(size, int) or size >= len(read):
        return list(read)
    lots = [seeds.key("fetch", seed, problem.question) for _, problem in read]
    limit = sorted(lots)[size - 1]
    return [pair for pair, lot in zip(read, lots, strict=True) if lot <= limit][:size]


def _ids(name: str, chosen: Sequence[tuple[Place, Problem]], *, own_ids: bool) -> list[str]:
    """The benchmark's own ids, where it has them; a second problem of one id gets a number of its own."""
    given = [problem.id or f"{name}-{where.number:05d}" for where, problem in chosen]
    counts = Counter(given)
    if own_ids and len(counts) < len(given):
        raise LeashError(f"{chosen[0][0].file}: the column named as `id` does not tell its rows apart; name another.")
    seen: Counter[str] = Counter()
    unique = []
    for identity in given:
        seen[identity] += 1
        unique.append(identity if seen[identity] == 1 else f"{identity}#{seen[identity]}")
    return unique


def _count_warning(name: str, dataset: Dataset, benchmark: Benchmark, count: int) -> Iterator[str]:
    asked_for = dataset.size or dataset.tasks or dataset.release or dataset.since or dataset.until
    if benchmark.counts and count not in benchmark.counts and not asked_for:
        known = " or ".join(f"{number:,}" for number in benchmark.counts)
        yield f"{name} has {count:,} problems where the paper's {dataset.family} has {known}; is the file whole?"


def _told(name: str, origin: dict[str, str]) -> str:
    if "hub" not in origin:
        return f"{name} was read from {origin['file']}."
    return f"{name} was read from {origin['hub']} at {origin['revision']}; `revision: {origin['revision']}` pins it."


def _imported_rows(name: str) -> list[TableRow]:
    again = f"leash import FILE --model MODEL --dataset {name}"
    rows: list[TableRow] = tables.read(tables.problems_path(name), tables.PROBLEMS, again).to_pylist()
    return rows


def _imported(name: str, dataset: Dataset) -> list[TableRow]:
    """The table is there already; only its grader may be another than params.yaml names."""
    rows = _imported_rows(name)
    if dataset.grader is None:
        return rows
    graders.load(dataset.grader)
    return [{**row, "grader": dataset.grader} for row in rows]

"""verify: what each completion answers, and whether it is right.

In:  data/completions/{model}/{dataset}/ and the problems.
Out: data/verdicts/{model}/{dataset}/, one shard for each shard of completions, made again when the
     completions, the problems, the graders' code or the libraries under them change.

Three steps. Answers are extracted from all texts, in worker processes; each distinct answer of a problem is graded
once, in a pool whose time limit kills (pool.py); grades are joined back to every completion that gave the answer.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from stages import disk, tables
from stages.errors import LeashError
from stages.params import Params, Verify
from stages.progress import Progress
from stages.verify import graders, grading, pool
from stages.verify.distinct import ENCODED, Distinct, joined
from stages.verify.graders import Asked, Grade, unanswered
from stages.work import crew, spread

Problem = Mapping[str, Any]
Shard = tuple[str, Path | pa.Table]
REMEMBERED = 100_000  # answers whose grades are kept while sampling
ROWS = 1024  # completions whose text is in memory at a time
NOT_GRADING = {"audit.py", "recheck.py", "lines.py"}  # code of this room that no verdict depends on

EXTRACTED = pa.schema(
    [
        pa.field("problem_id", ENCODED),
        pa.field("sample", pa.int32()),
        pa.field("answer", ENCODED),
        pa.field("status", pa.string()),  # null where there is an answer
    ]
)


def run(params: Params, model: str, dataset: str) -> int:
    """Make the verdict shards that are missing or outdated; return how many completions were verified."""
    problems = problems_of(dataset)
    completions, verdicts = tables.completions_folder(model, dataset), tables.verdicts_folder(model, dataset)
    sources = tables.shards(completions)
    if not sources:
        raise LeashError(f"{completions} holds no completions; draw them with `leash sample {model} {dataset}`.")
    names = graders.ready({problem["grader"] for problem in problems.values()})
    made_from = disk.hash_of(fingerprint(params.verify, names), disk.file_hash(tables.problems_path(dataset)))
    disk.sweep(verdicts)
    fresh = {s.name for s in sources if tables.note(verdicts / s.name).get("made_from") == made_from}
    for orphan in {v.name for v in tables.shards(verdicts)} - {s.name for s in sources}:
        (verdicts / orphan).unlink()
    stale = [shard for shard in sources if shard.name not in fresh]
    if not stale:
        return 0
    tables.refuse_damaged(stale, f"leash sample {model} {dataset}")

    found = extracted_from(params, {name: p["grader"] for name, p in problems.items()}, stale, f"{model} on {dataset}")
    known = [tables.read(verdicts / name, tables.VERDICTS, "leash verify") for name in sorted(fresh)]
    distinct = Distinct(joined([*known, *found.values()]))
    remember(distinct, known)
    begin = sum(table.num_rows for table in known)
    for name, table in graded(params, problems, distinct, found, begin, f"grade {model} on {dataset}"):
        tables.write(verdicts / name, table, tables.VERDICTS, note={"made_from": made_from})
    return sum(table.num_rows for table in found.values())


def problems_of(dataset: str) -> dict[str, Problem]:
    """The problems by name. Their images are left out: they are large, and no grader looks at them."""
    columns = [name for name in tables.PROBLEMS.names if name != "images"]
    file = tables.opened(tables.problems_path(dataset), tables.PROBLEMS, f"leash fetch {dataset}")
    return by_id(file.read(columns=columns).to_pylist())


def by_id(rows: Iterable[Mapping[str, Any]]) -> dict[str, Problem]:
    """Rows of the problems table by name, their meta parsed."""
    return {row["problem_id"]: {**row, "meta": _meta(row)} for row in rows}


def checker(problems: Mapping[str, Problem], verify: Verify) -> Callable[[str, str], bool]:
    """Whether a text is correct for a problem, for those who must know while they sample. Answers are graded in a
    process beside this one, each once."""
    names = graders.ready({problem["grader"] for problem in problems.values()})
    beside = grading.pool_of(names, workers=1, timeout=verify.timeout, memory=verify.memory)

    @lru_cache(maxsize=REMEMBERED)
    def correct(problem_id: str, answer: str) -> bool:
        asked = asked_of(problems[problem_id], answer, verify)
        at_once = graders.grade_all_of(asked.grader)
        grade = next(at_once([asked], verify)) if at_once else beside.result((0, asked))
        return grade["correct"] is True

    def check(problem_id: str, text: str) -> bool:
        answer = graders.extract_for(problems[problem_id]["grader"])(text)
        return answer is not None and correct(problem_id, answer)

    weakref.finalize(check, beside.close)
    return check


def fingerprint(verify: Verify, names: Sequence[str]) -> str:
    """Changes when the code of this room, the libraries under its graders or their settings do."""
    code = sorted(file for file in Path(__file__).parent.rglob("*.py") if file.name not in NOT_GRADING)
    settings = [f"{verify.timeout} {verify.memory}"]
    if "code" in names:
        settings.append(verify.code.model_dump_json())
    if "judge" in names:
        prompt = Path(verify.judge.prompt or Path(__file__).parent / "judge_prompt.txt")
        settings += [verify.judge.model, disk.file_hash(prompt) if prompt.exists() else ""]
    return disk.hash_of(graders.identity(names), *settings, *(disk.file_hash(file) for file in code))


def extracted_from(
    params: Params, grader_of: Mapping[str, str], shards: Sequence[Path], what: str
) -> dict[str, pa.Table]:
    """The answers in the texts of some shards, without the texts. Workers read the shards themselves, unless they are
    on other machines."""
    away = params.run.on == "ray"
    units: Iterator[Shard] = ((s.name, _read(s) if away else s.resolve()) for s in shards)
    counted = sum(tables.opened(s, tables.COMPLETIONS, "leash sample").metadata.num_rows for s in shards)
    preload = (pool.__name__, *graders.heavy(sorted(set(grader_of.values()))))  # for the pool, which comes next
    found = {}
    with Progress(counted, f"read {what}", "completions") as progress:
        for (name, _), table in spread(units, partial(_same, grader_of), extracted, crew(params, preload)):
            found[name] = table
            progress.add(table.num_rows)
    return {shard.name: found[shard.name] for shard in shards}


def extracted(grader_of: Mapping[str, str], shard: Shard) -> pa.Table:
    """The answers of a shard. Problems that are no longer in the data set are left out."""
    rows: list[dict[str, Any]] = []
    for part in _parts(shard[1]):
        for row in part.to_pylist():
            if row["problem_id"] in grader_of:
                rows.append(_found(row, graders.extract_for(grader_of[row["problem_id"]])))
    return pa.Table.from_pylist(rows, schema=EXTRACTED)


def graded(
    params: Params,
    problems: Mapping[str, Problem],
    distinct: Distinct,
    found: Mapping[str, pa.Table],
    begin: int,
    what: str,
) -> Iterator[tuple[str, pa.Table]]:
    """Grade what has no grade yet, and yield the verdicts of each shard as soon as it has all of its own."""
    ends = list(accumulate((table.num_rows for table in found.values()), initial=begin))
    waiting = iter(zip(found.items(), ends, strict=False))
    shard = next(waiting, None)
    ungraded = distinct.ungraded()
    with Progress(len(ungraded), what, "answers") as progress:
        for number, grade in _grades(params, problems, distinct, ungraded):
            distinct.add(number, grade)
            progress.add()
            while shard and _needs(distinct, shard) <= distinct.graded_below():
                yield shard[0][0], distinct.verdicts(shard[0][1], shard[1])
                shard = next(waiting, None)
    while shard:
        yield shard[0][0], distinct.verdicts(shard[0][1], shard[1])
        shard = next(waiting, None)


def remember(distinct: Distinct, known: Sequence[pa.Table]) -> None:
    """Take over the grades of verdicts that still hold."""
    rows = (row for table in known for row in table.to_pylist())
    for number, row in zip(distinct.numbers, rows, strict=False):
        if row["answer"] is not None:
            distinct.add(number, cast(Grade, row))


def asked_of(problem: Problem, answer: str, verify: Verify) -> Asked:
    limits = {"limits": verify.code.model_dump()} if problem["grader"] == "code" else {}
    return Asked(problem["problem_id"], answer, tuple(problem["gold"]), problem["meta"] | limits, problem["grader"])


def _grades(
    params: Params, problems: Mapping[str, Problem], distinct: Distinct, numbers: Sequence[int]
) -> Iterator[tuple[int, Grade]]:
    """The grades of some answers, grader by grader."""
    by_grader: dict[str, list[int]] = {}
    for number in numbers:
        by_grader.setdefault(problems[distinct.asked(number)[0]]["grader"], []).append(number)
    for grader, its_numbers in by_grader.items():
        asked = ((n, asked_of(problems[p], a, params.verify)) for n in its_numbers for p, a in [distinct.asked(n)])
        yield from grading.grades(params, asked, grader)


def _needs(distinct: Distinct, shard: tuple[tuple[str, pa.Table], int]) -> int:
    """The number below which all must be graded for this shard."""
    (_, table), begin = shard
    return int(distinct.numbers[begin : begin + table.num_rows].max(initial=-1)) + 1


def _found(row: Mapping[str, Any], extract: Callable[[str], str | None]) -> dict[str, Any]:
    try:
        answer = extract(row["text"])
        status = None if answer is not None else unanswered(row["finish"])["status"]
    except Exception:
        answer, status = None, "error"
    return {"problem_id": row["problem_id"], "sample": row["sample"], "answer": answer, "status": status}


def _parts(content: Path | pa.Table) -> Iterator[pa.RecordBatch]:
    """Some rows of a shard at a time: a text may be long."""
    columns = ["problem_id", "sample", "text", "finish"]
    if isinstance(content, Path):
        yield from tables.opened(content, tables.COMPLETIONS, "leash sample").iter_batches(ROWS, columns=columns)
    else:
        yield from content.select(columns).to_batches(ROWS)


def _read(shard: Path) -> pa.Table:
    """A shard's content, which is all that a worker on another machine needs."""
    return tables.read(shard, tables.COMPLETIONS, "leash sample")


def _meta(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"question": row["question"], **json.loads(row["meta"])}


def _same(grader_of: Mapping[str, str]) -> Mapping[str, str]:
    """What every worker keeps."""
    return grader_of

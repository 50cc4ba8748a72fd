"""verify: what each completion answers, and whether it is right.

In:  data/completions/{model}/{dataset}/ and the problems.
Out: data/verdicts/{model}/{dataset}/, one shard for each shard of completions, made again when the
     completions, the problems, the graders' code or their library's version change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from stages import disk, tables
from stages.errors import LeashError
from stages.params import Params
from stages.progress import Progress
from stages.verify import graders
from stages.verify.extract import extract
from stages.work import crew, spread

Problem = Mapping[str, Any]
DISTINCT = 100_000  # answers whose grades are remembered while sampling


def run(params: Params, model: str, dataset: str) -> int:
    """Make the verdict shards that are missing or outdated; return how many completions were verified."""
    path = tables.problems_path(dataset)
    problems = problems_of(dataset)
    completions, verdicts = tables.completions_folder(model, dataset), tables.verdicts_folder(model, dataset)
    sources = tables.shards(completions)
    if not sources:
        raise LeashError(f"{completions} holds no completions; draw them with `leash sample {model} {dataset}`.")

    made_from = disk.hash_of(code_identity(), disk.file_hash(path), str(params.verify.timeout))
    stale = [s for s in sources if tables.note(verdicts / s.name).get("made_from") != made_from]
    for orphan in {v.name for v in tables.shards(verdicts)} - {s.name for s in sources}:
        (verdicts / orphan).unlink()
    counted = {shard: tables.opened(shard, tables.COMPLETIONS, "leash sample").metadata.num_rows for shard in stale}
    verdict = partial(verdicts_of, timeout=params.verify.timeout)
    with Progress(sum(counted.values()), f"verify {model} on {dataset}", "completions") as progress:
        for (name, _), table in spread(_read(stale), partial(_same, problems), verdict, crew(params)):
            tables.write(verdicts / name, table, tables.VERDICTS, note={"made_from": made_from})
            progress.add(table.num_rows)
    return sum(counted.values())


def problems_of(dataset: str) -> dict[str, Problem]:
    rows = tables.read(tables.problems_path(dataset), tables.PROBLEMS, f"leash fetch {dataset}").to_pylist()
    return {row["problem_id"]: {**row, "meta": json.loads(row["meta"])} for row in rows}


def checker(problems: Mapping[str, Problem], timeout: int) -> Callable[[str, str], bool]:
    """Whether a text is correct for a problem, for those who must know while they sample."""

    @lru_cache(maxsize=DISTINCT)
    def correct(problem_id: str, answer: str) -> bool:
        return graders.graded(problems[problem_id], answer, timeout)["correct"] is True

    def check(problem_id: str, text: str) -> bool:
        answer = extract(text)
        return answer is not None and correct(problem_id, answer)

    return check


def code_identity() -> str:
    """Changes when the code of this room or the library under it does: a shard's name has its own hash."""
    code = sorted(Path(__file__).parent.rglob("*.py"))
    return disk.hash_of(version("math-verify"), *(disk.file_hash(file) for file in code))


def verdicts_of(problems: Mapping[str, Problem], shard: tuple[str, pa.Table], *, timeout: int) -> pa.Table:
    """The verdicts of a shard. Each distinct answer of a problem is graded once."""
    rows = shard[1].to_pylist()
    answers = [extract(row["text"]) for row in rows]
    graded: dict[tuple[str, str], dict[str, Any]] = {}
    verdicts = []
    for row, answer in zip(rows, answers, strict=True):
        if row["problem_id"] not in problems:
            continue  # sampled once, since taken out of the data set
        if answer is None:
            grade = unanswered(row["finish"])
        else:
            asked = (row["problem_id"], answer)
            if asked not in graded:
                graded[asked] = graders.graded(problems[row["problem_id"]], answer, timeout)
            grade = graded[asked]
        verdicts.append({"problem_id": row["problem_id"], "sample": row["sample"], "answer": answer, **grade})
    return tables.table(verdicts, tables.VERDICTS)


def unanswered(finish: str) -> dict[str, Any]:
    """No answer is wrong; whether the text was cut off or ended without one is kept apart."""
    status = "truncated" if finish == "length" else "no_answer"
    return {"answer_class": None, "correct": False, "score": 0.0, "status": status}


def _read(shards: list[Path]) -> Iterator[tuple[str, pa.Table]]:
    """Shards with their content, which is all that a worker on another machine needs."""
    for shard in shards:
        yield shard.name, tables.read(shard, tables.COMPLETIONS, "leash sample")


def _same(problems: Mapping[str, Problem]) -> Mapping[str, Problem]:
    """What every worker keeps."""
    return problems

"""Verdicts for units of completions: extract all answers, grade each distinct answer once, join the grades back.

The stage decides which units are stale, and leash/verdict_files.py reads and writes the files.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from leash import atomic_io, finish
from leash.grading import grade_answers, worker_pool, working
from leash.grading.distinct_answers import DICTIONARY_TYPE, NO_VALUE, DistinctAnswers, concat_answers
from leash.grading.graders import registry
from leash.grading.graders.types import Grade, no_answer_grade
from leash.grading.reading import read_answer
from leash.params.groups import Params, Verify
from leash.problems import Problem
from leash.progress import Progress
from leash.scheduler.run import run_units
from leash.scheduler.worker_plan import plan_workers
from leash.verdict_files import CompletionsUnit

Work = tuple[CompletionsUnit, working.Content]
BATCH_ROWS = 1024  # completions whose texts are in memory at a time: a text can be long
# answer: the one that lenient reading finds. status: null if strict reading finds it, too; else why it finds none.
EXTRACTED_SCHEMA = pa.schema(
    {"problem_id": DICTIONARY_TYPE, "sample": pa.int32(), "answer": DICTIONARY_TYPE, "status": pa.string()}
)


def grading_fingerprint(verify: Verify, names: Sequence[str]) -> str:
    """A hash of all that decides verdicts in Leash: the code of this package and of finishes, and the libraries and
    settings of the graders."""
    # Not listed: settings that decide no grade, such as the judge's address and prices.
    code = [*sorted(Path(__file__).parent.rglob("*.py")), Path(finish.__file__)]
    settings = [f"{verify.timeout} {verify.memory} {verify.reading}"]
    if "code" in names:
        settings.append(verify.code.model_dump_json())
    if "judge" in names:
        prompt = Path(verify.judge.prompt or Path(__file__).parent / "judge_prompt.txt")
        settings += [verify.judge.model, atomic_io.file_hash(prompt) if prompt.exists() else ""]
    return atomic_io.hash_strings(registry.dependency_fingerprint(names), *settings, *map(atomic_io.file_hash, code))


def extract_answers(
    params: Params, problems: Mapping[str, Problem], units: Sequence[CompletionsUnit], label: str
) -> dict[CompletionsUnit, pa.Table]:
    """Extract the answers of each unit. Completions of unknown problems are left out."""
    grader_of = {name: problem["grader"] for name, problem in problems.items()}
    total = sum(working.open_shard(unit.shard).metadata.row_group(unit.group).num_rows for unit in units)
    # The fork server starts here, and grading and the check of the working use it too, so it preloads for all three.
    later = worker_pool.__name__, working.__name__
    plan = plan_workers(params, (*later, *registry.slow_imports(sorted(set(grader_of.values())))))
    work = working.attach_completions(params, units)
    extracted = {}
    with Progress(total, f"read {label}", "completions") as progress:
        for (unit, _), table in run_units(work, partial(dict, grader_of), extract_unit, plan):
            extracted[unit] = table
            progress.add(table.num_rows)
    return {unit: extracted[unit] for unit in units}


def extract_unit(grader_of: Mapping[str, str], work: Work) -> pa.Table:
    (unit, content), columns = work, ["problem_id", "sample", "text", "finish"]
    if isinstance(content, Path):
        batches = working.open_shard(content).iter_batches(BATCH_ROWS, row_groups=[unit.group], columns=columns)
    else:
        batches = content.select(columns).to_batches(BATCH_ROWS)
    rows: list[dict[str, Any]] = []
    for row in (row for batch in batches for row in batch.to_pylist() if row["problem_id"] in grader_of):
        try:
            reading = read_answer(row["text"], grader_of[row["problem_id"]], row["finish"])
            answer = reading.answer
            status = None if reading.strict is not None else no_answer_grade(row["finish"])["status"]
        except Exception:  # not scored, rather than wrong: the fault is the extractor's
            answer, status = None, "error"
        rows.append({"problem_id": row["problem_id"], "sample": row["sample"], "answer": answer, "status": status})
    return pa.Table.from_pylist(rows, schema=EXTRACTED_SCHEMA)


def iterate_verdicts(
    params: Params,
    problems: Mapping[str, Problem],
    extracted: Mapping[CompletionsUnit, pa.Table],
    graded_answers: pa.Table,
    label: str,
) -> Iterator[tuple[CompletionsUnit, pa.Table]]:
    """Grade the extracted answers that are not among `graded_answers`. Yield each unit and its verdicts as soon as all
    its answers have grades, so that the caller can write them before a kill."""
    distinct = DistinctAnswers(concat_answers([graded_answers, *extracted.values()]))
    for number, row in zip(distinct.numbers.tolist(), graded_answers.to_pylist(), strict=False):  # these come first
        distinct.set_grade(number, cast(Grade, row))

    ungraded = distinct.ungraded()
    begin = graded_answers.num_rows
    with (
        Progress(len(ungraded), f"grade {label}", "answers") as progress,
        closing(_grade_numbers(params, problems, distinct, ungraded)) as graded,
    ):
        for unit, table in extracted.items():
            # Answers are numbered by first appearance, so a unit is complete once all numbers up to its highest are.
            highest = int(distinct.numbers[begin : begin + table.num_rows].max(initial=NO_VALUE))
            while distinct.graded_below() <= highest:
                number, grade = next(graded)
                distinct.set_grade(number, grade)
                progress.add()
            yield unit, distinct.verdicts(table, begin, params.verify.reading)
            begin += table.num_rows


def _grade_numbers(
    params: Params, problems: Mapping[str, Problem], distinct: DistinctAnswers, numbers: Sequence[int]
) -> Generator[tuple[int, Grade], None, None]:
    """Grade the answers with these numbers, one grader after the other."""
    by_grader: dict[str, list[int]] = {}
    for number in numbers:
        by_grader.setdefault(problems[distinct.problem_and_answer(number)[0]]["grader"], []).append(number)

    def requests(numbers: Sequence[int]) -> Iterator[grade_answers.NumberedRequest]:
        for number in numbers:
            problem, answer = distinct.problem_and_answer(number)
            yield number, grade_answers.build_grade_request(problems[problem], answer, params.verify)

    for grader, its_numbers in by_grader.items():
        yield from grade_answers.grade_requests(params, requests(its_numbers), grader)

"""Whether the working of correct completions is right, for shards of verdicts.

In: the verdicts of a shard without the columns on the working, and its completions. Out: the same verdicts with
`sound`, `process` and `flaw` for completions that are correct under lenient reading; the others have no working worth
a check. What makes a working sound is decided in leash/grading/process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from leash import tables
from leash.grading.process.checkers import Working, check_working
from leash.params.groups import Params
from leash.problems import Problem
from leash.scheduler.run import run_units
from leash.scheduler.worker_plan import plan_workers

# A shard's name, its completions (where they are, or their content) and its verdicts.
Unit = tuple[str, Path | pa.Table, pa.Table]
TEXT_COLUMNS = ["problem_id", "sample", "text"]
SOUND_BY_PROCESS = {"sound": True, "unsound": False}  # the others are not checkable


def add_working(
    params: Params, problems: Mapping[str, Problem], shards: Sequence[Path], verdicts: Iterable[tuple[str, pa.Table]]
) -> Iterator[tuple[str, pa.Table]]:
    """Yield each shard's name and verdicts with the columns on the working, in the order in which they are checked."""
    path_of = {shard.name: shard for shard in shards}
    remote = params.run.on == "ray"  # as in extract_answers: workers on other machines get the content

    def units() -> Iterator[Unit]:
        for name, table in verdicts:
            shard = path_of[name]
            content = tables.read(shard, tables.COMPLETIONS_SCHEMA, "leash sample") if remote else shard.resolve()
            yield name, content, table

    for (name, _, _), table in run_units(units(), partial(dict, problems), check_shard, plan_workers(params)):
        yield name, table


def check_shard(problems: Mapping[str, Problem], unit: Unit) -> pa.Table:
    _, content, verdicts = unit
    rows = verdicts.to_pylist()
    checked = {(row["problem_id"], row["sample"]): row for row in rows if row["correct_lenient"]}
    if checked:
        if isinstance(content, Path):
            content = tables.open_table(content, tables.COMPLETIONS_SCHEMA, "leash sample").read(TEXT_COLUMNS)
        known: dict[tuple[str, str], Working] = {}  # samples of a problem repeat
        for problem_id, sample, text in zip(*(content[name].to_pylist() for name in TEXT_COLUMNS), strict=True):
            row = checked.get((problem_id, sample))
            if row is None:
                continue
            if (problem_id, text) not in known:
                known[problem_id, text] = _check(problems[problem_id], text, row)
            process, flaw = known[problem_id, text]
            row |= {"sound": SOUND_BY_PROCESS.get(process), "process": process, "flaw": flaw}
    return tables.table_from_rows(rows, tables.VERDICTS_SCHEMA)


def _check(problem: Problem, text: str, row: Mapping[str, Any]) -> Working:
    try:
        return check_working(problem, text, row["answer"] if row["candidate"] is None else row["candidate"])
    except Exception:  # the fault is the checker's: nothing is known of the working
        return Working("unchecked", None)

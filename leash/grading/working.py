"""Whether the working of correct completions is right, for units of completions.

In: the verdicts of a unit without the columns on the working, and its completions. Out: the same verdicts with
`sound`, `process` and `flaw` for completions that are correct under lenient reading; the others have no working worth
a check. What makes a working sound is decided in leash/grading/process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leash import tables
from leash.grading.process.checkers import Working, check_working
from leash.params.groups import Params
from leash.problems import Problem
from leash.scheduler.run import run_units
from leash.scheduler.worker_plan import plan_workers
from leash.verdict_files import CompletionsUnit

Content: TypeAlias = Path | pa.Table  # the completions of a unit, or the shard they are in
Work = tuple[tuple[CompletionsUnit, Content], pa.Table]  # and the verdicts of the unit
TEXT_COLUMNS = ["problem_id", "sample", "text"]
SOUND_BY_PROCESS = {"sound": True, "unsound": False}  # the others are not checkable


def open_shard(shard: Path) -> pq.ParquetFile:
    """Open a shard of completions whose checksum the stage has compared."""
    return tables.open_columns(shard, tables.COMPLETIONS_SCHEMA, "leash sample")


def attach_completions(params: Params, units: Iterable[CompletionsUnit]) -> Iterator[tuple[CompletionsUnit, Content]]:
    """Each unit with what workers on other machines get. Local workers read the shards themselves."""
    for unit in units:
        is_remote = params.run.on == "ray"
        yield unit, open_shard(unit.shard).read_row_group(unit.group) if is_remote else unit.shard.absolute()


def add_working(
    params: Params, problems: Mapping[str, Problem], verdicts: Iterable[tuple[CompletionsUnit, pa.Table]]
) -> Iterator[tuple[CompletionsUnit, pa.Table]]:
    """Yield each unit and its verdicts with the columns on the working, in the order in which they are checked."""
    failure: BaseException | None = None

    def graded_units() -> Iterator[tuple[CompletionsUnit, pa.Table]]:
        nonlocal failure
        try:
            yield from verdicts
        except GeneratorExit:
            raise
        except BaseException as error:  # the units that are graded by now are still checked, so that they are kept
            failure = error

    # On a cluster the workers that grade hold its resources until all is graded. Workers of a second kind beside them
    # would wait for ever, so they start only then.
    graded = list(graded_units()) if params.run.on == "ray" else graded_units()
    work = ((attached, table) for unit, table in graded for attached in attach_completions(params, [unit]))
    for ((unit, _), _), table in run_units(work, partial(dict, problems), check_unit, plan_workers(params)):
        yield unit, table
    if failure is not None:
        raise failure


def check_unit(problems: Mapping[str, Problem], work: Work) -> pa.Table:
    """The verdicts of a unit with the columns on the working."""
    (unit, content), verdicts = work
    correct = verdicts["correct_lenient"].fill_null(False)
    if not pc.any(correct).as_py():
        return verdicts
    if isinstance(content, Path):
        content = open_shard(content).read_row_group(unit.group, TEXT_COLUMNS)
    keys = ("problem_id", "sample")
    # The verdicts are in the order of the completions, but completions of unknown problems have none.
    texts = content.filter(pc.is_in(content["problem_id"], pa.array(list(problems)))).filter(correct)
    rows = verdicts.select([*keys, "answer", "candidate"]).filter(correct)
    if any(texts[name].cast(rows[name].type) != rows[name] for name in keys):
        raise ValueError("the completions of a unit are not those of its verdicts")
    known: dict[tuple[str, str], Working] = {}  # samples of a problem repeat
    found = []
    for row, text in zip(rows.to_pylist(), texts["text"].to_pylist(), strict=True):
        key = row["problem_id"], text
        if key not in known:
            answer = row["answer"] if row["candidate"] is None else row["candidate"]
            known[key] = _check(problems[row["problem_id"]], text, answer)
        found.append(known[key])
    places = pc.if_else(correct, pc.subtract(pc.cumulative_sum(correct.cast(pa.int64())), 1), None)
    columns = {
        "sound": [SOUND_BY_PROCESS.get(working.process) for working in found],
        "process": [working.process for working in found],
        "flaw": [working.flaw for working in found],
    }
    for name, values in columns.items():
        field = verdicts.schema.field(name)
        column = pa.array(values, field.type).take(places.combine_chunks())
        verdicts = verdicts.set_column(verdicts.schema.get_field_index(name), field, column)
    return verdicts


def _check(problem: Problem, text: str, answer: str | None) -> Working:
    try:
        return check_working(problem, text, answer)
    except Exception:  # the fault is the checker's: nothing is known of the working
        return Working("unchecked", None)

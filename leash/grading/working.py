"""Whether the working of correct completions is right, for shards of verdicts.

In: the verdicts of a shard without the columns on the working, and its completions. Out: the same verdicts with
`sound`, `process` and `flaw` for completions that are correct under lenient reading; the others have no working worth
a check. What makes a working sound is decided in leash/grading/process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

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

    failure: BaseException | None = None

    def graded_shards() -> Iterator[tuple[str, pa.Table]]:
        nonlocal failure
        try:
            yield from verdicts
        except GeneratorExit:
            raise
        except BaseException as error:  # the shards that are graded by now are still checked, so that they are kept
            failure = error

    def units(graded: Iterable[tuple[str, pa.Table]]) -> Iterator[Unit]:
        for name, table in graded:
            shard = path_of[name]
            content = tables.read(shard, tables.COMPLETIONS_SCHEMA, "leash sample") if remote else shard.resolve()
            yield name, content, table

    # On a cluster the workers that grade hold its resources until all is graded. Workers of a second kind beside them
    # would wait for ever, so they start only then.
    graded = list(graded_shards()) if remote else graded_shards()
    for (name, _, _), table in run_units(units(graded), partial(dict, problems), check_shard, plan_workers(params)):
        yield name, table
    if failure is not None:
        raise failure


def check_shard(problems: Mapping[str, Problem], unit: Unit) -> pa.Table:
    """The verdicts of a shard with the columns on the working."""
    _, content, verdicts = unit
    correct = verdicts["correct_lenient"].fill_null(False)
    if not pc.any(correct).as_py():
        return verdicts
    if isinstance(content, Path):
        content = tables.open_table(content, tables.COMPLETIONS_SCHEMA, "leash sample").read(TEXT_COLUMNS)
    keys = ("problem_id", "sample")
    # The verdicts are in the order of the completions, but completions of unknown problems have none.
    texts = content.filter(pc.is_in(content["problem_id"], pa.array(list(problems)))).filter(correct)
    rows = verdicts.select([*keys, "answer", "candidate"]).filter(correct)
    if any(texts[name].cast(rows[name].type) != rows[name] for name in keys):
        raise ValueError("the completions of a shard are not those of its verdicts")
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

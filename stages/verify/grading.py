"""Grading many answers: each once, by whoever does it best.

    for number, grade in grades(params, enumerate(asked), "math"): ...

Grades come as they finish: from a pool of processes on this machine, or from one process beside each worker of a Ray
cluster. A grader that takes all answers at once (`grade_all`) does so in this process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Literal, cast

from stages.params import Params
from stages.verify import graders
from stages.verify.graders import Asked, Grade
from stages.verify.pool import Pool
from stages.work import crew, spread

Numbered = tuple[int, Asked]
BATCH = 256  # answers in a unit of Ray's


class Answers:
    """Grading answers, as a pool's job. They have numbers, since equal ones may belong to several problems."""

    def done(self, item: Numbered) -> Grade:
        return graders.graded(item[1])

    def failed(self, item: Numbered, status: Literal["timeout", "error"]) -> Grade:
        return graders.unscored(item[1].answer, status)

    def seconds(self, item: Numbered, timeout: float) -> float:
        return graders.seconds(item[1].grader, item[1].gold, item[1].meta, timeout)

    def weight(self, item: Numbered) -> int:
        return len(item[1].answer)


def pool_of(names: Sequence[str], *, workers: int, timeout: float, memory: int) -> Pool[Numbered, Grade]:
    """A pool that grades answers with these graders."""
    return Pool(Answers(), workers=workers, timeout=timeout, memory=memory, preload=graders.heavy(names))


def grades(params: Params, asked: Iterable[Numbered], grader: str) -> Iterator[tuple[int, Grade]]:
    """Grade the answers of a grader, in whatever order they finish."""
    limits = {"timeout": params.verify.timeout, "memory": params.verify.memory}
    if at_once := graders.grade_all_of(grader):
        numbers, together = zip(*asked, strict=True)
        yield from zip(numbers, cast(Iterator[Grade], at_once(together, params.verify)), strict=True)
    elif params.run.on == "ray":
        prepare = partial(pool_of, [grader], workers=1, **limits)
        for _, finished in spread(_batches(asked), prepare, graded_batch, crew(params)):
            yield from finished
    else:
        with pool_of([grader], workers=params.run.workers, **limits) as pool:
            for (number, _), grade in pool.results(asked):
                yield number, grade


def graded_batch(pool: Pool[Numbered, Grade], batch: Sequence[Numbered]) -> list[tuple[int, Grade]]:
    return [(number, grade) for (number, _), grade in pool.results(batch)]


def _batches(asked: Iterable[Numbered]) -> Iterator[list[Numbered]]:
    numbered = iter(asked)
    while batch := list(islice(numbered, BATCH)):
        yield batch

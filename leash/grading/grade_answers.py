"""Grade many answers, and yield each grade as soon as it is there.

    for number, grade in grade_requests(params, enumerate(requests), "math"): ...

The work goes to a pool of processes on this machine, or to one process beside each worker of a Ray cluster. A grader
that grades all answers at once (`grade_all`) does so in this process. The caller removes duplicates.

`build_checker` grades completions while they are sampled, for budgets that stop after a number of hits.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import Literal, cast

from leash.grading.graders import registry, types
from leash.grading.graders.types import Grade, GradeRequest
from leash.grading.reading import read_answer
from leash.grading.worker_pool import Pool
from leash.params.groups import Params, Verify
from leash.problems import Problem
from leash.scheduler.run import run_units
from leash.scheduler.worker_plan import plan_workers

NumberedRequest = tuple[int, GradeRequest]
RAY_BATCH_ANSWERS = 256
MAX_CACHED_GRADES = 100_000


class AnswerGradingJob:
    """The pool's job. Requests carry a number because two problems may have equal answers."""

    def run(self, item: NumberedRequest) -> Grade:
        return registry.grade_request(item[1])

    def failure_result(self, item: NumberedRequest, status: Literal["timeout", "error"]) -> Grade:
        return types.unscored_grade(item[1].answer, status)

    def time_limit(self, item: NumberedRequest, timeout: float) -> float:
        return registry.grading_time_limit(item[1].grader, item[1].gold, item[1].meta, timeout)

    def weight(self, item: NumberedRequest) -> int:
        return len(item[1].answer)


def build_grade_request(problem: Problem, answer: str, verify: Verify) -> GradeRequest:
    # Programs run under the limits of this run, which are not part of the problem.
    limits = {"limits": verify.code.model_dump()} if problem["grader"] == "code" else {}
    meta, gold = problem["meta"] | limits, tuple(problem["gold"])
    return GradeRequest(problem["problem_id"], answer, gold, meta, problem["grader"])


def create_grading_pool(
    names: Sequence[str], *, workers: int, timeout: float, memory: int
) -> Pool[NumberedRequest, Grade]:
    """Create a pool that grades with the named graders. `timeout` is in seconds, `memory` in MB."""
    preload = registry.slow_imports(names)
    return Pool(AnswerGradingJob(), workers=workers, timeout=timeout, memory=memory, preload=preload)


def grade_requests(params: Params, requests: Iterable[NumberedRequest], grader: str) -> Iterator[tuple[int, Grade]]:
    """Grade the requests of one grader, and yield (number, grade) in the order they finish."""
    limits = {"timeout": params.verify.timeout, "memory": params.verify.memory}
    if grade_all := registry.get_grade_all(grader):
        numbers, unnumbered = zip(*requests, strict=True)
        yield from zip(numbers, cast(Iterator[Grade], grade_all(unnumbered, params.verify)), strict=True)
    elif params.run.on == "ray":
        # The Ray worker itself must survive whatever an answer does, so it grades in a process of its own.
        prepare = partial(create_grading_pool, [grader], workers=1, **limits)
        remaining = iter(requests)
        batches = iter(lambda: list(islice(remaining, RAY_BATCH_ANSWERS)), [])
        for _, graded in run_units(batches, prepare, grade_batch, plan_workers(params)):
            yield from graded
    else:
        with create_grading_pool([grader], workers=params.run.workers, **limits) as pool:
            yield from ((number, grade) for (number, _), grade in pool.results(requests))


def grade_batch(pool: Pool[NumberedRequest, Grade], batch: Sequence[NumberedRequest]) -> list[tuple[int, Grade]]:
    return [(number, grade) for (number, _), grade in pool.results(batch)]


def build_checker(problems: Mapping[str, Problem], verify: Verify) -> Callable[[str, str, str], bool]:
    """Build `check(problem_id, text, finish)`, which says whether a completion is correct by the chosen reading. It
    grades each distinct answer once, in a separate process that ends with the checker."""
    graders = registry.require_graders({problem["grader"] for problem in problems.values()})
    pool = create_grading_pool(graders, workers=1, timeout=verify.timeout, memory=verify.memory)

    @lru_cache(maxsize=MAX_CACHED_GRADES)
    def is_correct(problem_id: str, answer: str) -> bool:
        request = build_grade_request(problems[problem_id], answer, verify)
        grade_all = registry.get_grade_all(request.grader)
        grade = next(grade_all([request], verify)) if grade_all else pool.result((0, request))
        return grade["correct"] is True

    def check(problem_id: str, text: str, finish: str) -> bool:
        answer = read_answer(text, problems[problem_id]["grader"], finish).chosen(verify.reading)
        return answer is not None and is_correct(problem_id, answer)

    # Callers only know a function, so nobody closes the pool: it closes when the function is no longer used.
    weakref.finalize(check, pool.close)
    return check

"""Grade completions while they are sampled, for budgets that stop after a number of hits."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from functools import lru_cache

from leash.grading.grade_answers import build_grade_request, create_grading_pool
from leash.grading.graders import registry
from leash.params.groups import Verify
from leash.problems import Problem

MAX_CACHED_GRADES = 100_000


def build_checker(problems: Mapping[str, Problem], verify: Verify) -> Callable[[str, str], bool]:
    """Build `check(problem_id, text)`, which says whether a text is correct. It grades each distinct answer once, in a
    separate process that ends with the checker."""
    graders = registry.require_graders({problem["grader"] for problem in problems.values()})
    pool = create_grading_pool(graders, workers=1, timeout=verify.timeout, memory=verify.memory)

    @lru_cache(maxsize=MAX_CACHED_GRADES)
    def is_correct(problem_id: str, answer: str) -> bool:
        request = build_grade_request(problems[problem_id], answer, verify)
        grade_all = registry.get_grade_all(request.grader)
        grade = next(grade_all([request], verify)) if grade_all else pool.result((0, request))
        return grade["correct"] is True

    def check(problem_id: str, text: str) -> bool:
        answer = registry.get_extractor(problems[problem_id]["grader"])(text)
        return answer is not None and is_correct(problem_id, answer)

    # Callers only know a function, so nobody closes the pool: it closes when the function is no longer used.
    weakref.finalize(check, pool.close)
    return check

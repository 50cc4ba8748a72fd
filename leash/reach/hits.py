"""Which rollouts are correct, by the run's reading. Every distinct answer to a problem is graded once, in parallel.

A rollout that cannot be graded (a timeout, say) is no hit: a lower bound stays one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leash.grading.grade_answers import build_grade_request, grade_requests
from leash.grading.reading import read_answer
from leash.params.groups import Params
from leash.problems import Problem

Answer = tuple[str, str]  # problem, answer


class HitChecker:
    """Grades rollouts of a data set, and remembers the grades."""

    def __init__(self, params: Params, problems: Mapping[str, Problem]) -> None:
        self._params, self._problems = params, problems
        self._grades: dict[Answer, bool] = {}

    def answer(self, problem_id: str, text: str, finish: str) -> str | None:
        """The answer that the reading finds."""
        grader = self._problems[problem_id]["grader"]
        try:
            return read_answer(text, grader, finish).chosen(self._params.verify.reading)
        except Exception:  # the extractor's fault, as in leash/grading/verification.py: not scored
            return None

    def are_correct(self, answers: Sequence[Answer]) -> list[bool]:
        by_grader: dict[str, list[Answer]] = {}
        for problem, answer in dict.fromkeys(answers):
            if (problem, answer) not in self._grades:
                by_grader.setdefault(self._problems[problem]["grader"], []).append((problem, answer))
        for grader, ungraded in by_grader.items():
            requests = (
                (number, build_grade_request(self._problems[problem], answer, self._params.verify))
                for number, (problem, answer) in enumerate(ungraded)
            )
            for number, grade in grade_requests(self._params, requests, grader):
                self._grades[ungraded[number]] = grade["correct"] is True
        return [self._grades[answer] for answer in answers]

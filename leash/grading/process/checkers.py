"""Choose the checker of a problem's working.

    check_working(problem, "12 + 5 = 16 , 16 - 3 = 14 , \\boxed{ 14 }", "14")  ->  Working("unsound", "12 + 5 = 16")

    sound      every step or equation that could be checked is true, and there is at least one
    unsound    a step or equation is false; `flaw` is its text
    direct     the completion has no working, only an answer
    unchecked  there is working, but nothing in it that a checker of Leash can check

Whether the answer is correct is not the question here: the caller checks the working of correct completions.
"""

from __future__ import annotations

from leash.grading.process.equations import check_equations
from leash.grading.process.steps import check_steps, is_embedded
from leash.grading.process.working import Process, Working
from leash.grading.run_on import cut_run_on
from leash.problems import Problem

__all__ = ["CHECKERS", "Process", "Working", "check_working", "checker_name"]

CHECKERS = ("steps", "equations", "none")
# Graders of answers whose working may be mathematics in any text. Programs (`code`) are not working, and what a user's
# own grader (`mine:score`) asks for is unknown.
TEXT_GRADERS = frozenset(["math", "numeric", "choice", "exact", "gym", "livebench", "judge", "make"])


def checker_name(problem: Problem) -> str:
    """Name the checker of a problem: steps (the embedded tasks), equations (any text with mathematics) or none."""
    if is_embedded(problem):
        return "steps"
    return "equations" if problem["grader"] in TEXT_GRADERS else "none"


def check_working(problem: Problem, text: str, answer: str | None) -> Working:
    """Check the working that a completion shows. `answer` is the answer that it was graded by. As for the answer, what
    follows a question that the model invents does not count."""
    name = checker_name(problem)
    if name == "none":
        return Working("unchecked")
    text = cut_run_on(text)
    if name == "steps" and (working := check_steps(problem, text, answer)):
        return working
    return check_equations(text, answer, problem["question"])

"""The two readings of a completion: in the form that was asked for (strict), or in any form (lenient).

    read_answer(r"so \boxed{5}", "math", "stop")        ->  Reading("5", is_candidate=False)
    read_answer("That makes 5 apples.", "math", "stop") ->  Reading("5", is_candidate=True)

Lenient reading is strict reading, or else the last candidate answer of the final reply (lenient.py). So both readings
of a text have one answer between them, and each answer is graded once. What the finish of a text says about an answer
in it stands in leash/finish.py. If nobody recorded it, only a text that looks finished (ending.py) has a candidate: the
last number of a text that was cut off is not its answer.
"""

from __future__ import annotations

from typing import NamedTuple

from leash.finish import CUT_IN_THOUGHT, LOST, has_ended, has_failed, was_cut_off
from leash.grading.ending import looks_finished
from leash.grading.graders import registry
from leash.grading.lenient import find_candidate


class Reading(NamedTuple):
    """The answer that lenient reading finds. Strict reading finds the same, or none if it is a candidate."""

    answer: str | None
    is_candidate: bool = False

    @property
    def strict(self) -> str | None:
        return None if self.is_candidate else self.answer

    def chosen(self, reading: str) -> str | None:
        return self.answer if reading == "lenient" else self.strict


def read_answer(text: str, grader: str, finish: str) -> Reading:
    if has_failed(finish) or finish in (CUT_IN_THOUGHT, LOST):
        return Reading(None)
    if (answer := registry.get_extractor(grader)(text)) is not None:
        return Reading(answer)
    is_finished = has_ended(finish) or (not was_cut_off(finish) and looks_finished(text))
    candidate = find_candidate(text, grader) if is_finished else None
    return Reading(candidate, is_candidate=candidate is not None)

"""The types that graders share: a request, a grade, the grader protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

from leash.errors import LeashError
from leash.finish import has_failed, was_cut_off

if TYPE_CHECKING:
    from leash.params.groups import Verify


class Grade(TypedDict):
    """An answer's part of a verdict. `correct` and `score` are None if the answer could not be graded."""

    answer_class: str | None
    correct: bool | None
    score: float | None
    status: str


@dataclass(frozen=True)
class GradeRequest:
    problem_id: str
    answer: str
    gold: tuple[str, ...]
    meta: Mapping[str, Any]
    grader: str = "exact"


class Grader(Protocol):
    def grade(self, answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float: ...

    def canonical(self, answer: str, meta: Mapping[str, Any]) -> str: ...


GradeAll = Callable[[Sequence[GradeRequest], "Verify"], Iterator[Mapping[str, Any]]]


class BatchOnlyGraderError(LeashError):
    """A grader that grades all answers together was given a single one."""

    def __init__(self, grader: str) -> None:
        self.grader = grader
        super().__init__(
            f"The grader {grader} queries a model that costs money, for many answers together and after showing the "
            f"cost. Use it with `leash verify`."
        )


def unscored_grade(answer: str, status: Literal["timeout", "error"]) -> Grade:
    """The grade of an answer that could not be graded: neither correct nor wrong."""
    return {"answer_class": replace_surrogates(answer), "correct": None, "score": None, "status": status}


def no_answer_grade(finish: str) -> Grade:
    """The grade of a completion without an answer: wrong, and the status tells a truncated text from a finished one; or
    not scored, if the server ended it."""
    if has_failed(finish):
        return {"answer_class": None, "correct": None, "score": None, "status": "error"}
    status = "truncated" if was_cut_off(finish) else "no_answer"
    return {"answer_class": None, "correct": False, "score": 0.0, "status": status}


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which no table can store, by question marks."""
    return text.encode("utf-8", "replace").decode()

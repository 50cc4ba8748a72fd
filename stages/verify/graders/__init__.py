"""Graders: is this answer right? One file each, or a function of your own by its import path.

A grader is a module with `grade(answer, gold, meta)`, the score in [0, 1] where 1 is right, and `canonical(answer,
meta)`, one spelling for all answers that mean the same. It may also have

    extract(text)         where the answer is not the usual one of extract.py
    complaint(gold, meta) what is wrong with a problem's gold, as half a sentence, or None
    seconds(gold, meta)   the most time an answer may take, where that is more than usual
    grade_all(asked, verify)  for one that grades many answers at once, in order, in the process that runs the stage
    missing()             what this machine lacks for it, as a sentence, or None
    PAID = True           where calling it costs money

    load("exact").grade("7", ["7"], {})  ->  1.0
    load("mine:score")                   ->  a grader by the function `score` of mine.py in the project's folder
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, cast

from stages import disk
from stages.errors import LeashError
from stages.verify.extract import extract as usual_extract

if TYPE_CHECKING:
    from stages.params import Verify

NAMES = sorted(file.stem for file in Path(__file__).parent.glob("*.py") if file.stem != "__init__")

# What a grader stands on: another version of one of these may be another verdict. The first is what takes long to
# import.
LIBRARIES = {
    "math": ("math_verify", "latex2sympy2_extended", "sympy", "mpmath"),
    "gym": ("reasoning_gym", "latex2sympy2_extended", "sympy"),
}


class Grade(TypedDict):
    """An answer's part of a verdict."""

    answer_class: str | None
    correct: bool | None
    score: float | None
    status: str


@dataclass(frozen=True)
class Asked:
    """An answer that someone wants graded, with all that it takes."""

    problem_id: str
    answer: str
    gold: tuple[str, ...]
    meta: Mapping[str, Any]
    grader: str = "exact"


class Grader(Protocol):
    def grade(self, answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float: ...

    def canonical(self, answer: str, meta: Mapping[str, Any]) -> str: ...


@dataclass(frozen=True)
class Own:
    """A user's own grader: one function, and answers that mean the same only where they read the same."""

    function: Callable[[str, Sequence[str], Mapping[str, Any]], float]

    def grade(self, answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
        return self.function(answer, gold, meta)

    def canonical(self, answer: str, meta: Mapping[str, Any]) -> str:
        return " ".join(answer.split())


GradeAll = Callable[[Sequence[Asked], "Verify"], Iterator[Mapping[str, Any]]]


def load(name: str) -> Grader:
    if ":" in name:
        return _own(name)
    if name not in NAMES:
        raise LeashError(
            f"There is no grader {name}; there are {', '.join(NAMES)}, and functions of your own as module:function."
        )
    return cast(Grader, import_module(f"{__name__}.{name}"))


def ready(names: Iterable[str]) -> list[str]:
    """These graders, in order, if this machine has what they need (`missing()` gives a sentence where it has not)."""
    for name in sorted(names):
        if (missing := getattr(load(name), "missing", None)) and (complaint := missing()):
            raise LeashError(complaint)
    return sorted(names)


def extract_for(name: str) -> Callable[[str], str | None]:
    """How this grader's answers are read from a text."""
    return getattr(load(name), "extract", None) or usual_extract


def complaint(name: str, gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    """What is wrong with a problem's gold for this grader, as half a sentence."""
    asked: Callable[[Sequence[str], Mapping[str, Any]], str | None] | None = getattr(load(name), "complaint", None)
    return asked(gold, meta) if asked else None


def seconds(name: str, gold: Sequence[str], meta: Mapping[str, Any], timeout: float) -> float:
    """How long an answer may take: the timeout, or longer where the grader says so."""
    asked: Callable[[Sequence[str], Mapping[str, Any]], float | None] | None = getattr(load(name), "seconds", None)
    return max(timeout, (asked(gold, meta) if asked else None) or 0)


def grade_all_of(name: str) -> GradeAll | None:
    """The function of a grader that takes all answers at once, if it is one."""
    return getattr(load(name), "grade_all", None)


def costs_money(name: str) -> bool:
    """Whether a grader says so of itself (`PAID = True`): such a one is not called without being asked for."""
    return bool(getattr(load(name), "PAID", False))


def takes_long(name: str) -> bool:
    """Whether an answer may take more than the usual time: a program has to be run."""
    return hasattr(load(name), "seconds")


def graded(asked: Asked) -> Grade:
    """An answer's grade. What fails is not scored, which is not wrong."""
    grader = load(asked.grader)
    score = float(grader.grade(asked.answer, asked.gold, asked.meta))
    if not 0 <= score <= 1:  # also where it is not a number
        raise ValueError(f"a score must be between 0 and 1, not {score}")
    threshold = asked.meta.get("threshold")
    return {
        "answer_class": storable(grader.canonical(asked.answer, asked.meta)),
        "correct": score >= (1 if threshold is None else threshold),
        "score": score,
        "status": "ok",
    }


def unscored(answer: str, status: Literal["timeout", "error"]) -> Grade:
    """The grade of an answer that nobody could grade: neither right nor wrong."""
    return {"answer_class": storable(answer), "correct": None, "score": None, "status": status}


def unanswered(finish: str) -> Grade:
    """No answer is wrong; whether the text was cut off or ended without one is kept apart."""
    status = "truncated" if finish == "length" else "no_answer"
    return {"answer_class": None, "correct": False, "score": 0.0, "status": status}


def storable(text: str) -> str:
    """A text that a table can hold: half a character (a lone surrogate) becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def heavy(names: Sequence[str]) -> tuple[str, ...]:
    """The modules that these graders take long to import: once is enough for many processes."""
    return tuple(dict.fromkeys(LIBRARIES[name][0] for name in names if name in LIBRARIES))


def identity(names: Sequence[str]) -> str:
    """Changes with the libraries under these graders, and with the code of a user's own."""
    libraries = sorted({library for name in names for library in LIBRARIES.get(name, ())})
    own = [disk.file_hash(file) for name in sorted(names) if ":" in name and (file := _file_of(name))]
    return disk.hash_of(*(f"{library} {_version(library)}" for library in libraries), *own)


def own_file(name: str) -> Path | None:
    """The file in this folder that holds a user's own grader (`mine:score` -> mine.py); None for a grader of ours or
    one from an installed package. The file is not imported."""
    if ":" not in name:
        return None
    module = Path(*name.partition(":")[0].split("."))
    places = (module.with_suffix(".py"), module / "__init__.py")
    return next((place for place in places if place.is_file()), None)


def _version(library: str) -> str:
    try:
        return version(library.replace("_", "-"))
    except PackageNotFoundError:
        return "none"


@cache
def _own(path: str) -> Own:
    """The grader at `package.module:function`, where the project's folder is a place to import from."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module, _, name = path.partition(":")
    try:
        function = getattr(import_module(module), name, None)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise LeashError(f"The grader {path} can't be imported ({said}); correct the module or its name.") from None
    if not callable(function):
        raise LeashError(f"The grader {path} can't be imported: {module} has no function {name}; correct the name.")
    return Own(function)


def _file_of(path: str) -> Path | None:
    load(path)
    file = getattr(sys.modules[path.partition(":")[0]], "__file__", None)
    return Path(file) if file else None

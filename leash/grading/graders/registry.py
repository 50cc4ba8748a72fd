"""Find a grader by its name, and call it with its defaults filled in.

A grader is a module of this package with `grade(answer, gold, meta)`, a score in [0, 1] where 1 is correct, and
`canonical(answer, meta)`, one spelling for all answers that mean the same. It may also define

    extract(text)             how to find the answer in a text; default: leash.grading.extraction
    complaint(gold, meta)     what is wrong with a problem's gold, as half a sentence, or None
    seconds(gold, meta)       the time that grading one answer may take, if that is more than `verify.timeout`
    grade_all(requests, verify)  grades many answers at once, in order, in the process that runs the stage
    missing()                 what this machine lacks for the grader, as a sentence, or None
    PAID = True               if calling the grader costs money

    load_grader("exact").grade("7", ["7"], {})  ->  1.0
    load_grader("mine:score")                   ->  a grader that calls `score` of mine.py beside params.yaml
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from leash import atomic_io
from leash.errors import LeashError
from leash.grading import extraction
from leash.grading.graders.types import Grade, GradeAll, Grader, GradeRequest, replace_surrogates

CUSTOM_GRADER_PATTERN = re.compile(r"([A-Za-z_]\w*):([A-Za-z_]\w*)", re.ASCII)
NOT_GRADERS = {"__init__", "registry", "types"}
GRADER_NAMES = sorted({file.stem for file in Path(__file__).parent.glob("*.py")} - NOT_GRADERS)
# Another version of one of these libraries may give other verdicts. The first of each takes long to import.
GRADER_LIBRARIES = {
    "math": ("math_verify", "latex2sympy2_extended", "sympy", "mpmath"),
    "gym": ("reasoning_gym", "latex2sympy2_extended", "sympy"),
}


class UnknownGraderError(LeashError):
    def __init__(self, name: str) -> None:
        self.name, self.known = name, tuple(GRADER_NAMES)
        super().__init__(
            f"There is no grader {name}. Choose one of: {', '.join(GRADER_NAMES)}; or name the function `score` in "
            f"your mine.py as mine:score."
        )


class GraderImportError(LeashError):
    """A user's own grader is not a function in a file beside params.yaml, or the file cannot be run."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(
            f"Cannot use the grader {name}: {reason}. Write a grader of your own into a file beside params.yaml: "
            f"mine:score is the function `score` in mine.py."
        )


class UnusableGraderError(LeashError):
    """This machine lacks something that a grader needs. `reason` is the sentence of the grader's `missing()`."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason
        super().__init__(reason)


def load_grader(name: str) -> Grader:
    if ":" in name:
        return _load_custom_grader(name)
    if name not in GRADER_NAMES:
        raise UnknownGraderError(name)
    return _import_grader(name)


@cache  # it is looked up for every completion
def _import_grader(name: str) -> Grader:
    return cast(Grader, import_module(f"{__package__}.{name}"))


def require_graders(names: Iterable[str]) -> list[str]:
    """Return the names sorted, or raise if this machine lacks what one of the graders needs."""
    for name in sorted(names):
        if (missing := getattr(load_grader(name), "missing", None)) and (reason := missing()):
            raise UnusableGraderError(name, reason)
    return sorted(names)


def get_extractor(name: str) -> Callable[[str], str | None]:
    return getattr(load_grader(name), "extract", None) or extraction.extract


def gold_complaint(name: str, gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    """Say what is wrong with a problem's gold for this grader, as half a sentence; None if it is fine."""
    complaint: Callable[..., str | None] | None = getattr(load_grader(name), "complaint", None)
    return complaint(gold, meta) if complaint else None


def grading_time_limit(name: str, gold: Sequence[str], meta: Mapping[str, Any], timeout: float) -> float:
    """The seconds that grading an answer may take: `timeout`, or more if the grader needs more."""
    seconds: Callable[..., float | None] | None = getattr(load_grader(name), "seconds", None)
    return max(timeout, (seconds(gold, meta) if seconds else None) or 0)


def get_grade_all(name: str) -> GradeAll | None:
    return getattr(load_grader(name), "grade_all", None)


def is_paid(name: str) -> bool:
    """Whether calling the grader costs money (`PAID = True`). Such a grader runs only if the user allows it."""
    return bool(getattr(load_grader(name), "PAID", False))


def is_slow(name: str) -> bool:
    """Whether an answer may take longer than `verify.timeout`, for example because a program must run."""
    return hasattr(load_grader(name), "seconds")


def grade_request(request: GradeRequest) -> Grade:
    """Grade one answer. It is correct if its score is at least `meta["threshold"]` (default 1)."""
    grader = load_grader(request.grader)
    score = float(grader.grade(request.answer, request.gold, request.meta))
    if not 0 <= score <= 1:  # also refuses NaN
        raise ValueError(f"a score must be between 0 and 1, not {score}")
    threshold = request.meta.get("threshold")
    return {
        "answer_class": replace_surrogates(grader.canonical(request.answer, request.meta)),
        "correct": score >= (1 if threshold is None else threshold),
        "score": score,
        "status": "ok",
    }


def slow_imports(names: Sequence[str]) -> tuple[str, ...]:
    """The modules that these graders take long to import, so that many processes can share one import."""
    return tuple(dict.fromkeys(GRADER_LIBRARIES[name][0] for name in names if name in GRADER_LIBRARIES))


def dependency_fingerprint(names: Sequence[str]) -> str:
    """A hash of the versions of the libraries that these graders use, and of the code of custom graders."""
    versions = []
    for library in sorted({library for name in names for library in GRADER_LIBRARIES.get(name, ())}):
        try:
            versions.append(f"{library} {version(library.replace('_', '-'))}")
        except PackageNotFoundError:
            versions.append(f"{library} none")
    code = []
    for name in sorted(name for name in names if ":" in name):
        load_grader(name)
        code.append(atomic_io.file_hash(find_grader_file(name)))
    return atomic_io.hash_strings(*versions, *code)


def find_grader_file(name: str) -> Path:
    """The file beside params.yaml that holds a custom grader (mine:score -> mine.py), found without importing it. No
    other code can be named: a stranger's params.yaml could choose any function of an installed package."""
    if not (match := CUSTOM_GRADER_PATTERN.fullmatch(name)):
        raise GraderImportError(name, "it has not the form file:function")
    file = Path(f"{match[1]}.py")
    if not file.is_file():
        raise GraderImportError(name, f"there is no {file} beside params.yaml")
    if not file.resolve().is_relative_to(Path.cwd().resolve()):
        raise GraderImportError(name, f"{file} is a link that leads out of the project's folder")
    return file


def _load_custom_grader(name: str) -> Grader:
    return _load_function(name, find_grader_file(name).resolve())


@cache
def _load_function(name: str, file: Path) -> Grader:
    """Run the file and take the function, which must be its own and not one that it imports."""
    # For what the file itself imports. `leash` is an installed command: Python does not add the working directory.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    function_name = name.partition(":")[2]
    # By its path and under a name of its own: an installed module may have the same name.
    spec = spec_from_file_location(f"leash_grader_{file.stem}", file)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise GraderImportError(name, f"{type(error).__name__}: {error}") from None
    function = getattr(module, function_name, None)
    if not callable(function) or getattr(function, "__module__", None) != spec.name:
        raise GraderImportError(name, f"{file.name} defines no function {function_name}")
    # Two answers are the same only if they read the same, white space aside.
    return cast(Grader, SimpleNamespace(grade=function, canonical=load_grader("exact").canonical))

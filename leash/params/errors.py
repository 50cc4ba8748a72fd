"""Errors about a parameter file. None of them shows a value that may be an API key.

`ParamError` is the base of all errors about one parameter: `key` says which (`sample.k`), `path` in which file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from leash.errors import LeashError

KEY_VARIABLE_ADVICE = (
    "must be the name of an environment variable in capitals, such as OPENAI_API_KEY, and never a key itself; export "
    "the key under such a name, and write the name here."
)


class MissingParamsFileError(LeashError):
    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(f"There is no {path} here: run leash in the folder that holds it.")


class BadParamsFileError(LeashError):
    """A file that holds no parameters at all. `reason` completes "{path} …"."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{path} {reason}.")


class ParamError(LeashError):
    """`problem` completes "`{key}` …". `load` sets `path` if the file is not params.yaml."""

    def __init__(self, key: str, problem: str) -> None:
        self.path, self.key, self.problem = Path("params.yaml"), key, problem
        super().__init__(key, problem)

    def __str__(self) -> str:
        return f"{self.path}: `{self.key}` {self.problem}"


class UnknownKeyError(ParamError):
    def __init__(self, key: str) -> None:
        super().__init__(key, "is not a parameter; is it misspelt? Correct it or remove it.")


class MissingKeyError(ParamError):
    def __init__(self, key: str, remedy: str = "add it") -> None:
        super().__init__(key, f"is missing; {remedy}.")


class BadValueError(ParamError):
    """`value` and `expected` are texts: the value as YAML or Python writes it, shortened and without API keys."""

    def __init__(self, key: str, value: str, expected: str) -> None:
        self.value, self.expected = value, expected
        super().__init__(key, f"is {value}, but should be {expected}.")


class BadNameError(ParamError):
    def __init__(self, key: str, name: str) -> None:
        self.name = name
        super().__init__(
            key,
            f"can't have the name {name}: names become folders and have letters, digits, single dots, dashes and "
            f"underscores; choose another.",
        )


class BadListError(ParamError):
    """A list of `run` names something that does not exist, is not in the run, or is named twice."""

    def __init__(self, key: str, name: str, problem: str) -> None:
        self.name = name
        super().__init__(key, f"names {name}{problem}.")


class MissingSourceError(ParamError):
    """A model or data set that does not say where to find it."""


class ConflictError(ParamError):
    """A value that another parameter rules out. `limit` is the largest or smallest value that fits."""

    def __init__(self, key: str, value: int, limit: int, reason: str) -> None:
        self.value, self.limit = value, limit
        super().__init__(key, f"is {value}, but {reason}.")


class UnnamedStageError(LeashError):
    """A command names no model (for fetch: no data set), and DVC does not run it for one of this run. `known` are the
    names that it can have."""

    def __init__(self, command: str, known: Sequence[str]) -> None:
        self.command, self.known = command, tuple(known)
        what = "data set" if command == "fetch" else "model"
        example = next(iter(self.known), "NAME")
        super().__init__(f"`leash {command}` needs a {what} of this run: for example `leash {command} {example}`.")


class NotInParamsError(LeashError):
    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        super().__init__(f"There is no {kind} {name} in params.yaml; its {kind}s are {', '.join(self.known)}.")

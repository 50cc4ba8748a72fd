"""Errors that a user can fix: one sentence that says what is wrong, where, and what to do.

Each kind of error is a class with its facts as attributes, so that callers and tests match the class and the facts, not
the sentence. Kinds that several packages raise are here. Every other kind is beside the code that raises it:

    class MissingCompletionsError(LeashError):
        def __init__(self, model: str, dataset: str) -> None:
            self.model, self.dataset = model, dataset
            super().__init__(f"Missing completions for {model} on {dataset}. ...")
"""

from __future__ import annotations

import copyreg
import signal
from collections.abc import Iterable


class LeashError(Exception):
    """The command line prints it as one sentence and exits with code 2."""

    def __reduce__(self) -> tuple[object, ...]:
        # Worker processes pickle their errors. By default, unpickling calls `__init__` with the sentence instead of the
        # facts, fails, and takes the whole pool down.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class MissingCompletionsError(LeashError):
    def __init__(self, model: str, dataset: str) -> None:
        self.model, self.dataset = model, dataset
        super().__init__(
            f"Missing completions for {model} on {dataset}, which this stage must read. Get them with `leash pull "
            f"everything`, or draw them with `leash sample {model} {dataset}`."
        )


class MissingVerdictsError(LeashError):
    def __init__(self, model: str, dataset: str) -> None:
        self.model, self.dataset = model, dataset
        super().__init__(
            f"Missing verdicts for {model} on {dataset}. Make them with `leash verify {model} {dataset}`, or get them "
            f"with `leash pull verdicts`."
        )


class NotInstalledError(LeashError):
    """A package or program that this run needs is not installed. `install` is the command that installs it."""

    def __init__(self, what: str, install: str, otherwise: str = "") -> None:
        self.what, self.install = what, install
        alternative = f", or {otherwise}" if otherwise else ""
        super().__init__(f"{what} is not installed. Install it with {install}{alternative}.")


class UnknownNameError(LeashError):
    """A name that is not among the known ones. `where` says where it was given."""

    def __init__(self, where: str, name: str, known: Iterable[str]) -> None:
        self.where, self.name, self.known = where, name, tuple(known)
        super().__init__(f"{where} is {name}, which is unknown. Choose one of: {', '.join(self.known)}.")


class UnsupportedDtypeError(LeashError):
    def __init__(self, model: str, dtype: str) -> None:
        self.model, self.dtype = model, dtype
        super().__init__(f"`models.{model}.dtype` is {dtype}, which vLLM does not have. Set it to float32 or bfloat16.")


class Terminated(BaseException):
    """The process received SIGTERM. It is not an Exception, so that only the command line catches it."""


def first_line(error: BaseException) -> str:
    """The first line of a library's error without its full stop, or the error's class if its text is empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def describe_exit(code: int) -> str:
    """Describe how a process ended: "was killed by SIGKILL (…)" or "ended with exit code 3"."""
    if code >= 0:
        return f"ended with exit code {code}"
    # Python reports a signal as its negative number.
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hints = {
        "SIGKILL": " (probably because the machine ran out of memory)",
        "SIGILL": " (illegal instruction: this CPU refuses something that the program uses)",
    }
    return f"was killed by {name}{hints.get(name, '')}"

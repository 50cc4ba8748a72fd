"""The one kind of error a user meets: a sentence that says what is wrong, where, and what to do."""

import signal


class LeashError(Exception):
    """Shown as one sentence; the command ends with exit code 2."""


class Stopped(BaseException):
    """The machine wants its place back (SIGTERM). Not an Exception: nobody but the command line catches it."""


def first_line(error: BaseException) -> str:
    """What a library's error says, for a sentence: its first line without a full stop, or its kind where it says
    nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def describe_exit(code: int) -> str:
    """How a process ended, by its exit code in Python: "was killed by SIGKILL (…)", "ended with exit code 3"."""
    if code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hints = {
        "SIGKILL": " (probably because the machine ran out of memory)",
        "SIGILL": " (illegal instruction: this CPU refuses something that the program uses)",
    }
    return f"was killed by {name}{hints.get(name, '')}"

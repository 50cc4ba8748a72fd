"""The one kind of error a user meets: a sentence that says what is wrong, where, and what to do."""


class LeashError(Exception):
    """Shown as one sentence; the command ends with exit code 2."""


class Stopped(BaseException):
    """The machine wants its place back (SIGTERM). Not an Exception: nobody but the command line catches it."""


def first_line(error: BaseException) -> str:
    """What a library's error says, for a sentence: its first line without a full stop, or its kind where it says
    nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")

"""The one kind of error a user meets: a sentence that says what is wrong, where, and what to do."""


class LeashError(Exception):
    """Shown as one sentence; the command ends with exit code 2."""


class Stopped(BaseException):
    """The machine wants its place back (SIGTERM). Not an Exception: nobody but the command line catches it."""

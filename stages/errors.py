"""The one kind of error a user meets: a sentence that says what is wrong, where, and what to do."""


class LeashError(Exception):
    """Shown as one sentence; the command ends with exit code 2."""

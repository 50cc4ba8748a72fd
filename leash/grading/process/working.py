"""The result of a check of the working."""

from __future__ import annotations

from typing import Literal, NamedTuple

Process = Literal["sound", "unsound", "direct", "unchecked"]
MAX_FLAW_CHARS = 160


class Working(NamedTuple):
    """`flaw` is the false equation or step, in the completion's own words; None unless `process` is unsound."""

    process: Process
    flaw: str | None = None


def unsound(flaw: str) -> Working:
    flaw = " ".join(flaw.split())
    return Working("unsound", flaw if len(flaw) <= MAX_FLAW_CHARS else flaw[: MAX_FLAW_CHARS - 1] + "…")

"""Placeholder until the checkers are merged."""

from __future__ import annotations

import re
from typing import NamedTuple

from leash.problems import Problem


class Working(NamedTuple):
    process: str
    flaw: str | None = None


STEP = re.compile(r"(\d+) ([-+*]) (\d+) = (\d+)")


def check_working(problem: Problem, text: str, answer: str | None) -> Working:
    steps = STEP.findall(text)
    if not steps:
        return Working("direct")
    last = None
    for a, o, b, r in steps:
        true = {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[o]
        if true != int(r) or (last is not None and last != a):
            return Working("unsound", f"{a} {o} {b} = {r}")
        last = r
    return Working("sound")

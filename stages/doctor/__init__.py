"""doctor: what this machine can run, and what is missing with the command that installs it.

In:  this machine (machine.py) and, where there is one, `params.yaml` (needs.py).
Out: lines for people: a mark, what was looked for, and what was found or what to do.

    ok       Reasoning Gym  0.1.25
    no       vLLM           samples large models: `pip install 'leash[vllm]'`     nobody here asks for it
    missing  base           The engine vllm is not installed; install it with …   this run can't go without it

Nothing is written and nothing asked of the network.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stages import params as parameters
from stages.errors import LeashError

Mark = Literal["ok", "no", "missing"]
USUAL = Path("params.yaml")
MARKS = len("missing")
GAP = "  "
NARROWEST = 30  # columns for what was found, however long the names and small the window
SPAN = re.compile(r"`[^`]*`")
WAY = re.compile(r"(?:pip|apt) install (?:'[^']*'|\S+\b)")


@dataclass(frozen=True)
class Line:
    mark: Mark
    what: str
    found: str


@dataclass(frozen=True)
class Section:
    title: str
    lines: Sequence[Line]


def examine(file: Path) -> list[Section]:
    """Look at the machine, and at what the run of a parameter file needs of it."""
    from stages.doctor.machine import machine

    return [Section("This machine", machine()), Section(f"This run ({file})", _of_run(file))]


def _of_run(file: Path) -> list[Line]:
    from stages.doctor.needs import needs

    if file == USUAL and not file.exists():
        return [Line("no", "parameters", "there is no params.yaml in this folder, so there is no run to look at")]
    try:
        return needs(parameters.load(file))
    except LeashError as error:
        return [Line("missing", "parameters", str(error))]


def rows(sections: Sequence[Section], width: int) -> Iterator[str]:
    """The lines as they are printed, the columns of all sections aligned."""
    names = max(len(line.what) for section in sections for line in section.lines)
    for section in sections:
        yield section.title
        for line in section.lines:
            yield from _rows(line, names, width)
        yield ""


def _rows(line: Line, names: int, width: int) -> list[str]:
    """One line, folded below itself where it is too long, but never within a command: people copy those."""
    head = f"{GAP}{line.mark:{MARKS}}{GAP}{line.what:{names}}{GAP}"
    whole = SPAN.sub(lambda span: span[0].replace(" ", "\xa0"), line.found)
    room = max(width - len(head), NARROWEST)
    folded = textwrap.wrap(whole, room, break_long_words=False, break_on_hyphens=False) or [""]
    below = " " * len(head)
    return [f"{below if n else head}{text}".replace("\xa0", " ").rstrip() for n, text in enumerate(folded)]


def trouble(sections: Sequence[Section]) -> str | None:
    """What this run lacks and what to do about it, in a sentence; None where it lacks nothing."""
    missing = [line for section in sections for line in section.lines if line.mark == "missing"]
    said = list(dict.fromkeys(line.found for line in missing))
    if len(said) < 2:
        return said[0] if said else None
    commands = dict.fromkeys(command for text in said for command in WAY.findall(text))
    ways = [f"install it with {' and '.join(f'`{command}`' for command in commands)}"] if commands else []
    if not all(WAY.search(text) for text in said):
        ways.append("do what is said of the others above" if commands else "do what is said of each above")
    names = ", ".join(dict.fromkeys(line.what for line in missing))
    return f"This run can't go yet, for something is missing ({names}); {', and '.join(ways)}."

"""doctor: what this machine can run, what this run needs, and the next command to type.

In:  this machine (machine.py) and, if there is one, `params.yaml`: what the run needs (needs.py) and how the plan
     compares with this machine (limits.py). With `start`, every engine of the run is started and closed (start.py).
Out: lines for people: a mark, what was looked for, and what was found or what to do.

    ok       Reasoning Gym  0.1.25
    no       Ray            spreads a run over a cluster: `pip install -e '.[ray]'`    this run does not need it
    warn     disk           up to 90 GB … 73 GB free. A pilot measures it.             this run may fail
    missing  base           `models.base.path` is …, but no model is there.            this run cannot go without it

Nothing is written. The network is used only to ask whether the hub answers, if the run must download something.
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

Mark = Literal["ok", "no", "warn", "missing"]
USUAL = Path("params.yaml")
MARKS = len("missing")
GAP = "  "
NARROWEST = 30  # columns for what was found, however long the names and small the window
SPAN = re.compile(r"`[^`]*`")
COMMAND = re.compile(r"`((?:pip|apt|make|export|leash|hf|dvc|git) [^`]*)`")


@dataclass(frozen=True)
class Line:
    mark: Mark
    what: str
    found: str


@dataclass(frozen=True)
class Section:
    title: str
    lines: Sequence[Line]

    @property
    def missing(self) -> list[Line]:
        return [line for line in self.lines if line.mark == "missing"]


def examine(file: Path, *, start: bool = False) -> list[Section]:
    """Look at the machine, at what the run of a parameter file needs of it, and, on request, start its engines."""
    from stages.doctor.machine import machine

    run = Section(f"This run ({file})", run_lines(file))
    engines = [Section("Engines started", _started(file, run))] if start else []
    return [Section("This machine", machine()), run, *engines]


def run_lines(file: Path) -> list[Line]:
    """What a run needs, and how its plan compares with this machine."""
    from stages.doctor.limits import limits
    from stages.doctor.needs import needs

    if file == USUAL and not file.exists():
        return [Line("no", "parameters", "there is no params.yaml in this folder, so there is no run to look at")]
    try:
        params = parameters.load(file)
    except LeashError as error:
        return [Line("missing", "parameters", str(error))]
    return [*needs(params), *limits(params)]


def _started(file: Path, run: Section) -> list[Line]:
    from stages.doctor.start import start

    try:
        params = parameters.load(file)
    except LeashError:
        return []  # said among what the run needs
    unfit = {line.what for line in run.missing}
    return [start(params, model) for model in params.run.models if model not in unfit]


def rows(sections: Sequence[Section], width: int) -> Iterator[str]:
    """The lines as they are printed, the columns of all sections aligned."""
    names = max(len(line.what) for section in sections for line in section.lines)
    for section in sections:
        if section.lines:
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
    """What this run lacks, in a sentence; None if it lacks nothing."""
    missing = [line for section in sections for line in section.missing]
    said = list(dict.fromkeys(line.found for line in missing))
    if len(said) < 2:
        return said[0] if said else None
    names = ", ".join(dict.fromkeys(line.what for line in missing))
    return f"Cannot run yet. Missing: {names}. See the lines marked `missing` above."


def next_command(sections: Sequence[Section], file: Path) -> str:
    """What to type next: what installs or brings what is missing, a pilot, or the run itself."""
    from stages.sample import plan

    missing = [line for section in sections for line in section.missing]
    if missing:
        # A command helps only if it is the answer to all that its subject lacks: no install cures a lack of GPUs.
        stuck = {line.what for line in missing if not COMMAND.search(line.found)}
        ways = [COMMAND.findall(line.found)[0] for line in missing if line.what not in stuck]
        return str(ways[0]) if ways else "leash doctor (after correcting the above)"
    if not file.exists():
        return "leash doctor (in the folder that holds params.yaml)"
    params = parameters.load(file)
    which = "" if file == USUAL else f" --params {file}"
    if plan.wants_pilot(plan.run(params, plan.Given())):
        return f"leash plan --pilot 4{which}"
    if any(line.what == "repository" and line.mark == "no" for section in sections for line in section.lines):
        return "git init && dvc init"
    return "dvc repro"

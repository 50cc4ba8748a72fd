"""Examine this machine and this run, and find the next command to type.

In:  this machine (machine.py) and, if it exists, `params.yaml`: what the run needs (requirements.py) and whether disk,
     time and memory suffice (capacity.py). With `start`, every engine of the run is started and closed again.
Out: lines for people: a mark, a subject, and what was found or what to do.

    ok       Reasoning Gym  0.1.25
    no       Ray            spreads a run over a cluster: `pip install -e '.[ray]'`    this run does not need it
    warn     disk           up to 90 GB … 73 GB free. A pilot measures it.             this run may fail
    missing  base           `models.base.path` is …, but no model is there.            this run cannot start

Nothing is written or downloaded. The network is used only to see whether the hub answers, if the run must download.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leash.doctor.capacity import check_capacity
from leash.doctor.lines import DEFAULT_PARAMS_FILE, Line, Section
from leash.doctor.machine import check_machine
from leash.doctor.requirements import check_requirements
from leash.engines import selection
from leash.errors import LeashError
from leash.params import loading
from leash.params.groups import Params
from leash.sampling import cost_estimate
from leash.scheduler.run import run_units

COMMAND_SPAN = re.compile(r"`((?:pip|apt|make|export|leash|hf|dvc|git) [^`]*)`")


def examine(file: Path, *, start: bool = False) -> list[Section]:
    """Check the machine and the run of a parameter file; with `start`, also start the engines of the run."""
    sections, title = [Section("This machine", check_machine())], f"This run ({file})"
    if file == DEFAULT_PARAMS_FILE and not file.exists():
        absent = Line("no", "parameters", "there is no params.yaml in this folder, so there is no run to check")
        return [*sections, Section(title, [absent])]
    try:
        params = loading.load(file)
    except LeashError as error:
        return [*sections, Section(title, [Line("missing", "parameters", str(error))])]
    run = Section(title, [*check_requirements(params), *check_capacity(params)])
    sections.append(run)
    if start:
        unfit = {line.subject for line in run.missing}
        started = [start_engine(params, model) for model in params.run.models if model not in unfit]
        sections.append(Section("Engines started", started))
    return sections


def start_engine(params: Params, model: str) -> Line:
    """Start the engine of a model as the run would, close it, and report the seconds it took. Nothing is sampled."""
    if selection.choose_engine(params, model) == "import":
        return Line("ok", model, "imported: no engine")
    began = time.monotonic()
    try:
        spec = selection.build_engine_spec(params, model)
        if spec.name == "torch" or spec.plan.ray:
            # In a worker, as in the run: a crash while loading must not take this process with it.
            single = replace(spec.plan, workers=1, at_once=1, stepping=False)
            [(_, remark)] = run_units([model], spec.make, check_and_close, single)
        else:  # vLLM starts processes of its own
            remark = check_and_close(spec.make(), model)
    except LeashError as error:
        return Line("missing", model, str(error))
    return Line("ok", model, f"{spec.label} started in {time.monotonic() - began:.1f} s{remark}")


def check_and_close(engine: Any, _: str) -> str:
    """Ask a server for its models, then release what the engine holds."""
    try:
        return f"; {engine.ask_models()}" if hasattr(engine, "ask_models") else ""
    finally:
        if hasattr(engine, "close"):
            engine.close()


def next_command(sections: Sequence[Section], file: Path) -> str:
    """What to type next: the command that provides what is missing, a pilot, or the run itself."""
    missing = [line for section in sections for line in section.missing]
    if missing:
        # A command helps only if it provides all that its subject lacks: no installation adds a GPU.
        stuck = {line.subject for line in missing if not COMMAND_SPAN.search(line.text)}
        commands = [COMMAND_SPAN.findall(line.text)[0] for line in missing if line.subject not in stuck]
        return str(commands[0]) if commands else "leash doctor (after correcting the above)"
    if not file.exists():
        return "leash doctor (in the folder that holds params.yaml)"
    if cost_estimate.is_pilot_needed(cost_estimate.run(loading.load(file), cost_estimate.CostAssumptions())):
        return "leash plan --pilot 4" + ("" if file == DEFAULT_PARAMS_FILE else f" --params {file}")
    if any(line.subject == "repository" and line.mark == "no" for section in sections for line in section.lines):
        return "git init && dvc init"
    return "dvc repro"

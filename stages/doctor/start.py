"""A dry start: the engine of a model is really started, as the run would start it, and closed again. Nothing is drawn.

It starts where the run would: torch in a worker process, so that a crash there does not take doctor with it; vLLM from
this process, which has processes of its own; both on the cluster if the run is on Ray. A server is asked for its
models.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from stages.doctor import Line
from stages.errors import LeashError
from stages.params import Params
from stages.sample import engines
from stages.work import spread


def start(params: Params, model: str) -> Line:
    """Start the engine of a model, and say how long it took or why it could not."""
    if engines.chosen(params, model) == "import":
        return Line("ok", model, "imported: no engine")
    began = time.monotonic()
    try:
        kind = engines.kind_of(params, model)
        if kind.name == "torch" or kind.crew.ray:
            # One worker with one unit at a time: it has nothing to step through.
            one = replace(kind.crew, workers=1, at_once=1, stepping=False)
            [(_, said)] = spread([model], kind.make, check_and_close, one)
        else:
            said = check_and_close(kind.make(), model)
    except LeashError as error:
        return Line("missing", model, str(error))
    return Line("ok", model, f"{kind.label} started in {time.monotonic() - began:.1f} s{said}")


def check_and_close(engine: Any, _: str) -> str:
    """Ask a server for its models, then release what the engine holds."""
    try:
        return f"; {engine.ask_models()}" if hasattr(engine, "ask_models") else ""
    finally:
        if hasattr(engine, "close"):
            engine.close()

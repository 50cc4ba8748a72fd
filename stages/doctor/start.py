"""A dry start: the engine of a model is really started, as the run would start it, and closed again. Nothing is drawn.

It starts where the run would: in a worker process (so that one that crashes does not take doctor with it), on the Ray
cluster, or, for a server, in this process, which asks it for its models.
"""

from __future__ import annotations

import multiprocessing
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
        # One worker, with one unit at a time: the engine is given nothing to step through.
        one = kind.crew if kind.name == "openai" else replace(kind.crew, workers=1, at_once=1, stepping=False)
        said = [answer for _, answer in spread([model], kind.make, check_and_close, one)]
    except LeashError as error:
        return Line("missing", model, str(error))
    return Line("ok", model, f"{kind.label} started in {time.monotonic() - began:.1f} s{said[0]}")


def check_and_close(engine: Any, _: str) -> str:
    """In the worker: ask a server for its models, then release what the engine holds."""
    try:
        return f"; {engine.ask_models()}" if hasattr(engine, "ask_models") else ""
    finally:
        if hasattr(engine, "close"):
            engine.close()
        if multiprocessing.parent_process():  # a worker of doctor's own, which ends only after its children
            for child in multiprocessing.active_children():
                child.terminate()

"""Two workers of a Ray cluster against one, on two cores: samples of the embedded RLVR model a second.

    python tests/benchmarks/ray_workers.py

Starting Ray and loading the model is left out: time counts from the moment when all workers have returned something.
Two workers and one take turns; both get the same units. Goal: at least 1.7 times the speed.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from result import tell

from leash.datasets import embedded_tasks
from leash.engines import selection
from leash.engines.protocol import Request
from leash.params import loading
from leash.prompts import Prompt
from leash.sampling.sampler import SamplingUnit, complete_unit, decoding_from_params
from leash.scheduler.run import run_units
from leash.statistics import seeds

ROOT = Path(__file__).parent.parent.parent
UNITS, ROWS, TURNS, GOAL = 24, 1024, 3, 1.7


def main() -> None:
    speeds: dict[int, list[float]] = {2: [], 1: []}
    for _ in range(TURNS):
        for workers, found in speeds.items():
            found.append(speed(workers))
            print(f"{workers} workers: {found[-1]:,.0f} completions/s", flush=True)
    ours, theirs = statistics.median(speeds[2]), statistics.median(speeds[1])
    ratio = ours / theirs
    tell("two Ray workers against one", ours=ours, theirs=theirs, ratio=ratio, goal="at least 1.7", ok=ratio >= GOAL)


def speed(workers: int) -> float:
    settings = loading.load(ROOT / "params.yaml")
    model = settings.models["rlvr"].model_copy(update={"path": str(ROOT / "models" / "embedded" / "rlvr")})
    settings = settings.model_copy(
        update={
            "run": settings.run.model_copy(update={"on": "ray", "processes": workers}),
            "models": {"rlvr": model},
        }
    )
    kind = selection.build_engine_spec(settings, "rlvr")
    decoding = decoding_from_params(settings, "rlvr", "make")
    rng = seeds.stream("benchmark", "ray")
    units = [
        SamplingUnit("make", (Request(f"p{i}", Prompt(problem.prompt), range(ROWS), ("benchmark",)),), decoding)
        for i, problem in enumerate(embedded_tasks.draw_problem(rng, "make", 6, held_out=True) for _ in range(UNITS))
    ]
    counted, began = 0, 0.0
    for number, (_, completions) in enumerate(run_units(units, kind.make, complete_unit, kind.plan)):
        if number < 2 * workers:  # by now every worker has returned one: they take turns
            began = time.perf_counter()
        else:
            counted += len(completions)
    return counted / (time.perf_counter() - began)


if __name__ == "__main__":
    main()

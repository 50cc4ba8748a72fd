"""How often another batch size changes a completion: in float64 (the embedded default) and, beside it, in float32.

Every problem of the embedded data sets, 1,024 samples each, drawn in batches of 2,048 and of 300.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from result import tell

from leash import weights as models
from leash.datasets import embedded
from leash.engines.protocol import Decoding, Request
from leash.engines.torch_engine import TorchEngine
from leash.params import loading
from leash.prompts import Prompt
from leash.scheduler.run import run_units
from leash.scheduler.worker_plan import WorkerPlan

ROOT = Path(__file__).parent.parent.parent
DECODING = Decoding(1.0, 1.0, 72)
LIMIT = 1e-5


def engines(dtype: str) -> list[TorchEngine]:
    weights = models.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, dtype)
    return [TorchEngine(*models.load_model(weights), rows=rows) for rows in (2048, 300)]


def differing(pair: list[TorchEngine], asked: list[Request]) -> tuple[int, int]:
    """How many completions differ between the two batch sizes, of how many."""
    drawn = [{(c.problem_id, c.sample): c.text for c in engine.complete(asked, DECODING)} for engine in pair]
    return sum(drawn[0][key] != drawn[1][key] for key in drawn[0]), len(drawn[0])


def rate(dtype: str, asked: list[Request], workers: int) -> tuple[float, int]:
    units = [asked[i : i + 2] for i in range(0, len(asked), 2)]
    found = [result for _, result in run_units(units, partial(engines, dtype), differing, WorkerPlan(workers))]
    total = sum(count for _, count in found)
    return sum(differ for differ, _ in found) / total, total


def main() -> None:
    chosen = loading.load(ROOT / "params.yaml")
    asked = [
        Request(row["problem_id"], Prompt(row["question"]), range(1024), ("benchmark",))
        for name in ("chain", "make")
        for row in embedded.generate_problems(name, chosen.datasets[name])
    ]
    workers = chosen.run.workers
    (ours, total), (theirs, _) = rate("float64", asked, workers), rate("float32", asked, workers)
    tell(
        f"completions changed by batch size, of {total:,}",
        ours=ours,
        theirs=theirs,
        ratio=ours / theirs if theirs else float(ours > 0),
        goal=f"< {LIMIT:g}",
        ok=ours < LIMIT,
    )


if __name__ == "__main__":
    main()

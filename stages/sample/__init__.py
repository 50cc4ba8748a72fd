"""sample: completions of one model on one data set, k a problem.

In:  data/problems/{dataset}.parquet and a model.
Out: data/completions/{model}/{dataset}/, a ledger that only ever grows.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import pyarrow as pa

from stages import disk, tables
from stages.models import Weights, load, weights
from stages.params import Params, Sample
from stages.progress import Progress
from stages.sample.engine import Decoding, Engine, Request
from stages.sample.ledger import Ledger, Unit, missing
from stages.work import spread

# Samples in a shard, at most: a few seconds of work, so that little is lost with a killed run.
SHARD = 2048
PRELOAD = ("stages.sample.torch_engine",)


def run(params: Params, model: str, dataset: str, *, resample: bool = False) -> int:
    """Draw what is missing of the first k samples of every problem; return how many were drawn."""
    problems = tables.read(tables.problems_path(dataset), tables.PROBLEMS, f"leash fetch {dataset}")
    prompts = dict(zip(problems["problem_id"].to_pylist(), problems["question"].to_pylist(), strict=True))
    held = weights(params, model)

    ledger = Ledger(tables.completions_folder(model, dataset))
    if resample:
        ledger.clear()
    ledger.open(
        fingerprint(held, params.sample),
        {problem: disk.hash_of(prompt) for problem, prompt in prompts.items()},
        again=f"leash sample {model} {dataset} --resample",
    )
    units = list(missing(list(prompts), params.k(model, dataset), ledger.have(), SHARD))
    total = sum(len(unit.problem_ids) * len(unit.samples) for unit in units)
    if units:
        engine = partial(load_engine, held, params.sample.batch)
        name = (params.sample.seed, model, dataset)
        draw = partial(complete, prompts=prompts, name=name, decoding=decoding(params.sample))
        with Progress(total, f"sample {model} on {dataset}", "completions") as progress:
            for unit, completions in spread(units, engine, draw, workers=params.run.workers, preload=PRELOAD):
                ledger.add(unit, completions)
                progress.add(completions.num_rows)
    return total


def fingerprint(model: Weights, sample: Sample) -> dict[str, str]:
    """What old samples must share with new ones to be counted together."""
    return {
        "model": model.identity,
        "dtype": model.dtype,
        "temperature": str(sample.temperature),
        "top_p": str(sample.top_p),
        "max_tokens": str(sample.max_tokens),
        "seed": str(sample.seed),
    }


def decoding(sample: Sample) -> Decoding:
    return Decoding(sample.temperature, sample.top_p, sample.max_tokens)


def load_engine(model: Weights, batch: int) -> Engine:
    from stages.sample.torch_engine import TorchEngine

    return TorchEngine(*load(model), rows=batch)


def complete(
    engine: Engine, unit: Unit, *, prompts: dict[str, str], name: tuple[str | int, ...], decoding: Decoding
) -> pa.Table:
    """A unit's completions as a table, in the order of its problems and samples."""
    requests = [Request(problem, prompts[problem], unit.samples, name) for problem in unit.problem_ids]
    rows = pa.Table.from_pylist([asdict(c) for c in engine.complete(requests, decoding)], tables.COMPLETIONS)
    return rows.sort_by([("problem_id", "ascending"), ("sample", "ascending")])

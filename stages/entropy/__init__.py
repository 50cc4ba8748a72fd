"""entropy: how unsure each model is of its next token, and how varied its answers are.

In:  the first samples of data/completions/ and data/verdicts/, the models.
Out: data/entropy/{model}/{dataset}.parquet (each sample's mean token entropy, by teacher forcing) and
     data/entropy/answers.parquet (each problem's answer entropy).

Both as in the paper's Appendix B.4, in nats, over the first `entropy.samples` samples of every problem: the same
number for all. A problem with fewer has none of these numbers, and its data set no mean.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from stages import tables
from stages.models import weights
from stages.params import Params
from stages.prompts import asked
from stages.scoring import PRELOAD, Job, Trace, keep_scores, leave_empty, scorable
from stages.work import crew

ROOM = Path(__file__).parent
ANSWERS = tables.DATA / "entropy" / "answers.parquet"


def run(params: Params) -> tuple[int, list[str]]:
    """Score what is not scored yet; return how many samples that were, and sentences on what could not be measured."""
    connection = tables.database(params)
    jobs = [job(params, connection, model, dataset) for model, dataset in scorable(params)]
    scored = keep_scores(jobs, tables.ENTROPY, "entropy", crew(params, PRELOAD))
    silent = leave_empty(params, tables.entropy_path, tables.ENTROPY, "token entropies")
    answers = tables.query(connection, ROOM / "answers.sql", {"samples": params.entropy.samples})
    tables.write(ANSWERS, answers, answers.schema)
    connection.register("answers", answers)
    return scored, silent + too_short(params, connection)


def job(params: Params, connection: duckdb.DuckDBPyConnection, model: str, dataset: str) -> Job:
    """A model on the first completions that it wrote itself for every problem."""
    bound = {"model": model, "dataset": dataset, "samples": params.entropy.samples}
    rows = tables.query(connection, ROOM / "samples.sql", bound).to_pylist()
    return Job(
        tables.entropy_path(model, dataset),
        weights(params, model),
        [{"problem_id": row["problem_id"], "sample": row["sample"]} for row in rows],
        [
            Trace(asked(params, model, dataset, row["question"]), row["text"], ended=row["finish"] == "stop")
            for row in rows
        ],
    )


def too_short(params: Params, connection: duckdb.DuckDBPyConnection) -> list[str]:
    """A sentence for each model and data set with a problem that has too few samples, and the way out."""
    samples = params.entropy.samples
    bound = {"models": params.run.models, "samples": samples}
    return [
        f"{row['model']} on {row['dataset']}: {row['short']} of {row['problems']} problems have fewer than "
        f"`entropy.samples` = {samples} samples, so its entropies, average and length are left out; "
        f"{way_out(params, row['model'], row['dataset'])}."
        for row in tables.query(connection, ROOM / "short.sql", bound).to_pylist()
    ]


def way_out(params: Params, model: str, dataset: str) -> str:
    samples = params.entropy.samples
    if params.k(model, dataset) < samples:
        return f"raise k to {samples}, or lower `entropy.samples` to {params.k(model, dataset)}"
    if params.sample.stop_after is not None and params.sample.floor < samples:
        return f"set `sample.floor` to at least {samples}"
    return f"draw the rest with `leash sample {model} {dataset}` and `leash verify {model} {dataset}`"


def summary(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Token entropy, answer entropy, avg@n and response length of every model."""
    connection.register("answers", tables.read(ANSWERS, pa.schema([]), "leash entropy"))
    return tables.query(connection, ROOM / "summary.sql")

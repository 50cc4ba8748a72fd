"""entropy: how unsure each model is of its next token, and how varied its answers are.

In:  the first samples of data/completions/ and data/verdicts/, the models.
Out: data/entropy/{model}/{dataset}.parquet (each sample's mean token entropy, by teacher forcing) and
     data/entropy/answers.parquet (each problem's answer entropy).

Both as in the paper's Appendix B.4, in nats.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from stages import tables
from stages.models import weights
from stages.params import Params
from stages.scoring import PRELOAD, Job, Trace, keep_scores
from stages.work import crew

ROOM = Path(__file__).parent
ANSWERS = tables.DATA / "entropy" / "answers.parquet"


def run(params: Params) -> int:
    """Score what is not scored yet; return how many samples that were."""
    connection = tables.database(params)
    jobs = [job(params, connection, model, dataset) for model in params.run.models for dataset in params.run.datasets]
    scored = keep_scores(jobs, tables.ENTROPY, "entropy", crew(params, PRELOAD))
    answers = tables.query(connection, ROOM / "answers.sql", {"samples": params.entropy.samples})
    tables.write(ANSWERS, answers, answers.schema)
    return scored


def job(params: Params, connection: duckdb.DuckDBPyConnection, model: str, dataset: str) -> Job:
    """A model on the first completions that it wrote itself for every problem."""
    bound = {"model": model, "dataset": dataset, "samples": params.entropy.samples}
    rows = tables.query(connection, ROOM / "samples.sql", bound).to_pylist()
    return Job(
        tables.entropy_path(model, dataset),
        weights(params, model),
        [{"problem_id": row["problem_id"], "sample": row["sample"]} for row in rows],
        [Trace(row["question"], row["text"], ended=row["finish"] == "stop") for row in rows],
    )


def summary(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Token entropy, answer entropy, avg@n and response length of every model."""
    connection.register("answers", tables.read(ANSWERS, pa.schema([]), "leash entropy"))
    return tables.query(connection, ROOM / "summary.sql")

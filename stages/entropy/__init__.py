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
from stages.scoring import Labelled, Trace, keep_scores

ROOM = Path(__file__).parent
ANSWERS = tables.DATA / "entropy" / "answers.parquet"


def run(params: Params) -> int:
    """Score what is not scored yet; return how many samples that were."""
    connection = tables.database(params)
    scored = sum(
        keep_scores(
            tables.entropy_path(model, dataset),
            tables.ENTROPY,
            weights(params, model),
            samples(connection, model, dataset, params.entropy.samples),
            workers=params.run.workers,
        )
        for model in params.run.models
        for dataset in params.run.datasets
    )
    answers = tables.query(connection, ROOM / "answers.sql", {"samples": params.entropy.samples})
    tables.write(ANSWERS, answers, answers.schema)
    return scored


def samples(connection: duckdb.DuckDBPyConnection, model: str, dataset: str, count: int) -> list[Labelled]:
    """The first `count` completions of every problem, as traces of the model that wrote them."""
    rows = tables.query(connection, ROOM / "samples.sql", {"model": model, "dataset": dataset, "samples": count})
    return [
        (
            {"problem_id": row["problem_id"], "sample": row["sample"]},
            Trace(row["question"], row["text"], ended=row["finish"] == "stop"),
        )
        for row in rows.to_pylist()
    ]


def summary(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Token entropy, answer entropy, avg@n and response length of every model."""
    connection.register("answers", tables.read(ANSWERS, pa.schema([]), "leash entropy"))
    return tables.query(connection, ROOM / "summary.sql")

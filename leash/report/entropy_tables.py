"""The tables of the entropy stage, as the report and the bundle read them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from leash import database, tables
from leash.scoring import entropy_estimates
from leash.tables import FLOAT64, INT32, STRING

SQL_DIR = Path(__file__).parent
ENTROPY_DIR = tables.DATA_DIR / "entropy"
ANSWERS_PATH = ENTROPY_DIR / "answers.parquet"
PROFILE_PATH = ENTROPY_DIR / "profile.parquet"
INTERVALS_PATH = ENTROPY_DIR / "intervals.parquet"
DECOUPLING_PATH = ENTROPY_DIR / "decoupling.parquet"
# What stages/entropy/answers.sql and profile.sql give.
ANSWERS_SCHEMA = pa.schema(
    {"model": STRING, "dataset": STRING, "problem_id": STRING, "samples": INT32, "answers": pa.int64()}
    | dict.fromkeys(("average", "answer_entropy", "answer_entropy_mm", "answer_entropy_adjusted", "unseen"), FLOAT64)
    | {"all_samples": INT32}
    | dict.fromkeys(
        ("answer_entropy_all", "answer_entropy_mm_all", "answer_entropy_adjusted_all", "unseen_all"), FLOAT64
    )
)
PROFILE_SCHEMA = pa.schema(
    {"model": STRING, "dataset": STRING, "tenth": INT32, "problems": pa.int64(), "token_entropy": FLOAT64}
)


def create_measured_table(connection: duckdb.DuckDBPyConnection) -> None:
    """Create `measured`: every measure of every model and problem, from the tables `entropy` and `answers`."""
    database.materialize_query(connection, "measured", SQL_DIR / "measured.sql")


def summarize_entropies(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Entropies, avg@n, response length, share of forks and mass of unseen answers, per model and data set."""
    connection.register("answers", tables.read(ANSWERS_PATH, ANSWERS_SCHEMA, "leash entropy"))
    create_measured_table(connection)
    return database.query(connection, SQL_DIR / "summary.sql")


def load_profile() -> pa.Table:
    """Token entropy of every model by tenths of its completions."""
    return tables.read(PROFILE_PATH, PROFILE_SCHEMA, "leash entropy")


def load_intervals() -> pa.Table:
    """Every measure of every model with its interval, and its floor: how much two runs of half the samples differ."""
    return tables.read(INTERVALS_PATH, entropy_estimates.INTERVALS_SCHEMA, "leash entropy")


def load_decoupling() -> pa.Table:
    """How much the entropies of every pair changed."""
    return tables.read(DECOUPLING_PATH, entropy_estimates.DECOUPLING_SCHEMA, "leash entropy")

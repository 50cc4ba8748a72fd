"""Answer entropies of every problem, on several windows of its samples, from one pass over the verdicts.

A window is a stretch of samples of a model, from `first` to before `last`, and what it is used for:

    first          the first `entropy.samples` samples: the paper's number of samples
    early, late    the two halves of these, for noise floors and to compare token entropies with other samples' answers
    all            all samples that every problem of the model has
    common         for a pair: all samples that every problem has of both models
    later          for a pair: those after the first `entropy.samples`, if they are at least as many
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leash import database, tables
from leash.params.groups import Params
from leash.statistics.answer_entropy import estimate_answer_entropies
from leash.tables import FLOAT64, INT32, STRING

SQL_DIR = Path(__file__).parent
WINDOW_KEY = ("model", "dataset", "first", "last")
WINDOWS_SCHEMA = pa.schema(
    [("model", STRING), ("dataset", STRING), ("first", INT32), ("last", INT32), ("pair", STRING), ("use", STRING)]
)
ESTIMATE_COLUMNS = ("answer_entropy", "answer_entropy_mm", "answer_entropy_adjusted", "unseen")
Reach = Mapping[tuple[str, str], int]  # by model and data set


def find_reach(params: Params, connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], int]:
    """The number of samples that every problem of a model and data set has. With an adaptive budget that is `floor`:
    what comes after it depends on the hits."""
    rows = database.query(connection, SQL_DIR / "reach.sql").to_pylist()
    drawn = {(row["model"], row["dataset"]): int(row["reach"]) for row in rows}
    if params.sample.stop_after is None:
        return drawn
    pairs = [(model, dataset) for model in params.run.models for dataset in params.run.datasets]
    floors = {pair: min(params.sample.floor, params.k(*pair)) for pair in pairs}
    return {pair: min(floor, drawn.get(pair, floor)) for pair, floor in floors.items()}


def build_windows(reach: Reach, pairs: Sequence[Mapping[str, str]], samples: int) -> pa.Table:
    """The windows of every model and pair. None is shorter than `samples`, so a model with fewer has no numbers."""
    half = samples // 2
    rows: list[dict[str, Any]] = []

    def add(model: str, dataset: str, use: str, first: int, last: int, pair: str = "") -> None:
        if last > first:
            rows.append(dict(zip(WINDOWS_SCHEMA.names, (model, dataset, first, last, pair, use), strict=True)))

    for (model, dataset), most in reach.items():
        add(model, dataset, "first", 0, samples)
        add(model, dataset, "early", 0, half)
        add(model, dataset, "late", half, 2 * half)
        add(model, dataset, "all", 0, max(most, samples))
    for pair in pairs:
        models = (pair["base"], pair["rlvr"])
        for dataset in dict.fromkeys(name for model, name in reach if model in models):
            common = max(samples, min(reach.get((model, dataset), 0) for model in models))
            for model in dict.fromkeys(models):
                add(model, dataset, "common", 0, common, pair["pair"])
                if common >= 2 * samples:
                    add(model, dataset, "later", samples, common, pair["pair"])
    return tables.table_from_rows(rows, WINDOWS_SCHEMA)


def register_answers(connection: duckdb.DuckDBPyConnection, windows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Make the tables `windows` and `estimates` (answer entropies by window and problem); return `answers` (a row per
    model and problem) and `halves`."""
    connection.register("windows", windows)
    cuts = sorted({cut for name in ("first", "last") for cut in windows[name].to_pylist()} | {0}, reverse=True)
    stretches = " ".join(f"when sample >= {cut:d} then {cut:d}" for cut in cuts)
    connection.execute(f"create or replace macro stretch_of(sample) as case {stretches} end")
    database.materialize_query(connection, "classes", SQL_DIR / "classes.sql")
    estimates = estimate_windows(database.query(connection, SQL_DIR / "fingerprints.sql"))
    connection.execute("drop table classes")
    connection.register("estimates", estimates)
    return database.query(connection, SQL_DIR / "answers.sql"), database.query(connection, SQL_DIR / "halves.sql")


def estimate_windows(fingerprints: pa.Table) -> pa.Table:
    """The answer entropies, share of correct samples and unseen mass of each problem in each window; null where a
    problem has fewer samples than the window."""
    key = fingerprints.select([*WINDOW_KEY, "problem_id"])
    starts = _group_starts(key)
    index = np.repeat(np.arange(len(starts)), np.diff([*starts, fingerprints.num_rows]))
    hits, classes, correct = (fingerprints[name].to_numpy() for name in ("hits", "classes", "correct"))
    problems = len(starts)
    found = estimate_answer_entropies(index, hits, classes, problems)
    samples = np.bincount(index, hits * classes, problems)
    rows = key.take(pa.array(starts))
    short = pa.array(samples < pc.subtract(rows["last"], rows["first"]).to_numpy())

    def column(values: Any, kind: pa.DataType) -> pa.Array:
        return pc.if_else(short, pa.scalar(None, kind), pa.array(values).cast(kind))

    rows = rows.append_column("samples", pa.array(samples.astype(np.int32)))
    rows = rows.append_column("answers", column(np.bincount(index, classes, problems).astype(np.int64), pa.int64()))
    with np.errstate(invalid="ignore"):
        rows = rows.append_column("average", column(np.bincount(index, correct, problems) / samples, FLOAT64))
    for name, values in zip(ESTIMATE_COLUMNS, found, strict=True):
        rows = rows.append_column(name, column(values, FLOAT64))
    return rows


def _group_starts(key: pa.Table) -> Any:
    """The first row of each group of equal rows, in a table that is ordered by them."""
    changed = np.zeros(key.num_rows, dtype=bool)
    changed[:1] = True
    for name in key.column_names:
        codes = key[name].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
        changed[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(changed)

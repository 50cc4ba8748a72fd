"""The counts of a plan with what guessing would give: given.sql and wrong.sql count the answers, leash/statistics sums
their shares over the other problems, and guesses.sql joins all that to the counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from leash import database, tables
from leash.statistics.counts import ROLES
from leash.statistics.other_shares import WrongAnswers, sum_other_shares

SQL_DIR = Path(__file__).parent
FLOORS_SCHEMA = pa.schema(
    [(name, tables.STRING) for name in ("pair", "dataset", "role", "problem_id")]
    + [(name, pa.int64()) for name in ("right_answers", "others")]
    + [(name, tables.FLOAT64) for name in ("shares", "squares", "noise", "one_hit")]
)


def add_guess_columns(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The rows of the table `counts` with the columns of guesses.sql, in a connection with the plan and the tallies."""
    database.materialize_query(connection, "given", SQL_DIR / "given.sql")
    answers = database.query(connection, SQL_DIR / "wrong.sql")
    parts = [FLOORS_SCHEMA.empty_table()]
    for key in answers.select(["pair", "dataset"]).group_by(["pair", "dataset"]).aggregate([]).to_pylist():
        here = pc.and_(pc.equal(answers["pair"], key["pair"]), pc.equal(answers["dataset"], key["dataset"]))
        parts += compute_floors(answers.filter(here), key["pair"], key["dataset"])
    connection.register("floors", pa.concat_tables(parts))
    return database.query(connection, SQL_DIR / "guesses.sql")


def compute_floors(answers: pa.Table, pair: str, dataset: str) -> list[pa.Table]:
    """The sums of both models on one data set, for each problem with a right answer. A model without two wrong answers
    to any problem has none."""
    coded = answers["problem_id"].combine_chunks().dictionary_encode()
    problem, count = coded.indices.to_numpy(), len(coded.dictionary)
    times, is_right = answers["times"].to_numpy(), answers["is_right"].to_numpy(zero_copy_only=False)
    classes = answers["class"].to_numpy(zero_copy_only=False).astype(float)
    elsewhere = ~is_right & ~np.isnan(classes)
    role = answers["role"].to_numpy(zero_copy_only=False)
    shape = count, int(np.nanmax(classes, initial=-1)) + 1

    def matrix(rows: np.ndarray, values: np.ndarray) -> sparse.csr_matrix:
        return sparse.csr_matrix((values, (problem[rows], classes[rows].astype(np.int64))), shape)

    right = matrix(is_right, np.ones(is_right.sum()))
    right.data[:] = 1  # both models gave it
    right_answers = np.diff(right.indptr)
    solved = right_answers > 0
    parts = []
    for name in ROLES:
        own = role == name
        total = np.bincount(problem[own & ~is_right], times[own & ~is_right], count).astype(np.int64)
        if solved.any() and (total > 1).any():
            rows = own & elsewhere
            sums = sum_other_shares(right[solved], right, WrongAnswers(matrix(rows, times[rows]), total))
            size = int(solved.sum())
            columns: dict[str, Any] = {"pair": [pair] * size, "dataset": [dataset] * size, "role": [name] * size}
            columns |= {"problem_id": coded.dictionary.filter(pa.array(solved)), "right_answers": right_answers[solved]}
            columns |= sums | {"others": sums["others"].astype(np.int64)}
            parts.append(pa.table({field.name: columns[field.name] for field in FLOORS_SCHEMA}, FLOORS_SCHEMA))
    return parts

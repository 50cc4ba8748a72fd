"""The mass of the correct completions that a model wrote, beside the share of its samples that is correct.

The first is a lower bound of the mass of all correct completions. Data sets without exact masses are left out.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from leash import database, tables
from leash.params.groups import Params
from leash.scoring.selection import scorable

SQL_DIR = Path(__file__).parent


def mass_lower_bounds(params: Params, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    weighed = [
        {"model": model, "dataset": dataset, "k": params.k(model, dataset)}
        for model, dataset in scorable(params)
        if tables.read(tables.mass_path(model, dataset), tables.MASS_SCHEMA, "leash mass").num_rows
    ]
    schema = pa.schema({"model": tables.STRING, "dataset": tables.STRING, "k": tables.INT32})
    connection.register("weighed", pa.Table.from_pylist(weighed, schema=schema))
    return database.query(connection, SQL_DIR / "bounds.sql")

"""Open the perplexity scores of all models together."""

from __future__ import annotations

from itertools import product

import duckdb

from leash import database, tables
from leash.params.groups import Params
from leash.scoring.selection import pairs_table


def open_scores(params: Params, *beside: str) -> duckdb.DuckDBPyConnection:
    """Open DuckDB with the scores of every model, the pairs, and the tables `beside`. No model's scores may be missing:
    a comparison of the others would be of fewer traces."""
    for model, dataset in product(params.run.models, params.run.datasets):
        tables.open_table(tables.perplexity_path(model, dataset), tables.PERPLEXITY_SCHEMA, "leash perplexity")
    connection = database.open_database(params, only=["perplexity", *beside])
    connection.register("pairs", pairs_table(params))
    return connection

"""What a run can score: models with weights on this machine, on data sets of text with completions.

Shared by the stages mass, reach, perplexity and entropy. A model on a server or with imported completions has no
weights, and no scorer reads images: those tables are empty, and a sentence says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa

from leash import database, tables
from leash.errors import MissingCompletionsError
from leash.params.groups import ENGINES_WITHOUT_WEIGHTS, Params
from leash.prompts import load_problem_images
from leash.weights import has_weights

# Exact masses mean something if the seen completions cover at least this share of the correct mass.
MIN_COVERAGE = 0.05


def scorable(params: Params) -> list[tuple[str, str]]:
    """The models with weights, each with the data sets without images."""
    models = [model for model in params.run.models if has_weights(params, model)]
    datasets = [dataset for dataset in params.run.datasets if not load_problem_images(dataset)]
    return list(product(models, datasets))


def require_completions(runs: Iterable[tuple[str, str]]) -> None:
    """Refuse missing completions of a model on a data set. Damaged ones are refused by whoever opens them."""
    for model, dataset in runs:
        if not tables.shards(tables.completions_folder(model, dataset)):
            raise MissingCompletionsError(model, dataset)


def drawn_until(params: Params, model: str, dataset: str) -> tuple[str, ...]:
    """The stop strings at which a model's samples ended. A server's samples, and imported ones, went on."""
    return () if params.engine(model) in ENGINES_WITHOUT_WEIGHTS else params.stop_strings(model, dataset)


def write_empty_tables(params: Params, path_of: Callable[[str, str], Path], schema: pa.Schema, what: str) -> list[str]:
    """Write an empty table for each model and data set that can't be scored; return a sentence for each reason."""
    scored = set(scorable(params))
    for model, dataset in product(params.run.models, params.run.datasets):
        if (model, dataset) not in scored:
            tables.write(path_of(model, dataset), schema.empty_table(), schema)
    no_weights = [
        f"{model} has no weights here, so its {what} are left out; to have them, give `models.{model}` a `path` or a "
        f"`hub` id."
        for model in params.run.models
        if not has_weights(params, model)
    ]
    images = [
        f"The questions of {dataset} have images, which scoring does not support, so {what} on it are left out."
        for dataset in params.run.datasets
        if load_problem_images(dataset)
    ]
    return no_weights + images


def open_perplexity_scores(params: Params, *beside: str) -> duckdb.DuckDBPyConnection:
    """Open DuckDB with the perplexity scores of every model, the pairs, and the tables `beside`. No model's scores may
    be missing: a comparison of the others would be of fewer traces."""
    for model, dataset in product(params.run.models, params.run.datasets):
        tables.open_table(tables.perplexity_path(model, dataset), tables.PERPLEXITY_SCHEMA, "leash perplexity")
    connection = database.open_database(params, only=["perplexity", *beside])
    connection.register("pairs", pairs_table(params))
    return connection


def pairs_table(params: Params) -> pa.Table:
    """The pairs of this run with their two models, for queries that compare them."""
    pairs = ((pair, *params.models_of(pair)) for pair in params.run.pairs)
    return pa.Table.from_pylist([{"pair": pair, "base": base, "rlvr": rlvr} for pair, base, rlvr in pairs])

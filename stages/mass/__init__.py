"""mass: how likely each model is to write each correct completion that was seen, exactly.

In:  data/completions/ and data/verdicts/ of every model, the models.
Out: data/mass/{model}/{dataset}.parquet, one row for each distinct correct completion that this model wrote, or the
     other of one of its pairs, with its log-probability. It is the unit `completion` of categorize, and its sum is
     a lower bound of each problem's mass that owes nothing to luck.

Only where it means something: long completions are never written twice, each has next to no mass, and their sum
bounds nothing. Then nothing is scored, the table is empty, and a sentence says so. The probability is that of the
tokens that a text is split into; a model may write the same text in other tokens too, with a mass far smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import duckdb
import pyarrow as pa

from stages import tables
from stages.models import weights
from stages.params import Params
from stages.prompts import asked
from stages.scoring import Job, Reading, Trace, crew_for, keep_scores, leave_empty, need_texts, scorable

ROOM = Path(__file__).parent
SAMPLES = 256  # of each problem, that tell whether completions come up again
LEAST = 0.05  # of the correct mass, that the completions seen must cover

Coverage = Mapping[tuple[str, str], float]


def run(params: Params) -> tuple[int, list[str]]:
    """Score what is not scored yet; return how many completions that was, and sentences on what has no mass."""
    if "completion" not in params.categorize.units:
        _leave(params)
        return 0, []
    need_texts(product(params.run.models, params.run.datasets))
    connection = tables.database(params, only=["completions", "verdicts"])
    covered = coverage(connection)
    reading = Reading(params.mass.engine, temperature=params.sample.temperature, top_p=params.sample.top_p)
    jobs = [job(params, connection, covered, model, dataset) for model, dataset in scorable(params)]
    scored = keep_scores(jobs, tables.MASS, "mass", crew_for(params, reading), reading)
    silent = leave_empty(params, tables.mass_path, tables.MASS, "exact masses")
    return scored, silent + too_varied(params, covered)


def coverage(connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], float]:
    """By model and data set: how much of its correct mass the completions seen cover."""
    rows = tables.query(connection, ROOM / "coverage.sql", {"samples": SAMPLES}).to_pylist()
    return {(row["model"], row["dataset"]): row["coverage"] for row in rows}


def writers(params: Params, covered: Coverage, model: str, dataset: str) -> list[str]:
    """The models whose completions this one is asked about: both of each of its pairs that has any worth asking."""
    pairs = [params.models_of(pair) for pair in params.run.pairs]
    return sorted({m for both in pairs if model in both and _enough(covered, both, dataset) for m in both})


def job(params: Params, connection: duckdb.DuckDBPyConnection, covered: Coverage, model: str, dataset: str) -> Job:
    bound = {"model": model, "dataset": dataset, "writers": writers(params, covered, model, dataset)}
    rows = tables.query(connection, ROOM / "written.sql", bound).to_pylist()
    return Job(
        tables.mass_path(model, dataset),
        weights(params, model),
        [{name: row[name] for name in ("problem_id", "completion", "hits", "first")} for row in rows],
        [Trace(asked(params, model, dataset, row["question"]), row["text"], row["ended"]) for row in rows],
    )


def too_varied(params: Params, covered: Coverage) -> list[str]:
    """A sentence for each pair and data set whose completions hardly ever come up again."""
    found = []
    for pair in params.run.pairs:
        both = params.models_of(pair)
        for dataset in params.run.datasets:
            seen = [covered[model, dataset] for model in both if (model, dataset) in covered]
            if seen and not _enough(covered, both, dataset):
                found.append(
                    f"{pair} on {dataset}: by their repetitions, the correct completions seen are {max(seen):.1%} of "
                    f"the correct mass; they are too long or too varied for a mass of their own, so the unit "
                    f"`completion` is left out."
                )
    return found


def bounds(params: Params, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """What the seen correct completions of each model weigh, beside the share of its samples that is correct."""
    weighed = [
        {"model": model, "dataset": dataset, "k": params.k(model, dataset)}
        for model, dataset in scorable(params)
        if tables.read(tables.mass_path(model, dataset), tables.MASS, "leash mass").num_rows
    ]
    kinds = pa.schema([("model", tables.TEXT), ("dataset", tables.TEXT), ("k", tables.INT)])
    connection.register("weighed", pa.Table.from_pylist(weighed, schema=kinds))
    return tables.query(connection, ROOM / "bounds.sql")


def _enough(covered: Coverage, both: tuple[str, str], dataset: str) -> bool:
    return max(covered.get((model, dataset), 0.0) for model in both) >= LEAST


def _leave(params: Params) -> None:
    """Nothing is asked for: what was scored before stays, and where nothing was, an empty table says so."""
    for model in params.run.models:
        for dataset in params.run.datasets:
            if not (path := tables.mass_path(model, dataset)).exists():
                tables.write(path, tables.MASS.empty_table(), tables.MASS)

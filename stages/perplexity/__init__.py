"""perplexity: how surprising reference solutions are to each model, by what became of their problems.

In:  the reference traces (references.py says where they come from), the models.
Out: data/perplexity/{model}/{dataset}.parquet, tokens and total negative log-likelihood of every trace.

Scores do not depend on epsilon. What does is made of them by the report, and needs neither texts nor weights: `tabled`
has perplexity by category, both models of every pair and each source (the paper's Table 2), and how much of its change
is more than a change of style. A model without weights here (its completions were imported, or a server has it) scores
nothing, and questions with images are not scored: these tables are empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from stages import tables
from stages.models import weights
from stages.params import Params
from stages.perplexity import references, tabling
from stages.perplexity.references import Reference
from stages.prompts import asked
from stages.scoring import Job, Reading, Trace, crew_for, keep_scores, leave_empty, need_texts, pairs_of, scorable

ROOM = Path(__file__).parent


def run(params: Params) -> tuple[int, list[str]]:
    """Score what is not scored yet; return how many traces that were, and sentences on what could not be scored."""
    need_texts(scorable(params))
    connection = tables.database(params, only=["completions", "verdicts"])
    filed, strangers = references.from_files(params)
    jobs = [
        job(params, model, dataset, gathered(params, connection, model, dataset, filed.get(dataset, [])))
        for model, dataset in scorable(params)
    ]
    reading = Reading(params.perplexity.engine)
    scored = keep_scores(jobs, tables.PERPLEXITY, "perplexity", crew_for(params, reading), reading)
    silent = leave_empty(params, tables.perplexity_path, tables.PERPLEXITY, "perplexities")
    return scored, [*strangers, *silent, *too_long(params), *per_byte(params)]


def gathered(
    params: Params,
    connection: duckdb.DuckDBPyConnection,
    model: str,
    dataset: str,
    filed: Sequence[Reference],
) -> list[Reference]:
    """All references of a data set that a model is asked about: its pairs' own completions among them."""
    writers = sorted({m for pair in params.run.pairs if model in (both := params.models_of(pair)) for m in both})
    own = references.written(params, connection, writers, dataset) if params.perplexity.own else []
    straight = [*filed, *references.brought(_problems(dataset)), *own]
    if not params.perplexity.shuffled:
        return straight
    crooked = (references.shuffled(reference, dataset, params.perplexity.seed) for reference in straight)
    return [*straight, *(reference for reference in crooked if reference)]


def job(params: Params, model: str, dataset: str, found: Sequence[Reference]) -> Job:
    """A model on these references."""
    questions = {row["problem_id"]: row["question"] for row in _problems(dataset)}
    return Job(
        tables.perplexity_path(model, dataset),
        weights(params, model),
        [label(reference) for reference in found],
        [Trace(asked(params, model, dataset, questions[ref.problem_id]), ref.text, ref.ended) for ref in found],
    )


def label(reference: Reference) -> Mapping[str, str | int | bool]:
    names = ("problem_id", "source", "trace", "shuffled")
    return {**{name: getattr(reference, name) for name in names}, "bytes": len(reference.text.encode())}


def tabled(params: Params) -> tuple[pa.Table, pa.Table]:
    """Perplexity by category and its change beyond style, from the scores and categories that are there."""
    with scores(params, "support") as connection:
        traces = tables.query(connection, ROOM / "traces.sql", {"models": list(params.models)})
    return tabling.both(params, traces)


def scores(params: Params, *beside: str) -> duckdb.DuckDBPyConnection:
    """DuckDB with the scores of every model, none of which may be missing, the pairs, and other tables."""
    for model, dataset in product(params.run.models, params.run.datasets):
        tables.opened(tables.perplexity_path(model, dataset), tables.PERPLEXITY, "leash perplexity")
    connection = tables.database(params, only=["perplexity", *beside])
    connection.register("pairs", pairs_of(params))
    return connection


def too_long(params: Params) -> list[str]:
    """A sentence for each model and data set with traces that its window does not hold."""
    found = []
    for model, dataset in scorable(params):
        rows = tables.read(tables.perplexity_path(model, dataset), tables.PERPLEXITY, "leash perplexity")
        rows = rows.filter(pc.invert(rows["shuffled"]))
        if missing := rows["nll"].null_count:
            found.append(
                f"{model} on {dataset}: {missing:,} of {rows.num_rows:,} traces are longer than the model's window and "
                f"are left out; shorten them, or leave it at that."
            )
    return found


def per_byte(params: Params) -> list[str]:
    """A sentence for each pair whose models split texts into different tokens."""
    with scores(params) as connection:
        pairs = tables.query(connection, ROOM / "splits.sql")["pair"].to_pylist()
    return [
        f"{pair}: {' and '.join(params.models_of(pair))} split texts into different tokens, so that perplexities per "
        f"token can't be compared; theirs are per byte."
        for pair in params.run.pairs
        if pair in pairs
    ]


def _problems(dataset: str) -> list[dict[str, Any]]:
    columns = pa.schema([tables.PROBLEMS.field(name) for name in ("problem_id", "question", "meta")])
    rows: list[dict[str, Any]] = tables.read(
        tables.problems_path(dataset), columns, f"leash fetch {dataset}"
    ).to_pylist()
    return rows

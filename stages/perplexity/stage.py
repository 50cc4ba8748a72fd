"""perplexity: how likely each model finds reference solutions.

In:  the reference traces (`leash/scoring/references.py` lists their sources), the models.
Out: data/perplexity/{model}/{dataset}.parquet, the negative log-likelihood of every trace, in total and by token, and
     the entropy of the model at each of its tokens.

Scores do not depend on epsilon. The report computes from them, without texts and weights, perplexity by category for
both models of every pair and each source (the paper's Table 2), and how much of its change exceeds a change of style. A
model without weights here (on a server, or with imported completions) and a data set with images have empty tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from leash import database, tables
from leash.params.groups import Params
from leash.scoring import references
from leash.scoring.references import Reference
from leash.scoring.scorable import open_perplexity_scores, require_completions, scorable, write_empty_tables
from leash.scoring.score_tables import build_job, plan_scoring_workers, update_score_tables
from leash.scoring.traces import ScoringSpec

SQL_DIR = Path(__file__).parent
LABEL_NAMES = ("problem_id", "source", "trace", "shuffled", "ended", "bytes")


def run(params: Params) -> tuple[int, list[str]]:
    """Score the traces that have no score yet; return their number, and sentences on what could not be scored."""
    require_completions(scorable(params))
    connection = database.open_database(params, only=["completions", "verdicts"])
    from_files, sentences = references.references_from_files(params)
    jobs = []
    for model, dataset in scorable(params):
        rows = gather_references(params, connection, model, dataset, from_files.get(dataset, []))
        jobs.append(build_job(params, model, dataset, tables.perplexity_path(model, dataset), rows, LABEL_NAMES))
    # The style control needs the base's entropies (leash/statistics/style.py), which vLLM does not have.
    spec = ScoringSpec(params.perplexity.engine, entropies=params.perplexity.engine == "torch", per_token=True)
    workers = plan_scoring_workers(params, spec)
    scored = update_score_tables(jobs, tables.PERPLEXITY_SCHEMA, "perplexity", workers, spec, params.sample.vllm)
    sentences += write_empty_tables(params, tables.perplexity_path, tables.PERPLEXITY_SCHEMA, "perplexities")
    return scored, [*sentences, *describe_long_traces(params), *describe_per_byte_pairs(params)]


def gather_references(
    params: Params, connection: duckdb.DuckDBPyConnection, model: str, dataset: str, from_files: Sequence[Reference]
) -> list[dict[str, Any]]:
    """All references of a data set that a model scores, among them the correct completions of its pairs, as rows with
    their questions and bytes."""
    columns = pa.schema([tables.PROBLEMS_SCHEMA.field(name) for name in ("problem_id", "question", "meta")])
    problems = tables.read(tables.problems_path(dataset), columns, f"leash fetch {dataset}").to_pylist()
    writers = sorted({m for pair in params.run.pairs if model in (both := params.models_of(pair)) for m in both})
    own = references.references_from_completions(params, connection, writers, dataset) if params.perplexity.own else []
    found = [*from_files, *references.references_from_problems(problems), *own]
    if params.perplexity.shuffled:
        shuffled = [references.shuffle_reference(each, dataset, params.perplexity.seed) for each in found]
        found += [reference for reference in shuffled if reference]
    questions = {row["problem_id"]: row["question"] for row in problems}
    return [
        {**asdict(each), "bytes": len(each.text.encode()), "question": questions[each.problem_id]} for each in found
    ]


def describe_long_traces(params: Params) -> list[str]:
    """A sentence for each model and data set with traces that do not fit the model's context window."""
    sentences = []
    for model, dataset in scorable(params):
        columns = pa.schema([tables.PERPLEXITY_SCHEMA.field(name) for name in ("shuffled", "nll")])
        rows = tables.read(tables.perplexity_path(model, dataset), columns, "leash perplexity")
        rows = rows.filter(pc.invert(rows["shuffled"]))
        if missing := rows["nll"].null_count:
            sentences.append(
                f"{model} on {dataset}: {missing:,} of {rows.num_rows:,} traces are longer than the model's context "
                f"window and are left out; shorten them to have them scored."
            )
    return sentences


def describe_per_byte_pairs(params: Params) -> list[str]:
    """A sentence for each pair whose models tokenize texts differently."""
    with open_perplexity_scores(params) as connection:
        pairs = database.query(connection, SQL_DIR / "splits.sql")["pair"].to_pylist()
    return [
        f"{pair}: {' and '.join(params.models_of(pair))} tokenize texts differently, so perplexities per token can't "
        f"be compared; those of this pair are per byte."
        for pair in params.run.pairs
        if pair in pairs
    ]

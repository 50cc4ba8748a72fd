"""mass: the exact probability that each model writes each correct completion that was seen.

In:  data/completions/ and data/verdicts/ of every model, the models.
Out: data/mass/{model}/{dataset}.parquet, one row per distinct correct completion that this model, or the other model of
     one of its pairs, wrote, with its log-probability. `categorize` counts these as its unit `completion`; their sum is
     a lower bound of the problem's mass that does not depend on sampling luck.

Long completions are hardly ever written twice, and their sum bounds nothing. Then nothing is scored, the table is
empty, and a sentence says so.

A completion is a sequence of tokens: those that were drawn where they are stored (`token_ids`), else those that the
text splits into. Each sequence counts once, so the sum stays a lower bound. A model may write the same text in yet
other tokens; that mass is left out. A model with another tokenizer than the writer's scores the text as it splits it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from leash import database, tables
from leash.params.groups import Params
from leash.sample_ledger import Ledger
from leash.scoring.scorable import MIN_COVERAGE, require_completions, scorable, write_empty_tables
from leash.scoring.score_tables import build_job, plan_scoring_workers, update_score_tables
from leash.scoring.token_splits import describe_other_tokens, index_drawn_tokens
from leash.scoring.traces import ScoringSpec
from leash.token_ids import tokenize_texts, tokenizer_key
from leash.weights import find_weights, has_weights, load_tokenizer

SQL_DIR = Path(__file__).parent
LABEL_NAMES = ("problem_id", "completion", "hits", "first")
COVERAGE_SAMPLES = 256  # the first samples of each problem decide whether completions repeat


def run(params: Params) -> tuple[int, list[str]]:
    """Score the completions that have no score yet; return their number, and sentences on what was left out."""
    if "completion" not in params.categorize.units:
        # DVC needs the outputs. Keep scores of earlier runs, and write an empty table if there are none.
        for model, dataset in product(params.run.models, params.run.datasets):
            if not (path := tables.mass_path(model, dataset)).exists():
                tables.write(path, tables.MASS_SCHEMA.empty_table(), tables.MASS_SCHEMA)
        return 0, []
    require_completions(product(params.run.models, params.run.datasets))
    connection = database.open_database(params, only=["completions", "verdicts"])
    rows = database.query(connection, SQL_DIR / "coverage.sql", {"samples": COVERAGE_SAMPLES}).to_pylist()
    by_model = {(row["model"], row["dataset"]): row["coverage"] for row in rows}
    coverage, sentences = {}, []
    for pair, dataset in product(params.run.pairs, params.run.datasets):
        seen = [by_model[model, dataset] for model in params.models_of(pair) if (model, dataset) in by_model]
        coverage[pair, dataset] = max(seen, default=0.0)
        if seen and coverage[pair, dataset] < MIN_COVERAGE:
            sentences.append(
                f"{pair} on {dataset}: the correct completions seen cover only {max(seen):.1%} of the correct mass "
                f"(mean over problems with hits), judged by how often they repeat. They are too long or too varied to "
                f"have masses of their own, so the unit `completion` is left out."
            )
    spec = ScoringSpec(params.mass.engine, temperature=params.sample.temperature, top_p=params.sample.top_p)
    jobs, drawn = [], {}
    for model, dataset in scorable(params):
        rows = query_written(params, connection, coverage, model, dataset)
        jobs.append(build_job(params, model, dataset, tables.mass_path(model, dataset), rows, LABEL_NAMES))
        drawn[model, dataset] = index_drawn_tokens(rows, LABEL_NAMES)
    workers = plan_scoring_workers(params, spec)
    scored = update_score_tables(jobs, tables.MASS_SCHEMA, "mass", workers, spec, params.sample.vllm)
    left_out = write_empty_tables(params, tables.mass_path, tables.MASS_SCHEMA, "exact masses")
    for (model, dataset), lengths in drawn.items():
        subject, path = f"{model} on {dataset}", tables.mass_path(model, dataset)
        manifest = Ledger(tables.completions_folder(model, dataset)).manifest()
        schema = tables.MASS_SCHEMA
        sentences += describe_other_tokens(subject, "correct samples", path, schema, lengths, LABEL_NAMES, manifest)
    return scored, left_out + sentences


def query_written(
    params: Params,
    connection: duckdb.DuckDBPyConnection,
    coverage: Mapping[tuple[str, str], float],
    model: str,
    dataset: str,
) -> list[dict[str, Any]]:
    """The completions of both models of each of a model's pairs with enough coverage, which is given by pair and data
    set."""
    pairs = [params.models_of(pair) for pair in params.run.pairs if coverage[pair, dataset] >= MIN_COVERAGE]
    writers = {writer for both in pairs if model in both for writer in both}
    if not writers:
        return []
    bound = {"dataset": dataset, "writers": sorted(writers)}
    with_ids = database.query(connection, SQL_DIR / "with_ids.sql", bound)["model"].to_pylist()
    # Only if there are ids: loading a tokenizer takes seconds.
    same = [writer for writer in with_ids if writer == model or share_tokenizer(params, model, writer)]
    # Of the writers of all pairs: both models of a pair must choose the same spelling.
    everyone = sorted({writer for both in pairs for writer in both})
    twins = database.query(connection, SQL_DIR / "twins.sql", {**bound, "writers": everyone})
    connection.register("spellings", unify_spellings(params, model, twins.to_pylist()))
    rows = database.query(connection, SQL_DIR / "written.sql", {**bound, "model": model, "same": same})
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def unify_spellings(params: Params, model: str, twins: Sequence[Mapping[str, Any]]) -> pa.Table:
    """One spelling for the texts of a problem that a model splits into the same tokens, so that none counts twice."""
    spellings: list[dict[str, str]] = []
    if twins:
        tokenizer = load_tokenizer(find_weights(params, model))
        for row in twins:
            first: dict[tuple[int, ...], str] = {}
            for text, ids in zip(
                row["texts"], tokenize_texts(row["texts"], [False] * len(row["texts"]), tokenizer), strict=True
            ):
                spelling = first.setdefault(tuple(ids), text)
                spellings.append({"problem_id": row["problem_id"], "text": text, "spelling": spelling})
    schema = pa.schema([(name, pa.string()) for name in ("problem_id", "text", "spelling")])
    return pa.Table.from_pylist(spellings, schema=schema)


def share_tokenizer(params: Params, model: str, other: str) -> bool:
    """Whether the token ids of one model mean the same to the other."""
    if not has_weights(params, other):
        return False
    return tokenizer_key(find_weights(params, model)) == tokenizer_key(find_weights(params, other))

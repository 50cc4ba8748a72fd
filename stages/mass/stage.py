"""mass: the exact probability that each model writes each correct completion that was seen.

In:  data/completions/ and data/verdicts/ of every model, the models.
Out: data/mass/{model}/{dataset}.parquet, one row per distinct correct completion that this model, or the other model of
     one of its pairs, wrote, with its log-probability. `categorize` counts these as its unit `completion`; their sum is
     a lower bound of the problem's mass that does not depend on sampling luck.

Long completions are hardly ever written twice, and their sum bounds nothing. Then nothing is scored, the table is
empty, and a sentence says so. The probability is that of the tokens that a tokenizer splits the text into. A model may
also write the same text in other tokens; that mass is far smaller, and it is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import duckdb

from leash import database, tables
from leash.params.groups import Params
from leash.scoring.scorable import MIN_COVERAGE, require_completions, scorable, write_empty_tables
from leash.scoring.score_tables import ScoringJob, build_job, plan_scoring_workers, update_score_tables
from leash.scoring.traces import ScoringSpec

SQL_DIR = Path(__file__).parent
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
    jobs = [build_mass_job(params, connection, coverage, model, dataset) for model, dataset in scorable(params)]
    workers = plan_scoring_workers(params, spec)
    scored = update_score_tables(jobs, tables.MASS_SCHEMA, "mass", workers, spec, params.sample.vllm)
    left_out = write_empty_tables(params, tables.mass_path, tables.MASS_SCHEMA, "exact masses")
    return scored, left_out + sentences


def build_mass_job(
    params: Params,
    connection: duckdb.DuckDBPyConnection,
    coverage: Mapping[tuple[str, str], float],
    model: str,
    dataset: str,
) -> ScoringJob:
    """A model on the completions of both models of each of its pairs with enough coverage, which is given by pair and
    data set."""
    pairs = [params.models_of(pair) for pair in params.run.pairs if coverage[pair, dataset] >= MIN_COVERAGE]
    writers = {writer for both in pairs if model in both for writer in both}
    bound = {"model": model, "dataset": dataset, "writers": sorted(writers)}
    rows = database.query(connection, SQL_DIR / "written.sql", bound).to_pylist()
    label_names = ("problem_id", "completion", "hits", "first")
    return build_job(params, model, dataset, tables.mass_path(model, dataset), rows, label_names)

"""entropy: how unsure each model is of its next token, and how varied its answers are.

In:  the first `entropy.samples` samples of data/completions/, all of data/verdicts/, the models.
Out: in data/entropy/: {model}/{dataset}.parquet (each sample's entropies over its steps, by teacher forcing),
     answers.parquet (each problem's answer entropies), profile.parquet (token entropy along the completions),
     intervals.parquet (every measure of every model with its noise floor) and decoupling.parquet (the changes of every
     pair).

As in the paper's Appendix B.4, in nats, on the same number of samples for all problems. A problem with fewer samples
has none of these numbers, and its data set no mean. Answer entropies are also estimated on all samples that every
problem has. There are two token entropies: that of the model's own distribution over the whole vocabulary, and that of
the distribution that was sampled from (`sample.temperature`, `sample.top_p`). The paper does not say which one it has.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from leash import database, tables
from leash.counting.analysis_settings import settings_of
from leash.params.groups import Params
from leash.report import entropy_tables
from leash.sample_ledger import read_manifest
from leash.scoring.entropy_estimates import DECOUPLING_SCHEMA, INTERVALS_SCHEMA, estimate_decoupling, estimate_intervals
from leash.scoring.scorable import pairs_table, require_completions, scorable, write_empty_tables
from leash.scoring.score_tables import build_job, plan_scoring_workers, update_score_tables
from leash.scoring.token_splits import describe_other_tokens, index_drawn_tokens
from leash.scoring.traces import ScoringSpec
from stages.entropy.answers import build_windows, find_reach, register_answers

SQL_DIR = Path(__file__).parent
LABEL_NAMES = ("problem_id", "sample")


def run(params: Params) -> tuple[int, list[str]]:
    """Score the samples that have no score yet; return their number, and sentences on what could not be measured."""
    require_completions(scorable(params))
    connection = database.open_database(params, only=("completions", "verdicts"))
    jobs, drawn = [], {}
    for model, dataset in scorable(params):  # on the first completions that the model itself wrote
        bound = {"model": model, "dataset": dataset, "samples": params.entropy.samples}
        rows = database.query(connection, SQL_DIR / "samples.sql", bound).to_pylist()
        path = tables.entropy_path(model, dataset)
        jobs.append(build_job(params, model, dataset, path, rows, LABEL_NAMES))
        drawn[model, dataset] = index_drawn_tokens(jobs[-1], rows)
    temperature, top_p = params.sample.temperature, params.sample.top_p
    spec = ScoringSpec(entropies=True, temperature=temperature, top_p=top_p, forking=params.entropy.forking)
    scored = update_score_tables(jobs, tables.ENTROPY_SCHEMA, "entropy", plan_scoring_workers(params, spec), spec)
    left_out = write_empty_tables(params, tables.entropy_path, tables.ENTROPY_SCHEMA, "token entropies")
    left_out += describe_other_tokens(
        drawn, tables.entropy_path, tables.ENTROPY_SCHEMA, LABEL_NAMES, "samples", "leash entropy", read_manifest
    )
    pairs = pairs_table(params)
    windows = build_windows(find_reach(params, connection), pairs.to_pylist(), params.entropy.samples)
    answers, halves = register_answers(connection, windows)
    tables.write(entropy_tables.ANSWERS_PATH, answers, entropy_tables.ANSWERS_SCHEMA)
    estimates = connection.table("estimates").to_arrow_table()
    # A second connection, because the scores were just written.
    connection = database.open_database(params, only=("entropy",))
    found = {"answers": answers, "halves": halves, "windows": windows, "estimates": estimates, "pairs": pairs}
    for name, table in found.items():
        connection.register(name, table)
    write_summary_tables(params, connection)
    return scored, left_out + describe_short_problems(params, connection) + describe_long_samples(connection)


def write_summary_tables(params: Params, connection: duckdb.DuckDBPyConnection) -> None:
    """Write the profile of every model, its measures with intervals and noise floors, and the changes of every pair."""
    entropy_tables.create_measured_table(connection)
    profiles, settings = database.query(connection, SQL_DIR / "profile.sql"), settings_of(params)
    tables.write(entropy_tables.PROFILE_PATH, profiles, entropy_tables.PROFILE_SCHEMA)
    half = {"half": params.entropy.samples // 2}
    floors = database.query(connection, SQL_DIR / "floors.sql", half)
    intervals = estimate_intervals(connection.table("measured").to_arrow_table(), floors, settings)
    tables.write(entropy_tables.INTERVALS_PATH, tables.table_from_rows(intervals, INTERVALS_SCHEMA), INTERVALS_SCHEMA)
    changes = database.query(connection, SQL_DIR / "changes.sql", half)
    cells = database.query(connection, SQL_DIR / "cells.sql")
    pairs = connection.table("pairs").to_arrow_table().to_pylist()
    decoupling = estimate_decoupling(changes, cells, pairs, params.entropy.samples, settings)
    tables.write(
        entropy_tables.DECOUPLING_PATH, tables.table_from_rows(decoupling, DECOUPLING_SCHEMA), DECOUPLING_SCHEMA
    )


def describe_short_problems(params: Params, connection: duckdb.DuckDBPyConnection) -> list[str]:
    """A sentence for each model and data set with problems that have too few samples, with the remedy."""
    samples, sentences = params.entropy.samples, []
    bound = {"models": params.run.models, "samples": samples}
    for row in database.query(connection, SQL_DIR / "short.sql", bound).to_pylist():
        model, dataset = row["model"], row["dataset"]
        remedy = f"draw the rest with `leash sample {model} {dataset}` and `leash verify {model} {dataset}`"
        if (k := params.k(model, dataset)) < samples:
            remedy = f"raise k to {samples}, or lower `entropy.samples` to {k}"
        elif params.sample.stop_after is not None and params.sample.floor < samples:
            remedy = f"set `sample.floor` to at least {samples}"
        sentences.append(
            f"{model} on {dataset}: {row['short']} of {row['problems']} problems have fewer than `entropy.samples` = "
            f"{samples} samples, so its entropies, average and length are left out; {remedy}."
        )
    return sentences


def describe_long_samples(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """A sentence for each model and data set with samples that do not fit the model's context window."""
    return [
        f"{row['model']} on {row['dataset']}: {row['long']} of {row['samples']} samples are longer with their question "
        f"than the model's context window, so its token entropies are left out; to have them, lower "
        f"`sample.max_tokens` and sample again."
        for row in database.query(connection, SQL_DIR / "long.sql").to_pylist()
    ]

"""mass: the exact probability that each model writes each correct completion that was seen.

In:  data/completions/ and data/verdicts/ of every model, the models.
Out: data/mass/{model}/{dataset}.parquet, one row per distinct correct completion that this model, or the other model of
     one of its pairs, wrote, with its log-probability. `categorize` counts these as its unit `completion`; their sum is
     a lower bound of the problem's mass that does not depend on sampling luck.

Long completions are hardly ever written twice, and their sum bounds nothing. Then nothing is scored, the table is
empty, and a sentence says so.

If the stop strings (`sample.stop`) of the models of a pair differ, one model would have gone on where the other ended,
so a completion of one is only the beginning of a completion of the other. Then the pair is left out, too.

A completion is a sequence of tokens: those that were drawn where they are stored (`token_ids`), else those that the
text splits into. Each sequence counts once, so the sum stays a lower bound. A model may write the same text in yet
other tokens; that mass is left out. If models that pairs link have different tokenizers, their stored ids do not count:
each of them scores the text as it splits it, so that both models of a pair have the same completions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from leash import database, tables
from leash.params.groups import Params
from leash.sample_ledger import read_manifest
from leash.scoring.scorable import MIN_COVERAGE, drawn_until, require_completions, scorable, write_empty_tables
from leash.scoring.score_tables import build_job, plan_scoring_workers, update_score_tables
from leash.scoring.token_splits import describe_other_tokens, index_drawn_tokens
from leash.scoring.traces import ScoringSpec
from leash.token_ids import tokenize_texts, tokenizer_key
from leash.weights import find_weights, has_weights, load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

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
        if len({drawn_until(params, model, dataset) for model in params.models_of(pair)}) > 1:
            coverage[pair, dataset] = 0.0
            sentences.append(
                f"{pair} on {dataset}: the completions of its models end at different stop strings, so their "
                f"probabilities cannot be compared and the unit `completion` is left out."
            )
        elif seen and coverage[pair, dataset] < MIN_COVERAGE:
            sentences.append(
                f"{pair} on {dataset}: the correct completions seen cover only {max(seen):.1%} of the correct mass "
                f"(mean over problems with hits), judged by how often they repeat. They are too long or too varied to "
                f"have masses of their own, so the unit `completion` is left out."
            )
    spec = ScoringSpec(params.mass.engine, temperature=params.sample.temperature, top_p=params.sample.top_p)
    jobs, drawn = [], {}
    to_score = scorable(params)
    pairs = {
        dataset: [params.models_of(pair) for pair in params.run.pairs if coverage[pair, dataset] >= MIN_COVERAGE]
        for _, dataset in to_score
    }
    linked = {dataset: link_writers(params, connection, both, dataset) for dataset, both in pairs.items()}
    for model, dataset in to_score:
        rows = query_written(connection, linked[dataset], pairs[dataset], model, dataset)
        path = tables.mass_path(model, dataset)
        jobs.append(build_job(params, model, dataset, path, rows, LABEL_NAMES, as_sampled=True))
        drawn[model, dataset] = index_drawn_tokens(jobs[-1], rows)
    workers = plan_scoring_workers(params, spec)
    scored = update_score_tables(jobs, tables.MASS_SCHEMA, "mass", workers, spec, params.sample.vllm)
    left_out = write_empty_tables(params, tables.mass_path, tables.MASS_SCHEMA, "exact masses")
    sentences += describe_other_tokens(
        drawn, tables.mass_path, tables.MASS_SCHEMA, LABEL_NAMES, "correct samples", "leash mass", read_manifest
    )
    return scored, left_out + sentences


@dataclass(frozen=True)
class LinkedWriters:
    """Models that the pairs of a data set link, and how all of them name completions: whose token ids count, and in
    which spelling a text counts."""

    models: frozenset[str]
    same: Sequence[str]
    spellings: pa.Table


def link_models(pairs: Iterable[tuple[str, str]]) -> list[frozenset[str]]:
    """The sets of models that pairs link, directly or by others."""
    groups: list[frozenset[str]] = []
    for both in pairs:
        joined = frozenset(both).union(*(group for group in groups if group & set(both)))
        groups = [group for group in groups if not group & joined] + [joined]
    return groups


def link_writers(
    params: Params, connection: duckdb.DuckDBPyConnection, pairs: Sequence[tuple[str, str]], dataset: str
) -> list[LinkedWriters]:
    """The linked models of these pairs. Token ids count if all of them that have weights share a tokenizer: then ids
    mean the same in all their tables."""
    found = []
    for models in link_models(pairs):
        bound = {"dataset": dataset, "writers": sorted(models)}
        weighing = [model for model in sorted(models) if has_weights(params, model)]
        with_ids = database.query(connection, SQL_DIR / "with_ids.sql", bound)["model"].to_pylist()
        twins = database.query(connection, SQL_DIR / "twins.sql", bound).to_pylist()
        # Only if there are ids or twins: loading a tokenizer takes seconds.
        used = {tokenizer_key(w): w for w in (find_weights(params, m) for m in weighing)} if with_ids or twins else {}
        same = [model for model in with_ids if model in weighing] if len(used) == 1 else []
        tokenizers = [load_tokenizer(each) for each in used.values()] if twins else []
        found.append(LinkedWriters(models, same, unify_spellings(twins, tokenizers)))
    return found


def query_written(
    connection: duckdb.DuckDBPyConnection,
    linked: Sequence[LinkedWriters],
    pairs: Sequence[tuple[str, str]],
    model: str,
    dataset: str,
) -> list[dict[str, Any]]:
    """The completions of both models of each of a model's pairs."""
    writers = {writer for both in pairs if model in both for writer in both}
    if not writers:
        return []
    group = next(each for each in linked if model in each.models)
    connection.register("spellings", group.spellings)
    bound = {"dataset": dataset, "writers": sorted(writers), "model": model, "same": group.same}
    found: list[dict[str, Any]] = database.query(connection, SQL_DIR / "written.sql", bound).to_pylist()
    return found


def unify_spellings(twins: Sequence[Mapping[str, Any]], tokenizers: Sequence[PreTrainedTokenizerBase]) -> pa.Table:
    """One spelling for the texts of a problem that any of these tokenizers splits into the same tokens, so that no
    model counts them twice. A model that tells them apart then counts only one of them: its sum stays a lower bound."""
    spellings: list[dict[str, str]] = []
    for row in twins:
        texts: list[str] = row["texts"]
        spelling = list(texts)
        for tokenizer in tokenizers:
            alike: dict[tuple[int, ...], list[int]] = {}
            for i, ids in enumerate(tokenize_texts(texts, [False] * len(texts), tokenizer)):
                alike.setdefault(tuple(ids), []).append(i)
            for group in alike.values():
                names = {spelling[i] for i in group}
                spelling = [min(names) if name in names else name for name in spelling]
        spellings += [
            {"problem_id": row["problem_id"], "text": text, "spelling": name}
            for text, name in zip(texts, spelling, strict=True)
        ]
    schema = pa.schema([(name, pa.string()) for name in ("problem_id", "text", "spelling")])
    return pa.Table.from_pylist(spellings, schema=schema)

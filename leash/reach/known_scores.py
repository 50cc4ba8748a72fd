"""Probabilities of correct completions under a model, token by token.

    data/rollouts/scores/{model}/{dataset}/known.parquet     completions that a model of the run wrote
    data/rollouts/scores/{model}/{dataset}/first.parquet     correct rollouts of the first round
    data/rollouts/scores/{model}/{dataset}/second.parquet    and of the second

Each is a table of its own, since a table of scores forgets what is not asked for, and the rollouts of a round are known
only after those of the round before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leash import tables
from leash.errors import LeashError
from leash.params.groups import Params
from leash.problems import load_problems
from leash.prompts import build_prompt
from leash.reach.known import Completion
from leash.scoring.score_tables import ScoringJob, plan_scoring_workers, update_score_tables
from leash.scoring.traces import ScoringSpec, Trace
from leash.statistics.array_types import FloatArray
from leash.statistics.prefix_tree import Prefix
from leash.weights import find_weights

ToScore = tuple[str, str, str, Completion]  # model, data set, problem
ScoreKey = tuple[str, str, str, Prefix]


class NoDecodingScoresError(LeashError):
    """vLLM was chosen for scores under a temperature or top_p, which it does not give."""

    def __init__(self) -> None:
        super().__init__(
            "vLLM gives no probabilities at a temperature or top_p other than 1; set `reach.engine` to torch."
        )


@dataclass(frozen=True)
class TokenScores:
    """Negative log-likelihoods of a completion's tokens as the model is sampled, and their sum at temperature 1 and
    top_p 1. A completion that does not fit into the model's window is not `scored`: it is impossible, too, though no
    token is excluded."""

    nlls: FloatArray
    untempered: float
    scored: bool = True


def score_completions(params: Params, wanted: Iterable[ToScore], name: str) -> dict[ScoreKey, TokenScores]:
    """The scores of these completions, from the tables `name`. What has a score on disk is not scored again."""
    sample = params.sample
    is_plain = sample.temperature == 1 and sample.top_p == 1
    if params.reach.engine == "vllm" and not is_plain:
        raise NoDecodingScoresError
    spec = ScoringSpec(params.reach.engine, temperature=sample.temperature, top_p=sample.top_p, per_token=True)
    nlls = "token_nlls" if is_plain else "token_decoding_nlls"
    by_table: dict[tuple[str, str], dict[ScoreKey, Completion]] = {}
    for model, dataset, problem, completion in wanted:
        by_table.setdefault((model, dataset), {})[model, dataset, problem, completion.tokens] = completion
    jobs = []
    for (model, dataset), completions in by_table.items():
        problems = load_problems(dataset)
        traces = [
            Trace(build_prompt(params, model, dataset, problems[problem]["question"]), *_content(completion))
            for (_, _, problem, _), completion in completions.items()
        ]
        labels = [{"problem_id": problem} for _, _, problem, _ in completions]
        jobs.append(
            ScoringJob(tables.rollout_scores_path(model, dataset, name), find_weights(params, model), labels, traces)
        )
    workers = plan_scoring_workers(params, spec)
    update_score_tables(jobs, tables.REACH_SCORES_SCHEMA, "reach", workers, spec, sample.vllm)
    found: dict[ScoreKey, TokenScores] = {}
    for (model, dataset), completions in by_table.items():
        content = tables.read(
            tables.rollout_scores_path(model, dataset, name), tables.REACH_SCORES_SCHEMA, "leash reach"
        )
        # A table has its rows in the order of its job.
        found.update(zip(completions, _read_scores(content, nlls), strict=True))
    return found


def _content(completion: Completion) -> tuple[str, bool, Prefix | None]:
    return completion.text, completion.ended, completion.token_ids


def _read_scores(content: pa.Table, nlls: str) -> Iterator[TokenScores]:
    """The scores of each row, with the tokens' values from the column `nlls`."""
    for row in content.select(["tokens", "nll", nlls]).to_pylist():
        if row["nll"] is None:
            yield TokenScores(np.full(row["tokens"], np.inf), np.inf, scored=False)
        else:
            yield TokenScores(np.array(row[nlls], dtype=float), row["nll"])

"""An audit of vLLM's log-probabilities: which distribution they describe, and that they are those of the torch engine.

Run by `make test-vllm` in an environment of its own, with vLLM's CPU build.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from leash import weights as models
from leash.engines.protocol import Completion, Decoding, Request
from leash.prompts import Prompt
from leash.scoring.torch_scorer import Scorer
from leash.scoring.traces import ScoringSpec, Trace
from tests.vllm.conftest import engine_on, nothing

pytestmark = pytest.mark.vllm

PROMPTS = [Prompt("compute 3 + 4 - 2 :"), Prompt("compute 7 - 5 + 9 - 1 :"), Prompt("make 21 from 3 8 1 :")]
REQUESTS = [Request(f"p{i}", prompt, range(64), ("audit",)) for i, prompt in enumerate(PROMPTS)]
# Float32 on both sides, and sums over up to 72 tokens. Batches differ, so the last bits do.
TOLERANCE = 2e-4


@pytest.fixture(scope="module")
def scorer(weights: models.Weights) -> Scorer:
    return Scorer(*models.load_model(weights))


@pytest.fixture(scope="module")
def vllm_scorer(in_process: None, weights: models.Weights) -> Any:
    """vLLM's scorer on the running engine."""
    from leash.engines import vllm_startup
    from leash.params.groups import Vllm
    from leash.scoring.vllm_scorer import VllmScorer

    running = engine_on(weights)._engine  # before the patch, which replaces the same function
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vllm_startup, "start_engine", lambda *_, **__: running)
        scorer: Any = VllmScorer(weights, Vllm(max_model_len=128, eager=True))
    scorer.close = nothing
    return scorer


def as_trace(completion: Completion) -> Trace:
    ids = None if completion.token_ids is None else tuple(completion.token_ids)
    return Trace(PROMPTS[int(completion.problem_id[1:])], completion.text, completion.finish == "stop", ids)


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 0.9), (1.6, 0.95), (0.0, 1.0)])
def test_the_log_probability_of_a_sample_is_the_models_own_whatever_the_decoding(
    in_process: None,
    weights: models.Weights,
    scorer: Scorer,
    vllm_scorer: Any,
    temperature: float,
    top_p: float,
) -> None:
    """The column `logprob` means the same from both engines: untempered, over the whole vocabulary."""
    drawn = list(engine_on(weights).complete(REQUESTS, Decoding(temperature, top_p, 72)))
    traces = [as_trace(completion) for completion in drawn]
    spec = ScoringSpec(temperature=temperature, top_p=top_p)
    ours, theirs = scorer.score(traces, spec), vllm_scorer.score(traces, ScoringSpec("vllm"))
    moved = 0
    for completion, score, other in zip(drawn, ours, theirs, strict=True):
        assert score.tokens == other.tokens == completion.tokens
        assert completion.logprob == pytest.approx(-(score.nll or 0), abs=TOLERANCE)
        assert other.nll == pytest.approx(score.nll, abs=TOLERANCE)
        assert score.decoding_nll is not None
        moved += abs(score.decoding_nll - (score.nll or 0)) > 10 * TOLERANCE
    # The other reading, log-probabilities after temperature and top_p, would be told apart.
    assert (moved > len(drawn) / 2) == (temperature != 1)
    # The sampler stays in the nucleus that the scorer computes, but for a rare token at its border.
    assert sum(math.isinf(score.decoding_nll or 0) for score in ours) <= 2


def test_ids_are_stored_where_the_text_does_not_give_them_back(
    in_process: None, weights: models.Weights, scorer: Scorer
) -> None:
    """At a high temperature the model draws special tokens, which the text lacks."""
    drawn = list(engine_on(weights).complete(REQUESTS, Decoding(2.0, 1.0, 24)))
    kept = [completion for completion in drawn if completion.token_ids is not None]
    assert 0 < len(kept) < len(drawn)
    for completion, score in zip(drawn, scorer.score([as_trace(each) for each in drawn]), strict=True):
        assert score.tokens == completion.tokens
        assert completion.logprob == pytest.approx(-(score.nll or 0), abs=TOLERANCE)
    # Split anew, each of them would have another likelihood.
    split = scorer.score([Trace(PROMPTS[int(c.problem_id[1:])], c.text, c.finish == "stop") for c in kept])
    for completion, score in zip(kept, split, strict=True):
        assert abs((completion.logprob or 0) + (score.nll or 0)) > 100 * TOLERANCE

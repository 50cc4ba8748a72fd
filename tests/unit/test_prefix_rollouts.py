"""Rollouts: samples that continue a given prefix are drawn from what the model gives after it, whole and reproducible,
and the scorer gives the decoding probability of every token."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from leash import weights
from leash.datasets import embedded_tasks
from leash.engines import kv_cache, torch_engine
from leash.engines.protocol import Completion, Decoding, PrefixTooLongError, Request
from leash.engines.stop_strings import STOP_STRING, find_stop
from leash.engines.torch_engine import TorchEngine
from leash.prompts import Prompt
from leash.scoring.score_tables import spec_to_dict
from leash.scoring.torch_scorer import Scorer
from leash.scoring.traces import Score, ScoringSpec, Trace
from leash.statistics import seeds
from leash.token_ids import tokenize_texts
from tests.conftest import ROOT

PLAIN = Decoding(temperature=1.0, top_p=1.0, max_tokens=72)
NUCLEUS = Decoding(temperature=0.7, top_p=0.9, max_tokens=72)
WEIGHTS = weights.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float64")


@pytest.fixture(scope="module")
def engine() -> TorchEngine:
    return TorchEngine(*weights.load_model(WEIGHTS))


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    return Scorer(*weights.load_model(WEIGHTS))


def draw_prompts(count: int) -> list[Prompt]:
    rng = seeds.stream("test", "prefixes")
    kinds = [("chain", 5), ("make", 3), ("chain", 8), ("make", 6)]
    problems = [embedded_tasks.draw_problem(rng, *kinds[i % len(kinds)], held_out=True) for i in range(count)]
    return [Prompt(problem.prompt) for problem in problems]


def whole_ids(engine: TorchEngine, completion: Completion) -> tuple[int, ...]:
    """The tokens of a sample without a prefix."""
    if completion.token_ids is not None:
        return tuple(completion.token_ids)
    return tuple(tokenize_texts([completion.text], [completion.finish == "stop"], engine.tokenizer)[0])


def draw_prefixes(engine: TorchEngine, prompts: Sequence[Prompt], decoding: Decoding) -> list[Request]:
    """Requests for rollouts from the first tokens of a sample of each prompt, after 1, 2, 3 … tokens."""
    plain = [Request(f"p{i}", prompt, range(1), ("test", "whole")) for i, prompt in enumerate(prompts)]
    drawn = {c.problem_id: whole_ids(engine, c) for c in engine.complete(plain, decoding)}
    return [
        replace(r, name=("test", "rollout"), prefix=drawn[r.problem_id][: min(i + 1, len(drawn[r.problem_id]) - 1)])
        for i, r in enumerate(plain)
    ]


def score_drawn(
    scorer: Scorer, request: Request, completions: Sequence[tuple[int, ...]], decoding: Decoding
) -> list[Score]:
    """Teacher forcing of whole completions, token by token."""
    spec = ScoringSpec(temperature=decoding.temperature, top_p=decoding.top_p, per_token=True)
    return scorer.score([Trace(request.prompt, "", ended=False, token_ids=ids) for ids in completions], spec)


def nll_after_prefix(score: Score, prefix: tuple[int, ...]) -> float:
    values = score.token_nlls if score.token_decoding_nlls is None else score.token_decoding_nlls
    assert values is not None
    return float(values[len(prefix) :].astype(np.float64).sum())


@pytest.mark.parametrize("decoding", [PLAIN, NUCLEUS])
def test_rollouts_are_drawn_as_often_as_the_model_says(engine: TorchEngine, scorer: Scorer, decoding: Decoding) -> None:
    """Of every prefix: a χ² test of the frequencies of whole completions against their exact probabilities given the
    prefix; completions that are expected fewer than five times are taken together. The p-values are combined by
    Fisher's method, at level 0.001."""
    requests = [replace(r, samples=range(300)) for r in draw_prefixes(engine, draw_prompts(8), decoding)]
    drawn: dict[str, Counter[tuple[int, ...]]] = {request.problem_id: Counter() for request in requests}
    for completion in engine.complete(requests, decoding):
        assert completion.token_ids is not None
        drawn[completion.problem_id][tuple(completion.token_ids)] += 1
    p_values = []
    for request in requests:
        counts = drawn[request.problem_id]
        scores = score_drawn(scorer, request, list(counts), decoding)
        expected = np.array([300 * math.exp(-nll_after_prefix(score, request.prefix)) for score in scores])
        frequent = expected >= 5
        cells = np.array([expected[frequent], np.array(list(counts.values()))[frequent]])
        if (rest := 300 - cells.sum(1))[0] >= 1:
            cells = np.column_stack([cells, rest])
        if cells.shape[1] > 1:  # else one completion is nearly sure
            p_values.append(stats.chisquare(cells[1], cells[0], sum_check=False).pvalue)
    assert len(p_values) >= 4
    assert stats.combine_pvalues(p_values).pvalue > 0.001


def test_a_rollout_is_a_whole_completion(engine: TorchEngine, scorer: Scorer) -> None:
    """Text, tokens, ids and finish include the prefix, the log-probability does not, and max_tokens counts it."""
    short = replace(PLAIN, max_tokens=14)
    requests = [replace(r, samples=range(40)) for r in draw_prefixes(engine, draw_prompts(8), short)]
    of_problem = {request.problem_id: request for request in requests}
    rollouts = list(engine.complete(requests, short))
    assert {(c.problem_id, c.sample) for c in rollouts} == {(r.problem_id, s) for r in requests for s in r.samples}
    assert {c.finish for c in rollouts} == {"stop", "length"}
    for c in rollouts:
        request, ids = of_problem[c.problem_id], c.token_ids
        assert ids is not None
        assert tuple(ids[: len(request.prefix)]) == request.prefix
        assert c.tokens == len(ids)
        assert len(ids) <= 14
        assert c.finish == ("stop" if ids[-1] == engine.tokenizer.eos_token_id else "length")
        assert c.finish == "stop" or len(ids) == 14
        assert c.text == engine.tokenizer.decode(ids, skip_special_tokens=True)
        (score,) = score_drawn(scorer, request, [tuple(ids)], short)
        assert c.logprob == pytest.approx(-nll_after_prefix(score, request.prefix), abs=2e-5)


@pytest.mark.parametrize("tokens", [14, 20])
def test_a_prefix_that_leaves_no_room_is_refused(engine: TorchEngine, tokens: int) -> None:
    request = Request("p7", draw_prompts(1)[0], range(4), ("test",), prefix=(5,) * tokens)
    with pytest.raises(PrefixTooLongError) as error:
        next(engine.complete([request], replace(PLAIN, max_tokens=14)))
    assert (error.value.problem_id, error.value.tokens, error.value.max_tokens) == ("p7", tokens, 14)
    assert len(list(engine.complete([request], replace(PLAIN, max_tokens=tokens + 1)))) == 4


def test_a_rollout_does_not_depend_on_its_companions(engine: TorchEngine) -> None:
    """Prefixes of different lengths and prompts share batches; other batches give the same rollouts."""
    requests = [replace(r, samples=range(30)) for r in draw_prefixes(engine, draw_prompts(12), NUCLEUS)]
    assert len({len(r.prefix) for r in requests}) > 6
    whole = {(c.problem_id, c.sample): c for c in engine.complete(requests, NUCLEUS)}
    small = TorchEngine(engine.model, engine.tokenizer, rows=7)
    others = [Request("plain", draw_prompts(1)[0], range(9), ("test",))]
    parts = [replace(r, samples=range(11, 23)) for r in reversed(requests)]
    rollouts = [c for c in small.complete([*others, *parts], NUCLEUS) if c.problem_id != "plain"]
    assert len(rollouts) == 12 * 12
    for c in rollouts:
        same = whole[c.problem_id, c.sample]
        assert (c.text, c.token_ids, c.finish) == (same.text, same.token_ids, same.finish)
        assert c.logprob == pytest.approx(same.logprob, abs=2e-6)


def test_rollouts_share_batches_whatever_their_lengths(engine: TorchEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row joins when the others reach the end of its prefix; if a model's cache cannot add rows, prefixes of equal
    length share a batch, and the rollouts are the same."""
    requests = [replace(r, samples=range(10)) for r in draw_prefixes(engine, draw_prompts(12), PLAIN)]
    batches = list(engine._batches(requests, PLAIN))
    assert [len(batch) for batch in batches] == [120]
    together = {(c.problem_id, c.sample): c.token_ids for c in engine.complete(requests, PLAIN)}
    monkeypatch.setattr(torch_engine, "can_append_rows", lambda config: False)
    batches = list(engine._batches(requests, PLAIN))
    assert len(batches) > 4
    assert all(len({len(prompt) + len(request.prefix) for prompt, request, _ in batch}) == 1 for batch in batches)
    assert {(c.problem_id, c.sample): c.token_ids for c in engine.complete(requests, PLAIN)} == together


def test_only_a_cache_of_our_own_layers_adds_rows(engine: TorchEngine) -> None:
    from transformers import LlamaConfig, MistralConfig

    assert kv_cache.can_append_rows(engine.model.config)
    assert kv_cache.can_append_rows(LlamaConfig(num_hidden_layers=2))
    assert not kv_cache.can_append_rows(MistralConfig(num_hidden_layers=2, sliding_window=8))


def test_rollouts_without_a_prefix_are_plain_samples(engine: TorchEngine) -> None:
    """Also beside rollouts with one: a sample of the same name is the same."""
    plain = [Request(f"p{i}", prompt, range(20), ("test",)) for i, prompt in enumerate(draw_prompts(4))]
    alone = list(engine.complete(plain, PLAIN))
    beside = [replace(plain[0], problem_id="other", prefix=(5, 9)), *plain]
    assert [c for c in engine.complete(beside, PLAIN) if c.problem_id != "other"] == alone
    assert any(c.token_ids is None for c in alone)


def test_stop_strings_watch_the_whole_text(engine: TorchEngine) -> None:
    """A rollout is the beginning of the rollout without stop strings. One that begins in the prefix counts."""
    stops = (", 3", "+ 4", "= 1")
    requests = [replace(r, samples=range(60)) for r in draw_prefixes(engine, draw_prompts(12), PLAIN)]
    whole = {(c.problem_id, c.sample): c for c in engine.complete(requests, PLAIN)}
    prefix_chars = {
        r.problem_id: len(engine.tokenizer.decode(list(r.prefix), skip_special_tokens=True)) for r in requests
    }
    begun_in_prefix = 0
    for c in engine.complete(requests, replace(PLAIN, stop=stops)):
        same = whole[c.problem_id, c.sample]
        assert same.token_ids is not None
        assert c.token_ids == same.token_ids[: c.tokens]
        cut = find_stop(same.text, stops)
        assert c.text == same.text[:cut]
        assert (c.tail is None) == (cut is None)
        if c.finish == STOP_STRING:
            assert c.tokens is not None
            assert c.tokens < len(same.token_ids)
            begun_in_prefix += len(c.text) < prefix_chars[c.problem_id]
    assert begun_in_prefix > 0


def test_the_decoding_nlls_of_tokens_sum_to_that_of_the_trace(engine: TorchEngine, scorer: Scorer) -> None:
    """Texts of plain sampling, of which many have a token outside the nucleus: its value is infinite."""
    requests = [Request(f"p{i}", prompt, range(8), ("test",)) for i, prompt in enumerate(draw_prompts(4))]
    of_problem = {request.problem_id: request.prompt for request in requests}
    drawn = list(engine.complete(requests, PLAIN))
    traces = [Trace(of_problem[c.problem_id], c.text, c.finish == "stop") for c in drawn]
    spec = ScoringSpec(temperature=0.7, top_p=0.9, per_token=True)
    scores = scorer.score(traces, spec)
    for score in scores:
        assert score.token_nlls is not None
        assert score.token_decoding_nlls is not None
        assert score.decoding_nll is not None
        assert len(score.token_decoding_nlls) == len(score.token_nlls) == score.tokens
        assert float(score.token_decoding_nlls.sum()) == pytest.approx(score.decoding_nll, abs=1e-4)
        assert (score.token_decoding_nlls >= 0).all()
    infinite = [score for score in scores if math.isinf(score.decoding_nll or 0)]
    assert 0 < len(infinite) < len(scores)
    for score in infinite:
        assert score.token_decoding_nlls is not None
        assert 0 < np.isinf(score.token_decoding_nlls).sum() < score.tokens


def test_plain_scores_have_no_second_copy_of_token_values(scorer: Scorer) -> None:
    """And the stored specification of plain scores by token stays what it was."""
    trace = Trace(draw_prompts(1)[0], "7", ended=True)
    (score,) = scorer.score([trace], ScoringSpec(per_token=True))
    assert score.token_nlls is not None
    assert score.token_decoding_nlls is None
    (without,) = scorer.score([trace], ScoringSpec(temperature=0.7))
    assert without.token_decoding_nlls is None
    names = {"engine", "entropies", "temperature", "top_p", "forking"}
    assert spec_to_dict(ScoringSpec(temperature=0.7)).keys() == names
    assert spec_to_dict(ScoringSpec(per_token=True)).keys() == {*names, "per_token"}

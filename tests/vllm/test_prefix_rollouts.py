"""Rollouts from a prefix in real vLLM, on the embedded base model: they are of the torch engine's distribution.

Run by `make test-vllm` in an environment of its own, with vLLM's CPU build.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leash import weights as models
from leash.datasets import embedded_tasks
from leash.engines.protocol import Completion, Decoding, PrefixTooLongError, Request
from leash.engines.stop_strings import find_stop
from leash.prompts import Prompt
from leash.scoring.torch_scorer import Scorer
from leash.scoring.traces import ScoringSpec, Trace
from leash.statistics import seeds
from leash.token_ids import tokenize_texts
from tests.vllm.conftest import BASE, engine_on

pytestmark = pytest.mark.vllm

KINDS = [("chain", 5), ("make", 3), ("chain", 8), ("make", 5)]
PLAIN = Decoding(temperature=1.0, top_p=1.0, max_tokens=72)
NUCLEUS = Decoding(temperature=0.7, top_p=0.9, max_tokens=72)
SAMPLES = 160


@pytest.fixture(scope="module")
def vllm(in_process: None) -> Any:
    return engine_on(BASE)


@pytest.fixture(scope="module")
def torch_engine() -> Any:
    from leash.engines.torch_engine import TorchEngine

    return TorchEngine(*models.load_model(BASE), rows=2048)


@pytest.fixture(scope="module")
def rollouts(torch_engine: Any) -> list[Request]:
    """Requests that continue the first 1, 2, 3 … tokens of a sample of each prompt."""
    rng = seeds.stream("test", "vllm", "prefixes")
    prompts = [embedded_tasks.draw_problem(rng, *KINDS[i % 4], held_out=True).prompt for i in range(8)]
    plain = [Request(f"p{i}", Prompt(prompt), range(1), ("test",)) for i, prompt in enumerate(prompts)]
    texts = {c.problem_id: (c.text, c.finish == "stop") for c in torch_engine.complete(plain, PLAIN)}
    ids = {
        problem: tokenize_texts([text], [ended], torch_engine.tokenizer)[0] for problem, (text, ended) in texts.items()
    }
    return [
        replace(r, samples=range(SAMPLES), prefix=tuple(ids[r.problem_id][: min(1 + i, len(ids[r.problem_id]) - 1)]))
        for i, r in enumerate(plain)
    ]


@pytest.mark.parametrize("decoding", [PLAIN, NUCLEUS])
def test_rollouts_are_of_the_same_distribution(
    vllm: Any, torch_engine: Any, rollouts: list[Request], decoding: Decoding
) -> None:
    """From every prefix: a χ² test that both engines' whole completions come from one distribution, those seen fewer
    than ten times taken together. The p-values are combined by Fisher's method, at level 0.001."""
    drawn: list[dict[str, Counter[tuple[int, ...]]]] = []
    for engine in (vllm, torch_engine):
        drawn.append({request.problem_id: Counter() for request in rollouts})
        for c in engine.complete(rollouts, decoding):
            drawn[-1][c.problem_id][tuple(c.token_ids or ())] += 1
    p_values = [same(*(counts[request.problem_id] for counts in drawn)) for request in rollouts]
    tested = [p_value for p_value in p_values if p_value is not None]
    assert len(tested) >= 4
    assert stats.combine_pvalues(tested).pvalue > 0.001, p_values


def same(one: Counter[tuple[int, ...]], other: Counter[tuple[int, ...]]) -> float | None:
    """The p-value of the test; None if nearly all are one completion."""
    total = one + other
    assert (one.total(), other.total()) == (SAMPLES, SAMPLES)
    frequent = [completion for completion, times in total.items() if times >= 10]
    table = np.array([[counts[completion] for completion in frequent] for counts in (one, other)])
    table = np.column_stack([table, SAMPLES - table.sum(1)])
    table = table[:, table.sum(0) > 0]
    return float(stats.chi2_contingency(table).pvalue) if table.shape[1] > 1 else None


def test_a_rollout_is_a_whole_completion(vllm: Any, torch_engine: Any, rollouts: list[Request]) -> None:
    """Text, tokens and ids include the prefix, the log-probability does not, and max_tokens counts it."""
    short, of_problem = replace(PLAIN, max_tokens=18), {r.problem_id: r for r in rollouts}
    requests = [replace(r, samples=range(8)) for r in rollouts]
    drawn: list[Completion] = list(vllm.complete(requests, short))
    assert {c.finish for c in drawn} == {"stop", "length"}
    scorer = Scorer(torch_engine.model, torch_engine.tokenizer)
    for c in drawn:
        request, ids = of_problem[c.problem_id], tuple(c.token_ids or ())
        assert ids[: len(request.prefix)] == request.prefix
        assert c.tokens == len(ids) <= 18
        assert (c.finish == "length") == (len(ids) == 18 and ids[-1] != torch_engine.tokenizer.eos_token_id)
        assert c.text == torch_engine.tokenizer.decode(list(ids), skip_special_tokens=True)
        (score,) = scorer.score([Trace(request.prompt, "", False, ids)], ScoringSpec(per_token=True))
        assert score.token_nlls is not None
        assert c.logprob == pytest.approx(-score.token_nlls[len(request.prefix) :].sum(), abs=1e-3)


def test_stop_strings_watch_the_whole_text(vllm: Any, rollouts: list[Request]) -> None:
    stops = (", 3", "+ 4", "= 1")
    requests = [replace(r, samples=range(16)) for r in rollouts]
    whole, stopped = (
        {(c.problem_id, c.sample): c for c in vllm.complete(requests, decoding)}
        for decoding in (PLAIN, replace(PLAIN, stop=stops))
    )
    # Another batch can change a rare token.
    assert sum(c.text != whole[key].text[: find_stop(whole[key].text, stops)] for key, c in stopped.items()) <= 3
    ended = [key for key, c in stopped.items() if c.tail is not None]
    assert len(ended) > 20
    assert sum(stopped[key].tokens for key in ended) < sum(whole[key].tokens for key in ended)


def test_a_prefix_that_leaves_no_room_is_refused_and_the_engine_continues(vllm: Any, rollouts: list[Request]) -> None:
    request = replace(rollouts[0], samples=range(2))
    with pytest.raises(PrefixTooLongError):
        list(vllm.complete([request], replace(PLAIN, max_tokens=len(request.prefix))))
    assert len(list(vllm.complete([request], replace(PLAIN, max_tokens=len(request.prefix) + 1)))) == 2

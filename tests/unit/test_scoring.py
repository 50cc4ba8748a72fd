"""The scorer agrees with a direct, unbatched computation over the full logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    GraniteConfig,
    LlamaConfig,
    OPTConfig,
    PreTrainedModel,
    Qwen2Config,
)

from stages import models, seeds
from stages.prompts import Prompt
from stages.scoring import TENTHS, Reading, Score, Trace, distribution
from stages.scoring import scorer as scorers
from stages.scoring.scorer import Row, Scorer, head_of, rows_of
from tests.conftest import ROOT

PROMPT, OTHER = Prompt("compute 3 + 4 :"), Prompt("make 21 from 3 8 1 :")
TRACES = [
    Trace(PROMPT, r"3 + 4 = 7 , \boxed{ 7 }", ended=True),
    Trace(PROMPT, r"\boxed{ 7 }", ended=False),
    Trace(OTHER, r"8 - 1 = 7 , 7 * 3 = 21 , \boxed{ ( 8 - 1 ) * 3 }", ended=True),
    Trace(OTHER, "", ended=True),
    Trace(OTHER, "", ended=False),
    Trace(OTHER, " ".join(["3 + 8 = 11 ,"] * 9), ended=False),
]
READINGS = [
    Reading(entropies=True),
    Reading(entropies=True, temperature=0.6, top_p=0.95, forking=0.2),
    Reading(entropies=True, temperature=1.5, forking=1.0),
    Reading(entropies=True, top_p=0.5),
    Reading(entropies=True, temperature=0.0),
]
PLAIN = Reading()
ENTROPIES = READINGS[1]
SCHEMA = pa.schema(
    [
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("tokens", pa.int32(), nullable=False),
        pa.field("nll", pa.float64()),
        pa.field("decoding_nll", pa.float64()),
        pa.field("token_entropy", pa.float64()),
        pa.field("profile", pa.list_(pa.float64())),
    ]
)
SIZES: dict[str, Any] = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
HEADS: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}


def held(model: str = "base", dtype: str = "float64") -> models.Weights:
    return models.Weights(model, str(ROOT / "models" / "embedded" / model), None, dtype)


def direct(network: PreTrainedModel, row: Row, key: str, reading: Reading) -> Score:
    """A trace alone, from the model's own logits, in numpy, step by step."""
    asked, told = row
    with torch.inference_mode():
        logits = network(input_ids=torch.tensor([asked + told])).logits[0].double().numpy()
    steps = [np.exp(step - np.logaddexp.reduce(step)) for step in logits[len(asked) - 1 :]][: len(told)]
    decoded = [decoding(step, reading) for step in steps]
    own = [entropy(step) for step in steps]
    tenths = [[h for i, h in enumerate(own) if 10 * i // len(own) == tenth] for tenth in range(TENTHS)]
    return Score(
        key,
        len(told),
        -sum(math.log(step[token]) for step, token in zip(steps, told, strict=True)),
        sum(-math.log(step[token]) if step[token] else math.inf for step, token in zip(decoded, told, strict=True)),
        mean(own),
        mean([entropy(step) for step in decoded]),
        mean([float(h >= reading.forking) for h in own]),
        [mean(tenth) if tenth else None for tenth in tenths],
    )


def decoding(step: np.ndarray[Any, Any], reading: Reading) -> np.ndarray[Any, Any]:
    if reading.temperature == 0:
        return np.asarray(step == step.max(), dtype=float)
    tempered = step ** (1 / reading.temperature)
    tempered /= tempered.sum()
    kept, mass = np.zeros_like(tempered), 0.0
    for token in np.argsort(-tempered):
        if mass >= reading.top_p:
            break
        kept[token] = tempered[token]
        mass += tempered[token]
    return np.asarray(kept / kept.sum())


def entropy(step: np.ndarray[Any, Any]) -> float:
    return float(-sum(p * math.log(p) for p in step if p))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def assert_same(score: Score, other: Score, within: float) -> None:
    assert (score.key, score.tokens) == (other.key, other.tokens)
    for name in ("nll", "decoding_nll", "token_entropy", "decoding_entropy", "forks"):
        assert getattr(score, name) == pytest.approx(getattr(other, name), abs=within), name
    assert score.profile == pytest.approx(other.profile, abs=within)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("model", ["base", "rlvr"])
def test_scores_equal_the_direct_computation(model: str, dtype: str) -> None:
    scorer = Scorer(*models.load(held(model, dtype)))
    assert scorer.head is not None
    for reading in READINGS:
        for trace, score in zip(TRACES, scorer.score(TRACES, reading), strict=True):
            assert_same(score, direct(scorer.model, rows_of([trace], scorer.tokenizer)[0], trace.key, reading), 1e-5)


def test_a_reading_without_entropies_has_none_and_the_same_likelihoods() -> None:
    scorer = Scorer(*models.load(held()))
    for reading in READINGS:
        bare = scorer.score(TRACES, replace(reading, entropies=False))
        for score, whole in zip(bare, scorer.score(TRACES, reading), strict=True):
            assert (score.token_entropy, score.decoding_entropy, score.forks, score.profile) == (None,) * 4
            assert (score.nll, score.decoding_nll) == pytest.approx((whole.nll, whole.decoding_nll), abs=1e-12)


@pytest.mark.parametrize(("elements", "rows", "tokens"), [(1, 128, 1 << 14), (200, 2, 1 << 14), (1 << 20, 128, 50)])
def test_neither_chunks_nor_batches_change_a_score(
    monkeypatch: pytest.MonkeyPatch, elements: int, rows: int, tokens: int
) -> None:
    scorer = Scorer(*models.load(held()))
    whole = [scorer.score(TRACES, reading) for reading in READINGS]
    monkeypatch.setattr(scorers, "ELEMENTS", {"cpu": elements})
    monkeypatch.setattr(scorers, "ROWS", rows)
    monkeypatch.setattr(scorers, "TOKENS", {"cpu": tokens})
    for reading, scores in zip(READINGS, whole, strict=True):
        for score, other in zip(scorer.score(TRACES, reading), scores, strict=True):
            assert_same(score, other, 1e-10)


def test_batches_hold_rows_of_about_one_length_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorers, "ROWS", 3)
    widths = [30, 4, 5, 9, 8, 4, 4, 10]
    found = list(scorers.batches(range(len(widths)), widths, 20))
    assert [[widths[i] for i in part] for part in found] == [[4, 4, 4], [5, 8], [9, 10], [30]]
    assert sorted(i for part in found for i in part) == list(range(len(widths)))


def test_a_large_nucleus_is_found_as_a_small_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps whose nucleus is larger than what is sorted first."""
    scorer = Scorer(*models.load(held()))
    before = scorer.score(TRACES, ENTROPIES)
    monkeypatch.setattr(distribution, "NUCLEUS", 1)
    for score, other in zip(scorer.score(TRACES, ENTROPIES), before, strict=True):
        assert_same(score, other, 1e-12)


def test_of_tokens_equally_likely_at_the_border_of_the_nucleus_each_is_in() -> None:
    """Four tokens of a quarter each at top_p 0.5: two of them, whichever; one that is less likely is not."""
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0, -1.0]] * 5, dtype=torch.float64)
    found = distribution.steps_of(logits, torch.arange(5), Reading(entropies=True, top_p=0.4))
    assert found.decoding_logprob.tolist() == pytest.approx([-math.log(2)] * 4 + [-math.inf])
    assert found.decoding_entropy is not None
    assert found.decoding_entropy.tolist() == pytest.approx([math.log(2)] * 5)


def test_a_trace_longer_than_the_window_has_tokens_but_no_figures() -> None:
    scorer = Scorer(*models.load(held()))
    fits, long = (Trace(PROMPT, "3 " * n, ended=False) for n in (122, 123))  # after a prompt of 6
    scored = scorer.score([long, fits, TRACES[0]], ENTROPIES)
    assert scored[0] == Score(long.key, 123, None, None, None, None, None, None)
    assert scored[1].tokens == 122
    assert_same(scored[1], direct(scorer.model, rows_of([fits], scorer.tokenizer)[0], fits.key, ENTROPIES), 1e-5)
    assert_same(scored[2], scorer.score(TRACES[:1], ENTROPIES)[0], 1e-10)


def test_after_a_prompt_without_tokens_the_first_one_is_not_scored() -> None:
    scorer = Scorer(*models.load(held()))
    scorer.tokenizer.chat_template = "{{ '' }}"
    nothing = Trace(Prompt("", chat=True), "3 + 4", ended=False)
    [(asked, told)] = rows_of([nothing], scorer.tokenizer)
    assert (len(asked), len(told)) == (1, 2)
    for score in scorer.score([nothing, nothing], ENTROPIES):
        assert_same(score, direct(scorer.model, (asked, told), nothing.key, ENTROPIES), 1e-5)


FAMILIES: list[tuple[Any, dict[str, Any]]] = [
    (LlamaConfig, {}),
    (Qwen2Config, {"tie_word_embeddings": True}),
    (GraniteConfig, {"logits_scaling": 0.5}),
    (CohereConfig, {"logit_scale": 3.0}),
    (Gemma2Config, {"final_logit_softcapping": 1.0}),
]


def drawn(config: Any, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A tiny model with random weights, as large as to make its logits far from equal."""
    torch.manual_seed(seeds.seed("test", "scoring"))
    network: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    torch.nn.Module.to(network, dtype).eval()
    return network


@pytest.mark.parametrize(("config", "more"), FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.half_precision)])
def test_logits_of_every_family_are_the_models_own(config: Any, more: dict[str, Any], dtype: torch.dtype) -> None:
    """Softcapped, scaled, or neither; in bfloat16 up to its rounding, computed on in float32."""
    network = drawn(config(**SIZES, **HEADS, **more), dtype)
    scorer = Scorer(network, models.load_tokenizer(held()))
    assert scorer.head is not None
    for trace, score in zip(TRACES, scorer.score(TRACES, READINGS[0]), strict=True):
        exact = direct(network, rows_of([trace], scorer.tokenizer)[0], trace.key, READINGS[0])
        assert score.nll == pytest.approx(exact.nll, abs=1e-4 if dtype == torch.float32 else 0.02 * exact.tokens)
        assert score.token_entropy == pytest.approx(exact.token_entropy, abs=1e-5 if dtype == torch.float32 else 0.02)


def test_a_head_that_is_not_understood_is_not_used() -> None:
    """A model that does something of its own to its logits: they are taken whole, and the figures are right."""
    network = drawn(LlamaConfig(**SIZES, **HEADS))
    forward = network.forward

    def with_a_twist(*given: Any, **named: Any) -> Any:
        output = forward(*given, **named)
        output.logits = output.logits * 0.5 + 1
        return output

    network.forward = with_a_twist
    assert head_of(network) is None
    scorer = Scorer(network, models.load_tokenizer(held()))
    for trace, score in zip(TRACES, scorer.score(TRACES, ENTROPIES), strict=True):
        assert_same(score, direct(network, rows_of([trace], scorer.tokenizer)[0], trace.key, ENTROPIES), 1e-4)


def test_a_family_with_another_backbone_is_scored_too() -> None:
    config = OPTConfig(
        vocab_size=96, hidden_size=32, word_embed_proj_dim=16, ffn_dim=48, num_hidden_layers=2, num_attention_heads=2
    )
    scorer = Scorer(drawn(config), models.load_tokenizer(held()))
    for trace, score in zip(TRACES, scorer.score(TRACES, ENTROPIES), strict=True):
        assert_same(score, direct(scorer.model, rows_of([trace], scorer.tokenizer)[0], trace.key, ENTROPIES), 1e-4)


def test_a_key_tells_traces_apart_by_what_they_say() -> None:
    trace = TRACES[0]
    others = [
        replace(trace, ended=False),
        replace(trace, text=trace.text + " "),
        replace(trace, prompt=replace(PROMPT, chat=True)),
        replace(trace, prompt=replace(PROMPT, system="Think.")),
    ]
    assert len({t.key for t in (trace, *others)}) == 5
    assert replace(trace, prompt=replace(PROMPT, images=(b"png",))).key == trace.key
    assert len(trace.key) == 16

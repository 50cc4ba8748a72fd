"""The torch scorer agrees with a direct computation over the full logits, one trace at a time."""

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

from leash import weights
from leash.prompts import Prompt
from leash.scoring import logit_stats, torch_scorer
from leash.scoring.torch_scorer import Scorer, TokenizedTrace, find_lm_head, tokenize_traces
from leash.scoring.traces import PROFILE_BINS, Score, ScoringSpec, Trace
from leash.statistics import seeds
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
SPECS = [
    ScoringSpec(entropies=True),
    ScoringSpec(entropies=True, temperature=0.6, top_p=0.95, forking=0.2),
    ScoringSpec(entropies=True, temperature=1.5, forking=1.0),
    ScoringSpec(entropies=True, top_p=0.5),
    ScoringSpec(entropies=True, temperature=0.0),
]
PLAIN = ScoringSpec()
ENTROPIES = SPECS[1]
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


def weights_of(model: str = "base", dtype: str = "float64") -> weights.Weights:
    return weights.Weights(model, str(ROOT / "models" / "embedded" / model), None, dtype)


def direct(network: PreTrainedModel, row: TokenizedTrace, key: str, spec: ScoringSpec) -> Score:
    """The score of one trace from the model's own logits, step by step in numpy."""
    prompt, text = row
    with torch.inference_mode():
        logits = network(input_ids=torch.tensor([prompt + text])).logits[0].double().numpy()
    steps = [np.exp(step - np.logaddexp.reduce(step)) for step in logits[len(prompt) - 1 :]][: len(text)]
    decoded = [decoding(step, spec) for step in steps]
    own = [entropy(step) for step in steps]
    tenths = [[h for i, h in enumerate(own) if 10 * i // len(own) == tenth] for tenth in range(PROFILE_BINS)]
    return Score(
        key,
        len(text),
        -sum(math.log(step[token]) for step, token in zip(steps, text, strict=True)),
        sum(-math.log(step[token]) if step[token] else math.inf for step, token in zip(decoded, text, strict=True)),
        mean(own),
        mean([entropy(step) for step in decoded]),
        mean([float(h >= spec.forking) for h in own]),
        [mean(tenth) if tenth else None for tenth in tenths],
    )


def decoding(step: np.ndarray[Any, Any], spec: ScoringSpec) -> np.ndarray[Any, Any]:
    if spec.temperature == 0:
        return np.asarray(step == step.max(), dtype=float)
    tempered = step ** (1 / spec.temperature)
    tempered /= tempered.sum()
    kept, mass = np.zeros_like(tempered), 0.0
    for token in np.argsort(-tempered):
        if mass >= spec.top_p:
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
    scorer = Scorer(*weights.load_model(weights_of(model, dtype)))
    assert scorer.head is not None
    for spec in SPECS:
        for trace, score in zip(TRACES, scorer.score(TRACES, spec), strict=True):
            assert_same(
                score, direct(scorer.model, tokenize_traces([trace], scorer.tokenizer)[0], trace.key, spec), 1e-5
            )


def test_likelihoods_do_not_depend_on_whether_entropies_are_computed() -> None:
    scorer = Scorer(*weights.load_model(weights_of()))
    for spec in SPECS:
        bare = scorer.score(TRACES, replace(spec, entropies=False))
        for score, whole in zip(bare, scorer.score(TRACES, spec), strict=True):
            assert (score.token_entropy, score.decoding_entropy, score.forks, score.profile) == (None,) * 4
            assert (score.nll, score.decoding_nll) == pytest.approx((whole.nll, whole.decoding_nll), abs=1e-12)


@pytest.mark.parametrize(("elements", "rows", "tokens"), [(1, 128, 1 << 14), (200, 2, 1 << 14), (1 << 20, 128, 50)])
def test_neither_chunks_nor_batches_change_a_score(
    monkeypatch: pytest.MonkeyPatch, elements: int, rows: int, tokens: int
) -> None:
    scorer = Scorer(*weights.load_model(weights_of()))
    whole = [scorer.score(TRACES, spec) for spec in SPECS]
    monkeypatch.setattr(torch_scorer, "MAX_LOGIT_ELEMENTS", {"cpu": elements})
    monkeypatch.setattr(torch_scorer, "MAX_BATCH_TRACES", rows)
    monkeypatch.setattr(torch_scorer, "MAX_BATCH_TOKENS", {"cpu": tokens})
    for spec, scores in zip(SPECS, whole, strict=True):
        for score, other in zip(scorer.score(TRACES, spec), scores, strict=True):
            assert_same(score, other, 1e-10)


def test_batches_have_rows_of_similar_length_within_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_scorer, "MAX_BATCH_TRACES", 3)
    widths = [30, 4, 5, 9, 8, 4, 4, 10]
    found = list(torch_scorer.batch_by_length(range(len(widths)), widths, 20))
    assert [[widths[i] for i in part] for part in found] == [[4, 4, 4], [5, 8], [9, 10], [30]]
    assert sorted(i for part in found for i in part) == list(range(len(widths)))


def test_a_nucleus_larger_than_the_presorted_tokens_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = Scorer(*weights.load_model(weights_of()))
    before = scorer.score(TRACES, ENTROPIES)
    monkeypatch.setattr(logit_stats, "TOP_P_PRESORT_TOKENS", 1)
    for score, other in zip(scorer.score(TRACES, ENTROPIES), before, strict=True):
        assert_same(score, other, 1e-12)


def test_equally_likely_tokens_at_the_border_of_the_nucleus_share_its_mass() -> None:
    """Four equally likely tokens, of which two reach top_p 0.4; a fifth, less likely token is outside."""
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0, -1.0]] * 5, dtype=torch.float64)
    found = logit_stats.compute_steps(logits, torch.arange(5), ScoringSpec(entropies=True, top_p=0.4))
    assert found.decoding_logprob.tolist() == pytest.approx([-math.log(4)] * 4 + [-math.inf])
    assert found.decoding_entropy is not None
    assert found.decoding_entropy.tolist() == pytest.approx([math.log(2)] * 5)


def test_a_trace_longer_than_the_window_has_a_length_but_no_scores() -> None:
    scorer = Scorer(*weights.load_model(weights_of()))
    fits, long = (Trace(PROMPT, "3 " * n, ended=False) for n in (122, 123))  # after a prompt of 6
    scored = scorer.score([long, fits, TRACES[0]], ENTROPIES)
    assert scored[0] == Score(long.key, 123, None, None, None, None, None, None)
    assert scored[1].tokens == 122
    assert_same(
        scored[1], direct(scorer.model, tokenize_traces([fits], scorer.tokenizer)[0], fits.key, ENTROPIES), 1e-5
    )
    assert_same(scored[2], scorer.score(TRACES[:1], ENTROPIES)[0], 1e-10)


def test_after_an_empty_prompt_the_first_token_is_not_scored() -> None:
    scorer = Scorer(*weights.load_model(weights_of()))
    scorer.tokenizer.chat_template = "{{ '' }}"
    nothing = Trace(Prompt("", chat=True), "3 + 4", ended=False)
    [(prompt, text)] = tokenize_traces([nothing], scorer.tokenizer)
    assert (len(prompt), len(text)) == (1, 2)
    for score in scorer.score([nothing, nothing], ENTROPIES):
        assert_same(score, direct(scorer.model, (prompt, text), nothing.key, ENTROPIES), 1e-5)


FAMILIES: list[tuple[Any, dict[str, Any]]] = [
    (LlamaConfig, {}),
    (Qwen2Config, {"tie_word_embeddings": True}),
    (GraniteConfig, {"logits_scaling": 0.5}),
    (CohereConfig, {"logit_scale": 3.0}),
    (Gemma2Config, {"final_logit_softcapping": 1.0}),
]


def drawn(config: Any, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A tiny model with random weights, large enough that its logits differ a lot."""
    torch.manual_seed(seeds.seed("test", "scoring"))
    network: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    torch.nn.Module.to(network, dtype).eval()
    return network


@pytest.mark.parametrize(("config", "more"), FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.half_precision)])
def test_the_lm_head_gives_the_logits_of_every_family(config: Any, more: dict[str, Any], dtype: torch.dtype) -> None:
    """Soft-capped, scaled, or neither. bfloat16 agrees up to its rounding."""
    network = drawn(config(**SIZES, **HEADS, **more), dtype)
    scorer = Scorer(network, weights.load_tokenizer(weights_of()))
    assert scorer.head is not None
    for trace, score in zip(TRACES, scorer.score(TRACES, SPECS[0]), strict=True):
        exact = direct(network, tokenize_traces([trace], scorer.tokenizer)[0], trace.key, SPECS[0])
        assert score.nll == pytest.approx(exact.nll, abs=1e-4 if dtype == torch.float32 else 0.02 * exact.tokens)
        assert score.token_entropy == pytest.approx(exact.token_entropy, abs=1e-5 if dtype == torch.float32 else 0.02)


def test_a_model_that_changes_its_logits_is_scored_without_the_lm_head() -> None:
    network = drawn(LlamaConfig(**SIZES, **HEADS))
    forward = network.forward

    def with_a_twist(*given: Any, **named: Any) -> Any:
        output = forward(*given, **named)
        output.logits = output.logits * 0.5 + 1
        return output

    network.forward = with_a_twist
    assert find_lm_head(network) is None
    scorer = Scorer(network, weights.load_tokenizer(weights_of()))
    for trace, score in zip(TRACES, scorer.score(TRACES, ENTROPIES), strict=True):
        assert_same(score, direct(network, tokenize_traces([trace], scorer.tokenizer)[0], trace.key, ENTROPIES), 1e-4)


def test_a_model_family_with_another_backbone_is_scored() -> None:
    config = OPTConfig(
        vocab_size=96, hidden_size=32, word_embed_proj_dim=16, ffn_dim=48, num_hidden_layers=2, num_attention_heads=2
    )
    scorer = Scorer(drawn(config), weights.load_tokenizer(weights_of()))
    for trace, score in zip(TRACES, scorer.score(TRACES, ENTROPIES), strict=True):
        assert_same(
            score, direct(scorer.model, tokenize_traces([trace], scorer.tokenizer)[0], trace.key, ENTROPIES), 1e-4
        )


def test_a_key_identifies_the_content_of_a_trace() -> None:
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

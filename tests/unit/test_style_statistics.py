"""The style control: what temperature, scaling, length and order leave, and when a change is claimed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from leash.report.narrative import style_sentence
from leash.statistics import perplexity, style
from leash.statistics.array_types import BoolArray, FloatArray, IntArray
from leash.statistics.bootstrap_weights import Estimate
from leash.statistics.style import StyleEstimates, StyleTraces, TokenSums

VOCABULARY = 12


def draw_logits(rng: np.random.Generator, lengths: IntArray, hard: BoolArray) -> tuple[FloatArray, IntArray]:
    """Logits of every token of traces, and the tokens. In hard traces half of them are random."""
    logits = rng.normal(0, 2, (int(lengths.sum()), VOCABULARY))
    chances = np.exp(log_softmax(logits))
    drawn = (chances.cumsum(axis=1) > rng.random(len(chances))[:, None]).argmax(axis=1)
    odd = np.repeat(hard, lengths) & (rng.random(len(chances)) < 0.5)
    return logits, np.where(odd, rng.integers(0, VOCABULARY, len(chances)), drawn)


def log_softmax(logits: FloatArray) -> FloatArray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))


def surprise(logits: FloatArray, tokens: IntArray) -> FloatArray:
    return np.asarray(-log_softmax(logits)[np.arange(len(tokens)), tokens])


def make_traces(seed: int, change: Any, sizes: tuple[int, int] = (40, 20), strata: int = 1) -> StyleTraces:
    """Traces of controls and of problems in question, which are harder. `change` gives each token's change of surprise
    from its logits, tokens, and whether its problem is in question."""
    rng = np.random.default_rng(seed)
    problems = sum(sizes)
    asked = np.arange(problems) >= sizes[0]
    lengths = rng.integers(10, 60, problems)
    logits, tokens = draw_logits(rng, lengths, asked)
    chances = log_softmax(logits)
    entropy = -(np.exp(chances) * chances).sum(axis=1)
    sums = sum_tokens(lengths, surprise(logits, tokens), entropy, change(logits, tokens, np.repeat(asked, lengths)))
    nothing = TokenSums(np.zeros_like(sums.xx), np.zeros_like(sums.xd), sums.length)
    unit = np.arange(problems)
    return StyleTraces(sums, nothing, unit, unit % strata, asked, ~asked)


def sum_tokens(lengths: IntArray, surprise: FloatArray, entropy: FloatArray, change: FloatArray) -> TokenSums:
    """The sums of traces whose tokens follow each other in the arrays."""
    ends = np.cumsum(lengths)[:-1]
    x = np.split(np.column_stack([np.ones(len(surprise)), surprise, entropy]), ends)
    xd = [part.T @ d for part, d in zip(x, np.split(change, ends), strict=True)]
    return TokenSums(np.array([part.T @ part for part in x]), np.array(xd), lengths.astype(float))


def temperature(tau: float) -> Any:
    return lambda logits, tokens, asked: surprise(logits / tau, tokens) - surprise(logits, tokens)


def resamples(problems: int, seed: int = 0) -> perplexity.Resamples:
    return perplexity.draw_resamples(problems, 200, 0.95, "style", seed)


def value(estimate: Estimate) -> float:
    assert estimate.value is not None
    return estimate.value


def test_the_length_is_a_fourth_predictor() -> None:
    rng = np.random.default_rng(1)
    x, change = np.column_stack([np.ones(5), rng.normal(size=(5, 2))]), rng.normal(size=5)
    sums = TokenSums((x.T @ x)[None], (x.T @ change)[None], np.array([7.0]))  # two more tokens are out of range
    longer = np.column_stack([x, np.full(5, np.log(7))])
    assert sums.with_log_length().xx[0] == pytest.approx(longer.T @ longer)
    assert sums.with_log_length().xd[0] == pytest.approx(longer.T @ change)


def test_the_estimate_is_the_mean_residual_of_least_squares() -> None:
    traces = make_traces(2, lambda logits, tokens, asked: np.sin(logits[:, 0]) + 0.1 * asked)
    found = style.estimate_style(traces, resamples(60)).beyond_style
    control, asked = (traces.straight.xx[mask].sum(axis=0) for mask in (traces.control, traces.asked))
    fit = np.linalg.lstsq(control, traces.straight.xd[traces.control].sum(axis=0), rcond=None)[0]
    left = traces.straight.xd[traces.asked].sum(axis=0)[0] - asked[0] @ fit
    assert found.value == pytest.approx(left / asked[0, 0])


@pytest.mark.parametrize("tau", [0.7, 1.5])
def test_a_temperature_leaves_less_than_is_ever_claimed(tau: float) -> None:
    traces = make_traces(3, temperature(tau))
    plain = [
        (traces.straight.xd[m][:, 0].sum() / traces.straight.tokens[m].sum()) for m in (traces.asked, ~traces.asked)
    ]
    assert abs(plain[0] - plain[1]) > 2 * style.MIN_EFFECT  # the difference of the plain changes is large
    found = style.estimate_style(traces, resamples(60))
    assert abs(value(found.beyond_style)) < style.MIN_EFFECT
    assert style.judge_style(found)[0] == "none"


def test_a_multiple_of_the_surprise_leaves_nothing() -> None:
    traces = make_traces(4, lambda logits, tokens, asked: 0.2 * surprise(logits, tokens))
    found = style.estimate_style(traces, resamples(60))
    for estimate in (found.beyond_style, found.beyond_length):
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((0, 0, 0), abs=1e-9)


def test_a_change_with_length_alone_vanishes_beyond_length() -> None:
    traces = make_traces(5, lambda logits, tokens, asked: np.zeros(len(tokens)))
    log_length = np.log(traces.straight.tokens)
    traces = replace(
        traces,
        straight=TokenSums(
            traces.straight.xx, traces.straight.xx[:, 0, :] * log_length[:, None], traces.straight.length
        ),
    )
    found = style.estimate_style(traces, resamples(60))
    assert found.beyond_length.value == pytest.approx(0, abs=1e-8)
    assert abs(value(found.beyond_style)) > 1e-3


def test_a_planted_change_comes_back_under_a_temperature() -> None:
    traces = make_traces(6, lambda logits, tokens, asked: temperature(0.8)(logits, tokens, asked) + 0.2 * asked)
    found = style.estimate_style(traces, resamples(60))
    assert found.beyond_style.value == pytest.approx(0.2, abs=0.02)
    assert style.judge_style(found) == ("stranger", None)


def test_each_data_set_has_its_own_fit() -> None:
    """The second data set changed by 1 everywhere and has most of the problems in question: pooled, that would look
    like a change beyond style."""
    traces = make_traces(7, lambda logits, tokens, asked: np.zeros(len(tokens)), sizes=(40, 20))
    unit = traces.unit
    stratum = np.where(traces.asked, unit % 10 > 0, unit % 2).astype(int)
    shifted = traces.straight.xd + traces.straight.xx[:, 0, :] * stratum[:, None]
    traces = replace(traces, straight=TokenSums(traces.straight.xx, shifted, traces.straight.length), stratum=stratum)
    assert style.estimate_style(traces, resamples(60)).beyond_style.value == pytest.approx(0, abs=1e-9)
    pooled = style.estimate_style(replace(traces, stratum=np.zeros_like(stratum)), resamples(60))
    assert value(pooled.beyond_style) > 0.2
    nothing = np.zeros(60)
    scores = perplexity.TraceScores(unit, traces.straight.tokens, nothing, traces.straight.xd[:, 0])
    change = style.standardized_control_change(traces, scores, resamples(60))
    share = traces.straight.tokens[traces.asked & (stratum == 1)].sum() / traces.straight.tokens[traces.asked].sum()
    assert change.value == pytest.approx(share)


def test_what_the_shuffled_version_shares_is_not_reasoning() -> None:
    traces = make_traces(8, lambda logits, tokens, asked: 0.3 * asked)
    found = style.estimate_style(traces, resamples(60))
    assert found.beyond_order.value is None  # there is no shuffled version
    assert style.judge_style(found) == ("stranger", None)
    shared = style.estimate_style(replace(traces, shuffled=traces.straight), resamples(60))
    assert shared.beyond_order.value == pytest.approx(0, abs=1e-9)
    assert style.judge_style(shared) == ("none", "order")


def test_traces_of_one_length_leave_the_length_out() -> None:
    rng = np.random.default_rng(9)
    lengths = np.full(30, 8)
    sums = sum_tokens(lengths, *rng.exponential(1, (3, 240)))
    unit = np.arange(30)
    traces = StyleTraces(sums, TokenSums(sums.xx * 0, sums.xd * 0, sums.length), unit, unit * 0, unit < 10, unit >= 10)
    found = style.estimate_style(traces, resamples(30))
    assert found.beyond_length == found.beyond_style
    longer = sum_tokens(np.where(unit < 10, 9, 8), *rng.exponential(1, (3, 250)))
    found = style.estimate_style(replace(traces, straight=longer), resamples(30))
    assert found.beyond_length.value is None  # all controls have one length, the others another
    clear = replace(found, beyond_style=CLEAR)
    assert style.judge_style(clear) == ("none", "length")


def test_few_controls_give_no_number() -> None:
    traces = make_traces(10, lambda logits, tokens, asked: 0.3 * asked, sizes=(4, 10))
    assert not style.has_controls(traces).any()
    assert style.estimate_style(traces, resamples(14)).beyond_style.value is None
    assert style.has_controls(make_traces(10, temperature(1), sizes=(5, 10))).all()


def test_masses_may_be_the_same_within_a_factor_of_two() -> None:
    low, high = np.array([0.1, 0.1, 0.1]), np.array([0.2, 0.2, 0.2])
    assert style.may_have_same_mass(low, high, np.array([0.4, 0.41, 0.01]), np.array([0.6, 0.6, 0.04])).tolist() == [
        True,
        False,
        False,
    ]


def test_intervals_cover_a_planted_change() -> None:
    """About 95% of 200 runs with a change of 0.1 contain it. Tokens of one problem change together."""
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(1000 + seed)
        by_problem = rng.normal(0, 0.2, 60)
        traces = make_traces(seed, lambda logits, tokens, asked: 0.1 * asked)
        shifted = traces.straight.xd + traces.straight.xx[:, 0, :] * by_problem[:, None]
        traces = replace(traces, straight=TokenSums(traces.straight.xx, shifted, traces.straight.length))
        found = style.estimate_style(traces, resamples(60, seed)).beyond_style
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.1 <= found.high
    assert 0.9 <= covered / 200 <= 0.985


CLEAR, NOT_CLEAR = Estimate(0.2, 0.1, 0.3), Estimate(0.2, -0.1, 0.5)


@pytest.mark.parametrize(
    ("estimates", "verdict"),
    [
        ((CLEAR, CLEAR, CLEAR), ("stranger", None)),
        ((CLEAR, CLEAR, Estimate()), ("stranger", None)),
        ((Estimate(-0.2, -0.3, -0.1),) * 3, ("more familiar", None)),
        ((NOT_CLEAR, CLEAR, CLEAR), ("none", "interval")),
        ((Estimate(0.04, 0.03, 0.05), CLEAR, CLEAR), ("none", "small")),
        ((CLEAR, NOT_CLEAR, CLEAR), ("none", "length")),
        ((CLEAR, CLEAR, Estimate(-0.2, -0.3, -0.1)), ("none", "order")),
        ((CLEAR, CLEAR, Estimate(0.04, 0.03, 0.05)), ("stranger", None)),
        ((CLEAR, Estimate(0.2), CLEAR), ("none", "length")),
        ((CLEAR, Estimate(), CLEAR), ("none", "length")),
        ((Estimate(0.2), CLEAR, CLEAR), ("none", "few problems")),
        ((Estimate(), CLEAR, CLEAR), ("none", "few problems")),
    ],
)
def test_a_change_is_claimed_only_if_all_controls_agree(
    estimates: tuple[Estimate, Estimate, Estimate], verdict: tuple[str, str | None]
) -> None:
    assert style.judge_style(StyleEstimates(*estimates)) == verdict


ROW = {
    **{"pair": "rlvr", "source": "r1", "per": "token", "category": "O", "problems": 12, "control_problems": 30},
    **{"left_out": 0, "change": 0.3, "control": -0.1, "surprise": 1.4, "control_surprise": 0.35, "out_of_range": 0.0},
    **{"beyond_style": 0.4, "beyond_style_low": 0.2, "beyond_style_high": 0.6, "beyond_order": 0.1},
    **{"beyond_order_low": -0.1, "beyond_order_high": 0.3, "claim": "none", "withheld": None},
}


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        (
            {"claim": "stranger"},
            "+0.400 [+0.200, +0.600] is left, more than a change of style (length and order agree):",
        ),
        (
            {"claim": "stranger"},
            "have become stranger to tuned. A new wording that moves rare tokens would look the same",
        ),
        ({"claim": "stranger", "beyond_order": None}, "(length agrees, order can't be tested)"),
        ({"claim": "stranger"}, "was 1.40 nats per token, that of the compared ones 0.35."),
        ({"withheld": "interval"}, "is left: a change of style may explain all of it."),
        ({"withheld": "order"}, "but the control for the order of their sentences does not agree (+0.100 [-0.100,"),
        (
            {"withheld": "length", "beyond_length": None},
            "have other lengths than all that they are compared with: noth",
        ),
        ({"withheld": "interval", "out_of_range": 0.113}, "left (11% of the tokens are too surprising to compare): a"),
        ({"withheld": "small"}, "is left: below 0.05 nats, the least that is claimed."),
        ({"beyond_style": None, "withheld": "tokenizers"}, "that neither solves; the two models tokenize differently"),
        ({"beyond_style": None, "withheld": "no entropies"}, "set `perplexity.engine` to torch."),
        ({"withheld": "interval", "left_out": 3}, "neither solves (3 more are in data sets with too few problems"),
    ],
)
def test_the_sentence_says_what_is_claimed_or_why_not(changes: dict[str, Any], part: str) -> None:
    said = style_sentence({**ROW, **changes}, "base", "tuned")
    assert said.startswith("rlvr, traces of r1: log-perplexity per token rose by 0.300 on the 12 problems that neither")
    assert part in said

"""Did a model lose solutions, or only the style they are written in? Pure functions of token scores.

A trained model may find another's solutions less likely only because it learned another wording, or because it became
surer of everything. So each token's change of surprise (negative log-likelihood, from base to trained model) is
compared with what the base's surprise and entropy at that token predict:

    change  ~  a + b · surprise + c · entropy

A change of temperature moves a token's surprise by (β - 1)(surprise - entropy), up to second order, and a uniform
scaling by a multiple of the surprise: the first leaves little, the second nothing. The three coefficients are fitted
for each data set and source of solutions, on preserved problems whose masses may be the same (`may_have_same_mass`).
Tokens that surprise the base more than nearly all tokens of these problems (CONTROL_QUANTILE) are left out on both
sides: a line says nothing beyond the range it was fitted in. What is left on the problems in question, per token, is
the change beyond style:

    beyond style    the mean residual
    beyond length   the same, with the logarithm of the trace's length as a fourth predictor
    beyond order    the same, minus what is left on the trace's own sentences in another order: these have the words and
                    phrases, but not the reasoning

`judge_style` claims a change only if all three say so. They can't tell it from a new wording that moves rare tokens,
which the problems in question may have more of: tests/benchmarks/diagnostics/style.py measures how often that happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from leash.statistics.array_types import BoolArray, FloatArray, IntArray
from leash.statistics.bootstrap_weights import Estimate
from leash.statistics.perplexity import Resamples, TraceScores

# Nothing smaller is claimed, in nats per token: second-order effects of a temperature between 0.5 and 2 are up to 0.04.
MIN_EFFECT = 0.05
# Fewer problems can't show how the base's surprise and entropy predict the change.
MIN_CONTROL_PROBLEMS = 5
# A preserved problem is a control if its two masses may differ by no more than this factor, by their intervals.
MAX_MASS_RATIO = 2.0
CONTROL_QUANTILE = 0.995
PREDICTORS = 3

Claim = Literal["stranger", "more familiar", "none"]
# Why nothing is claimed: models that tokenize differently, scores without entropies, too few problems that both solve
# with the same mass, too few problems in question, an interval that includes 0, an effect below MIN_EFFECT, or a
# control that disagrees. Length stands in the way also if it can't be told apart from the problems in question.
Withheld = Literal["tokenizers", "no entropies", "few controls", "few problems", "interval", "small", "length", "order"]


@dataclass(frozen=True)
class TokenSums:
    """Sums over the tokens of each trace that are in the controls' range. With x = (1, surprise, entropy) under the
    base and d the change of surprise: the sums of x xᵀ (traces by 3 by 3) and of x d (traces by 3), 0 for a trace
    without scores; and the trace's length, all tokens counted."""

    xx: FloatArray
    xd: FloatArray
    length: FloatArray

    @property
    def tokens(self) -> FloatArray:
        return np.asarray(self.xx[:, 0, 0])

    @property
    def has_scores(self) -> BoolArray:
        return self.tokens > 0

    def with_log_length(self) -> TokenSums:
        """The same with a fourth predictor, which is constant within a trace."""
        log_length = np.log(np.maximum(self.length, 1))
        column = self.xx[:, :, 0] * log_length[:, None]
        corner = (self.tokens * log_length**2)[:, None, None]
        upper = np.concatenate([self.xx, column[:, :, None]], axis=2)
        lower = np.concatenate([column[:, None, :], corner], axis=2)
        xd = np.concatenate([self.xd, (self.xd[:, 0] * log_length)[:, None]], axis=1)
        return TokenSums(np.concatenate([upper, lower], axis=1), xd, self.length)


@dataclass(frozen=True)
class StyleTraces:
    """Traces of one source. `unit` is the problem or cluster that is resampled, `stratum` the data set. `asked` marks
    the problems in question, `control` those that both models solve with the same mass."""

    straight: TokenSums
    shuffled: TokenSums
    unit: IntArray
    stratum: IntArray
    asked: BoolArray
    control: BoolArray


@dataclass(frozen=True)
class StyleEstimates:
    beyond_style: Estimate
    beyond_length: Estimate
    beyond_order: Estimate


def may_have_same_mass(
    low_base: FloatArray, high_base: FloatArray, low_rlvr: FloatArray, high_rlvr: FloatArray
) -> BoolArray:
    """Whether the intervals of both masses allow that they differ by a factor of MAX_MASS_RATIO or less. With few
    samples they allow much: most preserved problems are controls then."""
    return np.asarray((low_rlvr <= MAX_MASS_RATIO * high_base) & (low_base <= MAX_MASS_RATIO * high_rlvr))


def has_controls(traces: StyleTraces) -> BoolArray:
    """Which traces are in a data set with enough problems to fit."""
    counts = {
        stratum: len(np.unique(traces.unit[traces.control & (traces.stratum == stratum)]))
        for stratum in np.unique(traces.stratum).tolist()
    }
    enough = {stratum for stratum, number in counts.items() if number >= MIN_CONTROL_PROBLEMS}
    return np.isin(traces.stratum, list(enough))


def estimate_style(traces: StyleTraces, resamples: Resamples) -> StyleEstimates:
    """The three estimates for the problems in question. All of these must be in a data set with controls."""
    straight = _residuals(traces, traces.straight, resamples, np.ones(len(traces.unit), dtype=bool))
    by_length = _residuals(traces, traces.straight.with_log_length(), resamples, np.ones(len(traces.unit), dtype=bool))
    both = traces.shuffled.has_scores
    ordered, shuffled = (_residuals(traces, sums, resamples, both) for sums in (traces.straight, traces.shuffled))
    return StyleEstimates(
        _estimate(traces, straight, resamples, np.ones_like(both)),
        _estimate(traces, by_length, resamples, np.ones_like(both)),
        _estimate(traces, None if ordered is None or shuffled is None else ordered - shuffled, resamples, both),
    )


def standardized_control_change(traces: StyleTraces, scores: TraceScores, resamples: Resamples) -> Estimate:
    """The change per token on the controls, all tokens counted, with the data sets in the proportions of the problems
    in question."""
    change, tokens = np.zeros(len(resamples.weights)), np.zeros(len(resamples.weights))
    for asked, control in _strata(traces, np.ones(len(traces.unit), dtype=bool)):
        weight = resamples.sums(traces.unit[asked], scores.length[asked])
        sums = [resamples.sums(traces.unit[control], each[control]) for each in (scores.change, scores.length)]
        change += weight * sums[0] / sums[1]
        tokens += weight
    return resamples.estimate(change / tokens, len(np.unique(traces.unit[traces.control])))


def judge_style(estimates: StyleEstimates) -> tuple[Claim, Withheld | None]:
    """What may be claimed, and what stands in the way if nothing may. An order that can't be tested, such as that of a
    single sentence, does not stand in the way."""
    found = estimates.beyond_style
    if found.value is None or found.low is None:
        return "none", "few problems"
    if not found.sign:
        return "none", "interval"
    if abs(found.value) < MIN_EFFECT:
        return "none", "small"
    if estimates.beyond_length.sign != found.sign:
        return "none", "length"
    if estimates.beyond_order.value is not None and estimates.beyond_order.sign != found.sign:
        return "none", "order"
    return ("stranger" if found.sign > 0 else "more familiar"), None


def _strata(traces: StyleTraces, used: BoolArray) -> list[tuple[BoolArray, BoolArray]]:
    """For each data set with problems in question: masks of these and of its controls."""
    strata = np.unique(traces.stratum[traces.asked & used])
    inside = [used & (traces.stratum == stratum) for stratum in strata]
    return [(traces.asked & mask, traces.control & mask) for mask in inside]


def _residuals(traces: StyleTraces, sums: TokenSums, resamples: Resamples, used: BoolArray) -> FloatArray | None:
    """What the fit leaves per token of the problems in question, in every resample. None if there is no such problem,
    or the controls of a data set can't determine the coefficients."""
    left, tokens = np.zeros(len(resamples.weights)), np.zeros(len(resamples.weights))
    strata = _strata(traces, used)
    for asked, control in strata:
        if len(np.unique(traces.unit[control])) < MIN_CONTROL_PROBLEMS:
            return None
        normal, outer = (resamples.sums(traces.unit[control], each[control]) for each in (sums.xx, sums.xd))
        known = _determined(normal[0], sums.xx[asked].sum(axis=0))
        if known is None:
            return None
        normal, outer = normal[:, :known, :known], outer[:, :known]
        coefficients = np.linalg.solve(normal, outer[:, :, None])[:, :, 0]
        predicted = resamples.sums(traces.unit[asked], sums.xx[asked][:, 0, :known]) * coefficients
        left += resamples.sums(traces.unit[asked], sums.xd[asked][:, 0]) - predicted.sum(axis=1)
        tokens += resamples.sums(traces.unit[asked], sums.tokens[asked])
    return left / tokens if strata else None


def _determined(control: FloatArray, asked: FloatArray) -> int | None:
    """How many predictors the controls determine, given the sums of x xᵀ of both sides. The fourth, length, is left out
    if all traces of both sides have the same: then it predicts nothing. None if they determine too few."""
    if len(control) > PREDICTORS and _rank(control) == PREDICTORS and _rank(control + asked) == PREDICTORS:
        return PREDICTORS
    return len(control) if _rank(control) == len(control) else None


def _rank(normal: FloatArray) -> int:
    """The number of independent predictors. They have different units, so it is that of their correlations."""
    scale = np.sqrt(np.maximum(np.diagonal(normal), 1e-300))
    return int(np.linalg.matrix_rank(normal / np.outer(scale, scale), tol=1e-9))


def _estimate(traces: StyleTraces, draws: FloatArray | None, resamples: Resamples, used: BoolArray) -> Estimate:
    if draws is None:
        return Estimate(None)
    sizes = [len(np.unique(traces.unit[mask & used])) for mask in (traces.asked, traces.control)]
    return resamples.estimate(draws, min(sizes))

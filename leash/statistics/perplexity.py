"""Perplexities with intervals, and how much of their change remains without style: pure functions of trace scores.

Every interval is a Bayesian bootstrap over problems: each problem gets a random weight, which all its traces share. The
draws are widened to Student's width.

The style control. A model may find the traces of a source less likely than its base does only because it learned
another wording. The same source's traces on problems that both models solve have the same style, but there support has
not changed. So the control subtracts the change of log-perplexity on those problems:

    beyond style   the difference in differences; a shift of style alone leaves zero
    by length      the same among traces of equal length (least squares on the logarithm of the length): longer traces
                   belong to harder problems and repeat more
    by order       the same, with each trace's change measured against that of its own sentences in another order: the
                   shuffled version has the same words and phrases, but not the reasoning
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leash.statistics.array_types import BoolArray, FloatArray, IntArray
from leash.statistics.bootstrap_weights import Estimate, estimate_from_draws, t_correction
from leash.statistics.seeds import stream

MIN_INTERVAL_PROBLEMS = 2


@dataclass(frozen=True)
class TraceScores:
    """One entry per trace: its problem's number, its length (in tokens or bytes), its total negative log-likelihood
    under both models, and those of its shuffled version (NaN: there is none)."""

    problem: IntArray
    length: FloatArray
    base: FloatArray
    rlvr: FloatArray
    shuffled_base: FloatArray
    shuffled_rlvr: FloatArray

    def where(self, mask: BoolArray) -> TraceScores:
        return TraceScores(*(values[mask] for values in vars(self).values()))

    @property
    def problems(self) -> int:
        return len(np.unique(self.problem))

    @property
    def change(self) -> FloatArray:
        """How much each trace's negative log-likelihood grew from base to RLVR."""
        return self.rlvr - self.base

    @property
    def change_of_order(self) -> FloatArray:
        """How much more it grew than the shuffled version's."""
        return self.change - (self.shuffled_rlvr - self.shuffled_base)


@dataclass(frozen=True)
class Resamples:
    """Random weights of the problems, one row per resample. The first row is all ones: the data themselves."""

    weights: FloatArray
    confidence: float

    def sums(self, traces: TraceScores, values: FloatArray) -> FloatArray:
        """Weighted sums over traces, one per resample. `values` may have several columns."""
        by_problem = np.zeros((self.weights.shape[1], *values.shape[1:]))
        np.add.at(by_problem, traces.problem, values)
        return np.asarray(self.weights @ by_problem)

    def estimate(self, draws: FloatArray, problems: int, logs: bool = False) -> Estimate:
        """The first draw is the value, the others give its interval. Draws of a positive quantity are widened as
        `logs`, so that the interval stays positive."""
        if not np.isfinite(draws).all():
            return Estimate(float(draws[0]) if np.isfinite(draws[0]) else None)
        value, others = float(draws[0]), draws[1:]
        if problems < MIN_INTERVAL_PROBLEMS:
            return Estimate(value)
        wider = t_correction(problems, self.confidence)
        if logs:
            others = np.exp(np.log(value) + (np.log(others) - np.log(value)) * wider)
        else:
            others = value + (others - value) * wider
        return estimate_from_draws(value, others, self.confidence)


def draw_resamples(problems: int, number: int, confidence: float, *names: str | int) -> Resamples:
    """Draw weights from the random stream of these names."""
    weights = stream("perplexity", *names).standard_exponential((number, problems))
    return Resamples(np.concatenate([np.ones((1, problems)), weights]), confidence)


def perplexity(traces: TraceScores, nll: FloatArray, resamples: Resamples) -> Estimate:
    """Token-weighted: the exponential of the total negative log-likelihood over the total length."""
    draws = resamples.sums(traces, nll) / resamples.sums(traces, traces.length)
    return resamples.estimate(np.exp(draws), traces.problems, logs=True)


def mean_perplexity(traces: TraceScores, nll: FloatArray, resamples: Resamples) -> Estimate:
    """The mean of the traces' own perplexities."""
    own = np.exp(nll / traces.length)
    draws = resamples.sums(traces, own) / resamples.sums(traces, np.ones(len(own)))
    return resamples.estimate(draws, traces.problems, logs=True)


def log_perplexity_change(traces: TraceScores, resamples: Resamples) -> Estimate:
    """How much token-weighted log-perplexity grew from base to RLVR."""
    return resamples.estimate(_change_draws(traces, traces.change, resamples), traces.problems)


def change_beyond_style(traces: TraceScores, control: TraceScores, resamples: Resamples) -> Estimate:
    """The change on these traces minus the change on the control's."""
    draws = _change_draws(traces, traces.change, resamples) - _change_draws(control, control.change, resamples)
    return resamples.estimate(draws, min(traces.problems, control.problems))


def change_beyond_length(traces: TraceScores, control: TraceScores, resamples: Resamples) -> Estimate:
    """Least squares of each trace's change per token on the log of its length and on whether it is one of `traces`;
    the estimate is the coefficient of the latter."""
    inner = np.zeros((len(resamples.weights), 9))
    outer = np.zeros((len(resamples.weights), 3))
    for side, is_inside in ((traces, 1.0), (control, 0.0)):
        ones = np.ones(len(side.length))
        x = np.stack([ones, np.log(side.length), is_inside * ones], axis=1)
        y = side.change / side.length
        inner += resamples.sums(side, np.einsum("ti,tj->tij", x, x).reshape(len(x), 9))
        outer += resamples.sums(side, x * y[:, None])
    normal = inner.reshape(-1, 3, 3)
    if np.linalg.matrix_rank(normal[0]) < 3:
        # All traces have one length, or length determines the group: there is no coefficient to estimate.
        return Estimate(None)
    coefficients: FloatArray = np.asarray(np.linalg.solve(normal, outer[:, :, None])[:, 2, 0], dtype=np.float64)
    return resamples.estimate(coefficients, min(traces.problems, control.problems))


def change_beyond_order(traces: TraceScores, control: TraceScores, resamples: Resamples) -> Estimate:
    """`change_beyond_style` with each trace's change measured against that of its shuffled version."""
    sides = [side.where(np.isfinite(side.change_of_order)) for side in (traces, control)]
    problems = min(side.problems for side in sides)
    if not problems:
        return Estimate(None)
    inside, outside = (_change_draws(side, side.change_of_order, resamples) for side in sides)
    return resamples.estimate(inside - outside, problems)


def _change_draws(traces: TraceScores, change: FloatArray, resamples: Resamples) -> FloatArray:
    return np.asarray(resamples.sums(traces, change) / resamples.sums(traces, traces.length))


def group_masks(names: Sequence[str]) -> dict[str, BoolArray]:
    """A mask of all entries (`all`), and one for each name."""
    values = np.array(names, dtype=object)
    return {"all": np.ones(len(values), dtype=bool), **{name: values == name for name in sorted(set(names))}}

"""Perplexities with intervals: pure functions of trace scores.

Every interval is a Bayesian bootstrap over problems: each problem gets a random weight, which all its traces share.
Problems of a cluster share one, too. The draws are widened to Student's width. style.py asks how much of a change of
perplexity is more than a change of style.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leash.statistics.array_types import BoolArray, FloatArray, IntArray
from leash.statistics.bootstrap_weights import Estimate, estimate_from_draws, t_correction
from leash.statistics.seeds import stream

MIN_INTERVAL_UNITS = 2


@dataclass(frozen=True)
class TraceScores:
    """One entry per trace: the number of what is resampled (its problem, or that problem's cluster), its length (in
    tokens or bytes), and its total negative log-likelihood under both models."""

    unit: IntArray
    length: FloatArray
    base: FloatArray
    rlvr: FloatArray

    def where(self, mask: BoolArray) -> TraceScores:
        return TraceScores(*(values[mask] for values in vars(self).values()))

    @property
    def units(self) -> int:
        return len(np.unique(self.unit))

    @property
    def change(self) -> FloatArray:
        """How much each trace's negative log-likelihood grew from base to RLVR."""
        return self.rlvr - self.base


@dataclass(frozen=True)
class Resamples:
    """Random weights of problems or clusters, one row per resample. The first row is all ones: the data themselves."""

    weights: FloatArray
    confidence: float

    def sums(self, unit: IntArray, values: FloatArray) -> FloatArray:
        """Weighted sums over traces, one per resample. `unit` is the problem or cluster of each trace, and the first
        axis of `values` is traces."""
        by_unit = np.zeros((self.weights.shape[1], *values.shape[1:]))
        np.add.at(by_unit, unit, values)
        return np.tensordot(self.weights, by_unit, axes=1)

    def estimate(self, draws: FloatArray, units: int, logs: bool = False) -> Estimate:
        """The first draw is the value, the others give its interval. Draws of a positive quantity are widened as
        `logs`, so that the interval stays positive."""
        if not np.isfinite(draws).all():
            return Estimate(float(draws[0]) if np.isfinite(draws[0]) else None)
        value, others = float(draws[0]), draws[1:]
        if units < MIN_INTERVAL_UNITS:
            return Estimate(value)
        wider = t_correction(units, self.confidence)
        if logs:
            others = np.exp(np.log(value) + (np.log(others) - np.log(value)) * wider)
        else:
            others = value + (others - value) * wider
        return estimate_from_draws(value, others, self.confidence)


def draw_resamples(units: int, number: int, confidence: float, *names: str | int) -> Resamples:
    """Draw weights from the random stream of these names."""
    weights = stream("perplexity", *names).standard_exponential((number, units))
    return Resamples(np.concatenate([np.ones((1, units)), weights]), confidence)


def perplexity(traces: TraceScores, nll: FloatArray, resamples: Resamples) -> Estimate:
    """Token-weighted: the exponential of the total negative log-likelihood over the total length."""
    draws = resamples.sums(traces.unit, nll) / resamples.sums(traces.unit, traces.length)
    return resamples.estimate(np.exp(draws), traces.units, logs=True)


def mean_perplexity(traces: TraceScores, nll: FloatArray, resamples: Resamples) -> Estimate:
    """The mean of the traces' own perplexities."""
    own = np.exp(nll / traces.length)
    draws = resamples.sums(traces.unit, own) / resamples.sums(traces.unit, np.ones(len(own)))
    return resamples.estimate(draws, traces.units, logs=True)


def log_perplexity_change(traces: TraceScores, resamples: Resamples) -> Estimate:
    """How much token-weighted log-perplexity grew from base to RLVR."""
    return resamples.estimate(_change_draws(traces, resamples), traces.units)


def _change_draws(traces: TraceScores, resamples: Resamples) -> FloatArray:
    return np.asarray(resamples.sums(traces.unit, traces.change) / resamples.sums(traces.unit, traces.length))


def group_masks(names: Sequence[str]) -> dict[str, BoolArray]:
    """A mask of all entries (`all`), and one for each name."""
    values = np.array(names, dtype=object)
    return {"all": np.ones(len(values), dtype=bool), **{name: values == name for name in sorted(set(names))}}

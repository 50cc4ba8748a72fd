"""Means, shares and rank correlations over problems, each with its interval: pure functions, no I/O.

    weights = draw_weights(len(changes), resamples=1000, seed=0)
    mean_estimate(changes, weights, 0.95)  ->  Estimate(value=-0.41, low=-0.44, high=-0.38)

Intervals come from the Bayesian bootstrap over problems (`resampling`), with one set of weights for all estimates of a
group. With few problems, the bootstrap's draws vary too little. `t_correction` widens them, so that the interval of a
mean is as wide as Student's but keeps the skew of the draws.
"""

from __future__ import annotations

import math

import numpy as np

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_weights import BootstrapWeights, Estimate, estimate_from_draws, t_correction

# Fewer problems can be in perfect order by luck alone, so their rank correlation gets no interval.
MIN_CORRELATION_PROBLEMS = 10


def mean_estimate(
    values: FloatArray, weights: BootstrapWeights, confidence: float, least: float = -math.inf, most: float = math.inf
) -> Estimate:
    """The mean over problems of a quantity between `least` and `most`.

    None if a problem has no value (NaN): the mean of the others would be that of another data set.
    """
    if len(values) == 0 or np.isnan(values).any():
        return Estimate()
    value = float(values.mean())
    if len(values) == 1:
        return Estimate(value)
    deviations = weights.problems @ (values - value) / weights.problems.sum(axis=1)
    draws = value + deviations * t_correction(len(values), confidence)
    return estimate_from_draws(value, np.clip(draws, least, most), confidence)


def share_estimate(values: FloatArray, weights: BootstrapWeights, confidence: float) -> Estimate:
    """The mean of values between 0 and 1. The draws include half a made-up problem at 0 and half a one at 1 (Jeffreys'
    prior): 0 of 30 problems does not prove that there are none."""
    if len(values) == 0 or np.isnan(values).any():
        return Estimate()
    draws = (weights.problems @ values + weights.quarters[:, :2].sum(axis=1)) / weights.size
    return estimate_from_draws(float(values.mean()), draws, confidence)


def spearman_estimate(x: FloatArray, y: FloatArray, weights: BootstrapWeights, confidence: float) -> Estimate:
    """Spearman's rank correlation over problems; None if x or y is the same everywhere."""
    if len(x) < 2 or np.isnan([x, y]).any() or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Estimate()
    value = float(_weighted_spearman(np.ones((1, len(x))), x, y)[0])
    if len(x) < MIN_CORRELATION_PROBLEMS:
        return Estimate(value)
    # Draws are widened on Fisher's scale, where they are about normal and can't leave (-1, 1).
    centre = np.arctanh(_clip_correlation(value))
    draws = np.arctanh(_clip_correlation(_weighted_spearman(weights.problems, x, y)))
    widened = centre + (draws - centre) * t_correction(len(x), confidence)
    return estimate_from_draws(value, np.tanh(widened), confidence)


def _weighted_spearman(weights: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Spearman's correlation under each row of weights."""
    ranks = [_weighted_ranks(weights, values) for values in (x, y)]
    means = [((weights * rank).sum(axis=1) / weights.sum(axis=1))[:, None] for rank in ranks]
    dx, dy = (rank - mean for rank, mean in zip(ranks, means, strict=True))
    squares = [(weights * d * d).sum(axis=1) for d in (dx, dy)]
    return np.asarray((weights * dx * dy).sum(axis=1) / np.sqrt(squares[0] * squares[1]))


def _weighted_ranks(weights: FloatArray, values: FloatArray) -> FloatArray:
    """Each value's rank under each row of weights: the weight below it plus half of the weight equal to it."""
    _, kind = np.unique(values, return_inverse=True)
    order = np.argsort(kind, kind="stable")
    starts: IntArray = np.flatnonzero(np.diff(kind[order], prepend=-1))
    equal = np.add.reduceat(weights[:, order], starts, axis=1)
    return np.asarray((np.cumsum(equal, axis=1) - equal / 2)[:, kind])


def _clip_correlation(correlation: FloatArray | float) -> FloatArray:
    # arctanh is infinite at -1 and 1.
    return np.clip(correlation, -1 + 1e-12, 1 - 1e-12)

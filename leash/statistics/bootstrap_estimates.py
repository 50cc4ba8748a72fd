"""Means, ratios and rank correlations over problems, each with its interval: pure functions, no I/O.

    weights = draw_weights(len(changes), resamples=1000, seed=0)
    mean_estimate(changes, weights, 0.95)  ->  Estimate(value=-0.41, low=-0.44, high=-0.38)

Intervals come from the Bayesian bootstrap over problems, or over clusters of problems if the weights have clusters,
with one set of weights for all estimates of a group. With few problems (clusters), the bootstrap's draws vary too
little. `t_correction` widens them, so that the interval of a mean is as wide as Student's but keeps the skew of the
draws. A mean of rates (avg@n) has Student's interval itself, widened where rates hardly vary or are skewed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

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
    draws = value + deviations * t_correction(weights.units, confidence)
    return estimate_from_draws(value, np.clip(draws, least, most), confidence)


def rate_estimate(values: FloatArray, weights: BootstrapWeights, confidence: float) -> Estimate:
    """The mean over problems of rates between 0 and 1, such as avg@n: Student's interval over problems or, with
    clusters, over clusters, cut off at 0 and 1; or a wider one for kinds of problems that were not seen.

    Student's interval is a point if all rates are equal, and too short above if most rates are 0 and few are large. But
    m problems leave room for a kind that has a share of up to 1 - tail^(1/m) of all problems (Clopper and Pearson's
    limit for 0 of m). Its rate may be somewhat above all rates seen: with h rates above 0, by 1/(h + 1) of the way from
    the largest to 1, as far as h uniform rates leave on average. So the upper end is at least the mean with that share
    of such problems. Without a hit this is Clopper and Pearson's end. The lower end is the same with 0 and 1 exchanged.
    None if a problem has no value (NaN).
    """
    if len(values) == 0 or np.isnan(values).any():
        return Estimate()
    value, tail = float(values.mean()), (1 - confidence) / 2
    if len(values) == 1:
        return Estimate(value)
    units = weights.units
    cluster = np.arange(len(values)) if weights.cluster is None else weights.cluster
    # The mean of sums over clusters of unequal size is a ratio: its error is that of the clusters' deviations.
    deviations = np.bincount(cluster, values - value)
    error = math.sqrt(units / max(units - 1, 1) * float((deviations**2).sum())) / len(values)
    reach = float(stats.t.isf(tail, units - 1)) * error if units > 1 else 1.0
    rates, unseen = np.bincount(cluster, values) / np.bincount(cluster), 1 - tail ** (1 / units)
    up = max(reach, unseen * (_next_rate(rates) - value))
    down = max(reach, unseen * (_next_rate(1 - rates) - (1 - value)))
    return Estimate(value, max(value - down, 0.0), min(value + up, 1.0))


def _next_rate(rates: FloatArray) -> float:
    """A rate above all of these, the nearer to the largest the more are above 0."""
    largest = float(rates.max())
    return largest + (1 - largest) / (int((rates > 0).sum()) + 1)


def functional_estimate(
    statistic: Callable[[FloatArray], FloatArray], weights: BootstrapWeights, confidence: float
) -> list[Estimate]:
    """What `statistic` makes of weights of the problems: a row of numbers for each row of weights, such as ratios of
    weighted means. Each number with its interval."""
    value = statistic(np.ones((1, weights.problems.shape[1])))[0]
    if weights.problems.shape[1] == 1:
        return [Estimate(float(each)) for each in value]
    draws = value + (statistic(weights.problems) - value) * t_correction(weights.units, confidence)
    return [estimate_from_draws(float(v), d, confidence) for v, d in zip(value, draws.T, strict=True)]


def spearman_estimate(
    parts: Sequence[tuple[FloatArray, FloatArray]], weights: BootstrapWeights, confidence: float
) -> Estimate:
    """Spearman's rank correlation of x and y over problems: the mean over several such pairs of values, on Fisher's
    scale. None if an x or y is the same everywhere.

    Pass values of x and y that come from different samples. If both are computed from the same samples, their errors
    are correlated, and so are the ranks even if the quantities are not.
    """
    problems = len(parts[0][0])
    if problems < 2 or any(np.isnan(part).any() or (np.ptp(part, axis=1) == 0).any() for part in parts):
        return Estimate()

    def on_fishers_scale(problem_weights: FloatArray) -> FloatArray:
        found = [_weighted_spearman(problem_weights, x, y) for x, y in parts]
        return np.asarray(np.arctanh(_clip_correlation(np.array(found))).mean(axis=0))[:, None]

    centre = on_fishers_scale(np.ones((1, problems)))[0, 0]
    if weights.units < MIN_CORRELATION_PROBLEMS:
        return Estimate(float(np.tanh(centre)))
    # Draws are widened on Fisher's scale, where they are about normal and can't leave (-1, 1).
    [found] = functional_estimate(on_fishers_scale, weights, confidence)
    return Estimate(*(None if end is None else math.tanh(end) for end in (found.value, found.low, found.high)))


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

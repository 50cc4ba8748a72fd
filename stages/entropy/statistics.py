"""Means, shares and rank correlations over problems, each with its interval: pure functions, no I/O.

    drawn = weights(len(changes), resamples=1000, seed=0)
    mean(changes, drawn, 0.95)  ->  Estimate(value=-0.41, low=-0.44, high=-0.38)

Intervals are the bootstrap over problems of `categorize`: random weights, one set for all that is said of a group. A
few problems vary less than the many they stand for, and their bootstrap even less: draws are spread by what makes up
for both, so that the interval of a mean is as wide as Student's and leans as the problems do.
"""

from __future__ import annotations

import math

import numpy as np

from stages.categorize.statistics.arrays import Ints, Reals
from stages.categorize.statistics.resampling import Estimate, Weights, estimated, spread

FEW = 10  # problems below which a rank correlation has no interval: by luck alone they may be in perfect order


def mean(
    values: Reals, drawn: Weights, confidence: float, least: float = -math.inf, most: float = math.inf
) -> Estimate:
    """The mean over problems of what can't be beyond `least` and `most`. None where a problem has no value: the mean of
    the others is that of another data set."""
    if len(values) == 0 or np.isnan(values).any():
        return Estimate()
    value = float(values.mean())
    if len(values) == 1:
        return Estimate(value)
    draws = value + (drawn.problems @ (values - value) / drawn.problems.sum(axis=1)) * spread(len(values), confidence)
    return estimated(value, np.clip(draws, least, most), confidence)


def share(values: Reals, drawn: Weights, confidence: float) -> Estimate:
    """The mean of what is 0 or 1, or a share, with half a made-up problem of each kind in the draws: none in 30 is not
    a proof that there are none."""
    if len(values) == 0 or np.isnan(values).any():
        return Estimate()
    draws = (drawn.problems @ values + drawn.quarters[:, :2].sum(axis=1)) / drawn.size
    return estimated(float(values.mean()), draws, confidence)


def spearman(one: Reals, other: Reals, drawn: Weights, confidence: float) -> Estimate:
    """Spearman's rank correlation over problems; None where one side is the same everywhere."""
    if len(one) < 2 or np.isnan([one, other]).any() or np.ptp(one) == 0 or np.ptp(other) == 0:
        return Estimate()
    value = float(_correlations(np.ones((1, len(one))), one, other)[0])
    if len(one) < FEW:
        return Estimate(value)
    centre, draws = np.arctanh(_inside(value)), np.arctanh(_inside(_correlations(drawn.problems, one, other)))
    return estimated(value, np.tanh(centre + (draws - centre) * spread(len(one), confidence)), confidence)


def _correlations(weights: Reals, one: Reals, other: Reals) -> Reals:
    """Spearman's correlation under each row of weights."""
    ranks = [_ranks(weights, values) for values in (one, other)]
    x, y = (rank - _mean(weights, rank) for rank in ranks)
    squares = [(weights * z * z).sum(axis=1) for z in (x, y)]
    return np.asarray((weights * x * y).sum(axis=1) / np.sqrt(squares[0] * squares[1]))


def _mean(weights: Reals, values: Reals) -> Reals:
    return np.asarray(((weights * values).sum(axis=1) / weights.sum(axis=1))[:, None])


def _ranks(weights: Reals, values: Reals) -> Reals:
    """Each value's rank under each row of weights: what weighs below it and half of what is equal to it."""
    _, kind = np.unique(values, return_inverse=True)
    order = np.argsort(kind, kind="stable")
    starts: Ints = np.flatnonzero(np.diff(kind[order], prepend=-1))
    equal = np.add.reduceat(weights[:, order], starts, axis=1)
    return np.asarray((np.cumsum(equal, axis=1) - equal / 2)[:, kind])


def _inside(correlation: Reals | float) -> Reals:
    """A correlation that has a finite arctanh."""
    return np.clip(correlation, -1 + 1e-12, 1 - 1e-12)

"""Intervals of a share: exact ones of a mass, also after an early stop, and Wilson's of a ratio of problems."""

from __future__ import annotations

import numpy as np
from scipy import stats

from leash.statistics.array_types import BoolArray, FloatArray, IntArray


def clopper_pearson(n: IntArray, c: IntArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """The exact interval of a share, from c hits in n samples."""
    tail = (1 - confidence) / 2
    with np.errstate(invalid="ignore"):
        low = np.where(c > 0, stats.beta.ppf(tail, c, n - c + 1), 0.0)
        high = np.where(c < n, stats.beta.ppf(1 - tail, c + 1, n - c), 1.0)
    return low, high


def wilson_interval(n: float, c: float, confidence: float) -> tuple[float, float]:
    """Wilson's interval of a share, from c of n problems. It covers 94% to 97% where the exact one covers up to 99%."""
    z2 = float(stats.norm.isf((1 - confidence) / 2)) ** 2
    centre, reach = (c + z2 / 2) / (n + z2), np.sqrt(z2 * (c * (n - c) / n + z2 / 4)) / (n + z2)
    return max(float(centre - reach), 0.0), min(float(centre + reach), 1.0)


def curtailed_interval(n: IntArray, c: IntArray, hit: BoolArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """The exact interval of a share if sampling stops at the h-th hit, but not before a floor and not after K.

    `hit` marks problems that stopped at a hit, the last of their n samples. Problems that ended at the floor or at K
    have the Clopper-Pearson interval.

    Order the endings by their evidence for a large share: at the floor by falling c, then stops at a hit by rising n,
    then at K by falling c. An ending at least as strong as "hit at n" has h or more hits in n samples, one at most as
    strong has fewer than h hits in n - 1. At the floor and at K the same holds for c in n. So every tail is binomial.
    """
    low, _ = clopper_pearson(n, c, confidence)
    _, high = clopper_pearson(n - hit, c - hit, confidence)
    return low, high


def one_sided_bounds(n: IntArray, c: IntArray, hit: BoolArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """A lower and an upper bound of a share, each exact at this confidence by itself, for budgets as above. Each end of
    a two-sided interval at 90% is a bound at 95%."""
    return curtailed_interval(n, c, hit, 2 * confidence - 1)

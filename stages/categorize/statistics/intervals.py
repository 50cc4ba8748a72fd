"""Exact intervals of a mass, also where sampling stopped early."""

from __future__ import annotations

import numpy as np
from scipy import stats

from stages.categorize.statistics.arrays import Ints, Reals, Truths


def clopper_pearson(n: Ints, c: Ints, confidence: float) -> tuple[Reals, Reals]:
    """The exact interval of a share of which c in n were seen."""
    tail = (1 - confidence) / 2
    with np.errstate(invalid="ignore"):
        low = np.where(c > 0, stats.beta.ppf(tail, c, n - c + 1), 0.0)
        high = np.where(c < n, stats.beta.ppf(1 - tail, c + 1, n - c), 1.0)
    return low, high


def curtailed(n: Ints, c: Ints, hit: Truths, confidence: float) -> tuple[Reals, Reals]:
    """The exact interval of a share when sampling was to stop at the h-th hit, but not before a floor nor after K.
    `hit` marks what ended so, with its h-th hit the last of n; what ended at the floor or at K has Clopper–Pearson's.

    Order the ends by their evidence for a large share: at the floor by falling c, then hits by rising n, then at K
    by falling c. An end at least as strong as "hit at n" is h or more hits in n samples, one at most as strong is
    fewer than h hits in n - 1, and at the floor and at K the same holds of c in n: every tail is a binomial's.
    """
    low, _ = clopper_pearson(n, c, confidence)
    _, high = clopper_pearson(n - hit, c - hit, confidence)
    return low, high

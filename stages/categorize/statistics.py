"""Statistics that SQL says badly: pure functions of counts, no I/O."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Ints = NDArray[np.integer]
Reals = NDArray[np.float64]
Truths = NDArray[np.bool_]


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


def fisher(n_base: Ints, c_base: Ints, n_rlvr: Ints, c_rlvr: Ints) -> Reals:
    """Two-sided exact p-values, one a problem, that both models have the same mass."""
    tables = zip(c_base.tolist(), n_base.tolist(), c_rlvr.tolist(), n_rlvr.tolist(), strict=True)
    return np.array([stats.fisher_exact(np.array([[a, n - a], [b, m - b]])).pvalue for a, n, b, m in tables])


def benjamini_hochberg(p_values: Reals, families: NDArray[np.object_]) -> Reals:
    """False-discovery-rate adjusted p-values, each family on its own; what was not tested (NaN) is in none."""
    q_values = np.full_like(p_values, np.nan)
    for family in dict.fromkeys(families[~np.isnan(p_values)].tolist()):
        mine = (families == family) & ~np.isnan(p_values)
        q_values[mine] = stats.false_discovery_control(p_values[mine], method="bh")
    return q_values

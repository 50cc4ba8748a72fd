"""Statistics that SQL says badly: pure functions of counts, no I/O."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Ints = NDArray[np.integer]
Reals = NDArray[np.float64]


def clopper_pearson(n: Ints, c: Ints, confidence: float) -> tuple[Reals, Reals]:
    """The exact interval of a share of which c in n were seen."""
    tail = (1 - confidence) / 2
    with np.errstate(invalid="ignore"):
        low = np.where(c > 0, stats.beta.ppf(tail, c, n - c + 1), 0.0)
        high = np.where(c < n, stats.beta.ppf(1 - tail, c + 1, n - c), 1.0)
    return low, high


def fisher(n_base: Ints, c_base: Ints, n_rlvr: Ints, c_rlvr: Ints) -> Reals:
    """Two-sided exact p-values, one a problem, that both models have the same mass."""
    tables = zip(c_base.tolist(), n_base.tolist(), c_rlvr.tolist(), n_rlvr.tolist(), strict=True)
    return np.array([stats.fisher_exact(np.array([[a, n - a], [b, m - b]])).pvalue for a, n, b, m in tables])


def benjamini_hochberg(p_values: Reals, families: NDArray[np.object_]) -> Reals:
    """False-discovery-rate adjusted p-values, each family on its own."""
    q_values = np.empty_like(p_values)
    for family in dict.fromkeys(families.tolist()):
        mine = families == family
        q_values[mine] = stats.false_discovery_control(p_values[mine], method="bh")
    return q_values

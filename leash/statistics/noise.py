"""The noise floor: P, E, S and O of a model against itself.

Split a problem's samples at random into two halves of h. A problem that the first half misses and the second hits would
be called an expansion, although nothing changed. Over all splits this has an exact expectation:

    P(first misses) - P(both miss) = miss(h) - miss(2h)     at epsilon = 0
"""

from __future__ import annotations

import numpy as np

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.categories import CategoryShares
from leash.statistics.pass_at_k import SampleCounts, hit_probability, hypergeometric_pmf
from leash.statistics.support import hits_above


def split_half_categories(samples: SampleCounts, half: IntArray, epsilon: FloatArray) -> CategoryShares:
    """The expected share of each problem in P, E, S and O if one half of its samples is the base and another half the
    second model. After an early stop it is known only at epsilon = 0 (NaN otherwise)."""
    hits = hits_above(epsilon, half)
    below = np.where(half > 0, 1 - hit_probability(samples, half, hits), np.nan)
    both = np.where(hits == 1, 1 - hit_probability(samples, 2 * half), np.nan)
    several = (hits > 1) & ~samples.early & (half > 0)
    for h, least in sorted({*zip(half[several].tolist(), hits[several].tolist(), strict=True)}):
        these = several & (half == h) & (hits == least)
        both[these] = _prob_both_below(samples.n[these], samples.c[these], h, least)
    return CategoryShares(1 - 2 * below + both, below - both, below - both, both)


def _prob_both_below(n: IntArray, c: IntArray, h: int, least: int) -> FloatArray:
    """The probability that two disjoint sets of h samples both have fewer than `least` hits: a sum over their total
    number of hits and how those are split between the two."""
    together = np.arange(min(2 * least - 1, int(c.max(initial=0)) + 1))
    first = np.arange(least)
    split = hypergeometric_pmf(first, h, 2 * h, together[:, None])
    fair = np.where(together[:, None] - first < least, split, 0).sum(axis=1)
    return np.asarray(hypergeometric_pmf(together, 2 * h, n[:, None], c[:, None]) @ fair)

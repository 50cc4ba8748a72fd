"""The noise floor: P, E, S and O of a model against itself.

A problem's samples are split at random into two halves of h. What the first half misses and the second hits would
have been called an expansion, though nothing changed. Over all splits that has an exact expectation:

    P(first misses) - P(both miss) = miss(h) - miss(2h)     at epsilon = 0
"""

from __future__ import annotations

import numpy as np

from stages.categorize.statistics.arrays import Ints, Reals
from stages.categorize.statistics.chances import Sampled, chance, exactly
from stages.categorize.statistics.columns import hits_above
from stages.categorize.statistics.ratios import Sorted


def against_itself(of: Sampled, half: Ints, epsilon: Reals) -> Sorted:
    """How much of each problem is expected in P, E, S and O with one half of its samples as the base, another as the
    second model. After an early stop only at epsilon = 0 (NaN else)."""
    hits = hits_above(epsilon, half)
    below = np.where(half > 0, 1 - chance(of, half, hits), np.nan)
    both = np.where(hits == 1, 1 - chance(of, 2 * half), np.nan)
    several = (hits > 1) & ~of.early & (half > 0)
    for h, least in sorted({*zip(half[several].tolist(), hits[several].tolist(), strict=True)}):
        these = several & (half == h) & (hits == least)
        both[these] = _both_below(of.n[these], of.c[these], h, least)
    return Sorted(1 - 2 * below + both, below - both, below - both, both)


def _both_below(n: Ints, c: Ints, h: int, least: int) -> Reals:
    """The chance that two disjoint sets of h samples both have fewer hits than `least`: over the number of hits that
    they have together, and how those fall on the two."""
    together = np.arange(min(2 * least - 1, int(c.max(initial=0)) + 1))
    first = np.arange(least)
    split = exactly(first, h, 2 * h, together[:, None])
    fair = np.where(together[:, None] - first < least, split, 0).sum(axis=1)
    return np.asarray(exactly(together, 2 * h, n[:, None], c[:, None]) @ fair)

"""How many problems does it take to see a net change? The power of the decision, before any sample is paid for.

In:  a distribution of masses over problems (the base's), k, and a net change: a share of all problems.
Out: the probability of the decision `fewer` (leash/statistics/decision.py), the number of problems that gives a wanted
     power, or the smallest change that a number of problems shows.

The model of a change: a problem loses its whole mass with one probability, whatever its mass was, and is otherwise
unchanged; that probability is such that the net change at k is the given one. Beside it there is the luck of k samples:
an unchanged problem that k samples reach with probability r is gained by luck with probability (1 - r) r, and lost by
luck with the same. A gain is the same with the two models exchanged.

    lost   =  net + (1 - net / reach) luck        reach: the mean of r, the base's pass@k
    gained =        (1 - net / reach) luck        luck:  the mean of (1 - r) r

The numbers of gained and lost problems are then trinomial, and the decision depends on them alone: the exact McNemar
test, at a level that is divided by the number of comparisons. The interval of NSCR, which the decision needs too,
excludes 0 wherever that test rejects (tests/unit/test_power.py checks it). So the power is an exact sum.

Not covered: unequal numbers of samples, clusters, changes of other shapes, and Holm's steps after the first one, which
can only add power.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special, stats

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.extrapolation import MassDistribution

# Cells of a distribution of masses on a logit scale. A mass below the first or above the last is as good as 0 or 1 at
# any k below a million.
MASS_LOGITS = np.linspace(-23.0, 23.0, 2301)
# What the tails of the number of changed problems may leave out of a power.
MAX_OMITTED = 1e-10
MAX_PROBLEMS = 2**20


@dataclass(frozen=True)
class MassGrid:
    """A distribution of masses over problems as weighted points; the weights sum to 1."""

    masses: FloatArray
    weights: FloatArray


@dataclass(frozen=True)
class LuckOfSampling:
    """`reach` is the share of problems that k samples reach on average; `flips` the share that one run reaches and
    another run of the same model does not."""

    reach: float
    flips: float


def mass_grid(distribution: MassDistribution) -> MassGrid:
    """A zero-inflated beta distribution as points: 0, the middle of each cell, and 1."""
    edges = special.expit(MASS_LOGITS)
    below = special.betainc(distribution.a, distribution.b, edges)
    above = special.betaincc(distribution.a, distribution.b, edges)
    # Differences of the smaller tail keep their digits.
    cells = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
    middles = special.expit((MASS_LOGITS[1:] + MASS_LOGITS[:-1]) / 2)
    weights = (1 - distribution.never) * np.array([below[0], *cells, above[-1]])
    weights[0] += distribution.never
    return MassGrid(np.array([0.0, *middles, 1.0]), np.asarray(weights))


def luck_of_sampling(grid: MassGrid, k: int, hits: int = 1) -> LuckOfSampling:
    """What k samples reach, and how often two runs of one model disagree. A problem is reached with `hits` hits."""
    reached = stats.binom.sf(hits - 1, k, grid.masses)
    return LuckOfSampling(float(grid.weights @ reached), float(grid.weights @ (reached * (1 - reached))))


def decision_power(luck: LuckOfSampling, net: float, problems: int, alpha: float) -> float:
    """The probability that this many problems show a net loss of `net`, a share of the problems, at a level of alpha.
    It is 0 if nothing is reached, since then nothing can be lost."""
    if not luck.reach:
        return 0.0
    unchanged = 1 - net / luck.reach
    gained = max(unchanged, 0.0) * luck.flips
    lost = net + gained
    changed_share = min(gained + lost, 1.0)
    low, high = (int(stats.binom.ppf(tail, problems, changed_share)) for tail in (MAX_OMITTED, 1 - MAX_OMITTED))
    changed = np.arange(low, high + 1)
    most_gained = most_gained_at(high, alpha)[changed]
    rejects = stats.binom.cdf(most_gained, changed, gained / (gained + lost))
    return float(stats.binom.pmf(changed, problems, changed_share) @ rejects)


@lru_cache(maxsize=32)
def _most_gained_table(bits: int, alpha: float) -> IntArray:
    """`most_gained_at` for all numbers below 2**bits."""
    changed = np.arange(2**bits)
    # The largest x with 2 P(X <= x) < alpha; ppf gives the smallest x with P(X <= x) >= alpha / 2.
    most = np.asarray(stats.binom.ppf(alpha / 2, changed, 0.5), dtype=np.int64)
    rejecting = 2 * stats.binom.cdf(most, changed, 0.5) < alpha
    return np.asarray(np.where(rejecting, most, most - 1))


def most_gained_at(changed: int, alpha: float) -> IntArray:
    """For each number of changed problems up to this one, the most gained ones at which the exact McNemar test still
    shows a net loss; -1 if it never does."""
    return _most_gained_table(changed.bit_length(), alpha)[: changed + 1]


def problems_needed(luck: LuckOfSampling, net: float, alpha: float, power: float) -> int | None:
    """The number of problems that shows a net change of `net` with this power. None if no number does: k samples reach
    fewer problems than that, or it takes more than a million."""
    if not 0 < net <= luck.reach:
        return None
    enough = 1
    while decision_power(luck, net, enough, alpha) < power:
        enough *= 2
        if enough > MAX_PROBLEMS:
            return None
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if decision_power(luck, net, middle, alpha) < power:
            too_few = middle
        else:
            enough = middle
    return enough


def smallest_detectable(luck: LuckOfSampling, problems: int, alpha: float, power: float) -> float | None:
    """The smallest net change that this many problems show with this power, to 1e-5. None if even the loss of all that
    k samples reach would not."""
    if problems == 0 or decision_power(luck, luck.reach, problems, alpha) < power:
        return None
    too_small, enough = 0.0, luck.reach
    while enough - too_small > 1e-5:
        middle = (too_small + enough) / 2
        if decision_power(luck, middle, problems, alpha) < power:
            too_small = middle
        else:
            enough = middle
    return enough

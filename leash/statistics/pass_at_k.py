"""The probability that k samples, drawn at random from a problem's samples, contain at least a number of hits.

With one hit this is the unbiased estimator of pass@k, with τk hits that of G-Pass@k, with more than εk hits the
expected support. After an early stop it is the share of sequences with those hits among all sequences that would have
ended where this one did, which keeps it unbiased.

    hit_probability(SampleCounts(n=array([4]), c=array([1]), ended=array(["k"])), k=2)  ->  [0.5]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from leash.statistics.array_types import BoolArray, FloatArray, IntArray, ObjectArray

# A table of ln x! for larger x would not fit in memory.
MAX_TABLE_BITS = 22


@dataclass(frozen=True)
class SampleCounts:
    """One model's samples of some problems: n scored samples, c hits, and how sampling ended (see Counts)."""

    n: IntArray
    c: IntArray
    ended: ObjectArray

    @property
    def early(self) -> BoolArray:
        return np.asarray((self.ended == "hit") | (self.ended == "floor"))

    @property
    def free(self) -> tuple[IntArray, IntArray]:
        """The samples, and hits among them, that could have come in any order: all but a hit that ended sampling."""
        last = (self.ended == "hit").astype(np.int64)
        return self.n - last, self.c - last

    @property
    def mass(self) -> FloatArray:
        """The share of hits. A sample that ended sampling is always a hit and carries no information about the mass, so
        after such a stop this is the unbiased (c - 1)/(n - 1), and NaN if there is no other hit."""
        m, d = self.free
        lone = (self.ended == "hit") & (self.c == 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(lone, np.nan, d / m)

    def rows(self, which: BoolArray | IntArray) -> SampleCounts:
        """The problems that a mask or their places select."""
        return SampleCounts(self.n[which], self.c[which], self.ended[which])


def hit_probability(samples: SampleCounts, k: ArrayLike, hits: ArrayLike = 1) -> FloatArray:
    """The probability of at least `hits` hits among k samples, per problem; NaN if there are too few samples. Beyond an
    early stop the hits before it are certain."""
    m, d = samples.free
    k, hits, m, d, c, early = np.broadcast_arrays(k, hits, m, d, samples.c, samples.early)
    value = np.where(early & (c >= hits), 1.0, np.nan)
    inside = k <= m
    value[inside] = prob_at_least(hits[inside], k[inside], m[inside], d[inside])
    return value


def pass_at_k_columns(samples: SampleCounts, most: IntArray, budgets: Sequence[int]) -> FloatArray:
    """pass@k of each problem, a column per budget; NaN beyond the `most` samples that a problem may be given."""
    ks = np.array(budgets)
    columns = hit_probability(SampleCounts(samples.n[:, None], samples.c[:, None], samples.ended[:, None]), ks)
    columns[ks > most[:, None]] = np.nan
    return columns


def prob_at_least(hits: IntArray, k: IntArray, n: IntArray, c: IntArray) -> FloatArray:
    """The probability of at least `hits` hits among k of n samples, c of which are hits."""
    if not hits.size:
        return np.zeros(0)
    if np.all(hits == 1):
        return np.asarray(-np.expm1(_log_hypergeometric_pmf(0, k, n, c)), dtype=np.float64)
    fewer = np.zeros(hits.shape, dtype=np.longdouble)
    for j in range(int(hits.max())):
        fewer += np.where(j < hits, np.exp(_log_hypergeometric_pmf(j, k, n, c)), 0)
    return np.clip(1 - fewer, 0, 1).astype(np.float64)


def hypergeometric_pmf(hits: ArrayLike, k: ArrayLike, n: ArrayLike, c: ArrayLike) -> FloatArray:
    """The probability of exactly `hits` hits among k of n samples, c of which are hits."""
    return np.asarray(np.exp(_log_hypergeometric_pmf(hits, k, n, c)), dtype=np.float64)


def _log_hypergeometric_pmf(hits: ArrayLike, k: ArrayLike, n: ArrayLike, c: ArrayLike) -> NDArray[np.longdouble]:
    j, k, n, c = np.broadcast_arrays(hits, k, n, c)
    possible = (j >= 0) & (j <= c) & (j <= k) & (k - j <= n - c) & (k <= n)
    j, k, n, c = (np.where(possible, x, 0) for x in (j, k, n, c))
    return np.where(possible, log_choose(c, j) + log_choose(n - c, k - j) - log_choose(n, k), -np.inf)


def log_choose(n: IntArray, k: IntArray) -> NDArray[np.longdouble]:
    f = make_log_factorial(int(n.max(initial=0)).bit_length())
    return np.asarray(f(n) - f(k) - f(n - k), dtype=np.longdouble)


@lru_cache(maxsize=2)
def make_log_factorial(bits: int) -> Any:
    """ln x! for x of this many bits.

    Differences of ln x! lose digits: with a double's log-gamma only ten are left at n = 16384. Sums in long double
    keep them all.
    """
    if bits > MAX_TABLE_BITS:
        return lambda x: special.gammaln(np.asarray(x, dtype=np.float64) + 1)
    table = np.concatenate([[0], np.cumsum(np.log(np.arange(1, 2**bits, dtype=np.longdouble)))])
    return lambda x: table[x]

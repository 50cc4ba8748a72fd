"""How likely k of a problem's samples, drawn from those there are, hold at least so many hits.

With one hit this is the unbiased estimator of pass@k, with τk hits that of G-Pass@k, with more than εk hits the
expected support. After an early stop it is the share of sequences with those hits among all that would have ended where
this one did, which keeps it unbiased (pass_at_k.sql says the same).

    chance(Sampled.fixed(n=[4], c=[1]), k=2)  ->  [0.5]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from stages.categorize.statistics.arrays import Ints, Objects, Reals, Truths

LARGEST_TABLE = 22  # bits


@dataclass(frozen=True)
class Sampled:
    """What one model's samples of some problems were: n of them, c hits, and how they ended (see Counts)."""

    n: Ints
    c: Ints
    ended: Objects

    @classmethod
    def fixed(cls, n: ArrayLike, c: ArrayLike) -> Sampled:
        """Samples of which there were to be n from the start."""
        n, c = np.broadcast_arrays(np.asarray(n, dtype=np.int64), np.asarray(c, dtype=np.int64))
        return cls(n, c, np.full(n.shape, "k", dtype=object))

    @property
    def early(self) -> Truths:
        return np.asarray((self.ended == "hit") | (self.ended == "floor"))

    @property
    def free(self) -> tuple[Ints, Ints]:
        """How many samples, and hits among them, could have come in any order: a stop at a hit fixes that one."""
        last = (self.ended == "hit").astype(np.int64)
        return self.n - last, self.c - last

    @property
    def mass(self) -> Reals:
        """The share of hits; after a stop at a hit that of the samples before it, and none where it was the only."""
        m, d = self.free
        lone = (self.ended == "hit") & (self.c == 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(lone, np.nan, d / m)


def chance(of: Sampled, k: ArrayLike, hits: ArrayLike = 1) -> Reals:
    """The chance of `hits` or more among k samples, one a problem; NaN where there are too few samples to tell."""
    m, d = of.free
    k, hits, m, d, c, early = np.broadcast_arrays(k, hits, m, d, of.c, of.early)
    value = np.where(early & (c >= hits), 1.0, np.nan)
    inside = k <= m
    value[inside] = at_least(hits[inside], k[inside], m[inside], d[inside])
    return value


def at_least(hits: Ints, k: Ints, n: Ints, c: Ints) -> Reals:
    """The chance of so many hits or more among k of n samples of which c are hits."""
    if not hits.size:
        return np.zeros(0)
    if np.all(hits == 1):
        return np.asarray(-np.expm1(_log_chance(0, k, n, c)), dtype=np.float64)
    fewer = np.zeros(hits.shape, dtype=np.longdouble)
    for j in range(int(hits.max())):
        fewer += np.where(j < hits, np.exp(_log_chance(j, k, n, c)), 0)
    return np.clip(1 - fewer, 0, 1).astype(np.float64)


def exactly(hits: ArrayLike, k: ArrayLike, n: ArrayLike, c: ArrayLike) -> Reals:
    """The chance of just so many hits among k of n samples of which c are hits: the hypergeometric's."""
    return np.asarray(np.exp(_log_chance(hits, k, n, c)), dtype=np.float64)


def _log_chance(hits: ArrayLike, k: ArrayLike, n: ArrayLike, c: ArrayLike) -> NDArray[np.longdouble]:
    j, k, n, c = np.broadcast_arrays(hits, k, n, c)
    possible = (j >= 0) & (j <= c) & (j <= k) & (k - j <= n - c) & (k <= n)
    j, k, n, c = (np.where(possible, x, 0) for x in (j, k, n, c))
    found = log_choose(c, j) + log_choose(n - c, k - j) - log_choose(n, k)
    return np.where(possible, found, -np.inf)


def log_choose(n: Ints, k: Ints) -> NDArray[np.longdouble]:
    f = log_factorials(int(n.max(initial=0)).bit_length())
    return np.asarray(f(n) - f(k) - f(n - k), dtype=np.longdouble)


@lru_cache(maxsize=2)
def log_factorials(bits: int) -> Any:
    """ln x! for x of so many bits. Sums of many digits: differences of such numbers lose nothing at n = 16384, where
    those of a double's log-gamma are good to ten digits only. Beyond a few million the table would be too long."""
    if bits > LARGEST_TABLE:
        return lambda x: special.gammaln(np.asarray(x, dtype=np.float64) + 1)
    table = np.concatenate([[0], np.cumsum(np.log(np.arange(1, 2**bits, dtype=np.longdouble)))])
    return lambda x: table[x]

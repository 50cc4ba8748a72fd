"""Bootstrap over problems, and over problems and samples.

Over problems: every problem gets a random exponential weight (the Bayesian bootstrap, which hardly differs from drawing
problems with replacement). Four pseudo-problems, one in each of P, E, S and O, weigh about as much as Jeffreys' prior.
They matter only if a count is near 0 or near all: there, resampling the observed problems would give an interval of
zero width, as if 0 expansions in 30 problems proved that there are none. The hits are themselves random, so these
intervals include the luck of sampling.

Over problems and samples: each problem's hits are drawn again, too, from a binomial at c/n. That counts the luck of
sampling a second time: it is the interval of another run on other problems, and usually the wider one. A problem
without a hit never gains one this way, and a problem with a single hit loses it in a third of the draws; the mean shift
is subtracted.

Problems that belong together (clusters.py) share one weight. The pseudo-problems then weigh as much as a cluster may.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import stats

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.clusters import design_effect, mean_cluster_size, shared_clusters
from leash.statistics.seeds import stream

if TYPE_CHECKING:  # the sentences of the report import this module, and must not load pyarrow
    from leash.statistics.counts import Counts

# Sets of hits to draw. More would hardly move a quantile, since each set meets several sets of weights.
MAX_HIT_RESAMPLES = 200
# The weight of the pseudo-problem in each of P, E, S and O. Jeffreys' ½ for E and S covers too little when few changed.
CATEGORY_PRIOR = (0.5, 0.75, 0.75, 0.5)


@dataclass(frozen=True)
class AnalysisSettings:
    """The confidence of intervals, the number of resamples behind them, and their seed. `k` and `epsilon` override
    those of the counts (default: None, no override). A net change below `margin`, a share of the problems, is
    irrelevant. `clusters`: "auto" uses the column `cluster` of the counts, "none" takes all problems to be
    independent."""

    k: int | None = None
    epsilon: float | Literal["auto"] | None = None
    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 0
    margin: float = 0.02
    clusters: Literal["auto", "none"] = "auto"

    def clusters_of(self, counts: Counts) -> IntArray | None:
        """The cluster of each problem; None if problems count as independent."""
        return shared_clusters(counts) if self.clusters == "auto" else None

    def drawn(self, problems: int, cluster: IntArray | None = None) -> BootstrapWeights:
        """Random weights for a number of problems: the same ones at every call."""
        return draw_weights(problems, self.resamples, self.seed, cluster)


@dataclass(frozen=True)
class Estimate:
    """A number and its interval; None if unknown."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def sign(self) -> int:
        """1 if the interval is above 0, -1 if it is below, otherwise 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    def columns(self, name: str) -> dict[str, float | None]:
        """The columns X, X_low and X_high of a table."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


@dataclass(frozen=True)
class BootstrapWeights:
    """Random weights, a row per resample: of the problems, and of the pseudo-problems in P, E, S and O."""

    problems: FloatArray
    categories: FloatArray  # for shares of four categories, by CATEGORY_PRIOR
    quarters: FloatArray  # for shares of one model: two of the four pseudo-problems, so a half each way
    cluster: IntArray | None = None  # of each problem; None: problems are independent

    def category_weights(self, differences: FloatArray) -> FloatArray:
        """The weights of the pseudo-problems in P, E, S and O, given each problem's difference (its E less its S)."""
        return self.categories * design_effect(differences, self.cluster)

    @property
    def units(self) -> int:
        """The number of independent draws: problems, or clusters."""
        return self.problems.shape[1] if self.cluster is None else int(self.cluster.max()) + 1

    @property
    def size(self) -> FloatArray:
        """The total weight of each resample, in problems."""
        return np.asarray(self.problems.sum(axis=1) + self.quarters.sum(axis=1))

    def rows(self, which: slice) -> BootstrapWeights:
        return BootstrapWeights(self.problems[which], self.categories[which], self.quarters[which], self.cluster)


def draw_weights(problems: int, resamples: int, seed: int, cluster: IntArray | None = None) -> BootstrapWeights:
    """Weights for this many problems. With `cluster`, the problems of a cluster share one, and the pseudo-problems for
    shares of one model weigh as much as the cluster of an average problem. Those in P, E, S and O are not scaled here:
    their weight depends on how much problems of a cluster change together (`category_weights`)."""
    drawn = stream("categorize", seed, "problems")
    units = problems if cluster is None else int(cluster.max()) + 1
    own = drawn.standard_exponential((resamples, units))
    categories = drawn.standard_gamma(CATEGORY_PRIOR, (resamples, 4))
    quarters = drawn.standard_gamma(0.25, (resamples, 4))
    if cluster is not None:
        own, quarters = own[:, cluster], quarters * mean_cluster_size(cluster)
    return BootstrapWeights(own, categories, quarters, cluster)


def resample_hits(n: IntArray, c: IntArray, role: str, sets: int, seed: int) -> IntArray:
    """Hits that the same problems might have had: a row per set."""
    share = np.divide(c, n, out=np.zeros(n.shape), where=n > 0)
    return stream("categorize", seed, "samples", role).binomial(n, share, size=(sets, len(n)))


def bootstrap_interval(value: FloatArray, draws: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """The central interval of the draws, widened to include the value itself."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    return np.minimum(low, value), np.maximum(high, value)


def estimate_from_draws(value: float, draws: FloatArray, confidence: float) -> Estimate:
    low, high = bootstrap_interval(np.asarray(value), draws, confidence)
    return Estimate(value, float(low), float(high))


def t_correction(problems: float, confidence: float) -> float:
    """How much wider Student's interval of a mean is than the central interval of normal draws."""
    tail = (1 - confidence) / 2
    too_few = stats.t.isf(tail, problems - 1) / stats.norm.isf(tail)
    return float(too_few * math.sqrt((problems + 1) / (problems - 1)))

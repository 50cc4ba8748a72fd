"""Tests and intervals of a paired difference over problems, of which some may belong together in clusters.

Each problem contributes a difference d between the trained model and the base: 1, 0 or -1 where both supports are
known, a difference of two probabilities where only expected supports are. `paired_t` treats its mean; `tango_interval`
is for differences of 1, 0 and -1; `sign_test` asks whether more clusters gained than lost.

With few changed problems the observed differences vary too little. `paired_t` therefore adds two pseudo-problems at
plus and minus the largest difference seen, each with half a problem's weight: without them, 30 problems that do not
differ would prove that no problem does. tests/benchmarks/calibration.py measures the coverage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from leash.statistics.arrays import FloatArray, IntArray, ObjectArray
from leash.statistics.testing import mcnemar_p_value


@dataclass(frozen=True)
class PairedMean:
    """The mean difference of each column with its standard error; `df` degrees of freedom. `centre` is the mean with
    the pseudo-problems, around which the interval lies."""

    mean: FloatArray
    centre: FloatArray
    error: FloatArray
    df: int

    def interval(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        reach = stats.t.isf((1 - confidence) / 2, self.df) * self.error
        return np.minimum(self.centre - reach, self.mean), np.maximum(self.centre + reach, self.mean)

    @property
    def p_value(self) -> FloatArray:
        """The two-sided p-value of a mean of 0; 1 if there is no difference at all."""
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.where(self.error > 0, np.abs(self.centre) / self.error, 0.0)
        return np.asarray(2 * stats.t.sf(t, self.df))


def cluster_numbers(clusters: ObjectArray) -> IntArray:
    """The number of each problem's cluster, from 0 on."""
    return np.unique(clusters.astype(str), return_inverse=True)[1].astype(np.int64).ravel()


def sum_clusters(values: FloatArray, cluster: IntArray | None) -> FloatArray:
    """The sums of the rows of each cluster; the rows themselves if every problem stands alone."""
    if cluster is None:
        return values
    summed = np.zeros((int(cluster.max(initial=-1)) + 1, *values.shape[1:]))
    np.add.at(summed, cluster, values)
    return summed


def paired_t(differences: FloatArray, cluster: IntArray | None = None) -> PairedMean:
    """Student's t for the mean of each column, over problems or over clusters of them."""
    problems = len(differences)
    sums = sum_clusters(differences, cluster)
    sizes = sum_clusters(np.ones(problems), cluster).reshape(-1, *([1] * (differences.ndim - 1)))
    groups, largest = len(sums), np.abs(sums).max(axis=0, initial=0.0)
    # The pseudo-problems cancel in the sum and count as one more problem (or cluster of average size).
    size = problems * (groups + 1) / groups if groups else 1.0
    centre = sums.sum(axis=0) / size
    pseudo = (
        (largest - centre * problems / max(groups, 1)) ** 2 + (largest + centre * problems / max(groups, 1)) ** 2
    ) / 2
    squares = ((sums - centre * sizes) ** 2).sum(axis=0) + pseudo
    # groups + 1 rows with one mean estimated leave `groups` degrees of freedom.
    error = np.sqrt(squares * (groups + 1) / max(groups, 1)) / size
    return PairedMean(differences.mean(axis=0) if problems else centre, centre, error, max(groups, 1))


def tango_score(gained: float, lost: float, problems: float, delta: float) -> float:
    """Tango's score statistic for a net change of delta: about standard normal if (gained - lost) / problems estimates
    delta."""
    b = -gained - lost + (2 * problems - gained + lost) * delta
    root = np.sqrt(max(b * b + 8 * problems * lost * delta * (1 - delta), 0.0))
    only_lost = (root - b) / (4 * problems)
    variance = problems * (2 * only_lost + delta * (1 - delta))
    return float((gained - lost - problems * delta) / np.sqrt(max(variance, 1e-300)))


def tango_interval(gained: float, lost: float, problems: float, confidence: float) -> tuple[float, float]:
    """Tango's score interval of (gained - lost) / problems, for differences of 1, 0 and -1."""
    z, edge, value = stats.norm.isf((1 - confidence) / 2), 1 - 1e-12, (gained - lost) / problems

    def score(delta: float) -> float:
        return tango_score(gained, lost, problems, delta)

    low = -1.0 if score(-edge) < z else optimize.brentq(lambda x: score(x) - z, -edge, value, xtol=1e-12)
    high = 1.0 if score(edge) > -z else optimize.brentq(lambda x: score(x) + z, value, edge, xtol=1e-12)
    return float(low), float(high)


def sign_test(differences: FloatArray, cluster: IntArray | None) -> tuple[int, int, float]:
    """How many clusters gained and how many lost, by the sum of their differences, and the exact two-sided p-value for
    as many of each."""
    sums = sum_clusters(differences, cluster)
    gained, lost = int((sums > 0).sum()), int((sums < 0).sum())
    return gained, lost, mcnemar_p_value(gained, lost)


def smallest_significant_change(gained: int, lost: int, alpha: float) -> int:
    """The smallest net change, in problems, that McNemar's test would have called a change, had the smaller of gains
    and losses been as it is."""
    fewer = min(gained, lost)
    more = fewer + 1
    while mcnemar_p_value(fewer, more) >= alpha:
        more += 1
    return more - fewer

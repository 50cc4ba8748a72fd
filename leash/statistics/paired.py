"""Tests and intervals of a paired difference over independent problems, or over independent clusters of problems.

Each problem contributes a difference d between the trained model and the base: 1, 0 or -1 where both supports are
known, a difference of two probabilities where only expected supports are. `paired_t` treats its mean; `tango_interval`
is for differences of 1, 0 and -1.

With few changed problems the observed differences vary too little. `paired_t` therefore adds two pseudo-problems at
plus and minus the largest difference seen (or a larger one that the caller knows to be possible), each with half a
problem's weight: without them, 30 problems that do not differ would prove that no problem does. With clusters, they are
pseudo-clusters.
tests/benchmarks/calibration.py measures the coverage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.clusters import cluster_sums, design_effect


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


def paired_t(differences: FloatArray, cluster: IntArray | None = None, at_least: float = 0.0) -> PairedMean:
    """Student's t for the mean of each column over problems (rows), with the two pseudo-problems, which differ by
    `at_least` that much."""
    if cluster is not None:
        return _paired_t_over_clusters(differences, cluster, at_least)
    problems, largest = len(differences), np.abs(differences).max(axis=0, initial=at_least)
    # The pseudo-problems cancel in the sum and weigh as much as one more problem.
    centre = differences.sum(axis=0) / (problems + 1)
    squares = ((differences - centre) ** 2).sum(axis=0) + largest**2 + centre**2
    # problems + 1 rows with one mean estimated leave as many degrees of freedom as there are problems.
    error = np.sqrt(squares / max(problems, 1) / (problems + 1))
    return PairedMean(differences.mean(axis=0) if problems else centre, centre, error, max(problems, 1))


def _paired_t_over_clusters(differences: FloatArray, cluster: IntArray, at_least: float) -> PairedMean:
    """Student's t for the mean difference per problem, where whole clusters vary. A pseudo-cluster has the average
    number of problems and, if problems of a cluster change together, as many times the largest difference."""
    sums, sizes = cluster_sums(differences, cluster), np.bincount(cluster)
    clusters, size = len(sizes), len(cluster) / len(sizes)
    assert differences.ndim == 1, "the design effect is that of one column"
    most = float(np.abs(differences).max(initial=at_least))
    largest = most * design_effect(differences, cluster, most)
    total = len(cluster) + size
    centre = np.asarray(sums.sum() / total)
    squares = ((sums - centre * sizes) ** 2).sum() + largest**2 + (centre * size) ** 2
    error = np.sqrt(squares / clusters * (clusters + 1)) / total
    return PairedMean(np.asarray(differences.mean()), centre, error, clusters)


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

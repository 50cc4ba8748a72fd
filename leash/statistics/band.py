"""A band around the difference of two pass@k curves that holds at every k at once.

An interval at one k covers that k. Over a whole curve some interval fails far more often, so nothing may be read off
the place where it first leaves 0. The band may be read anywhere: with the stated confidence it holds the true
difference at every k, and with it the first k at which the trained model is behind.

    band = difference_band(base, rlvr, reach, AnalysisSettings())
    band.first(-1)  ->  (11, 61): the trained model falls behind at some k from 11 to 61

It is a sup-t band by the multiplier bootstrap: give each problem (or cluster of problems) a random normal factor, one
for all k. Factors times residuals then behave as the errors of the curve do, and the quantile of the largest of them
takes the place of Student's. Sums of normal variables are normal with a known correlation, so they are drawn at
the k of the band, not for each problem: the work does not grow with the problems, nor do the draws follow their order.

Two pseudo-problems at plus and minus some size, each with half a problem's weight, keep the band from closing where no
problem of these happens to differ. Their size at a k is the larger of two:

    a typical problem, lost or gained as a whole: the root mean square of pass@k;
    the geometric mean of the largest difference seen and the largest possible one, the largest pass@k.

With the largest difference seen alone, the band of 30 nearly solved problems covered in 7% of runs: at k = 100 none of
them differs, but among thousands like them a few do. tests/benchmarks/calibration.py measures the coverage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.clusters import cluster_sums
from leash.statistics.pass_at_k import SampleCounts, pass_at_k_columns
from leash.statistics.seeds import stream

# Every k up to the first number, then the second per doubling: neighbours differ by 2% in k and hardly in pass@k.
MAX_DENSE_K = 128
KS_PER_DOUBLING = 32
# A thousand would leave an error of 2% in the width of the band.
DRAWS = 4000
# Neighbouring k correlate so closely that the matrix of correlations is singular up to rounding. So much more variance
# makes its square root the same on every machine.
MORE_VARIANCE = 1e-8


def band_ks(most: int) -> IntArray:
    """The k of a band that reaches up to `most`."""
    dense = np.arange(1, min(most, MAX_DENSE_K) + 1)
    doublings = max(np.log2(most / MAX_DENSE_K), 0.0)
    sparse = MAX_DENSE_K * 2.0 ** (np.arange(1, int(doublings * KS_PER_DOUBLING) + 1) / KS_PER_DOUBLING)
    return np.unique(np.concatenate([dense, np.rint(sparse).astype(np.int64), [most]]))


@dataclass(frozen=True)
class DifferenceBand:
    """The difference of pass@k, trained minus base, at each k with its simultaneous band."""

    ks: IntArray
    difference: FloatArray
    low: FloatArray
    high: FloatArray

    def first(self, sign: int) -> tuple[int, int | None] | None:
        """The confidence set of the first k at which the difference has this sign (-1: a loss). Its end is None if no k
        is proven to have it. None if every k is proven not to have it. Without any k nothing is known: (1, None)."""
        if not len(self.ks):
            return 1, None
        possible = self.low < 0 if sign < 0 else self.high > 0
        proven = self.high < 0 if sign < 0 else self.low > 0
        if not possible.any():
            return None
        return self._next_after(int(possible.argmax()) - 1), int(self.ks[proven.argmax()]) if proven.any() else None

    def crossing(self, sign: int) -> tuple[int, int | None]:
        """The confidence set of the k from which on the difference has this sign, after the last k at which it has the
        other. Its end is None unless this sign is proven at all k from some k on."""
        opposite = self.low > 0 if sign < 0 else self.high < 0
        unproven = ~(self.high < 0 if sign < 0 else self.low > 0)
        last, open_until = (int(np.flatnonzero(x)[-1]) if x.any() else -1 for x in (opposite, unproven))
        settled = open_until + 1
        return self._next_after(last), int(self.ks[settled]) if settled < len(self.ks) else None

    def by_k(self) -> Mapping[int, dict[str, float]]:
        ends = zip(self.ks.tolist(), self.low.tolist(), self.high.tolist(), strict=True)
        return {k: {"low": low, "high": high} for k, low, high in ends}

    def _next_after(self, place: int) -> int:
        """The first k that the band says nothing about: right after this place, be it between two k of the grid."""
        return int(self.ks[place]) + 1 if place >= 0 else 1


@dataclass(frozen=True)
class AugmentedMean:
    """The mean difference at each k, from sums over clusters (rows) and two pseudo-clusters."""

    sums: FloatArray  # of the differences
    sizes: FloatArray  # problems of each cluster
    pseudo: FloatArray  # the size of the pseudo-clusters

    @cached_property
    def weight(self) -> float:
        """All problems and the two halves of a pseudo-cluster, in problems."""
        return float(self.sizes.sum() + self.sizes.mean())

    @cached_property
    def centre(self) -> FloatArray:
        return np.asarray(self.sums.sum(axis=0) / self.weight)

    @cached_property
    def residuals(self) -> FloatArray:
        own = self.sums - self.centre * self.sizes[:, None]
        shift = self.centre * self.sizes.mean()
        return np.concatenate([own, np.sqrt(0.5) * np.stack([self.pseudo - shift, -self.pseudo - shift])])

    @cached_property
    def error(self) -> FloatArray:
        count = len(self.sums)
        squares = (self.residuals**2).sum(axis=0)
        return np.asarray(np.sqrt(squares * (count + 1) / count) / self.weight)


def difference_band(
    base: SampleCounts,
    rlvr: SampleCounts,
    reach: IntArray,
    settings: AnalysisSettings,
    cluster: IntArray | None = None,
) -> DifferenceBand:
    """The band up to the largest k that all problems have; empty if one has no sample. `reach` is the largest k of each
    problem. `clusters` numbers the cluster of each problem, from 0; without it each is a cluster of its own."""
    ks = band_ks(max(int(reach.min()), 1))
    curves = [distinct_pass_at_k(model, reach, ks) for model in (base, rlvr)]
    unknown = np.isnan(curves).any(axis=(0, 1))
    known = int(unknown.argmax()) if unknown.any() else len(ks)
    return band_of_curves(curves[0][:, :known], curves[1][:, :known], ks[:known], settings, cluster)


def distinct_pass_at_k(samples: SampleCounts, reach: IntArray, ks: IntArray) -> FloatArray:
    """pass@k of each problem (row) at each k: many problems have the same counts, so each is computed once."""
    _, ended = np.unique(samples.ended.astype(str), return_inverse=True)
    keys = np.stack([samples.n, samples.c, ended.ravel(), reach])
    _, first, place = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    return pass_at_k_columns(samples.rows(first), reach[first], ks.tolist())[place.ravel()]


def band_of_curves(
    base: FloatArray, rlvr: FloatArray, ks: IntArray, settings: AnalysisSettings, cluster: IntArray | None = None
) -> DifferenceBand:
    """The band from pass@k of each problem (rows) at each k (columns)."""
    base_sums, rlvr_sums, sizes = base, rlvr, np.ones((len(base), 1))
    if cluster is not None:
        base_sums, rlvr_sums, sizes = (cluster_sums(values, cluster) for values in (base, rlvr, sizes))
    sums = rlvr_sums - base_sums
    reached = np.stack([base_sums, rlvr_sums])
    typical = np.sqrt((reached**2).mean(axis=1).max(axis=0))
    between = np.sqrt(np.abs(sums).max(axis=0) * reached.max(axis=(0, 1)))
    fitted = AugmentedMean(sums, sizes[:, 0], np.maximum(typical, between))
    difference = np.asarray((rlvr - base).mean(axis=0))
    reach = critical_value(fitted.residuals, len(sums), settings) * fitted.error
    low = np.maximum(np.minimum(fitted.centre - reach, difference), -1.0)
    high = np.minimum(np.maximum(fitted.centre + reach, difference), 1.0)
    return DifferenceBand(ks, difference, low, high)


def critical_value(residuals: FloatArray, df: int, settings: AnalysisSettings) -> float:
    """The factor of the standard error that bounds the errors at all k (columns) at once: the quantile of the largest
    of them, times what Student's t adds to the normal quantile at a single k."""
    tail = (1 - settings.confidence) / 2
    student, normal = float(stats.t.isf(tail, df)), float(stats.norm.isf(tail))
    norms = np.sqrt((residuals**2).sum(axis=0))
    varying = norms > 0
    if not varying.any():
        return student
    standardised = residuals[:, varying] / norms[varying]
    spread, axes = np.linalg.eigh(standardised.T @ standardised)
    root = axes * np.sqrt(np.maximum(spread, 0) + MORE_VARIANCE) @ axes.T
    errors = stream("categorize", settings.seed, "band").standard_normal((DRAWS, len(root))) @ root
    largest = float(np.quantile(np.abs(errors).max(axis=1), settings.confidence))
    # Six digits are the same on every machine, and beyond the third they are luck of the draw anyway.
    return float(f"{max(largest, normal) * student / normal:.6g}")

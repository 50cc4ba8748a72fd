"""The tilt test: does one uniform sharpening explain the whole change?

In the paper's theory RLVR gives π ∝ q·exp(βR): every problem's odds of success grow by one factor e^β, the common odds
ratio over problems. It is estimated by Mantel and Haenszel's method and by conditional maximum likelihood given every
problem's total of hits. Breslow and Day's test with Tarone's correction tests whether one factor is enough.

That test needs about five hits and misses in every cell, which problems solved once in a thousand samples lack. So
there is a second test for sparse tables: the squared residuals of all problems against the mean and variance of their
exact conditional distributions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special, stats

from leash.statistics.array_types import BoolArray, FloatArray, IntArray

# Cochran: the chi-squared distribution holds if most cells expect at least this many.
MIN_EXPECTED_COUNT = 5.0
# With fewer problems the sum of their squared residuals is not nearly normal.
MIN_RESIDUAL_PROBLEMS = 20


@dataclass(frozen=True)
class ContingencyTables:
    """The two-by-two tables of informative problems: those with both hits and misses."""

    n_base: IntArray
    c_base: IntArray
    n_rlvr: IntArray
    c_rlvr: IntArray

    @cached_property
    def hits(self) -> IntArray:
        return np.asarray(self.c_base + self.c_rlvr)

    @cached_property
    def lowest(self) -> IntArray:
        return np.asarray(np.maximum(0, self.hits - self.n_base))

    @cached_property
    def highest(self) -> IntArray:
        return np.minimum(self.n_rlvr, self.hits)

    def __len__(self) -> int:
        return len(self.n_base)

    def cells(self, x: FloatArray | IntArray) -> tuple[FloatArray | IntArray, ...]:
        """Hits and misses of the second model, then of the base, if the second has x of all hits."""
        return x, self.n_rlvr - x, self.hits - x, self.n_base - self.hits + x

    def fitted(self, odds: float) -> FloatArray:
        """The second model's expected hits: those that keep every margin and have this odds ratio."""
        return _smaller_root(odds, self.n_rlvr, self.hits, self.n_base - self.hits, self.n_rlvr * self.hits)

    def mode(self, odds: float) -> IntArray:
        m, t = self.n_rlvr, self.hits
        at = _smaller_root(odds, m + 1, t + 1, self.n_base - t, (m + 1) * (t + 1))
        return np.clip(np.floor(at), self.lowest, self.highest).astype(np.int64)

    def terms(self, odds: float) -> Iterator[tuple[IntArray, FloatArray]]:
        """The conditional distribution of the second model's hits given all hits: outcomes x with their weights,
        outward from the mode, whose weight is 1, until the rest is negligible in double precision."""
        mode = self.mode(odds)
        yield mode, np.ones(len(self))
        for step in (1, -1):
            x, weight = mode, np.ones(len(self))
            while np.any(weight > 1e-18):
                # The ratio of the probabilities of `upper` and of `upper` - 1 hits.
                upper = x if step < 0 else x + 1
                rising = np.maximum((self.n_rlvr - upper + 1) * (self.hits - upper + 1), 0)
                ratio = odds * (rising / np.maximum(upper * (self.n_base - self.hits + upper), 1))
                with np.errstate(divide="ignore"):
                    weight = weight * (ratio if step > 0 else np.where(ratio > 0, 1 / ratio, 0))
                x = x + step
                weight = np.where((x >= self.lowest) & (x <= self.highest), weight, 0)
                yield x, weight

    def moments(self, odds: float) -> tuple[FloatArray, FloatArray]:
        """The conditional mean and variance of the second model's hits."""
        mode = self.mode(odds)
        total, first, second = (np.zeros(len(self)) for _ in range(3))
        for x, weight in self.terms(odds):
            total += weight
            first += weight * (x - mode)
            second += weight * (x - mode) ** 2
        return mode + first / total, second / total - (first / total) ** 2


def _smaller_root(odds: float, m: IntArray, t: IntArray, rest: IntArray, product: IntArray) -> FloatArray:
    """The smaller root of (odds - 1)x² - (odds(m + t) + rest)x + odds·product, in a form stable at odds = 1."""
    b = odds * (m + t) + rest
    return np.asarray(2 * odds * product / (b + np.sqrt(np.maximum(b**2 - 4 * (odds - 1) * odds * product, 0))))


@dataclass(frozen=True)
class TiltFit:
    """How well one factor on the odds explains a change. Arrays have an entry per problem in `kept`."""

    kept: BoolArray
    pooled: tuple[float, float, float]  # Mantel–Haenszel: estimate, low, high
    conditional: tuple[float, float, float]
    parts: tuple[FloatArray, FloatArray]  # each problem's terms in Mantel and Haenszel's numerator and denominator
    breslow_day: tuple[float, float]  # statistic and p-value
    expects_few: float  # the share of problems with a cell that expects fewer than MIN_EXPECTED_COUNT
    residual: tuple[float, float]  # the test for sparse tables: z and p-value
    explained: float
    p_values: FloatArray  # for each problem's own odds growing by this factor
    above: BoolArray


def fit_tilt(
    n_base: IntArray, c_base: IntArray, n_rlvr: IntArray, c_rlvr: IntArray, confidence: float
) -> TiltFit | None:
    """The common odds ratio and how well it fits; None if no finite one fits, for example if a model has no hits."""
    hits = c_base + c_rlvr
    kept = (hits > 0) & (hits < n_base + n_rlvr) & (n_base > 0) & (n_rlvr > 0)
    of = ContingencyTables(*(x[kept].astype(np.int64) for x in (n_base, c_base, n_rlvr, c_rlvr)))
    total = of.n_base + of.n_rlvr
    above, below = of.c_rlvr * (of.n_base - of.c_base) / total, of.c_base * (of.n_rlvr - of.c_rlvr) / total
    if not above.sum() or not below.sum():
        return None
    pooled, pooled_error = log_mantel_haenszel(of, above, below)
    beta, error = fit_conditional_odds(of, pooled)
    odds = float(np.exp(beta))
    residual, p_values, noise = _residual_tests(of, odds)
    return TiltFit(
        kept=kept,
        pooled=_odds_with_interval(pooled, pooled_error, confidence),
        conditional=_odds_with_interval(beta, error, confidence),
        parts=(above, below),
        breslow_day=breslow_day(of, float(np.exp(pooled))),
        expects_few=float(np.mean(np.minimum.reduce(of.cells(of.fitted(odds))) < MIN_EXPECTED_COUNT)),
        residual=residual,
        explained=explained_share(of, odds, noise),
        p_values=p_values,
        above=of.c_rlvr > of.fitted(odds),
    )


def log_mantel_haenszel(of: ContingencyTables, above: FloatArray, below: FloatArray) -> tuple[float, float]:
    """ln of the pooled odds ratio, and its standard error by Robins, Breslow and Greenland."""
    alike = (of.c_rlvr + of.n_base - of.c_base) / (of.n_base + of.n_rlvr)
    a, b = above.sum(), below.sum()
    mixed = alike @ below + (1 - alike) @ above
    variance = (alike @ above / a**2 + mixed / (a * b) + (1 - alike) @ below / b**2) / 2
    return float(np.log(a / b)), float(np.sqrt(variance))


def breslow_day(of: ContingencyTables, odds: float) -> tuple[float, float]:
    """Breslow and Day's statistic with Tarone's correction, and its p-value."""
    fitted = of.fitted(odds)
    variance = 1 / np.sum([1 / cell for cell in of.cells(fitted)], axis=0)
    off = of.c_rlvr - fitted
    statistic = float((off**2 / variance).sum() - off.sum() ** 2 / variance.sum())
    return statistic, float(stats.chi2.sf(statistic, len(of) - 1)) if len(of) > 1 else np.nan


def _odds_with_interval(log_odds: float, error: float, confidence: float) -> tuple[float, float, float]:
    margin = stats.norm.ppf((1 + confidence) / 2) * error
    return float(np.exp(log_odds)), float(np.exp(log_odds - margin)), float(np.exp(log_odds + margin))


def fit_conditional_odds(of: ContingencyTables, start: float) -> tuple[float, float]:
    """ln of the odds ratio at which the second model's hits are as many as expected, and its standard error. Newton's
    method, with steps of at most 2."""
    beta = start
    for _ in range(50):
        mean, variance = of.moments(float(np.exp(beta)))
        step = float((of.c_rlvr.sum() - mean.sum()) / variance.sum())
        beta += float(np.clip(step, -2, 2))
        if abs(step) < 1e-12:
            break
    return beta, float(variance.sum() ** -0.5)


def _residual_tests(of: ContingencyTables, odds: float) -> tuple[tuple[float, float], FloatArray, float]:
    """The test for sparse tables; each problem's exact two-sided p-value (twice its smaller tail); and the expected
    deviance of noise alone."""
    mean, variance = of.moments(odds)
    total, fourth, up, down, noise = (np.zeros(len(of)) for _ in range(5))
    for x, weight in of.terms(odds):
        total += weight
        fourth += weight * (x - mean) ** 4
        up += np.where(x >= of.c_rlvr, weight, 0)
        down += np.where(x <= of.c_rlvr, weight, 0)
        noise += weight * deviance(of, np.clip(x, of.lowest, of.highest), odds)
    squares = (of.c_rlvr - mean) ** 2 / variance
    spread = float(np.sqrt((fourth / total / variance**2 - 1).sum()))
    z = float((squares - 1).sum()) / spread if spread and len(of) >= MIN_RESIDUAL_PROBLEMS else np.nan
    p_values = np.minimum(2 * np.minimum(up, down) / total, 1.0)
    return (z, float(stats.norm.sf(z))), p_values, float((noise / total).sum())


def deviance(of: ContingencyTables, x: IntArray, odds: float) -> FloatArray:
    """Twice the log-likelihood lost by giving all problems this odds ratio, for x hits of the second model."""
    cells = zip(of.cells(x), of.cells(of.fitted(odds)), strict=True)
    parts = [special.xlogy(seen, seen) - special.xlogy(seen, np.maximum(fit, 1e-300)) for seen, fit in cells]
    return np.asarray(2 * np.sum(parts, axis=0))


def explained_share(of: ContingencyTables, odds: float, noise: float) -> float:
    """The share of the change, beyond noise, that one factor explains: the part of the deviance from no change that
    disappears if all odds grow by it. NaN if there is no more change than noise."""
    no_change, one_factor = (float(deviance(of, of.c_rlvr, factor).sum()) for factor in (1.0, odds))
    beyond_noise = no_change - noise
    # A deviance of noise has a standard deviation of about sqrt(2n): demand two of them.
    if beyond_noise <= 2 * np.sqrt(2 * len(of)):
        return np.nan
    return float(np.clip((no_change - one_factor) / beyond_noise, 0, 1))

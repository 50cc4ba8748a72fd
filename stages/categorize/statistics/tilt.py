"""The tilt test: is one uniform sharpening the whole change?

The paper's theory has RLVR as π ∝ q·exp(βR): every problem's odds of success grow by one factor e^β, the common odds
ratio over problems. It is estimated by Mantel and Haenszel and by conditional maximum likelihood, given every problem's
total of hits; Breslow and Day's test, with Tarone's correction, asks whether one factor will do.

That test wants some five hits and misses in every cell, which problems solved once in a thousand tries don't have. So
beside it stands one that is at home with sparse tables: the squared residuals of all problems against the mean and the
variance that their exact conditional distributions give.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special, stats

from stages.categorize.statistics.arrays import Ints, Reals, Truths

FEW = 5.0  # Cochran: the chi-squared distribution holds where most cells expect as many
ENOUGH = 20  # problems, for a sum of their residuals to be nearly normal


@dataclass(frozen=True)
class Tables:
    """The two-by-two tables of problems that tell something: with hits and with misses."""

    n_base: Ints
    c_base: Ints
    n_rlvr: Ints
    c_rlvr: Ints

    @cached_property
    def hits(self) -> Ints:
        return np.asarray(self.c_base + self.c_rlvr)

    @cached_property
    def lowest(self) -> Ints:
        return np.asarray(np.maximum(0, self.hits - self.n_base))

    @cached_property
    def highest(self) -> Ints:
        return np.minimum(self.n_rlvr, self.hits)

    def __len__(self) -> int:
        return len(self.n_base)

    def fitted(self, odds: float) -> Reals:
        """The second model's hits that keep every margin and have this odds ratio."""
        return _root(odds, self.n_rlvr, self.hits, self.n_base - self.hits, self.n_rlvr * self.hits)

    def mode(self, odds: float) -> Ints:
        m, t = self.n_rlvr, self.hits
        at = _root(odds, m + 1, t + 1, self.n_base - t, (m + 1) * (t + 1))
        return np.clip(np.floor(at), self.lowest, self.highest).astype(np.int64)

    def terms(self, odds: float) -> Iterator[tuple[Ints, Reals]]:
        """The conditional distribution of the second model's hits given all hits: outcomes x with their weights, the
        mode's being 1, outward from it until what is left is nothing to a double."""
        mode = self.mode(odds)
        yield mode, np.ones(len(self))
        for step in (1, -1):
            x, weight = mode, np.ones(len(self))
            while np.any(weight > 1e-18):
                upper = x if step < 0 else x + 1
                ratio = odds * _ratio(upper, self)
                with np.errstate(divide="ignore"):
                    weight = weight * (ratio if step > 0 else np.where(ratio > 0, 1 / ratio, 0))
                x = x + step
                weight = np.where((x >= self.lowest) & (x <= self.highest), weight, 0)
                yield x, weight

    def moments(self, odds: float) -> tuple[Reals, Reals]:
        """The conditional mean and variance of the second model's hits."""
        mode = self.mode(odds)
        total, first, second = (np.zeros(len(self)) for _ in range(3))
        for x, weight in self.terms(odds):
            total += weight
            first += weight * (x - mode)
            second += weight * (x - mode) ** 2
        return mode + first / total, second / total - (first / total) ** 2


def _root(odds: float, m: Ints, t: Ints, rest: Ints, product: Ints) -> Reals:
    """The smaller root of (odds - 1)x² - (odds(m + t) + rest)x + odds·product, in the form that survives odds = 1."""
    b = odds * (m + t) + rest
    return np.asarray(2 * odds * product / (b + np.sqrt(np.maximum(b**2 - 4 * (odds - 1) * odds * product, 0))))


def _ratio(x: Ints, of: Tables) -> Reals:
    """How much likelier x hits are than x - 1, at equal odds."""
    above = np.maximum((of.n_rlvr - x + 1) * (of.hits - x + 1), 0)
    return np.asarray(above / np.maximum(x * (of.n_base - of.hits + x), 1))


@dataclass(frozen=True)
class Tilt:
    """What one factor on the odds says of a change. Problems are those of `kept`."""

    kept: Truths
    pooled: tuple[float, float, float]  # Mantel–Haenszel: estimate, low, high
    conditional: tuple[float, float, float]
    parts: tuple[Reals, Reals]  # what each problem adds above and below the line of Mantel and Haenszel's
    breslow_day: tuple[float, float]  # statistic and p-value
    expects_few: float  # the share of problems with a cell that expects fewer than five
    residual: tuple[float, float]  # the sparse tables' test: z and p-value
    explained: float
    p_values: Reals  # that a problem's own odds grew by this factor
    above: Truths


def tilt(n_base: Ints, c_base: Ints, n_rlvr: Ints, c_rlvr: Ints, confidence: float) -> Tilt | None:
    """The common odds ratio and how well it fits; None where no finite one fits (no hits of one model, say)."""
    hits = c_base + c_rlvr
    kept = (hits > 0) & (hits < n_base + n_rlvr) & (n_base > 0) & (n_rlvr > 0)
    of = Tables(*(x[kept].astype(np.int64) for x in (n_base, c_base, n_rlvr, c_rlvr)))
    above, below = _parts(of)
    if not above.sum() or not below.sum():
        return None
    pooled, pooled_error = mantel_haenszel(of, above, below)
    beta, error = conditional_likelihood(of, pooled)
    odds = float(np.exp(beta))
    residual, p_values, noise = _residuals(of, odds)
    return Tilt(
        kept=kept,
        pooled=_with_interval(pooled, pooled_error, confidence),
        conditional=_with_interval(beta, error, confidence),
        parts=(above, below),
        breslow_day=breslow_day(of, float(np.exp(pooled))),
        expects_few=float(np.mean(_least_expected(of, odds) < FEW)),
        residual=residual,
        explained=explained(of, odds, noise),
        p_values=p_values,
        above=of.c_rlvr > of.fitted(odds),
    )


def mantel_haenszel(of: Tables, above: Reals, below: Reals) -> tuple[float, float]:
    """ln of the pooled odds ratio, and its standard error by Robins, Breslow and Greenland."""
    alike = (of.c_rlvr + of.n_base - of.c_base) / (of.n_base + of.n_rlvr)
    a, b = above.sum(), below.sum()
    mixed = alike @ below + (1 - alike) @ above
    variance = (alike @ above / a**2 + mixed / (a * b) + (1 - alike) @ below / b**2) / 2
    return float(np.log(a / b)), float(np.sqrt(variance))


def breslow_day(of: Tables, odds: float) -> tuple[float, float]:
    """Breslow and Day's statistic with Tarone's correction, and its p-value."""
    fitted = of.fitted(odds)
    cells = (fitted, of.n_rlvr - fitted, of.hits - fitted, of.n_base - of.hits + fitted)
    variance = 1 / np.sum([1 / cell for cell in cells], axis=0)
    off = of.c_rlvr - fitted
    statistic = float((off**2 / variance).sum() - off.sum() ** 2 / variance.sum())
    return statistic, float(stats.chi2.sf(statistic, len(of) - 1)) if len(of) > 1 else np.nan


def _parts(of: Tables) -> tuple[Reals, Reals]:
    total = of.n_base + of.n_rlvr
    return of.c_rlvr * (of.n_base - of.c_base) / total, of.c_base * (of.n_rlvr - of.c_rlvr) / total


def _with_interval(log_odds: float, error: float, confidence: float) -> tuple[float, float, float]:
    margin = stats.norm.ppf((1 + confidence) / 2) * error
    return float(np.exp(log_odds)), float(np.exp(log_odds - margin)), float(np.exp(log_odds + margin))


def conditional_likelihood(of: Tables, start: float) -> tuple[float, float]:
    """ln of the odds ratio that makes the second model's hits as many as expected, and its standard error; Newton's
    steps, none longer than 2."""
    beta = start
    for _ in range(50):
        mean, variance = of.moments(float(np.exp(beta)))
        step = float((of.c_rlvr.sum() - mean.sum()) / variance.sum())
        beta += float(np.clip(step, -2, 2))
        if abs(step) < 1e-12:
            break
    return beta, float(variance.sum() ** -0.5)


def _least_expected(of: Tables, odds: float) -> Reals:
    a = of.fitted(odds)
    return np.asarray(np.minimum.reduce([a, of.n_rlvr - a, of.hits - a, of.n_base - of.hits + a]))


def _residuals(of: Tables, odds: float) -> tuple[tuple[float, float], Reals, float]:
    """The sparse tables' test; each problem's exact two-sided p-value (twice its smaller tail); and the deviance that
    noise alone would give."""
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
    z = float((squares - 1).sum()) / spread if spread and len(of) >= ENOUGH else np.nan
    p_values = np.minimum(2 * np.minimum(up, down) / total, 1.0)
    return (z, float(stats.norm.sf(z))), p_values, float((noise / total).sum())


def deviance(of: Tables, x: Ints, odds: float) -> Reals:
    """Twice the log-likelihood that is lost by giving all problems this odds ratio, were the second model's hits x."""
    fitted = of.fitted(odds)
    seen = (x, of.n_rlvr - x, of.hits - x, of.n_base - of.hits + x)
    fits = (fitted, of.n_rlvr - fitted, of.hits - fitted, of.n_base - of.hits + fitted)
    parts = [special.xlogy(s, s) - special.xlogy(s, np.maximum(f, 1e-300)) for s, f in zip(seen, fits, strict=True)]
    return np.asarray(2 * np.sum(parts, axis=0))


def explained(of: Tables, odds: float, noise: float) -> float:
    """The share of the change, beyond noise, that one factor accounts for: of the deviance from no change at all, the
    part that goes when all odds may grow by it. NaN where there is no more change than noise."""
    nothing = float(deviance(of, of.c_rlvr, 1.0).sum())
    one = float(deviance(of, of.c_rlvr, odds).sum())
    change = nothing - noise
    return float(np.clip((nothing - one) / change, 0, 1)) if change > 2 * np.sqrt(2 * len(of)) else np.nan

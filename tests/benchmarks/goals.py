"""The goals of a calibration.

A rate (or a mean) over trials misses its goal if it is beyond the limit by more than Monte Carlo error: if its
one-sided 99% confidence bound is. The bound is exact (Clopper and Pearson) if every value is 0 or 1; otherwise it is
2.33 standard errors from the mean. With 200 trials a rate that should be at most 5% misses its goal from 9.5% on, with
1,000 from 6.8% on. A single value has no such error: `check_value` compares it with the limits themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from leash.statistics.array_types import FloatArray

CONFIDENCE = 0.99
ALPHA = 0.05


@dataclass
class Goals:
    """Which goals were met. `null_rates` are the rates of a stated change where nothing changed, `null_rates_before`
    those of the rule before."""

    null_rates: list[float] = field(default_factory=list)
    null_rates_before: list[float] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def check(self, name: str, values: Sequence[float] | FloatArray, low: float, high: float) -> str:
        """Whether the mean of these values, one per trial, is between low and high up to Monte Carlo error: the mark of
        a missed goal, or nothing."""
        least, most = mean_bounds(np.asarray(values, dtype=float))
        if least <= high and low <= most:
            return ""
        self.missed.append(f"{name}: {np.mean(values):.1%}, surely between {least:.1%} and {most:.1%}")
        return "  MISSED"

    def check_value(self, name: str, value: float, low: float, high: float) -> str:
        """Whether a single value is between low and high, without any tolerance."""
        if low <= value <= high:
            return ""
        self.missed.append(f"{name}: {value:.4g}, not from {low:g} to {high:g}")
        return "  MISSED"

    def check_null(self, name: str, values: Sequence[float] | FloatArray) -> str:
        self.null_rates.append(float(np.mean(values)))
        return self.check(name, values, 0, ALPHA)


def mean_bounds(values: FloatArray) -> tuple[float, float]:
    """The lower and the upper confidence bound of the mean, each one-sided."""
    n, mean = len(values), float(np.mean(values))
    if np.isin(values, (0, 1)).all():
        hits = int(values.sum())
        low = stats.beta.ppf(1 - CONFIDENCE, hits, n - hits + 1) if hits else 0.0
        high = stats.beta.ppf(CONFIDENCE, hits + 1, n - hits) if hits < n else 1.0
        return float(low), float(high)
    # A 0 and a 1 more: without them, the error of trials that all end alike would be 0.
    error = stats.norm.ppf(CONFIDENCE) * float(np.std([*values, 0, 1])) / np.sqrt(n + 2)
    return mean - float(error), mean + float(error)

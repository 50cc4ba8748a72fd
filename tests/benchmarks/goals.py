"""The goals of a calibration: rates that must lie in a range, up to Monte Carlo error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from leash.statistics.array_types import FloatArray

STANDARD_ERRORS = 3
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
        # One success and one failure more: without them, the error of trials that all end alike would be 0.
        mean, error = float(np.mean(values)), float(np.std([*values, 0, 1])) / np.sqrt(len(values) + 2)
        if low - STANDARD_ERRORS * error <= mean <= high + STANDARD_ERRORS * error:
            return ""
        self.missed.append(f"{name}: {mean:.1%} +- {error:.1%}")
        return "  MISSED"

    def check_null(self, name: str, values: Sequence[float] | FloatArray) -> str:
        self.null_rates.append(float(np.mean(values)))
        return self.check(name, values, 0, ALPHA)

"""The goals of the calibrations can be missed: rates by exact bounds, single values without tolerance."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from goals import Goals, mean_bounds


def rate(hits: int, trials: int) -> list[float]:
    return [1.0] * hits + [0.0] * (trials - hits)


@pytest.mark.parametrize(
    ("hits", "trials", "met"), [(18, 200, True), (19, 200, False), (80, 1000, False), (50, 1000, True)]
)
def test_a_rate_misses_its_limit_if_its_exact_bound_does(hits: int, trials: int, met: bool) -> None:
    goals = Goals()
    assert (goals.check("rate", rate(hits, trials), 0, 0.05) == "") is met
    assert bool(stats.binom.sf(hits - 1, trials, 0.05) >= 0.01) is met  # the p-value of a rate of 5%
    assert (goals.check("rate", rate(trials - hits, trials), 0.95, 1) == "") is met
    assert len(goals.missed) == (0 if met else 2)


def test_a_single_value_has_no_tolerance() -> None:
    goals = Goals()
    assert goals.check_value("SRR", 0.371, 0.36, 0.39) == ""
    for value in (0.3599, 0.391, float("nan")):
        assert goals.check_value("SRR", value, 0.36, 0.39)


def test_means_of_other_numbers_have_a_normal_error() -> None:
    values = np.linspace(0.0, 0.3, 500)
    low, high = mean_bounds(values)
    assert (low + high) / 2 == pytest.approx(0.15)
    assert high - low == pytest.approx(2 * 2.33 * values.std() / np.sqrt(500), rel=0.2)
    assert Goals().check("mean", values, 0, 0.12)
    assert not Goals().check("mean", values, 0, 0.145)

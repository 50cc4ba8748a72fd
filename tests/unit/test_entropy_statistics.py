"""The statistics of entropies agree with scipy, and their intervals cover the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from leash.statistics import seeds
from leash.statistics.array_types import FloatArray
from leash.statistics.bootstrap_estimates import mean_estimate, share_estimate, spearman_estimate
from leash.statistics.bootstrap_weights import Estimate, draw_weights


def numbers_of(found: Estimate) -> tuple[float, float, float]:
    """The value and interval of an estimate that has both."""
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    return found.value, found.low, found.high


@pytest.mark.parametrize("ties", [False, True])
def test_spearman_agrees_with_scipy(ties: bool) -> None:
    drawn = seeds.stream("test", "spearman", int(ties))
    one, other = drawn.normal(size=60), drawn.normal(size=60)
    other += one
    if ties:
        one, other = np.round(one), np.round(other)
    found = spearman_estimate(one, other, draw_weights(60, 500, 0), 0.95)
    value, low, high = numbers_of(found)
    assert value == pytest.approx(stats.spearmanr(one, other).statistic, abs=1e-12)
    assert -1 < low < value < high < 1


def test_spearman_of_constant_values_or_few_problems() -> None:
    rising = np.arange(20.0)
    assert spearman_estimate(np.zeros(20), rising, draw_weights(20, 50, 0), 0.95) == Estimate()
    assert spearman_estimate(rising[:1], rising[:1], draw_weights(1, 50, 0), 0.95) == Estimate()
    few = spearman_estimate(rising[:5], -rising[:5], draw_weights(5, 50, 0), 0.95)
    assert few.value == pytest.approx(-1)
    assert few.low is few.high is None
    assert spearman_estimate(rising, rising, draw_weights(20, 50, 0), 0.95).value == pytest.approx(1)


def test_a_mean_of_one_problem_has_no_interval_and_of_none_no_value() -> None:
    assert mean_estimate(np.array([0.5]), draw_weights(1, 50, 0), 0.95) == Estimate(0.5)
    assert mean_estimate(np.array([]), draw_weights(0, 50, 0), 0.95) == Estimate()
    assert share_estimate(np.array([]), draw_weights(0, 50, 0), 0.95) == Estimate()
    assert mean_estimate(np.array([0.5, math.nan]), draw_weights(2, 50, 0), 0.95) == Estimate()


def test_a_share_of_zero_has_an_interval_above_zero() -> None:
    value, low, high = numbers_of(share_estimate(np.zeros(30), draw_weights(30, 500, 0), 0.95))
    assert value == 0
    assert low < 0.001
    assert 0.03 < high < 0.15


def simulated(name: str, drawn: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Changes of 40 problems in token and answer entropy: means 0.3 and 0.5, rank correlation 0.58."""
    both = drawn.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 40)
    return (0.3 + both[:, 0], 0.5 + both[:, 1]) if name != "skewed" else (drawn.gamma(2, 0.15, 40), both[:, 1])


@pytest.mark.parametrize(
    ("name", "truth"),
    [("mean", 0.3), ("skewed", 0.3), ("share", stats.norm.sf(-0.3)), ("spearman", 6 / math.pi * math.asin(0.3))],
)
def test_intervals_cover_the_truth_as_often_as_they_say(name: str, truth: float) -> None:
    """200 simulated sets of 40 problems."""
    covered = 0
    for i in range(200):
        one, other = simulated(name, seeds.stream("test", "coverage", name, i))
        drawn = draw_weights(40, 200, i)
        if name == "spearman":
            found = spearman_estimate(one, other, drawn, 0.95)
        elif name == "share":
            found = share_estimate((one > 0).astype(float), drawn, 0.95)
        else:
            found = mean_estimate(one, drawn, 0.95)
        _, low, high = numbers_of(found)
        covered += low <= truth <= high
    assert 0.88 <= covered / 200 <= 0.99

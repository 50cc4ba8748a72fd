"""Stated changes are rare where nothing changed, and the tests equal enumeration, scipy, statsmodels and published
figures. tests/benchmarks/calibration.py measures the rates; here wide bounds catch gross failures."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import optimize, stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from leash.statistics.array_types import FloatArray
from leash.statistics.categories import categorize_problems, classify_counts
from leash.statistics.change_tests import stopped_p_values
from leash.statistics.counts import Counts
from leash.statistics.decision import holm
from leash.statistics.intervals import wilson_interval
from leash.statistics.luck import luck_p_values, poisson_binomial_tail
from leash.statistics.net_change import net_change_tests
from leash.statistics.paired import tango_interval, tango_score
from leash.statistics.pass_at_k import SampleCounts
from leash.statistics.seeds import stream

EXACT = 1e-9


def draw_pair(rng: np.random.Generator, base: FloatArray, rlvr: FloatArray, n_base: int, n_rlvr: int) -> Counts:
    """The counts of n samples of each model, compared at the smaller n."""
    size = len(base)
    names = np.array([str(i) for i in range(size)], dtype=object)
    ended = np.full(size, "k", dtype=object)
    hits = rng.binomial(n_base, base), rng.binomial(n_rlvr, rlvr)
    samples = np.full(size, n_base), hits[0], np.full(size, n_rlvr), hits[1]
    return Counts(names, names, *samples, ended, ended, np.full(size, min(n_base, n_rlvr)), np.zeros(size))


def draw_masses(rng: np.random.Generator, size: int) -> FloatArray:
    return np.where(rng.random(size) < 0.1, 0.0, rng.beta(0.35, 2.5, size))


def test_unequal_numbers_of_samples_are_no_change() -> None:
    rng, rejected = stream("test", "calibration", "unequal"), 0
    for _ in range(200):
        masses = draw_masses(rng, 120)
        counts = draw_pair(rng, masses, masses, 1024, 64)
        rejected += net_change_tests(classify_counts(counts), 0.02)["test"]["p_value"] < 0.05
    assert rejected <= 20


def test_luck_is_seldom_called_more_than_luck() -> None:
    rng, below = stream("test", "calibration", "luck"), np.zeros(2)
    for _ in range(200):
        masses = draw_masses(rng, 120)
        found = luck_p_values(draw_pair(rng, masses, masses, 64, 64))
        gains, losses = found["gains_p"], found["losses_p"]
        assert gains is not None
        assert losses is not None
        below += [gains < 0.025, losses < 0.025]
    # 2.5% of 200 is 5, with a standard error of 2.2.
    assert below.max() <= 13


def test_lost_problems_are_more_than_luck() -> None:
    rng = stream("test", "calibration", "lost")
    masses = draw_masses(rng, 120)
    found = luck_p_values(draw_pair(rng, masses, np.where(np.arange(120) % 5, masses, 0), 64, 64))
    assert found["losses_p"] is not None
    assert found["losses_p"] < 0.001


def test_sharpened_problems_cause_no_false_tested_category() -> None:
    k, rng, false = 128, stream("test", "calibration", "sharpened"), 0
    for _ in range(20):
        unchanged = np.arange(500) % 10 < 3
        base = np.where(unchanged, np.exp(rng.uniform(np.log(0.5 / k), np.log(8 / k), 500)), rng.beta(2, 3, 500))
        rlvr = np.where(unchanged, base, math.e * base / (1 - base + math.e * base))
        tested = categorize_problems(draw_pair(rng, base, rlvr, k, k), 0.95).tested
        false += int(np.isin(tested[unchanged], ("E", "S")).sum())
    assert false == 0


def test_poisson_binomial_tail_equals_enumeration() -> None:
    chances = np.array([0.1, 0.5, 0.93, 0.0, 0.02, 1.0])
    for at_least in range(8):
        expected = sum(
            math.prod(p if happens else 1 - p for p, happens in zip(chances.tolist(), events, strict=True))
            for events in product((0, 1), repeat=len(chances))
            if sum(events) >= at_least
        )
        assert poisson_binomial_tail(chances, at_least) == pytest.approx(expected, rel=EXACT, abs=1e-300)


@pytest.mark.parametrize(("size", "chance", "at_least"), [(30, 0.2, 12), (500, 0.003, 40), (500, 0.5, 260)])
def test_poisson_binomial_tail_of_equal_chances_is_binomial(size: int, chance: float, at_least: int) -> None:
    expected = stats.binom.sf(at_least - 1, size, chance)
    assert poisson_binomial_tail(np.full(size, chance), at_least) == pytest.approx(expected, rel=EXACT)


def score_by_maximum_likelihood(gained: int, lost: int, problems: int, delta: float) -> float:
    """The score statistic, with the probability of a loss that is likeliest if the net change is delta."""

    def minus_log_likelihood(loss: float) -> float:
        terms = ((gained, loss + delta), (lost, loss), (problems - gained - lost, 1 - 2 * loss - delta))
        return -sum(count * math.log(max(chance, 1e-300)) for count, chance in terms)

    bounds = max(0.0, -delta), (1 - delta) / 2
    loss = optimize.minimize_scalar(minus_log_likelihood, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
    return float((gained - lost - problems * delta) / math.sqrt(problems * (2 * loss + delta - delta**2)))


@pytest.mark.parametrize(("gained", "lost", "problems"), [(3, 11, 120), (1, 7, 21), (9, 9, 60), (25, 2, 500)])
def test_tango_interval_inverts_the_score_test(gained: int, lost: int, problems: int) -> None:
    for delta in (-0.3, -0.05, 0.01, 0.2):
        expected = score_by_maximum_likelihood(gained, lost, problems, delta)
        assert tango_score(gained, lost, problems, delta) == pytest.approx(expected, rel=1e-4)
    z = stats.norm.isf(0.025)
    deltas = np.arange(-0.6, 0.3, 4e-3)
    kept = deltas[[abs(score_by_maximum_likelihood(gained, lost, problems, x)) <= z for x in deltas.tolist()]]
    assert tango_interval(gained, lost, problems, 0.95) == pytest.approx((kept.min(), kept.max()), abs=4.1e-3)


def test_tango_interval_is_the_published_one() -> None:
    # Fagerland, Lydersen & Laake (2014), airway hyper-responsiveness: 1 against 7 of 21.
    assert tango_interval(1, 7, 21, 0.95) == pytest.approx((-0.517, -0.026), abs=5e-4)


def draw_stopped(rng: np.random.Generator, mass: float, k: int, stop_after: int, size: int) -> SampleCounts:
    """Sampling stops at the h-th hit or at k."""
    places = rng.geometric(mass, (stop_after, size)).cumsum(axis=0)
    stopped = places[-1] <= k
    ended = np.where(stopped, "hit", "k").astype(object)
    return SampleCounts(np.where(stopped, places[-1], k), (places <= k).sum(axis=0), ended)


@pytest.mark.parametrize(("stop_after", "expected_hits"), [(1, 1), (3, 1), (3, 3), (7, 3), (7, 8)])
def test_an_early_stop_keeps_the_level_of_the_test(stop_after: int, expected_hits: int) -> None:
    k, pairs = 256, 1000
    rng = stream("test", "calibration", "stopped", stop_after, expected_hits)
    first, second = (draw_stopped(rng, expected_hits / k, k, stop_after, pairs) for _ in range(2))
    # A two-sided test at 10% puts at most 5% on this side, and 1% at most 0.5%.
    p_values = stopped_p_values(first, second)
    for level in (0.1, 0.01):
        expected = level / 2
        assert (p_values <= level).mean() <= expected + 4 * math.sqrt(expected / pairs)


def test_an_early_stop_takes_the_least_favourable_mass() -> None:
    grid = np.exp(np.linspace(np.log(1e-9), np.log(0.999), 2_001))
    for hits, n, misses in ((1, 5, 1024), (3, 40, 1024), (7, 1000, 256), (40, 64, 64)):
        has = SampleCounts(np.array([n]), np.array([hits]), np.array(["hit"], dtype=object))
        lacks = SampleCounts(np.array([misses]), np.array([0]), np.array(["k"], dtype=object))
        x = float(np.max(stats.binom.logsf(hits - 1, n, grid) + stats.binom.logcdf(0, misses, grid)))
        expected = min(2 * math.exp(x) * (1 - x), 1)
        assert stopped_p_values(has, lacks)[0] == pytest.approx(expected, rel=1e-3)


def test_holm_equals_statsmodels() -> None:
    rng = stream("test", "calibration", "holm")
    for size in (1, 2, 4, 9):
        p_values = (rng.random(size) ** 3).tolist()
        assert holm(p_values) == pytest.approx(multipletests(p_values, method="holm")[1].tolist(), abs=EXACT)
    assert holm([0.01, None, 0.02]) == pytest.approx([0.03, None, 0.04])


def test_wilson_interval_equals_statsmodels() -> None:
    for n, c in ((1, 0), (1, 1), (30, 0), (30, 29), (120, 47), (500, 500)):
        expected = proportion_confint(c, n, alpha=0.05, method="wilson")
        assert wilson_interval(n, c, 0.95) == pytest.approx(expected, abs=EXACT)

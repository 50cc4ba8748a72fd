"""The statistics of entropies agree with scipy, and their intervals cover the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from leash.statistics import seeds
from leash.statistics.answer_entropy import chao_shen, estimate_answer_entropies
from leash.statistics.array_types import FloatArray
from leash.statistics.bootstrap_estimates import functional_estimate, mean_estimate, rate_estimate, spearman_estimate
from leash.statistics.bootstrap_weights import Estimate, draw_weights
from leash.statistics.entropy_decomposition import EntropyCells, decomposition_estimates


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
    found = spearman_estimate([(one, other)], draw_weights(60, 500, 0), 0.95)
    value, low, high = numbers_of(found)
    assert value == pytest.approx(stats.spearmanr(one, other).statistic, abs=1e-12)
    assert -1 < low < value < high < 1


def test_spearman_of_constant_values_or_few_problems() -> None:
    rising = np.arange(20.0)
    assert spearman_estimate([(np.zeros(20), rising)], draw_weights(20, 50, 0), 0.95) == Estimate()
    assert spearman_estimate([(rising[:1], rising[:1])], draw_weights(1, 50, 0), 0.95) == Estimate()
    few = spearman_estimate([(rising[:5], -rising[:5])], draw_weights(5, 50, 0), 0.95)
    assert few.value == pytest.approx(-1)
    assert few.low is few.high is None
    assert spearman_estimate([(rising, rising)], draw_weights(20, 50, 0), 0.95).value == pytest.approx(1)


def test_a_mean_of_one_problem_has_no_interval_and_of_none_no_value() -> None:
    assert mean_estimate(np.array([0.5]), draw_weights(1, 50, 0), 0.95) == Estimate(0.5)
    assert mean_estimate(np.array([]), draw_weights(0, 50, 0), 0.95) == Estimate()
    assert rate_estimate(np.array([]), draw_weights(0, 50, 0), 0.95) == Estimate()
    assert mean_estimate(np.array([0.5, math.nan]), draw_weights(2, 50, 0), 0.95) == Estimate()


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_rates_that_are_all_zero_or_all_one_leave_room(value: float) -> None:
    """0 of 30 problems: as wide as Clopper and Pearson's interval of a share."""
    found = rate_estimate(np.full(30, value), draw_weights(30, 50, 0), 0.95)
    exact = stats.binomtest(int(30 * value), 30).proportion_ci(0.95, method="exact")
    assert numbers_of(found) == pytest.approx((value, exact.low, exact.high))


def test_a_mean_of_rates_has_students_interval() -> None:
    rates = seeds.stream("test", "rates").beta(2, 8, 40)
    value, low, high = numbers_of(rate_estimate(rates, draw_weights(40, 50, 0), 0.95))
    exact = stats.ttest_1samp(rates, 0).confidence_interval(0.95)
    assert (value, low, high) == pytest.approx((rates.mean(), exact.low, exact.high))
    assert rate_estimate(np.array([0.01] * 9 + [0.9]), draw_weights(10, 50, 0), 0.95).low == 0.0


def test_a_mean_of_rates_over_clusters_is_students_over_their_means() -> None:
    """Ten clusters of four problems with the same rate are ten problems."""
    rates = seeds.stream("test", "rates").beta(2, 8, 10)
    cluster = np.repeat(np.arange(10), 4)
    found = rate_estimate(np.repeat(rates, 4), draw_weights(40, 50, 0, cluster), 0.95)
    exact = stats.ttest_1samp(rates, 0).confidence_interval(0.95)
    assert numbers_of(found) == pytest.approx((rates.mean(), exact.low, exact.high))


def test_intervals_over_clusters_are_wider() -> None:
    changes = np.repeat(seeds.stream("test", "clusters").normal(size=10), 4)
    cluster = np.repeat(np.arange(10), 4)
    apart = numbers_of(mean_estimate(changes, draw_weights(40, 4000, 0), 0.95))
    together = numbers_of(mean_estimate(changes, draw_weights(40, 4000, 0, cluster), 0.95))
    students = stats.ttest_1samp(changes[::4], 0).confidence_interval(0.95)
    assert together[2] - together[1] == pytest.approx(students.high - students.low, rel=0.1)
    assert together[2] - together[1] > 1.8 * (apart[2] - apart[1])


def test_a_functional_of_weights_that_is_a_mean_is_the_mean() -> None:
    values, weights = seeds.stream("test", "functional").normal(size=25), draw_weights(25, 300, 0)
    found = functional_estimate(lambda w: (w @ values / w.sum(axis=1))[:, None], weights, 0.95)
    assert numbers_of(found[0]) == pytest.approx(numbers_of(mean_estimate(values, weights, 0.95)))


def test_correlations_of_both_halves_are_averaged_on_fishers_scale() -> None:
    drawn = seeds.stream("test", "halves")
    x, y, v, w = drawn.normal(size=(4, 50))
    parts = [(x, x + y), (v, v + w)]
    value, low, high = numbers_of(spearman_estimate(parts, draw_weights(50, 300, 0), 0.95))
    each = [stats.spearmanr(*part).statistic for part in parts]
    assert value == pytest.approx(math.tanh(np.mean(np.arctanh(each))))
    one = numbers_of(spearman_estimate(parts[:1], draw_weights(50, 300, 0), 0.95))
    assert high - low < one[2] - one[1]


ANSWERS = {
    "uniform": np.full(50, 1 / 50),
    "tail": (1 / np.arange(1, 101)) / (1 / np.arange(1, 101)).sum(),
    "half in one": np.array([0.5, *[0.5 / 1000] * 1000]),
}


@pytest.mark.parametrize(("name", "samples"), [("uniform", 64), ("tail", 64), ("tail", 1024), ("half in one", 1024)])
def test_the_adjusted_answer_entropy_is_nearest_to_the_truth(name: str, samples: int) -> None:
    """Known distributions of answers, 100 problems each: the bias of every estimator."""
    chances = ANSWERS[name]
    truth = float(-(chances * np.log(chances)).sum())
    drawn = seeds.stream("test", "answers", name, samples).multinomial(samples, chances, 100)
    problem, cell = np.nonzero(drawn)
    hits = drawn[problem, cell]
    found = estimate_answer_entropies(problem, hits, np.ones_like(hits), 100)
    bias = {name: abs(float(values.mean()) - truth) for name, values in found._asdict().items()}
    assert bias["adjusted"] < 0.05 + 0.02 * truth
    assert bias["adjusted"] <= bias["miller_madow"] <= bias["plug_in"]
    shen = np.mean([chao_shen(row[row > 0]) for row in drawn])
    assert bias["adjusted"] <= abs(shen - truth) + 0.01


def test_answer_entropies_of_extreme_problems() -> None:
    """No samples, one sample, one class, and a class of its own for every sample."""
    found = estimate_answer_entropies(np.array([1, 2, 3]), np.array([1, 32, 1]), np.array([1, 1, 32]), 4)
    assert all(math.isnan(values[0]) for values in found)
    assert found.adjusted[1:3].tolist() == found.plug_in[1:3].tolist() == [0, 0]
    assert found.plug_in[3] == pytest.approx(math.log(32))
    assert found.adjusted[3] > found.miller_madow[3] > math.log(32)
    assert found.unseen[1:].tolist() == [1, 0, 1]


def cells_of(base: FloatArray, rlvr: FloatArray, entropies: tuple[FloatArray, FloatArray]) -> EntropyCells:
    """Weights of four cells (two lengths by two positions), the same for every problem, and their mean entropies."""
    problems = np.ones((12, 1))
    return EntropyCells(
        *(problems * base, problems * base * entropies[0], problems * rlvr, problems * rlvr * entropies[1]),
        place=np.array([0, 1, 0, 1]),
        dataset=np.zeros(4, dtype=int),
    )


def parts_of(cells: EntropyCells) -> list[float | None]:
    found = decomposition_estimates(cells, draw_weights(12, 50, 0), 0.95)
    return [found[name].value for name in ("position_part", "length_part", "rest_part")]


def test_the_parts_of_a_change_are_told_apart() -> None:
    early, late = np.array([0.4, 0.1, 0.4, 0.1]), np.array([0.1, 0.4, 0.1, 0.4])
    short, long = np.array([0.4, 0.4, 0.1, 0.1]), np.array([0.1, 0.1, 0.4, 0.4])
    by_position, by_length = np.array([1.0, 0.2, 1.0, 0.2]), np.array([1.0, 1.0, 0.2, 0.2])
    moved = parts_of(cells_of(early, late, (by_position, by_position)))
    assert moved == pytest.approx([-0.48, 0, 0], abs=1e-12)
    longer = parts_of(cells_of(short, long, (by_length, by_length)))
    assert longer == pytest.approx([0, -0.48, 0], abs=1e-12)
    surer = parts_of(cells_of(early, early, (by_position, by_position - 0.1)))
    assert surer == pytest.approx([0, 0, -0.1], abs=1e-12)


def test_the_parts_add_up_to_the_change_and_have_intervals() -> None:
    drawn = seeds.stream("test", "cells")
    weights = drawn.dirichlet(np.ones(4), (2, 12))
    sums = weights * drawn.random((2, 12, 4))
    cells = EntropyCells(weights[0], sums[0], weights[1], sums[1], np.array([0, 1, 0, 1]), np.zeros(4, dtype=int))
    found = decomposition_estimates(cells, draw_weights(12, 200, 0), 0.95)
    change = (sums[1] - sums[0]).sum(axis=1).mean()
    assert sum(numbers_of(estimate)[0] for estimate in found.values()) == pytest.approx(change)
    for estimate in found.values():
        value, low, high = numbers_of(estimate)
        assert low < value < high


def test_cells_that_the_base_lacks_are_filled_or_forbid_the_decomposition() -> None:
    """A cell without the base gets its mean at that position: 0.8 here, from the other length."""
    entropy = np.array([0.8, 0.2, 0.0, 0.5])
    few = cells_of(np.array([0.6, 0.4, 0, 0]), np.array([0.5, 0.4, 0.1, 0]), (entropy, np.array([0.8, 0.2, 0.3, 0])))
    assert few.uncovered == pytest.approx(0.1)
    assert parts_of(few) == pytest.approx([0, 0, 0.1 * (0.3 - 0.8)], abs=1e-12)
    many = cells_of(np.array([0.6, 0.4, 0, 0]), np.array([0.3, 0.3, 0.2, 0.2]), (entropy, entropy))
    assert parts_of(many) == [None] * 3


def simulated(name: str, drawn: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Changes of 40 problems in token and answer entropy: means 0.3 and 0.5, rank correlation 0.58."""
    both = drawn.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 40)
    return (0.3 + both[:, 0], 0.5 + both[:, 1]) if name != "skewed" else (drawn.gamma(2, 0.15, 40), both[:, 1])


@pytest.mark.parametrize(
    ("name", "truth"),
    [("mean", 0.3), ("skewed", 0.3), ("rate", 0.2), ("spearman", 6 / math.pi * math.asin(0.3))],
)
def test_intervals_cover_the_truth_as_often_as_they_say(name: str, truth: float) -> None:
    """200 simulated sets of 40 problems."""
    covered = 0
    for i in range(200):
        one, other = simulated(name, seeds.stream("test", "coverage", name, i))
        drawn = draw_weights(40, 200, i)
        if name == "spearman":
            found = spearman_estimate([(one, other)], drawn, 0.95)
        elif name == "rate":
            found = rate_estimate(seeds.stream("test", "rates", i).beta(2, 8, 40), drawn, 0.95)
        else:
            found = mean_estimate(one, drawn, 0.95)
        _, low, high = numbers_of(found)
        covered += low <= truth <= high
    assert 0.88 <= covered / 200 <= 0.99

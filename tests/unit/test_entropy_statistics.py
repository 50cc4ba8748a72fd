"""The statistics of entropies agree with scipy, and their intervals cover the truth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from leash.statistics import seeds
from leash.statistics.answer_entropy import chao_shen, estimate_answer_entropies
from leash.statistics.array_types import FloatArray
from leash.statistics.bootstrap_estimates import functional_estimate, mean_estimate, rate_estimate, spearman_estimate
from leash.statistics.bootstrap_weights import Estimate, draw_weights
from leash.statistics.entropy_decomposition import PARTS, EntropyCells, decomposition_estimates


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


def test_equal_rates_do_not_prove_that_all_rates_are_equal() -> None:
    """Five problems that are right in half of their samples, and clusters that each hold a 0 and a 1."""
    value, low, high = numbers_of(rate_estimate(np.full(5, 0.5), draw_weights(5, 50, 0), 0.95))
    assert (value, 0.5 - low) == pytest.approx((0.5, high - 0.5))
    assert 0.03 < high - 0.5 < 0.2
    cluster = np.repeat(np.arange(10), 2)
    found = rate_estimate(np.tile([0.0, 1.0], 10), draw_weights(20, 50, 0, cluster), 0.95)
    assert numbers_of(found) == pytest.approx(numbers_of(rate_estimate(np.full(10, 0.5), draw_weights(10, 9, 0), 0.95)))
    assert numbers_of(found)[2] > 0.51


def test_the_first_hits_do_not_collapse_the_interval() -> None:
    """No hit in 30 problems leaves room for 11.6%, so one or two hits in 960 samples can't leave 0.3%."""
    ends = []
    for hits in range(6):
        rates = np.r_[np.full(hits, 1 / 32), np.zeros(30 - hits)]
        ends.append(numbers_of(rate_estimate(rates, draw_weights(30, 50, 0), 0.95))[2])
        mirrored = numbers_of(rate_estimate(1 - rates, draw_weights(30, 50, 0), 0.95))
        assert mirrored[1] == pytest.approx(1 - ends[-1])
    assert min(b / a for a, b in itertools.pairwise(ends)) > 0.5


def test_a_mean_of_rates_over_clusters_is_that_over_their_means() -> None:
    """Ten clusters of four problems with the same rate are ten problems."""
    rates = seeds.stream("test", "rates").beta(2, 8, 10)
    cluster = np.repeat(np.arange(10), 4)
    found = rate_estimate(np.repeat(rates, 4), draw_weights(40, 50, 0, cluster), 0.95)
    assert numbers_of(found) == pytest.approx(numbers_of(rate_estimate(rates, draw_weights(10, 50, 0), 0.95)))
    exact = stats.ttest_1samp(rates, 0).confidence_interval(0.95)
    assert found.low == pytest.approx(exact.low)


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


def cells_of(
    base: Sequence[FloatArray], rlvr: Sequence[FloatArray], octave: int = 4, problems: int = 12
) -> EntropyCells:
    """The cells of completions (the entropies of their steps), the same for every problem. A cell is an exact length
    and a half; lengths within `octave` tokens stand in for each other."""
    names = sorted({(len(steps), late) for steps in (*base, *rlvr) for late in (False, True)})
    arrays = np.zeros((4, problems, len(names)))
    for which, completions in ((0, base), (2, rlvr)):
        for steps in completions:
            half = -(-len(steps) // 2)
            for late, part in ((False, steps[:half]), (True, steps[half:])):
                share = np.array([len(part), part.sum()]) / len(steps) / len(completions)
                arrays[which : which + 2, :, names.index((len(steps), late))] += share[:, None]
    groups = sorted({(length // octave, late) for length, late in names})
    return EntropyCells(
        *(arrays[0], arrays[1], arrays[2], arrays[3]),
        octave=np.array([groups.index((length // octave, late)) for length, late in names]),
        dataset=np.array([int(late) for _, late in names]),
        late=np.array([late for _, late in names]),
    )


def parts_of(cells: EntropyCells) -> list[float | None]:
    found = decomposition_estimates(cells, draw_weights(12, 50, 0), 0.95)
    assert tuple(found) == PARTS
    return [estimate.value for estimate in found.values()]


FALLING = 1 / np.arange(1.0, 41)


@pytest.mark.parametrize("by", ["length", "position"])
def test_other_lengths_alone_leave_no_rest(by: str) -> None:
    """Base: 7 of 10 completions of 4 tokens, the others of 20. Trained: all of 20. The entropy of a step depends on the
    completion's length alone, or on the step's position alone, in the same way in both models."""
    short, long = (np.full(4, 0.6), np.full(20, 0.1)) if by == "length" else (FALLING[:4], FALLING[:20])
    base, rlvr = [short] * 7 + [long] * 3, [long]
    change = long.mean() - 0.7 * short.mean() - 0.3 * long.mean()
    assert parts_of(cells_of(base, rlvr)) == pytest.approx([change, 0, 0, 0], abs=1e-12)


def test_a_change_at_the_same_length_is_the_rest_of_its_half() -> None:
    """Of 5 steps, the first three are the first half."""
    for where, expected in ((slice(0, 3), [0, -0.06, -0.06, 0]), (slice(3, 5), [0, -0.04, 0, -0.04])):
        surer = FALLING[:5].copy()
        surer[where] -= 0.1
        assert parts_of(cells_of([FALLING[:5]], [surer])) == pytest.approx(expected, abs=1e-12)
    both = parts_of(cells_of([FALLING[:4], FALLING[:20]], [FALLING[:20] - 0.02]))
    longer = FALLING[:20].mean() - (FALLING[:4].mean() + FALLING[:20].mean()) / 2
    assert both == pytest.approx([longer, -0.02, -0.01, -0.01], abs=1e-12)


def test_the_parts_add_up_to_the_change_and_have_intervals() -> None:
    drawn = seeds.stream("test", "cells")
    weights = drawn.dirichlet(np.ones(4), (2, 12))
    sums = weights * drawn.random((2, 12, 4))
    pairs, late = np.array([0, 1, 0, 1]), np.array([False, True, False, True])
    cells = EntropyCells(weights[0], sums[0], weights[1], sums[1], pairs, pairs, late)
    found = decomposition_estimates(cells, draw_weights(12, 200, 0), 0.95)
    length, rest, first, second = (numbers_of(estimate) for estimate in found.values())
    assert length[0] + rest[0] == pytest.approx((sums[1] - sums[0]).sum(axis=1).mean())
    assert first[0] + second[0] == pytest.approx(rest[0])
    assert all(low < value < high for value, low, high in (length, rest, first, second))


def test_lengths_that_the_base_lacks_are_filled_or_forbid_the_decomposition() -> None:
    """No completion of the base has 6 tokens. The mean of those with 5, in the same half, stands in."""
    base = [np.array([0.8, 0.8, 0.8, 0.2, 0.2])]
    near = cells_of(base, [*base * 9, np.array([0.7, 0.7, 0.7, 0.1, 0.1, 0.1])])
    assert near.uncovered == 0
    longer = 0.1 * (0.5 - base[0].mean())
    assert parts_of(near) == pytest.approx([longer, -0.01, -0.005, -0.005], abs=1e-12)
    assert cells_of(base, [*base * 9, FALLING]).uncovered == pytest.approx(0.1)
    assert None not in parts_of(cells_of(base, [*base * 9, FALLING]))
    assert parts_of(cells_of(base, [*base * 7, *[FALLING] * 3])) == [None] * 4


def simulated(name: str, drawn: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Changes of 40 problems in token and answer entropy: means 0.3 and 0.5, rank correlation 0.58."""
    both = drawn.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 40)
    return (0.3 + both[:, 0], 0.5 + both[:, 1]) if name != "skewed" else (drawn.gamma(2, 0.15, 40), both[:, 1])


@pytest.mark.parametrize(
    ("name", "truth"),
    [("mean", 0.3), ("skewed", 0.3), ("rate", 0.2), ("few rates", 1 / 31), ("spearman", 6 / math.pi * math.asin(0.3))],
)
def test_intervals_cover_the_truth_as_often_as_they_say(name: str, truth: float) -> None:
    """200 simulated sets of 40 problems."""
    covered = 0
    for i in range(200):
        one, other = simulated(name, seeds.stream("test", "coverage", name, i))
        drawn = draw_weights(40, 200, i)
        if name == "spearman":
            found = spearman_estimate([(one, other)], drawn, 0.95)
        elif name in ("rate", "few rates"):
            a, b = (2, 8) if name == "rate" else (0.1, 3)
            found = rate_estimate(seeds.stream("test", "rates", i).beta(a, b, 40), drawn, 0.95)
        else:
            found = mean_estimate(one, drawn, 0.95)
        _, low, high = numbers_of(found)
        covered += low <= truth <= high
    assert 0.88 <= covered / 200 <= 0.99

"""The statistics against enumeration of everything that could have happened, scipy, and figures of statsmodels."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike
from scipy import optimize, stats

from leash.statistics import categories, extrapolation, testing
from leash.statistics.aggregate_columns import G_PASS_TAUS, g_pass_at_k
from leash.statistics.analysis import analyze_counts
from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_weights import AnalysisSettings, bootstrap_interval, draw_weights
from leash.statistics.categories import classify_support, support_probability
from leash.statistics.change_tests import change_p_values
from leash.statistics.counts import Counts
from leash.statistics.crossing import crossing_k
from leash.statistics.decision import holm, smallest_change
from leash.statistics.intervals import clopper_pearson, wilson_interval
from leash.statistics.luck import luck_p_values, poisson_binomial_tail
from leash.statistics.noise import split_half_categories
from leash.statistics.paired import paired_t, tango_interval, tango_score
from leash.statistics.pass_at_k import SampleCounts, hit_probability
from leash.statistics.ratios import compute_ratios
from leash.statistics.sharpening_test import ContingencyTables, fit_tilt
from leash.statistics.support import hits_above, min_hits_above
from leash.statistics.testing import benjamini_hochberg, fisher_p_values
from tests.conftest import ROOT

EXACT = 1e-9


def every_count(most: int) -> Iterator[tuple[int, int]]:
    yield from ((n, c) for n in range(1, most + 1) for c in range(n + 1))


def fixed_samples(n: ArrayLike, c: ArrayLike) -> SampleCounts:
    """Samples whose number n was fixed before sampling."""
    n, c = np.broadcast_arrays(np.asarray(n, dtype=np.int64), np.asarray(c, dtype=np.int64))
    return SampleCounts(n, c, np.full(n.shape, "k", dtype=object))


def outcomes(n: int, c: int) -> list[int]:
    return [1] * c + [0] * (n - c)


def share(found: list[bool]) -> float:
    return sum(found) / len(found)


@pytest.mark.parametrize("hits", [1, 2, 3])
def test_chances_equal_enumeration(hits: int) -> None:
    for n, c in every_count(8):
        for k in range(1, n + 1):
            expected = share([sum(drawn) >= hits for drawn in combinations(outcomes(n, c), k)])
            assert hit_probability(fixed_samples([n], [c]), k, hits) == pytest.approx(expected, abs=EXACT)


def test_chances_lose_no_precision_at_16384() -> None:
    n = 16384
    for c, k in product((0, 1, 2, 37, 8000, 16383, 16384), (1, 3, 64, 4096, 16384)):
        exact = float(1 - Fraction(math.comb(n - c, k), math.comb(n, k)))
        assert hit_probability(fixed_samples([n], [c]), k) == pytest.approx(exact, abs=1e-13)


def test_what_has_too_few_samples_has_no_chance() -> None:
    assert np.isnan(hit_probability(fixed_samples([8, 8], [1, 8]), 9)).all()


def test_chances_of_several_hits_stay_unbiased_after_early_stops() -> None:
    """Over all sequences of ten, stopped at the h-th hit but not before the floor."""
    runs = np.array(list(product([0, 1], repeat=10)))
    for h, floor, p in product((2, 3), (0, 4), (0.05, 0.3, 0.8)):
        likely = np.prod(np.where(runs == 1, p, 1 - p), axis=1)
        of = stopped(runs, h, floor)
        for k, hits in product(range(1, 11), range(1, h + 1)):
            assert likely @ hit_probability(of, k, hits) == pytest.approx(stats.binom.sf(hits - 1, k, p), abs=EXACT)


def stopped(runs: IntArray, h: int, floor: int) -> SampleCounts:
    so_far = np.cumsum(runs, axis=1)
    due = (so_far >= h) & (np.arange(1, runs.shape[1] + 1) >= floor)
    n = np.where(due.any(axis=1), np.argmax(due, axis=1) + 1, runs.shape[1])
    c = np.take_along_axis(so_far, n[:, None] - 1, axis=1)[:, 0]
    ended = np.where(~due.any(axis=1), "k", np.where(n > max(floor, 0), "hit", "floor")).astype(object)
    return SampleCounts(n, c, ended)


def test_noise_floor_after_early_stops_is_unbiased() -> None:
    runs = np.array(list(product([0, 1], repeat=8)))
    of = stopped(runs, 1, 0)
    half, none = np.full(len(runs), 4), np.zeros(len(runs))
    for p in (0.02, 0.2, 0.7):
        likely = np.prod(np.where(runs == 1, p, 1 - p), axis=1)
        missed = (1 - p) ** 4
        assert likely @ split_half_categories(of, half, none).E == pytest.approx(missed * (1 - missed), abs=EXACT)


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.5])
def test_noise_floor_equals_every_split(epsilon: float) -> None:
    for n, c in every_count(7):
        for h in range(1, n // 2 + 1):
            found = split_half_categories(fixed_samples([n], [c]), np.array([h]), np.array([epsilon]))
            assert [found.P[0], found.E[0], found.S[0], found.O[0]] == pytest.approx(
                splits(n, c, h, epsilon), abs=EXACT
            )


def splits(n: int, c: int, h: int, epsilon: float) -> list[float]:
    counted, seen = dict.fromkeys("PESO", 0), outcomes(n, c)
    for first in combinations(range(n), h):
        for second in combinations([i for i in range(n) if i not in first], h):
            before, after = (sum(seen[i] for i in part) / h > epsilon for part in (first, second))
            counted["P" if before and after else "E" if after else "S" if before else "O"] += 1
    return [count / sum(counted.values()) for count in counted.values()]


def test_noise_floor_of_500_problems_is_what_luck_gives() -> None:
    """The same model twice: what is called E is what the floor, from one of the two runs, expects."""
    drawn = np.random.default_rng(5)
    n, p = np.full(4000, 512), drawn.beta(0.1, 1.5, 4000) ** 2
    once, twice, more = (drawn.binomial(512, p) for _ in range(3))
    came = int(((once == 0) & (twice > 0)).sum())
    floor = split_half_categories(fixed_samples(2 * n, twice + more), n, np.zeros(4000)).E.sum()
    assert came == pytest.approx(floor, abs=4 * math.sqrt(floor))
    assert floor > 50


def test_expected_categories_are_products_of_independent_models() -> None:
    """Against all pairs of draws of k from either model's samples."""
    for (n, c), (m, d) in product(every_count(4), every_count(4)):
        for k in range(1, min(n, m) + 1):
            pairs = product(combinations(outcomes(n, c), k), combinations(outcomes(m, d), k))
            seen = [(any(one), any(other)) for one, other in pairs]
            found = classify_support(
                hit_probability(fixed_samples([n], [c]), k), hit_probability(fixed_samples([m], [d]), k)
            )
            assert found.P[0] == pytest.approx(share([a and b for a, b in seen]), abs=EXACT)
            assert found.E[0] == pytest.approx(share([b and not a for a, b in seen]), abs=EXACT)
            assert found.S[0] == pytest.approx(share([a and not b for a, b in seen]), abs=EXACT)
            assert found.O[0] == pytest.approx(share([not (a or b) for a, b in seen]), abs=EXACT)


def test_g_pass_at_k_equals_enumeration() -> None:
    for n, c in every_count(9):
        for k in (4, 8):
            if k > n:
                assert np.isnan(g_pass_at_k(fixed_samples([n], [c]), k)).all()
                continue
            draws = [sum(drawn) for drawn in combinations(outcomes(n, c), k)]
            expected = [share([hits >= tau * k for hits in draws]) for tau in G_PASS_TAUS]
            assert g_pass_at_k(fixed_samples([n], [c]), k)[0] == pytest.approx(expected, abs=EXACT)


def test_pass_at_k_is_a_weighted_mean_of_the_cover_curve() -> None:
    """With masses known: pass@k = E over τ ~ Beta(1, k) of the share of problems with mass at least τ."""
    masses = np.array([0.0, 0.01, 0.2, 0.2, 0.7, 1.0])
    grid = (np.arange(200_000) + 0.5) / 200_000
    cover = (masses[:, None] >= grid).mean(axis=0)
    for k in (1, 4, 32):
        mean = (cover * stats.beta.pdf(grid, 1, k)).mean()
        assert mean == pytest.approx((1 - (1 - masses) ** k).mean(), abs=1e-4)


def test_support_of_more_samples_than_k_is_the_chance_of_it() -> None:
    of = fixed_samples([8, 4, 8, 3], [2, 1, 0, 3])
    k = np.array([4, 4, 4, 4])
    of = SampleCounts(of.n, of.c, np.array(["k", "k", "k", None], dtype=object))
    found = support_probability(of, k, np.zeros(4))
    assert found[:3] == pytest.approx([1 - math.comb(6, 4) / math.comb(8, 4), 1, 0], abs=EXACT)
    assert np.isnan(found[3])
    assert support_probability(of, k, np.full(4, 0.25))[0] == pytest.approx(
        math.comb(6, 2) / math.comb(8, 4), abs=EXACT
    )


def test_a_stop_after_k_is_no_support_at_k() -> None:
    """Its first hit was the ninth sample."""
    of = SampleCounts(np.array([9]), np.array([1]), np.array(["hit"], dtype=object))
    assert support_probability(of, np.array([16]), np.zeros(1)) == [1.0]
    assert support_probability(of, np.array([8]), np.zeros(1)) == [0.0]
    assert np.isnan(support_probability(of, np.array([16]), np.full(1, 0.5)))  # open: seven more samples were not drawn


@pytest.mark.parametrize("epsilon", [0.0, 0.29, 0.5, 1e-4, 0.999])
def test_fewest_hits_are_those_of_the_stopping_rule(epsilon: float) -> None:
    for k in (1, 2, 7, 100, 1024):
        found = int(hits_above(epsilon, k))
        assert min(found, k) == min_hits_above(epsilon, k)


@pytest.mark.parametrize(("n", "c"), [(1, 0), (10, 3), (8192, 1), (16384, 16000)])
def test_clopper_pearson_is_scipys(n: int, c: int) -> None:
    expected = stats.binomtest(c, n).proportion_ci(0.95, method="exact")
    low, high = clopper_pearson(np.array([n]), np.array([c]), 0.95)
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=EXACT)


def test_fisher_is_scipys_on_every_small_table() -> None:
    tables = np.array([(n, c, m, d) for (n, c), (m, d) in product(every_count(7), every_count(7))])
    found = fisher_p_values(*tables.T)
    expected = [stats.fisher_exact(np.array([[c, n - c], [d, m - d]])).pvalue for n, c, m, d in tables.tolist()]
    assert found == pytest.approx(expected, abs=EXACT)


def test_fisher_is_scipys_on_large_tables_down_to_the_smallest_p_values() -> None:
    drawn = np.random.default_rng(1)
    n, m = np.full(60, 16384), np.full(60, 4096)
    p = drawn.beta(0.3, 1, 60)
    c, d = drawn.binomial(n, p), drawn.binomial(m, np.clip(p * drawn.choice([1, 1.05, 2], 60), 0, 1))
    expected = [stats.fisher_exact(np.array([[a, 16384 - a], [b, 4096 - b]])).pvalue for a, b in zip(c, d, strict=True)]
    assert fisher_p_values(n, c, m, d) == pytest.approx(expected, rel=1e-8, abs=1e-300)
    assert min(expected) < 1e-50


def test_benjamini_hochberg_rejects_as_its_definition_does() -> None:
    """At each level all up to the largest p-value that is at most level · rank / number."""
    p = np.random.default_rng(2).random(40) ** 3
    found = benjamini_hochberg(p, np.full(40, "all", dtype=object))
    ranked = np.sort(p)
    for level in (0.01, 0.05, 0.1, 0.3, 0.9):
        passing = ranked[ranked <= level * np.arange(1, 41) / 40]
        assert (found <= level).tolist() == (p <= passing.max(initial=-1)).tolist()


@pytest.mark.parametrize(("came", "went"), [(0, 0), (1, 0), (5, 5), (3, 17), (36, 163)])
def test_mcnemar_is_a_fair_coin(came: int, went: int) -> None:
    tails = [math.comb(came + went, i) for i in range(min(came, went) + 1)]
    expected = min(float(Fraction(2 * sum(tails), 2 ** (came + went))), 1.0)
    assert testing.mcnemar_p_value(came, went) == pytest.approx(expected, abs=EXACT)


def test_tested_categories() -> None:
    """E and S by their q-value, P and O by bounds of both masses: above 0.1, and at most 0.1."""
    looks = np.array(["E", "E", "S", "P", "P", "P", "O", "O", "E", None], dtype=object)
    q = np.array([0.01, 0.2, 0.01, np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, np.nan])
    base = (
        np.array([0, 0, 0.3, 0.2, 0.2, 0.1, 0, 0, 0, 0.2]),
        np.array([0.1, 0.1, 0.6, 0.9, 0.9, 0.9, 0.1, 0.1, 0.1, 0.9]),
    )
    rlvr = (
        np.array([0.3, 0.1, 0, 0.2, 0.1, 0.2, 0, 0, 0.3, 0.2]),
        np.array([0.9, 0.9, 0.1, 0.9, 0.9, 0.9, 0.1, 0.2, 0.9, 0.9]),
    )
    expected = ["E", "undetermined", "S", "P", *["undetermined"] * 2, "O", *["undetermined"] * 2, None]
    assert categories.tested_categories(looks, q, [base, rlvr], np.full(10, 0.1), 0.05).tolist() == expected


def test_ratios_of_nothing_are_none() -> None:
    assert all(np.isnan(value) for value in compute_ratios(0, 0, 0).values())
    found = compute_ratios(0, 0, 3)
    assert (float(found["SRR"]), float(found["NSCR"])) == (0, -1)
    assert np.isnan(found["NDR"])
    assert np.isnan(found["SDS"])


@pytest.mark.parametrize(
    ("base", "rlvr", "expected"),
    [
        ([0.1, 0.3, 0.6, 0.9], [0.3, 0.5, 0.6, 0.7], 4),  # they meet at 4
        ([0.1, 0.3, 0.7, 0.9], [0.3, 0.4, 0.6, 0.7], 2 * 2**0.5),  # half way from 2 to 4
        ([0.1, 0.2, 0.3, 0.4], [0.3, 0.4, 0.5, 0.6], np.inf),
        ([0.3, 0.4, 0.5, 0.6], [0.1, 0.2, 0.3, 0.4], np.nan),  # from the start
        ([0.1, 0.5, 0.5, 1.0], [0.3, 0.4, 0.6, 1.0], np.inf),  # back again, and then even
        ([0.1, 0.5, 0.4, 0.9], [0.3, 0.4, 0.5, 0.8], 4 * 2**0.5),  # the last time counts
    ],
)
def test_where_curves_cross(base: list[float], rlvr: list[float], expected: float) -> None:
    found = crossing_k([1, 2, 4, 8], np.array(rlvr), np.array(base))
    assert found == pytest.approx(expected, nan_ok=True)


def test_the_conditional_distribution_is_scipys() -> None:
    of = ContingencyTables(*(np.array(x) for x in ([12, 30, 5], [3, 20, 5], [9, 25, 7], [5, 1, 0])))
    for odds in (0.01, 0.3, 1.0, 4.0, 300.0):
        mean, variance = of.moments(odds)
        for i in range(3):
            theirs = stats.nchypergeom_fisher(of.n_base[i] + of.n_rlvr[i], of.n_rlvr[i], of.hits[i], odds)
            assert (mean[i], variance[i]) == pytest.approx((theirs.mean(), theirs.var()), abs=EXACT)


def change(
    factor: FloatArray | float, problems: int = 400, n: int = 512
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Counts of problems whose odds grew by a factor."""
    drawn = np.random.default_rng(3)
    p = drawn.beta(0.4, 1.5, problems)
    odds = factor * p / (1 - p)
    return np.full(problems, n), drawn.binomial(n, p), np.full(problems, n), drawn.binomial(n, odds / (1 + odds))


def test_one_factor_is_found_and_explains_all() -> None:
    found = fit_tilt(*change(2.5), 0.95)
    assert found is not None
    for value, low, high in (found.pooled, found.conditional):
        assert low < 2.5 < high
        assert value == pytest.approx(2.5, rel=0.03)
    assert found.explained > 0.98
    assert found.residual[1] > 0.01
    assert found.breslow_day[1] > 0.01


def test_the_conditional_estimate_is_scipys_of_one_table() -> None:
    found = fit_tilt(np.array([40]), np.array([7]), np.array([30]), np.array([14]), 0.95)
    assert found is not None
    theirs = stats.contingency.odds_ratio([[14, 16], [7, 33]], kind="conditional").statistic
    assert found.conditional[0] == pytest.approx(theirs, rel=1e-6)


def test_the_pooled_factor_and_breslow_days_test_are_those_of_statsmodels() -> None:
    """Figures of StratifiedTable, version 0.15.0: logodds_pooled, logodds_pooled_se, test_equal_odds(adjust=True)."""
    n, c, m, d = np.array([[12, 30, 5, 40], [3, 20, 4, 1], [9, 25, 7, 50], [5, 21, 3, 6]])
    found = fit_tilt(n, c, m, d, 0.95)
    assert found is not None
    margin = 1.959963984540054 * 0.42742737986954965
    assert np.log(found.pooled) == pytest.approx(0.8284008311842762 + np.array([0, -margin, margin]), abs=EXACT)
    assert found.breslow_day == pytest.approx((4.953952620357847, 0.17520017956707612), abs=EXACT)


def test_breslow_days_test_holds_at_a_ratio_of_one() -> None:
    even = fit_tilt(np.array([9, 9]), np.array([3, 4]), np.array([9, 9]), np.array([4, 3]), 0.95)
    assert even is not None
    assert even.pooled[0] == pytest.approx(1)
    assert 0 < even.breslow_day[0] < 2


def test_many_factors_are_not_explained_by_one() -> None:
    factors = np.exp(np.random.default_rng(4).normal(0.7, 1.0, 400))
    found = fit_tilt(*change(factors), 0.95)
    assert found is not None
    assert found.residual[1] < 1e-9
    assert found.breslow_day[1] < 1e-9
    assert found.explained < 0.7


def test_no_change_leaves_nothing_to_explain() -> None:
    found = fit_tilt(*change(1.0), 0.95)
    assert found is not None
    assert math.isnan(found.explained)


def test_no_finite_factor() -> None:
    n = np.array([10, 10])
    assert fit_tilt(n, np.array([0, 0]), n, np.array([3, 0]), 0.95) is None


def test_no_threads_are_started_for_small_matrices() -> None:
    """They would wait for each other longer than they work: a fit took four times as long with two."""
    threads = Path("/proc/self/task")
    if not threads.exists():
        pytest.skip("threads can't be counted here")
    script = f"import stages, os, scipy.optimize; print(len(os.listdir({str(threads)!r})))"
    unset = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=ROOT, env=unset, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_extrapolation_finds_the_masses_it_was_made_of() -> None:
    drawn = np.random.default_rng(6)
    p = np.where(drawn.random(3000) < 0.25, 0, drawn.beta(0.4, 2, 3000))
    n = np.full(3000, 256)
    found = extrapolation.fit_mass_distribution(n, drawn.binomial(n, p))
    assert (found.never, found.a, found.b) == pytest.approx((0.25, 0.4, 2), rel=0.25)
    assert float(found.pass_at(2048)) == pytest.approx((1 - (1 - p) ** 2048).mean(), abs=0.02)


def test_the_same_seed_draws_the_same_weights() -> None:
    assert np.array_equal(draw_weights(5, 20, 7).problems, draw_weights(5, 20, 7).problems)
    assert not np.array_equal(draw_weights(5, 20, 7).problems, draw_weights(5, 20, 8).problems)


def test_an_interval_holds_its_value() -> None:
    low, high = bootstrap_interval(np.array(0.0), np.linspace(0.1, 0.9, 101), 0.8)
    assert (low, high) == pytest.approx((0.0, 0.82))


def counts_of(four: ArrayLike, epsilon: float = 0.0, k: int | None = None) -> Counts:
    """Counts of one data set, from rows of n and c of the base and of the trained model; all samples were drawn."""
    n_base, c_base, n_rlvr, c_rlvr = np.asarray(four, dtype=np.int64).T
    size = len(n_base)
    ended = np.full(size, "k", dtype=object)
    ks = np.minimum(n_base, n_rlvr) if k is None else np.full(size, k)
    names = np.array([f"p{i}" for i in range(size)], dtype=object)
    return Counts(
        np.full(size, "d", dtype=object),
        names,
        n_base,
        c_base,
        n_rlvr,
        c_rlvr,
        ended,
        ended,
        ks,
        np.full(size, epsilon),
    )


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_luck_is_the_share_of_all_ways_to_spread_the_hits(epsilon: float) -> None:
    """Every way to choose which of both models' samples are hits, on each of three problems."""
    four = [(4, 2, 3, 0), (3, 0, 4, 2), (3, 1, 3, 1)]
    shapes = []
    for n, c, m, d in four:
        ways = [(sum(i < n for i in hits), sum(i >= n for i in hits)) for hits in combinations(range(n + m), c + d)]
        shapes.append([(a / n > epsilon, b / m > epsilon) for a, b in ways])
    seen = [(c / n > epsilon, d / m > epsilon) for n, c, m, d in four]
    found = luck_p_values(counts_of(four, epsilon))
    for name, shape in (("losses_p", (True, False)), ("gains_p", (False, True))):
        observed = seen.count(shape)
        expected = share([drawn.count(shape) >= observed for drawn in product(*shapes)])
        assert found[name] == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize(("problems", "k"), [(30, 64), (120, 64), (500, 1024)])
def test_luck_rarely_gives_more_than_noise_if_nothing_changed(problems: int, k: int) -> None:
    """At most half the error rate for each direction, over 300 runs with many problems that are solved by chance."""
    drawn = np.random.default_rng(8)
    below = {"gains_p": 0, "losses_p": 0}
    n = np.full(problems, k)
    for _ in range(300):
        p = drawn.beta(0.15, 2, problems)
        found = luck_p_values(counts_of(np.stack([n, drawn.binomial(n, p), n, drawn.binomial(n, p)], axis=1)))
        for name, p_value in found.items():
            assert p_value is not None
            below[name] += p_value < 0.025
    assert max(below.values()) <= stats.binom.isf(0.001, 300, 0.025)


def test_a_poisson_binomial_tail_is_that_of_every_outcome() -> None:
    chances = np.array([0.0, 0.1, 0.5, 0.7, 1.0, 1e-3])
    outcomes_of_all = list(product([0, 1], repeat=len(chances)))
    for at_least in range(len(chances) + 1):
        expected = sum(
            np.prod(np.where(np.array(seen) == 1, chances, 1 - chances))
            for seen in outcomes_of_all
            if sum(seen) >= at_least
        )
        assert poisson_binomial_tail(chances, at_least) == pytest.approx(expected, abs=EXACT)


def test_holm_is_its_definition() -> None:
    """The smallest p-value times their number, the next one times one fewer, and never smaller than the one before."""
    assert holm([0.01, 0.04, 0.03, 0.02]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([0.02]) == [0.02]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    # What was not tested counts as a comparison.
    assert holm([0.01, None, 0.5]) == [pytest.approx(0.03), None, 1.0]


def test_wilsons_interval_is_scipys() -> None:
    for n, c in every_count(20):
        expected = stats.binomtest(c, n).proportion_ci(0.95, method="wilson")
        assert wilson_interval(n, c, 0.95) == pytest.approx((expected.low, expected.high), abs=EXACT)


@pytest.mark.parametrize(("gained", "lost", "problems"), [(9, 2, 60), (0, 0, 30), (30, 0, 30), (1, 12, 44)])
def test_tangos_score_is_that_of_the_most_likely_losses(gained: int, lost: int, problems: int) -> None:
    """Found here by a search over the share of losses, given the net change."""

    def log_likelihood(share_lost: float, delta: float) -> float:
        shares = np.array([share_lost + delta, share_lost, 1 - 2 * share_lost - delta])
        seen = np.array([gained, lost, problems - gained - lost])
        return float(seen[seen > 0] @ np.log(shares[seen > 0]))

    for delta in (-0.3, -0.02, 0.02, 0.4):
        ends = (max(0.0, -delta) + 1e-12, (1 - delta) / 2 - 1e-12)
        found = optimize.minimize_scalar(
            lambda x, at=delta: -log_likelihood(x, at), bounds=ends, method="bounded", options={"xatol": 1e-12}
        )
        error = math.sqrt(problems * (2 * found.x + delta - delta**2))
        assert tango_score(gained, lost, problems, delta) == pytest.approx(
            (gained - lost - problems * delta) / error, rel=1e-4
        )
    low, high = tango_interval(gained, lost, problems, 0.95)
    assert low <= (gained - lost) / problems <= high
    for end, at in ((low, stats.norm.isf(0.025)), (high, stats.norm.ppf(0.025))):
        assert abs(end) == 1 or tango_score(gained, lost, problems, end) == pytest.approx(at, abs=1e-6)


def test_above_epsilon_a_change_on_one_side_of_it_is_no_tested_change() -> None:
    """Both masses are 0.2 and 0.45: on the same side of 0.1 and of 0.5, and far apart. By chance a share may lie across
    an epsilon near one of them, which Fisher's test of a difference would have called a change."""
    n = 400
    below = counts_of([(n, 36, n, 180)] * 20 + [(n, 41, n, 180)] * 5, epsilon=0.1)
    found = categories.categorize_problems(below, 0.95)
    assert found.category.tolist() == ["E"] * 20 + ["P"] * 5
    assert found.tested.tolist()[:20] == ["undetermined"] * 20  # 36 of 400 may well be a mass above 0.1
    assert found.p_values[:20] == pytest.approx(stats.binom.cdf(36, n, 0.1))
    above = categories.categorize_problems(counts_of([(n, 180, n, 208)] * 25, epsilon=0.5), 0.95)
    assert above.category.tolist() == ["E"] * 25
    assert above.tested.tolist() == ["undetermined"] * 25
    assert above.p_values == pytest.approx(stats.binom.sf(207, n, 0.5))
    surely = categories.categorize_problems(counts_of([(n, 10, n, 180)] * 25, epsilon=0.1), 0.95)
    assert surely.tested.tolist() == ["E"] * 25


def test_problems_that_sharpened_do_not_help_to_call_others_lost() -> None:
    """A thousand preserved problems with tiny p-values, and two that look lost with p = 0.03 by Fisher's test."""
    same = categories.categorize_problems(counts_of([(64, 20, 64, 60)] * 1000 + [(64, 6, 64, 0)] * 2), 0.95)
    assert same.p_values[-1] == pytest.approx(stats.fisher_exact(np.array([[6, 58], [0, 64]])).pvalue)
    assert same.p_values[-1] < 0.05
    assert same.count_tested(np.ones(1002, dtype=bool)) == {"P": 1000, "E": 0, "S": 0, "O": 0, "undetermined": 2}
    assert np.isnan(same.p_values[:1000]).all()


def test_misses_prove_no_mass_of_zero_but_one_below_epsilon() -> None:
    rows = [(1024, 0, 1024, 0)] * 3
    assert categories.categorize_problems(counts_of(rows), 0.95).tested.tolist() == ["undetermined"] * 3
    assert categories.categorize_problems(counts_of(rows, epsilon=0.01), 0.95).tested.tolist() == ["O"] * 3


@pytest.mark.parametrize(("h", "floor"), [(1, 0), (2, 0), (2, 4)])
def test_a_tested_change_after_early_stops_is_rarely_false(h: int, floor: int) -> None:
    """Over all pairs of runs of eight samples that stop at the h-th hit: P(p <= a) <= a, if both masses are equal."""
    runs = np.array(list(product([0, 1], repeat=8)))
    one = stopped(runs, h, floor)
    base, rlvr = (np.array(x) for x in zip(*product(range(len(runs)), repeat=2), strict=True))
    size = len(base)
    about = np.full(size, "d", dtype=object), np.arange(size).astype(object)
    both = (one.n[base], one.c[base], one.n[rlvr], one.c[rlvr], one.ended[base], one.ended[rlvr])
    counts = Counts(*about, *both, k=np.full(size, 8), epsilon=np.zeros(size))
    looks = np.where(counts.c_rlvr > 0, np.where(counts.c_base > 0, "P", "E"), np.where(counts.c_base > 0, "S", "O"))
    p_values = change_p_values(counts, looks.astype(object))
    for mass in (0.05, 0.2, 0.5, 0.8):
        likely = np.prod(np.where(runs == 1, mass, 1 - mass), axis=1)
        weight = likely[base] * likely[rlvr]
        for level in (0.01, 0.05, 0.2):
            assert weight @ (p_values <= level) <= level + EXACT


def test_a_t_test_over_problems_is_scipys_with_two_half_pseudo_problems() -> None:
    """By weights: every problem counts once, plus and minus the largest difference count half each."""
    d = np.random.default_rng(3).normal(0.1, 0.2, 40)
    most = np.abs(d).max()
    values, weights = np.append(d, [most, -most]), np.append(np.ones(40), [0.5, 0.5])
    mean = np.average(values, weights=weights)
    variance = weights @ (values - mean) ** 2 / 40
    found = paired_t(d)
    assert float(found.centre) == pytest.approx(mean, abs=EXACT)
    assert float(found.error) == pytest.approx(math.sqrt(variance / 41), abs=EXACT)
    assert float(found.p_value) == pytest.approx(2 * stats.t.sf(abs(mean) / math.sqrt(variance / 41), 40), abs=EXACT)


def test_the_smallest_change_is_the_first_that_mcnemar_calls_one() -> None:
    def smallest(gained: int, lost: int, problems: int, alpha: float = 0.05) -> float | None:
        counted = {"categories": {"E": gained, "S": lost}, "problems": problems, "uncategorized": 0}
        return smallest_change({**counted, "test": {"name": "McNemar"}}, alpha)

    for gained, lost in product(range(6), repeat=2):
        more, fewer = round((smallest(gained, lost, 1000) or 0) * 1000), min(gained, lost)
        assert testing.mcnemar_p_value(fewer, fewer + more) < 0.05 <= testing.mcnemar_p_value(fewer, fewer + more - 1)
    assert smallest(0, 5, 5) is None  # five losses of five have p = 0.0625
    assert smallest(0, 0, 6) == 1
    assert smallest(0, 0, 8, alpha=0.05 / 4) == 1  # eight of eight: p = 0.008; seven would do for three comparisons


@pytest.mark.parametrize("problems", [1, 10])
def test_intervals_stay_within_what_is_possible(problems: int) -> None:
    """Expected P is at most all problems, a difference of pass@k at most 1."""
    n = np.full(problems, 16)
    ended, names = np.full(problems, "k", dtype=object), np.array([str(i) for i in range(problems)], dtype=object)
    hits = np.full(problems, 3), np.full(problems, 9)
    counts = Counts(
        np.full(problems, "d", dtype=object), names, n, hits[0], n, hits[1], ended, ended, n, np.zeros(problems)
    )
    analysis = analyze_counts(counts, AnalysisSettings(resamples=200), deconvolved=False)
    for at_k in analysis["expected"].values():
        assert sum(at_k[name]["value"] for name in "PESO") == pytest.approx(problems)
        assert all(at_k[name]["high"] <= problems for name in "PESO")
    assert all(-1 <= at_k["low"] <= at_k["high"] <= 1 for at_k in analysis["difference"].values())

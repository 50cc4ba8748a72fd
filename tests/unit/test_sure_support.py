"""How sure is a category, and what is known beyond the samples? Against enumeration, scipy and simulated truth.
tests/benchmarks/calibration.py measures the rates; here wide bounds catch gross failures."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from scipy import optimize, special, stats

from leash.report import narrative
from leash.statistics import extrapolation
from leash.statistics.analysis import analyze_counts
from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.counts import Counts
from leash.statistics.extrapolation import (
    MassDistribution,
    fit_mass_distribution,
    maximize_likelihood,
    pass_at_k_intervals,
)
from leash.statistics.identified import (
    entropy_bounds,
    extreme_means,
    identified_categories,
    identified_pass_at_k,
    simultaneous_bounds,
)
from leash.statistics.pass_at_k import SampleCounts
from leash.statistics.seeds import stream
from leash.statistics.support import detectable_mass, hits_to_prove
from leash.statistics.sure_support import call_support, count_sure, posterior_counts

CONFIDENCE = 0.95


def samples(n: Any, c: Any, ended: Any = "k") -> SampleCounts:
    n, c = np.broadcast_arrays(np.asarray(n, dtype=np.int64), np.asarray(c, dtype=np.int64))
    return SampleCounts(n, c, np.broadcast_to(np.array(ended, dtype=object), n.shape).copy())


def draw_masses(rng: np.random.Generator, size: int) -> FloatArray:
    return np.where(rng.random(size) < 0.1, 0.0, rng.beta(0.35, 2.5, size))


def counts_of(base: IntArray, rlvr: IntArray, k: int, epsilon: float) -> Counts:
    size = len(base)
    names, ended = np.array([str(i) for i in range(size)], dtype=object), np.full(size, "k", dtype=object)
    n = np.full(size, k)
    sampled = n.copy(), base, n.copy(), rlvr, ended.copy(), ended.copy()
    return Counts(names, names, *sampled, n, np.full(size, epsilon))


def likelihood(n: IntArray, c: IntArray, masses: MassDistribution) -> float:
    beta = stats.betabinom.pmf(c, n, masses.a, masses.b)
    return float(np.log((1 - masses.never) * beta + masses.never * (c == 0)).sum())


# ---- three-valued support --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [11, 64, 1024, 8192])
def test_at_epsilon_auto_only_seven_hits_prove_support(k: int) -> None:
    epsilon = detectable_mass(k, CONFIDENCE)
    assert hits_to_prove(epsilon, k, CONFIDENCE) == 7
    calls = call_support(samples(k, np.arange(9)), np.full(9, epsilon), CONFIDENCE)
    assert calls.tolist() == ["below", *["open"] * 6, "above", "above"]


def test_at_epsilon_zero_a_hit_proves_support_and_nothing_proves_its_absence() -> None:
    found = call_support(samples(10**6, [0, 1, 10**6]), np.zeros(3), CONFIDENCE)
    assert found.tolist() == ["open", "above", "above"]


def test_missing_samples_have_no_call() -> None:
    found = samples([8, 0, 8], [8, 0, 0], [None, "k", "k"])
    assert call_support(found, np.full(3, 0.1), CONFIDENCE).tolist() == [None, None, "open"]


@pytest.mark.parametrize("k", [64, 1024])
@pytest.mark.parametrize("floor", [0, 32])
def test_stopping_at_the_seventh_hit_gives_the_calls_of_all_samples(k: int, floor: int) -> None:
    """Every sequence of k samples, by its hits in all of them and the place of its seventh hit."""
    epsilon = detectable_mass(k, CONFIDENCE)
    h = hits_to_prove(epsilon, k, CONFIDENCE)
    fixed = call_support(samples(k, np.arange(k + 1)), np.full(k + 1, epsilon), CONFIDENCE)
    assert (fixed == "above").tolist() == [c >= 7 for c in range(k + 1)]
    # Fewer than 7 hits: nothing stops, and the counts are the same. From 7 on: a stop at any later sample, or at the
    # floor with any number of hits, is `above`, as are all k samples.
    stops = np.arange(max(h, floor + 1), k + 1)
    assert set(call_support(samples(stops, h, "hit"), np.full(len(stops), epsilon), CONFIDENCE)) == {"above"}
    by_floor = np.arange(h, floor + 1)
    if len(by_floor):
        at_floor = call_support(samples(floor, by_floor, "floor"), np.full(len(by_floor), epsilon), CONFIDENCE)
        assert set(at_floor) == {"above"}
    # So the chance of `above` is that of 7 hits in k, for every mass: by the place of the seventh hit, and directly.
    for mass in (epsilon / 2, epsilon, 2 * epsilon, 0.3):
        places = stats.nbinom.pmf(np.arange(h, k + 1) - h, h, mass).sum()
        assert places == pytest.approx(stats.binom.sf(h - 1, k, mass), abs=1e-12)


def test_a_smaller_stop_leaves_more_open() -> None:
    epsilon = detectable_mass(1024, CONFIDENCE)
    found = call_support(samples([1024, 700, 200], 3, "hit"), np.full(3, epsilon), CONFIDENCE)
    assert found.tolist() == ["open", "open", "above"]


@pytest.mark.parametrize("mass", [0.5, 1.0, 1.0001])
def test_a_wrong_call_is_rarer_than_the_confidence_allows(mass: float) -> None:
    k, epsilon = 256, 0.05
    c = np.arange(k + 1)
    calls = call_support(samples(k, c), np.full(k + 1, epsilon), CONFIDENCE)
    chance, wrong = stats.binom.pmf(c, k, mass * epsilon), "above" if mass <= 1 else "below"
    assert chance[calls == wrong].sum() <= 1 - CONFIDENCE


def test_sure_categories_need_both_models() -> None:
    calls = {
        "base": np.array(["above", "below", "above", "below", "open", "above", None], dtype=object),
        "rlvr": np.array(["above", "above", "below", "below", "above", "open", "above"], dtype=object),
    }
    assert count_sure(calls) == {"P": 1, "E": 1, "S": 1, "O": 1, "open": 2}


# ---- the fitted masses -----------------------------------------------------------------------------------------------


def test_the_fit_is_the_maximum_that_scipy_finds() -> None:
    rng = stream("test", "fit")
    n = np.repeat([64, 256], 60)
    c = rng.binomial(n, draw_masses(rng, 120))
    found = fit_mass_distribution(n, c)

    def loss(x: FloatArray) -> float:
        return -likelihood(n, c, MassDistribution(float(special.expit(x[0])), *np.exp(x[1:]).tolist()))

    tight: Any = {"xatol": 1e-8, "fatol": 1e-11, "maxiter": 4000}
    best = optimize.minimize(loss, [special.logit(0.2), 0.0, 0.0], method="Nelder-Mead", options=tight)
    assert likelihood(n, c, found) >= -best.fun - 1e-9
    assert [found.never, found.a, found.b] == pytest.approx([special.expit(best.x[0]), *np.exp(best.x[1:])], rel=1e-4)


def test_the_fit_does_not_depend_on_where_it_starts() -> None:
    rng = stream("test", "starts")
    c = rng.binomial(128, draw_masses(rng, 200))
    counts, repeats = np.unique(np.stack([np.full(200, 128), c]), axis=1, return_counts=True)
    starts = np.column_stack([rng.uniform(0.01, 0.9, 20), rng.uniform(-2, 1, 20), rng.uniform(-2, 3, 20)])
    found, _ = maximize_likelihood(counts, np.tile(repeats.astype(float), (20, 1)), starts)
    assert np.ptp(found, axis=0).max() < 1e-10


def test_one_newton_step_from_the_fit_gives_the_interval_of_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, k, size = stream("test", "one step"), 1024, 1200
    n = np.full(size, k)
    c = rng.binomial(n, draw_masses(rng, size))
    assert len(np.unique(c)) > extrapolation.MAX_REFIT_COUNTS
    fitted, weights = fit_mass_distribution(n, c), AnalysisSettings().drawn(size)
    quick = pass_at_k_intervals(fitted, n, c, [8 * k], weights, CONFIDENCE)[8 * k]
    monkeypatch.setattr(extrapolation, "MAX_REFIT_COUNTS", size)
    full = pass_at_k_intervals(fitted, n, c, [8 * k], weights, CONFIDENCE)[8 * k]
    assert quick["low"] != full["low"]
    for end in ("low", "high"):
        assert quick[end] == pytest.approx(full[end], abs=0.12 * (full["high"] - full["low"]))


@pytest.mark.parametrize("hits", [0, 32, 64])
def test_problems_that_are_all_alike_do_not_give_an_interval_of_no_width(hits: int) -> None:
    n, c = np.full(40, 64), np.full(40, hits)
    found = pass_at_k_intervals(fit_mass_distribution(n, c), n, c, [128], AnalysisSettings().drawn(40), CONFIDENCE)
    assert found[128]["high"] - found[128]["low"] > 0.02


def test_the_interval_of_the_extrapolation_covers_the_truth() -> None:
    k, size, trials = 64, 60, 20
    truth = float(MassDistribution(0.1, 0.35, 2.5).pass_at(8 * k))
    weights, covered = AnalysisSettings().drawn(size), 0
    for trial in range(trials):
        rng = stream("test", "extrapolation", trial)
        n = np.full(size, k)
        c = rng.binomial(n, draw_masses(rng, size))
        found = pass_at_k_intervals(fit_mass_distribution(n, c), n, c, [8 * k], weights, CONFIDENCE)[8 * k]
        covered += found["low"] <= truth <= found["high"]
    assert covered >= 16


@pytest.mark.parametrize(("c", "epsilon"), [(0, 0.0), (0, 0.003), (2, 0.0), (2, 0.01), (40, 0.2)])
def test_the_posterior_is_that_of_numerical_integration(c: int, epsilon: float) -> None:
    n, masses = 200, MassDistribution(0.2, 0.6, 3.0)
    # In x = p^a the beta density is finite at 0.
    p = np.linspace(0, 1, 400_001)[1:-1] ** (1 / masses.a)
    density = (1 - p) ** (masses.b - 1) / masses.a / special.beta(masses.a, masses.b)
    weight = density * stats.binom.pmf(c, n, p) / len(p)
    above, sometimes = (1 - masses.never) * weight[p > epsilon].sum(), (1 - masses.never) * weight.sum()
    expected = above / (sometimes + masses.never * (c == 0))
    found = masses.prob_above(np.array([n]), np.array([c]), epsilon)
    assert found[0] == pytest.approx(expected, rel=2e-3)


# At epsilon = 0 the masses that no sample shows depend on the model alone: many samples are needed.
@pytest.mark.parametrize(("epsilon", "k"), [(0.0, 8192), (0.02, 64)])
def test_posterior_counts_are_calibrated(epsilon: float, k: int) -> None:
    """Many problems whose two masses are independent: the expected P, E, S and O are the true ones."""
    rng, size = stream("test", "posterior", str(epsilon)), 4000
    base, rlvr = draw_masses(rng, size), draw_masses(rng, size)
    counts = counts_of(rng.binomial(k, base), rng.binomial(k, rlvr), k, epsilon)
    fits = {"base": fit_mass_distribution(counts.n_base, counts.c_base)}
    fits["rlvr"] = fit_mass_distribution(counts.n_rlvr, counts.c_rlvr)
    found = posterior_counts(counts, fits, np.ones(size, dtype=bool))
    a, b = base > epsilon, rlvr > epsilon
    truth = {"P": a & b, "E": ~a & b, "S": a & ~b, "O": ~a & ~b}
    assert sum(found.values()) == pytest.approx(size)
    for name, inside in truth.items():
        assert found[name] == pytest.approx(inside.sum(), abs=0.02 * size), name


# ---- the identified set ----------------------------------------------------------------------------------------------


def test_bounds_of_a_mean_hold_for_shares_and_for_other_values() -> None:
    values = np.zeros((50, 1))
    values[:20] = 1
    low, high = simultaneous_bounds(values, CONFIDENCE)
    exact = stats.binomtest(20, 50).proportion_ci(CONFIDENCE, method="exact")
    assert (low[0], high[0]) == pytest.approx((exact.low, exact.high))
    # Hoeffding's bounds are wider, and solve their equation.
    distance = -np.log((1 - CONFIDENCE) / 2) / 50
    below, above = entropy_bounds(np.array([0.4]), float(distance))
    assert below[0] < low[0] < high[0] < above[0]
    for end in (below[0], above[0]):
        assert 0.4 * np.log(0.4 / end) + 0.6 * np.log(0.6 / (1 - end)) == pytest.approx(distance)


def test_nothing_is_identified_far_beyond_the_square_of_the_samples() -> None:
    """The exact chances of every number of hits in n samples, as from infinitely many problems with uniform masses."""
    n = 12
    masses = np.concatenate([[0.0], np.geomspace(1e-6, 1, 1500)])
    hits = np.arange(n + 1)
    exact = np.full(n + 1, 1 / (n + 1))
    chances = np.asarray(stats.binom.pmf(hits[:, None], n, masses))
    width = {}
    for k in (n, n * n // 6, 20 * n * n):
        ends = extreme_means(1 - (1 - masses) ** k, chances, exact - 1e-7, exact + 1e-7)
        assert ends is not None
        assert ends["low"] - 1e-3 <= k / (k + 1) <= ends["high"] + 1e-3
        width[k] = ends["high"] - ends["low"]
    within, near, beyond = width.values()
    assert within < 1e-3
    assert near < 0.01
    assert beyond > 0.02
    # All of what is not identified: between the largest mass at 0 that fits, and none.
    assert beyond > 5 * near


@pytest.mark.parametrize("design", ["fixed", "unequal", "stopped"])
def test_the_identified_range_covers_the_truth(design: str) -> None:
    """Logit-normal masses, which the fitted model gets wrong."""
    k, size, trials = 64, 80, 15
    population = special.expit(stream("test", "population").normal(-5, 2.5, 200_000))
    truth = {at: (1 - (1 - population) ** at).mean() for at in (2 * k, 8 * k)}
    for trial in range(trials):
        rng = stream("test", "identified", design, trial)
        mass = special.expit(rng.normal(-5, 2.5, size))
        if design == "stopped":
            places = rng.geometric(mass, (3, size)).cumsum(axis=0)
            stopped = places[-1] <= k
            ended = np.where(stopped, "hit", "k").astype(object)
            found = SampleCounts(np.where(stopped, places[-1], k), (places <= k).sum(axis=0), ended)
        else:
            n = np.full(size, k) if design == "fixed" else rng.integers(k, 2 * k, size)
            found = samples(n, rng.binomial(n, mass))
        ranges = identified_pass_at_k(found, np.full(size, k), [2 * k, 8 * k], CONFIDENCE)
        for at, value in truth.items():
            assert ranges[at]["low"] <= value <= ranges[at]["high"]
        assert ranges[2 * k]["high"] - ranges[2 * k]["low"] < 0.75


@pytest.mark.parametrize("epsilon", [0.0, 0.02])
def test_the_identified_categories_cover_the_truth(epsilon: float) -> None:
    k, size = 64, 80
    for trial in range(4):
        rng = stream("test", "identified categories", str(epsilon), trial)
        base = draw_masses(rng, size)
        rlvr = np.where(rng.random(size) < 0.2, 0.0, base)
        counts = counts_of(rng.binomial(k, base), rng.binomial(k, rlvr), k, epsilon)
        found = identified_categories(counts, CONFIDENCE)
        assert found is not None
        population = draw_masses(stream("test", "categories population"), 200_000)
        has = (population > epsilon).mean()
        truth = {"P": 0.8 * has, "E": 0.0, "S": 0.2 * has, "O": 1 - has}
        for name, value in truth.items():
            assert found[name]["low"] <= value <= found[name]["high"], name
        assert found["P"]["low"] > 0.1


def test_different_epsilons_have_no_identified_categories() -> None:
    counts = counts_of(np.array([1, 2]), np.array([1, 2]), 8, 0.1)
    counts.epsilon[1] = 0.2
    assert identified_categories(counts, CONFIDENCE) is None


def test_an_epsilon_that_no_mass_exceeds_puts_everything_in_o() -> None:
    analysis = analyze_counts(counts_of(np.array([1, 0]), np.array([1, 1]), 1, 0.0), AnalysisSettings(epsilon="auto"))
    assert analysis["sure"] == {"P": 0, "E": 0, "S": 0, "O": 2, "open": 0}
    assert analysis["posterior"]["O"] == pytest.approx(2)
    assert analysis["identified"] is analysis["extrapolation"] is None


@pytest.mark.parametrize("empty", ["base", "both"])
def test_a_model_without_samples_has_no_certainty(empty: str) -> None:
    counts = counts_of(np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64), 16, 0.1)
    for role in ("base", "rlvr") if empty == "both" else ("base",):
        getattr(counts, f"n_{role}")[:] = 0
        getattr(counts, f"ended_{role}")[:] = None
    analysis = analyze_counts(counts, AnalysisSettings(resamples=50))
    assert set(analysis["sure"].values()) == set(analysis["posterior"].values()) == {0}
    assert analysis["identified"] is analysis["extrapolation"]["base"]["identified"] is None


def test_the_sentences_give_intervals_and_the_limit() -> None:
    rng, k, eighth = stream("test", "sentences"), 64, 8
    base = draw_masses(rng, 200)
    first, rest = rng.binomial(eighth, base), rng.binomial(k - eighth, base)
    eighths: Any = {f"n_{role}_first": np.full(200, eighth) for role in ("base", "rlvr")}
    eighths |= {f"c_{role}_first": first for role in ("base", "rlvr")}
    counts = dataclasses.replace(counts_of(first + rest, first + rest, k, 0.05), **eighths)
    analysis = json.loads(json.dumps(analyze_counts(counts, AnalysisSettings(resamples=100))))
    sentence = narrative.extrapolation_sentence(analysis, "old", "new")
    assert sentence.startswith("pass@512, beyond the samples: old 0.")
    assert sentence.endswith("nothing is identified without assumptions.")
    for found in analysis["extrapolation"].values():
        for estimate in (found["pass_at_k"]["512"], found["identified"]["512"]):
            assert f"{estimate['low']:.3f} to {estimate['high']:.3f}" in sentence
    surely, expected = analysis["sure"], analysis["posterior"]
    sentence = narrative.certainty_sentence(analysis)
    assert sentence.startswith(f"Surely (each model, 95%): {surely['P']} P, ")
    assert f"{surely['open']} open" in sentence
    assert f"{expected['O']:.1f} O." in sentence
    assert narrative.certainty_sentence({**analysis, "epsilon": 0.0}) == ""


def test_the_analysis_has_every_kind_of_certainty() -> None:
    rng, k = stream("test", "certainty"), 64
    base = draw_masses(rng, 60)
    counts = counts_of(rng.binomial(k, base), rng.binomial(k, base), k, 0.0)
    analysis = analyze_counts(counts, AnalysisSettings(epsilon="auto", resamples=100))
    assert sum(analysis["sure"].values()) == 60
    assert sum(analysis["posterior"].values()) == pytest.approx(60)
    for name in "PESO":
        ends = analysis["identified"][name]
        assert 60 * ends["low"] <= analysis["sure"][name] + analysis["sure"]["open"]
        assert analysis["sure"][name] <= 60 * ends["high"]

"""The joint distribution of masses: known truths are found, EM climbs, and its bound on the maximum holds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate

from leash.statistics import joint_masses
from leash.statistics.analysis import analyze_counts
from leash.statistics.array_types import FloatArray
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.counts import Counts
from leash.statistics.seeds import stream
from leash.statistics.support import detectable_mass, smallest_identified

SETTINGS = AnalysisSettings(resamples=100)


def pair(k: int, base: Any, rlvr: Any, ended: str = "k", n: Any = None) -> Counts:
    size = len(base)
    names = np.array([str(i) for i in range(size)], dtype=object)
    samples = np.full(size, k) if n is None else np.asarray(n)
    ends = np.where(samples < k, ended, "k").astype(object)
    constant = np.full(size, "d", dtype=object)
    ks, hits = np.full(size, k), [np.asarray(c) for c in (base, rlvr)]
    return Counts(
        constant, names, samples, hits[0], np.full(size, k), hits[1], ends, constant_k(size), ks, np.zeros(size)
    )


def constant_k(size: int) -> Any:
    return np.full(size, "k", dtype=object)


def found(counts: Counts, *epsilons: float) -> dict[float, dict[str, Any]]:
    result = joint_masses.deconvolve(counts, SETTINGS, SETTINGS.drawn(len(counts)), epsilons)
    return {row["epsilon"]: row for row in result["deconvolved"]}


def likelihood(k: int, seed: str, problems: int = 60) -> tuple[joint_masses.JointLikelihood, FloatArray]:
    random = stream("test", "joint masses", seed)
    masses = random.beta(0.4, 2, problems)
    counts = pair(k, random.binomial(k, masses), random.binomial(k, masses))
    edges = joint_masses.cell_edges(1 / k, [0.1])
    return joint_masses.joint_likelihood(counts, edges, np.ones((1, problems))), edges


def _power(p: float, n: int, c: int) -> float:
    return float(p**c * (1 - p) ** (n - c))


def test_a_cell_has_the_mean_likelihood_of_its_masses() -> None:
    edges = np.array([0.0, 0.1, 0.4, 1.0])
    for n, c in ((7, 0), (7, 3), (7, 7), (1, 1)):
        cells = [integrate.quad(_power, a, b, args=(n, c))[0] / (b - a) for a, b in pairwise(edges)]
        exact = np.array([float(c == 0), *cells, float(c == n)])
        [row] = joint_masses.cell_likelihoods(np.array([n]), np.array([c]), edges)
        np.testing.assert_allclose(row, exact / exact.max(), rtol=1e-10)


def test_every_wanted_epsilon_is_an_edge_and_cells_are_not_slivers() -> None:
    for k in (2, 30, 64, 1000, 8192):
        edges = joint_masses.cell_edges(1 / k, [0.05, 0.051])
        assert {0.05, 0.051, 0.0, 1.0} <= set(edges.tolist())
        assert (np.diff(edges) > 0).all()
        assert len(edges) < 35


def test_em_never_lowers_the_likelihood_and_the_bound_on_the_maximum_holds() -> None:
    counted, _ = likelihood(64, "climb")
    weights, climbed, bounds = counted.uniform(), [], []
    for _ in range(400):
        gradient, log_likelihood = joint_masses.em_step(counted, weights)
        climbed.append(float(log_likelihood[0]))
        bounds.append(climbed[-1] + float(gradient.max() - 1) * counted.repeats.sum())
        weights = weights * gradient
        assert weights.sum() == pytest.approx(1)
    assert (np.diff(climbed) >= -1e-9).all()
    # Each step's bound is above everything that later steps reach.
    assert min(bounds) >= climbed[-1] - 1e-9
    fit = joint_masses.fit_joint(counted)
    assert fit.gap[0] * counted.repeats.sum() <= joint_masses.MAX_LIKELIHOOD_GAP
    assert climbed[-1] - fit.log_likelihood[0] <= joint_masses.MAX_LIKELIHOOD_GAP


def test_accelerated_em_reaches_the_maximum_of_every_resample() -> None:
    counted, _ = likelihood(64, "fast")
    weights = stream("test", "joint masses", "weights").standard_exponential((len(counted.base), 20))
    drawn = joint_masses.JointLikelihood(counted.base, counted.rlvr, weights)
    slow = joint_masses.fit_joint(drawn, max_gap=0.01)
    fast = joint_masses.fit_resamples(drawn, joint_masses.fit_joint(counted).weights * 0.5 + counted.uniform() * 0.5)
    reached = joint_masses.em_step(drawn, fast)[1]
    assert (slow.log_likelihood - reached).mean() < 0.1
    assert (slow.log_likelihood - reached).max() < 0.5


def test_masses_of_two_points_are_found() -> None:
    """Of 400 problems, 300 have masses (.3, .6) and 100 have (.15, 0)."""
    random = stream("test", "joint masses", "two points")
    first = np.arange(400) < 300
    base = random.binomial(256, np.where(first, 0.3, 0.15))
    rlvr = random.binomial(256, np.where(first, 0.6, 0.0))
    rows = found(pair(256, base, rlvr), 0.05, 0.2, 0.5)
    for epsilon, truth in ((0.05, (300, 0, 100, 0)), (0.2, (300, 0, 0, 100)), (0.5, (0, 300, 0, 100))):
        for name, number in zip("PESO", truth, strict=True):
            estimate = rows[epsilon][name]
            assert estimate["value"] == pytest.approx(number, abs=8), (epsilon, name)
            assert estimate["low"] <= estimate["value"] <= estimate["high"]
            assert estimate["low"] - 0.01 <= number <= estimate["high"] + 0.01, (epsilon, name)


def test_luck_is_not_counted_as_change() -> None:
    """Both models have the same masses around epsilon: counting sees gains and losses, the masses show few."""
    random = stream("test", "joint masses", "null")
    masses = np.exp(random.uniform(np.log(0.01), np.log(0.3), 400))
    base, rlvr = random.binomial(64, masses), random.binomial(64, masses)
    row = found(pair(64, base, rlvr), 0.1)[0.1]
    for name, counted in (
        ("E", ((base / 64 <= 0.1) & (rlvr / 64 > 0.1)).sum()),
        ("S", ((base / 64 > 0.1) & (rlvr / 64 <= 0.1)).sum()),
    ):
        assert counted >= 10
        assert row[name]["value"] < counted / 2
        assert row[name]["low"] < 0.5


def test_numbers_add_up_to_the_problems_and_the_map_to_one() -> None:
    random = stream("test", "joint masses", "sum")
    counts = pair(128, random.binomial(128, random.beta(0.4, 2, 90)), random.binomial(128, random.beta(0.4, 2, 90)))
    result = joint_masses.deconvolve(counts, SETTINGS, SETTINGS.drawn(90), [0.0, 0.01, 0.05, 0.5, 1.0])
    least = detectable_mass(128, 0.95)
    for row in result["deconvolved"]:
        identified = least <= row["epsilon"] <= 1 - least
        assert all((row[name] is not None) == identified for name in "PESO")
        if identified:
            assert sum(row[name]["value"] for name in "PESO") == pytest.approx(90, abs=1e-3)
    edges, weight = result["mass_map"]["edges"], np.array(result["mass_map"]["weight"])
    assert edges[:2] == [0.0, 1 / 128]
    assert edges[-1] == 1.0
    assert weight.shape == (len(edges) - 1, len(edges) - 1)
    assert weight.sum() == pytest.approx(1, abs=1e-4)


def test_one_sample_per_problem_identifies_nothing() -> None:
    rows = found(pair(1, [0, 1, 1, 0], [1, 1, 0, 0]), 0.0, 0.5)
    assert all(row[name] is None for row in rows.values() for name in (*"PESO", "NSCR"))
    assert smallest_identified(list(rows.values()), 0.0) is None
    analysis = analyze_counts(pair(1, [0, 1, 1, 0], [1, 1, 0, 0]), SETTINGS)
    assert [row["P"] for row in analysis["deconvolved"]] == [None] * len(analysis["deconvolved"])


def test_problems_without_samples_are_left_out() -> None:
    counts = pair(64, [10] * 20, [20] * 20, ended="", n=[64] * 15 + [3] * 5)
    counts.ended_base[15:] = None
    row = found(counts, 0.05)[0.05]
    assert row["P"]["value"] == pytest.approx(15, abs=0.2)
    counts.ended_base[:] = None
    assert found(counts, 0.05)[0.05]["P"] is None


def test_an_early_stop_does_not_bias_the_masses() -> None:
    """The base stops at its third hit. Its masses are the same .3 and .02 for half of the problems each."""
    random = stream("test", "joint masses", "early")
    mass = np.where(np.arange(300) < 150, 0.3, 0.02)
    places = random.geometric(mass, (3, 300)).cumsum(axis=0)
    stopped = places[-1] <= 256
    n, c = np.where(stopped, places[-1], 256), (places <= 256).sum(axis=0)
    row = found(pair(256, c, random.binomial(256, mass), ended="hit", n=n), 0.1)[0.1]
    assert row["P"]["value"] == pytest.approx(150, abs=8)
    assert row["O"]["value"] == pytest.approx(150, abs=8)


def test_the_chosen_epsilon_is_reported_if_it_is_identified() -> None:
    rows: list[dict[str, Any]] = [{"epsilon": 0.0, "P": None}, {"epsilon": 0.02, "P": {}}, {"epsilon": 0.05, "P": {}}]
    assert smallest_identified(rows, 0.0) is rows[1]
    assert smallest_identified(rows, 0.05) is rows[2]
    assert smallest_identified(rows, [0.01, 0.03]) is rows[2]
    assert smallest_identified(rows, 0.3) is None
    counts = pair(64, [10] * 20, [20] * 20)
    analysis = analyze_counts(counts, AnalysisSettings(resamples=50, epsilon="auto"))
    assert analysis["epsilon"] in [row["epsilon"] for row in analysis["deconvolved"] if row["P"] is not None]

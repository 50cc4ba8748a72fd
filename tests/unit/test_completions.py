"""Completions weighted by their chance of being seen: exact expectations, what is hidden, and intervals."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from leash.statistics.array_types import FloatArray
from leash.statistics.bootstrap_weights import AnalysisSettings, Estimate
from leash.statistics.completions import (
    effective_number,
    inclusion_probability,
    is_stable,
    weigh_completions,
)
from leash.statistics.seeds import stream

SETTINGS = AnalysisSettings(resamples=400)


def counted(base: FloatArray, rlvr: FloatArray, inclusion: FloatArray, cluster: Any, epsilon: float) -> dict[str, Any]:
    return weigh_completions(base, rlvr, inclusion, np.asarray(cluster), epsilon, SETTINGS)


def test_weighted_counts_are_unbiased_by_enumeration() -> None:
    """Three completions and the rest; all outcomes of three samples of each model."""
    base, rlvr, n, epsilon = np.array([0.5, 0.2, 0.05]), np.array([0.3, 0.02, 0.4]), 3, 0.1
    inclusion = inclusion_probability(np.full(3, n), np.full(3, n), base, rlvr)
    chances = [dict(enumerate([*masses, 1 - masses.sum()])) for masses in (base, rlvr)]
    mean, seen_chance = np.zeros(3), np.zeros(3)
    for run in product(range(4), repeat=2 * n):
        chance = np.prod([chances[i // n][what] for i, what in enumerate(run)])
        seen = np.array([i in run for i in range(3)])
        found = counted(base[seen], rlvr[seen], inclusion[seen], np.zeros(seen.sum(), dtype=int), epsilon)
        mean += chance * np.array([found[name] for name in "PES"])
        seen_chance += chance * seen
    np.testing.assert_allclose(seen_chance, inclusion, rtol=1e-12)
    np.testing.assert_allclose(mean, [1, 1, 1], rtol=1e-12)  # one in each category


def test_inclusion_is_exact_at_the_ends() -> None:
    n = np.array([1024.0, 1024.0, np.nan])
    found = inclusion_probability(n, n, np.array([1.0, 1e-18, 0.5]), np.array([0.0, 0.0, 0.5]))
    assert found[0] == 1
    assert found[1] == pytest.approx(1024e-18)
    assert np.isnan(found[2])


def test_an_epsilon_is_stable_if_its_completions_are_seen_in_five_percent() -> None:
    assert [is_stable(k, e) for k, e in ((1024, 1e-4), (1024, 1e-5), (64, 1e-3), (64, 1e-4))] == [True, False] * 2


def test_nothing_is_shown_if_a_weight_is_too_large_or_unknown() -> None:
    base, rlvr, cluster = np.full(40, 0.2), np.full(40, 0.3), np.arange(40)
    for odd in (0.04, np.nan):
        inclusion = np.full(40, 0.9)
        inclusion[7] = odd
        found = counted(base, rlvr, inclusion, cluster, 0.1)
        assert (found["P"], found["SRR"], found["seen"]) == (None, Estimate(), 40)


def test_a_ratio_of_few_completions_is_not_shown() -> None:
    """Twelve are new and three lost: NDR is shown, SRR is not."""
    base = np.array([0.01] * 12 + [0.2] * 3)
    found = counted(base, 0.21 - base, np.ones(15), np.arange(15), 0.1)
    assert (found["E"], found["S"]) == (12, 3)
    assert (found["SRR"], found["SDS"]) == (Estimate(), Estimate())
    assert found["NDR"].value == 1
    assert found["NDR"].low < 1  # 12 of 12 do not prove that there are no others


def test_completions_of_one_problem_are_not_independent() -> None:
    rng = stream("test", "completions", "clusters")
    base, rlvr = np.full(60, 0.2), np.repeat(np.where(rng.random(12) < 0.5, 0.3, 0.01), 5)
    together, apart = (counted(base, rlvr, np.ones(60), c, 0.1)["SRR"] for c in (np.arange(60) // 5, np.arange(60)))
    assert together.value == apart.value
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


def test_effective_number() -> None:
    assert effective_number(np.ones(7)) == pytest.approx(7)
    assert effective_number(np.array([100.0, 1e-9])) == pytest.approx(1)
    assert effective_number(np.array([])) == 0

"""Budgets: which samples are drawn and when a problem stops. Only its own samples decide that."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leash.sample_ledger import SampleNumbers
from leash.sampling.sample_budget import Budget, DrawUnit, StoppingRule
from leash.statistics import seeds

IDS = [f"p{i}" for i in range(12)]
K = 200
Truth = dict[str, list[bool]]


def truth(*name: str) -> Truth:
    """Whether each sample of each problem is correct. Problems go from impossible to easy."""
    shares = np.concatenate([[0.0, 0.005, 0.01], np.geomspace(0.02, 1.0, len(IDS) - 3)])
    return {
        p: (seeds.stream("test", *name, p).random(K) < share).tolist() for p, share in zip(IDS, shares, strict=True)
    }


def draw(
    budget: Budget, correct: Truth, *, rows: int = 16, order: str = "fifo", max_units: int = 10**9
) -> dict[str, set[int]]:
    """The samples that a budget draws, with up to four units in flight that come back in some order."""
    rng = seeds.stream("test", "order", order)
    units, finished = budget.units(rows, 2), False
    flight: list[DrawUnit] = []
    seen = {p: set[int]() for p in IDS}
    while max_units > 0 and (flight or not finished):
        while len(flight) < 4 and not finished:
            unit = next(units, "end")
            if unit == "end":
                finished = True
            elif unit is None:
                break
            else:
                assert isinstance(unit, tuple)
                flight.append(unit)
        if not flight:
            break
        max_units -= 1
        _report(budget, flight.pop(0 if order == "fifo" else int(rng.integers(len(flight)))), correct, seen)
    return seen


def _report(budget: Budget, unit: DrawUnit, correct: Truth, seen: dict[str, set[int]]) -> None:
    for task in unit:
        for sample in task.samples:
            assert sample not in seen[task.problem_id]
            seen[task.problem_id].add(sample)
            budget.saw(task.problem_id, sample, correct[task.problem_id][sample])


def nth_hit(hits: list[bool], h: int) -> int | None:
    places = np.flatnonzero(hits)
    return int(places[h - 1]) + 1 if len(places) >= h else None


@pytest.mark.parametrize("rows", [1, 7, 64, 10_000])
def test_a_fixed_budget_draws_every_sample_once(rows: int) -> None:
    budget = Budget(IDS, K, {})
    assert budget.at_most == K * len(IDS)
    assert draw(budget, truth(), rows=rows) == {p: set(range(K)) for p in IDS}
    assert budget.at_most == 0


def test_only_missing_samples_are_drawn() -> None:
    on_disk: dict[str, SampleNumbers] = {
        "p0": np.arange(K, dtype=np.int32),
        "p1": np.array([0, 1, 5, 6, 150], np.int32),
    }
    seen = draw(Budget(IDS, K, on_disk), truth())
    assert seen["p0"] == set()
    assert seen["p1"] == set(range(K)) - {0, 1, 5, 6, 150}
    assert seen["p2"] == set(range(K))


@pytest.mark.parametrize("h", [1, 3, 8])
@pytest.mark.parametrize("floor", [0, 32])
def test_an_adaptive_budget_draws_a_prefix_that_ends_soon_after_the_last_hit_it_needs(h: int, floor: int) -> None:
    correct = truth("adaptive")
    seen = draw(Budget(IDS, K, {}, StoppingRule(h, floor)), correct)
    for problem, samples in seen.items():
        n = len(samples)
        assert samples == set(range(n))
        needed = max(nth_hit(correct[problem], h) or K, min(floor, K))
        assert needed <= n <= max(4, h, floor, math.ceil(1.5 * needed))
        assert (n == K) or sum(correct[problem][:n]) >= h


@pytest.mark.parametrize("order", ["a", "b"])
@pytest.mark.parametrize("rows", [1, 50])
def test_the_drawn_samples_do_not_depend_on_order_or_batch(order: str, rows: int) -> None:
    uninterrupted = draw(Budget(IDS, K, {}, StoppingRule(3)), truth())
    assert draw(Budget(IDS, K, {}, StoppingRule(3)), truth(), order=order, rows=rows) == uninterrupted


@pytest.mark.parametrize("max_units", [1, 5, 17])
def test_a_continued_run_draws_the_same_samples_as_an_uninterrupted_one(max_units: int) -> None:
    correct = truth("resumed")
    uninterrupted = draw(Budget(IDS, K, {}, StoppingRule(3)), correct)
    first = draw(Budget(IDS, K, {}, StoppingRule(3)), correct, order="c", max_units=max_units)
    on_disk = {p: np.array(sorted(samples), np.int32) for p, samples in first.items()}
    hits = {p: [s for s in samples if correct[p][s]] for p, samples in first.items()}
    second = draw(Budget(IDS, K, on_disk, StoppingRule(3), hits), correct)
    assert all(first[p].isdisjoint(second[p]) for p in IDS)
    assert {p: first[p] | second[p] for p in IDS} == uninterrupted


def test_nothing_is_drawn_after_a_full_run() -> None:
    correct = truth()
    on_disk = {p: np.arange(K, dtype=np.int32) for p in IDS}
    hits = {p: np.flatnonzero(correct[p]).tolist() for p in IDS}
    assert draw(Budget(IDS, K, on_disk, StoppingRule(3), hits), correct) == {p: set() for p in IDS}


def test_raising_stop_after_continues_from_the_samples_on_disk() -> None:
    correct = truth()
    first = draw(Budget(IDS, K, {}, StoppingRule(1)), correct)
    on_disk = {p: np.array(sorted(samples), np.int32) for p, samples in first.items()}
    hits = {p: [s for s in samples if correct[p][s]] for p, samples in first.items()}
    second = draw(Budget(IDS, K, on_disk, StoppingRule(8), hits), correct)
    for p in IDS:
        both = first[p] | second[p]
        assert both == set(range(len(both)))
        assert len(both) == K or sum(correct[p][s] for s in both) >= 8

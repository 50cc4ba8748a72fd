"""The test of hits against guessing: its distribution, what it leaves out, and how often it is wrong."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from leash.statistics.guessing import (
    PSEUDO_SHARE,
    OtherShares,
    beta_binomial_tail,
    correct_within_family,
    guessing_p_values,
    habit_spread,
    hits_without_evidence,
)
from leash.statistics.seeds import stream


def shares_of(shares: list[list[float]], answered: int) -> OtherShares:
    """The sums for problems whose right answers have these shares on the others."""
    s = np.array(shares)
    noise = (s * (1 - s)).sum(axis=1) / (answered - 1)
    count = np.full(len(s), s.shape[1])
    return OtherShares(count, s.sum(axis=1), (s**2).sum(axis=1), noise, count / answered)


FAMILY = np.array(["one"], dtype=object)
ONE = np.array([1])


def test_the_tail_is_that_of_the_beta_binomial() -> None:
    rng = stream("test", "guessing", "tail")
    n = rng.integers(1, 400, 300)
    hits = np.minimum(rng.integers(0, 400, 300), n)
    mean, spread = rng.beta(0.5, 2, 300), 10 ** rng.uniform(-5, -0.02, 300)
    a, b = mean * (1 / spread - 1), (1 - mean) * (1 / spread - 1)
    rows = zip(n, a, b, hits, strict=True)
    expected = [stats.betabinom(*row[:3]).pmf(np.arange(row[3], row[0] + 1)).sum() for row in rows]
    np.testing.assert_allclose(beta_binomial_tail(hits, n, mean, spread), expected, rtol=1e-6, atol=1e-12)


def test_without_spread_it_is_binomial() -> None:
    found = beta_binomial_tail(np.array([3, 40, 0]), np.array([10, 1000, 5]), np.array([0.1] * 3), np.zeros(3))
    np.testing.assert_allclose(found, stats.binom.sf([2, 39, -1], [10, 1000, 5], 0.1), rtol=1e-2)


def test_the_spread_is_freed_of_sampling_noise() -> None:
    """Shares that vary as binomial draws have no spread; beta-distributed ones have theirs."""
    rng = stream("test", "guessing", "spread")
    for spread in (0.0, 0.1):
        p = np.full(4000, 0.2) if spread == 0 else rng.beta(0.2 * 9, 0.8 * 9, 4000)
        others = shares_of([(rng.binomial(64, p) / 64).tolist()], 64)
        assert habit_spread(others, FAMILY, np.array([True]))[0] == pytest.approx(spread, abs=0.01)


def test_a_rare_answer_has_the_spread_of_the_others() -> None:
    varied, rare = [0.0, 0.5] * 10, [0.0] * 20
    others = shares_of([varied, rare], 64)
    spread = habit_spread(others, np.array(["x", "x"], dtype=object), np.array([True, True]))
    assert spread[1] == pytest.approx(spread[0], rel=0.05)
    assert spread[1] > 0.2


def test_an_answer_that_nobody_gave_elsewhere_may_still_be_a_habit() -> None:
    """No share varies, which proves little: one other problem with a share of a quarter is added."""
    spread = habit_spread(shares_of([[0.0] * 20], 64), FAMILY, np.array([True]))
    assert spread[0] == pytest.approx(PSEUDO_SHARE)
    often = habit_spread(shares_of([[0.25, 0.25] * 200], 10**6), FAMILY, np.array([True]))
    assert often[0] < 0.01


def test_a_single_hit_of_an_answer_never_seen_elsewhere_is_not_certain() -> None:
    """The floor is 0, and still a guesser hits once in as many samples as all others together."""
    p = guessing_p_values(ONE, np.array([64]), np.array([0]), shares_of([[0.0] * 20], 64), FAMILY)
    spread = PSEUDO_SHARE
    mean = (spread + (1 - spread) / 64) / 20
    a, b = mean * (1 / spread - 1), (1 - mean) * (1 / spread - 1)
    assert p[0] == pytest.approx(stats.betabinom(64, a, b).sf(0), rel=1e-9)
    assert 0.01 < p[0] < 0.2


def test_a_hit_that_is_left_out_still_shows_a_habit() -> None:
    """Of a Dirichlet guesser's answers to a problem, those after the first hit are an urn with that hit in it."""
    shares = [0.0, 0.2] * 20
    others = shares_of([shares], 10**6)
    spread = float(habit_spread(others, FAMILY, np.array([True]))[0])
    weight = 1 / spread - 1
    one_more = spread + (1 - spread) * others.one_hit[0] / 40
    mean = (others.shares[0] + one_more) / 40
    a, b = mean * weight + 2, (1 - mean) * weight
    found = guessing_p_values(np.array([9]), np.array([64]), np.array([2]), others, FAMILY)
    assert found[0] == pytest.approx(stats.betabinom(62, a, b).sf(6), rel=1e-6)


@pytest.mark.parametrize(("answers", "rights"), [(300, 20), (300, 1)])
def test_guessers_with_habits_are_rarely_called_better(answers: int, rights: int) -> None:
    """Runs with any problem above guessing, if habits vary a lot and most right answers are never seen."""
    rng, runs = stream("test", "guessing", "habits", answers, rights), 60
    habit = 1 / np.arange(1, answers + 1)
    family = np.full(48, "one", dtype=object)
    false = 0
    for _ in range(runs):
        chances = rng.dirichlet(5 * habit / habit.sum(), 48)
        counts = np.stack([rng.multinomial(64, row / row.sum()) for row in chances])
        right = np.argsort(rng.random(counts.shape), axis=1) < rights
        known = (right & (counts > 0)).astype(float)
        wrong = np.where(known > 0, 0, counts)
        size = wrong.sum(axis=1)
        other = (size > 1) & (known @ known.T == 0)
        share = np.where(other, known @ (wrong / np.maximum(size, 1)[:, None]).T, 0.0)
        noise = (share * (1 - share) / np.maximum(size - 1, 1)).sum(axis=1)
        one_hit = (other / np.maximum(size, 1)).sum(axis=1)
        others = OtherShares(other.sum(axis=1), share.sum(axis=1), (share**2).sum(axis=1), noise, one_hit)
        hits, distinct = (counts * right).sum(axis=1), known.sum(axis=1).astype(int)
        left_out = hits_without_evidence(hits, distinct, distinct, family)
        corrected = correct_within_family(guessing_p_values(hits, counts.sum(axis=1), left_out, others, family), family)
        false += bool((np.nan_to_num(corrected, nan=1.0) < 0.05).any())
    assert false / runs <= 0.07


def test_the_correction_counts_what_was_not_tested() -> None:
    p_values = np.array([0.01, np.nan, 0.02, np.nan, 0.04])
    family = np.array(["x", "x", "x", "x", "y"], dtype=object)
    np.testing.assert_allclose(correct_within_family(p_values, family), [0.04, np.nan, 0.04, np.nan, 0.04])


def test_there_is_no_test_without_hits_or_others_or_known_answers() -> None:
    def p_value(hits: int, left_out: int, others: int) -> float:
        shares = shares_of([[0.1] * others], 64)
        return float(guessing_p_values(hits * ONE, np.array([64]), left_out * ONE, shares, FAMILY)[0])

    assert np.isnan(p_value(0, 0, 20))
    assert np.isnan(p_value(5, 0, 9))
    assert np.isnan(p_value(5, 3, 20))
    assert np.isnan(p_value(250, 101, 20))
    assert p_value(5, 2, 20) > p_value(5, 0, 20) > 0


def test_the_first_hit_of_each_right_answer_is_left_out_if_there_may_be_several() -> None:
    family = np.array(["one"] * 60 + ["many"] * 2, dtype=object)
    hits, distinct, right = np.full(62, 6), np.ones(62, dtype=int), np.ones(62, dtype=int)
    right[[0, 60]] = distinct[[0, 60]] = 3
    found = hits_without_evidence(hits, distinct, right, family)
    assert found[[0, 1, 60, 61]].tolist() == [3, 0, 3, 1]


@pytest.mark.parametrize("blank", [0.0, 0.5])
def test_the_tail_holds_after_a_stop_at_a_hit(blank: float) -> None:
    """Enumerate all runs of eight samples, each blank, a hit or a miss, that stop at the second hit: a p-value of at
    most x has a probability of at most x."""
    chance = 0.3
    reached: dict[float, float] = {}
    for run in product("-xA", repeat=8):
        stop = next((i for i in range(8) if run[: i + 1].count("A") == 2), 7)
        weight = np.prod([{"-": blank, "x": (1 - blank) * (1 - chance), "A": (1 - blank) * chance}[x] for x in run])
        seen = run[: stop + 1]
        hits, answered = seen.count("A"), len(seen) - seen.count("-")
        p = float(stats.binom.sf(hits - 1, answered, chance)) if hits else 1.0
        reached[round(p, 12)] = reached.get(round(p, 12), 0.0) + float(weight)
    total = 0.0
    for p in sorted(reached):
        total += reached[p]
        assert total <= p + 1e-9
    assert total == pytest.approx(1)

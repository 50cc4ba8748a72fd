import itertools

import numpy as np
import pytest
from scipy import stats

from leash.statistics.counts import Counts
from leash.statistics.reachability import (
    Amplification,
    amplification,
    count_proven,
    estimate_mass,
    expected_categories,
    lower_bound,
    p_value_above,
    pooled_mass,
    summarize_reach,
    upper_bound,
)
from leash.statistics.seeds import stream


def test_the_pooled_mass_is_unbiased() -> None:
    """All outcomes of two samples of the target and one of the donor, each with its probability."""
    p, q = np.array([0.02, 0.0, 0.3, 0.1, 0.58]), np.array([0.5, 0.2, 0.0, 0.1, 0.2])
    correct = 4  # the last of the five completions is wrong
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(p[:correct]), np.log(q[:correct])
    mean = square = variance = 0.0
    for one, two, three in itertools.product(range(5), repeat=3):
        hits = [np.bincount(seen, minlength=5)[:correct] for seen in ([one, two], [three, three])]
        pooled = pooled_mass(log_p, log_q, hits[0], hits[1] // 2, 2, 1)
        chance = p[one] * p[two] * q[three]
        mean += chance * pooled.value
        square += chance * pooled.value**2
    assert mean == pytest.approx(0.42, rel=1e-12)
    # With two samples of each, the squared error is unbiased as well.
    mean = square = 0.0
    for seen in itertools.product(range(5), repeat=4):
        hits = [np.bincount(pair, minlength=5)[:correct] for pair in (seen[:2], seen[2:])]
        pooled = pooled_mass(log_p, log_q, hits[0], hits[1], 2, 2)
        chance = p[seen[0]] * p[seen[1]] * q[seen[2]] * q[seen[3]]
        mean += chance * pooled.value
        square += chance * pooled.value**2
        variance += chance * pooled.error**2
    assert mean == pytest.approx(0.42, rel=1e-12)
    assert variance == pytest.approx(square - mean**2, rel=1e-9)


def test_a_pooled_sample_counts_at_most_one_plain_sample() -> None:
    pooled = pooled_mass(np.array([-1.0]), np.array([-5000.0]), np.array([0]), np.array([1]), 100, 1)
    assert pooled.value == pytest.approx(0.01)
    assert pooled_mass(np.array([-5000.0]), np.array([-1.0]), np.array([0]), np.array([1]), 100, 1).value < 1e-300
    assert pooled_mass(np.array([]), np.array([]), np.array([]), np.array([]), 100, 100).value == 0


@pytest.mark.parametrize(("hits", "rollouts"), [(0, 100), (1, 100), (50, 100), (100, 100), (0, 0)])
def test_the_lower_bound_is_exact(hits: int, rollouts: int) -> None:
    bound = lower_bound(1e-6, 1e-3, hits, rollouts, 0.95)
    if hits:
        share = (bound - 1e-6) / 1e-3
        assert stats.binom.sf(hits - 1, rollouts, share) == pytest.approx(0.05)
        # The bound is the largest threshold that the p-value rejects.
        assert p_value_above(bound, 1e-6, 1e-3, hits, rollouts) == pytest.approx(0.05)
    else:
        assert bound == 1e-6
        assert p_value_above(2e-6, 1e-6, 1e-3, hits, rollouts) == 1
    assert p_value_above(0.9e-6, 1e-6, 1e-3, hits, rollouts) == 0
    assert p_value_above(2e-3, 1e-6, 1e-3, hits, rollouts) == 1


def test_the_upper_bound_is_exact() -> None:
    assert upper_bound(1000, 0, 0.95) == pytest.approx(1 - 0.05 ** (1 / 1000))
    assert stats.binom.cdf(3, 1000, upper_bound(1000, 3, 0.95)) == pytest.approx(0.05)
    assert upper_bound(5, 5, 0.95) == upper_bound(0, 0, 0.95) == 1


def test_the_estimate_adds_what_is_outside_the_cut() -> None:
    assert estimate_mass(1e-6, 1e-3, 50, 100, 2, 1000) == pytest.approx(1e-6 + 5e-4 + 2e-3)
    assert estimate_mass(1e-6, 0.0, 0, 0, 0, 0) == 1e-6


def test_the_amplification_has_a_quarter_of_the_error_at_each_end() -> None:
    got = amplification(1000, 100, 1000, 0, 0.0, 1e-4, 40, 100, 4e-5, 0.95)
    each = 1 - 0.05 / 4
    assert got.value == pytest.approx(0.1 / 4e-5)
    assert got.low == pytest.approx(stats.beta.ppf(1 - each, 100, 901) / upper_bound(1000, 0, each))
    assert got.high == pytest.approx(upper_bound(1000, 100, each) / lower_bound(0.0, 1e-4, 40, 100, each))
    nothing = amplification(1000, 100, 1000, 0, 0.0, 1e-4, 0, 100, 0.0, 0.95)
    assert nothing.value is None
    assert nothing.high is None
    assert nothing.low is not None
    assert Amplification(4.0, 2.0, 8.0).inverse() == Amplification(0.25, 0.125, 0.5)
    assert nothing.inverse() == Amplification(None, 0.0, 1 / nothing.low)
    assert Amplification(None, None, None).inverse() == Amplification(None, None, None)


@pytest.mark.parametrize("mass", [1e-3, 0.01, 0.03])
def test_the_amplification_of_a_model_over_itself_covers_1(mass: float) -> None:
    """All outcomes that the stage examines (at most three hits of the target, one of the donor), by their probability:
    256 samples of either, and 16 rollouts from prefixes behind which half of the rollouts are correct."""
    samples, rollouts, open_mass = 256, 16, 2 * mass
    examined = missed = 0.0
    for own, other in itertools.product(range(4), range(1, 30)):
        drawn = float(np.prod(stats.binom.pmf([own, other], samples, mass)))
        for hits in range(1, 16):
            chance = drawn * float(stats.binom.pmf(hits, rollouts, 0.5))
            if chance > 1e-7:
                got = amplification(samples, other, samples, own, 0.0, open_mass, hits, rollouts, mass, 0.95)
                assert got.low is not None
                assert got.high is not None
                examined += chance
                missed += chance * (not got.low <= 1 <= got.high)
    assert 0.04 < examined < 0.8
    assert missed < 0.05 * examined


def test_holm_counts_what_is_proven_together() -> None:
    assert count_proven(np.array([0.04, 0.001, 0.012, 1.0]), 0.95) == 2
    assert count_proven(np.array([0.0, 0.0]), 0.95) == 2
    assert count_proven(np.array([0.5, 0.0125]), 0.95) == 1
    assert count_proven(np.array([]), 0.95) == 0


def test_expected_categories_bound_what_the_masses_give() -> None:
    base, rlvr = np.array([1e-3, 0.0, 1.0, 2e-5]), np.array([1e-5, 1e-4, 0.5, 0.0])
    exact = expected_categories(base, base, rlvr, rlvr, 10_000)
    assert sum(low for low, _ in exact.values()) == pytest.approx(4)
    hit = [1 - (1 - mass) ** 10_000 for mass in (base, rlvr)]
    assert exact["S"] == pytest.approx((hit[0] * (1 - hit[1])).sum().repeat(2))
    wide = expected_categories(base * 0.5, np.minimum(base * 2, 1), rlvr * 0.5, np.minimum(rlvr * 2, 1), 10_000)
    assert all(wide[name][0] < exact[name][0] < wide[name][1] for name in "PES")


def counts_of(base: list[int], rlvr: list[int], n: int) -> Counts:
    number = len(base)
    ended = np.full(number, "k", dtype=object)
    names = np.array([f"p-{i}" for i in range(number)], dtype=object)
    same = np.full(number, n)
    return Counts(
        dataset=np.full(number, "toy", dtype=object),
        problem_id=names,
        n_base=same,
        c_base=np.array(base),
        n_rlvr=same,
        c_rlvr=np.array(rlvr),
        ended_base=ended,
        ended_rlvr=ended,
        k=same,
        epsilon=np.zeros(number),
    )


def row_of(problem: str, target: str, hits: int, **other: object) -> dict[str, object]:
    numbers = {"whole_mass": 1e-7, "open_mass": 1e-3, "hits": hits, "rollouts": 1000}
    certificate = lower_bound(1e-7, 1e-3, hits, 1000, 0.95)
    names: dict[str, object] = {"dataset": "toy", "problem_id": problem, "target": target, "status": "certified"}
    names |= {"n_target": 1000, "c_target": 0}
    return {**names, **numbers, "certificate": certificate, "upper": upper_bound(1000, 0, 0.95), **other}


def test_what_a_reader_may_pick_holds_for_all_thresholds_and_problems() -> None:
    """Twenty equal masses just above 1e-4: with the whole error for each, some would often be called larger."""
    p_value = p_value_above(1e-4, 0.0, 1e-3, 130, 1000)
    assert 0.05 / 4 / 2 > p_value > 0.05 / 4 / 20
    hits = [130, *[100] * 19]
    number = len(hits)
    counts = counts_of([50] * number, [0] * number, 1000)
    rows = [row_of(f"p-{i}", "rlvr", each, whole_mass=0.0) for i, each in enumerate(hits)]
    got = summarize_reach(rows, counts, np.array(["S"] * number, dtype=object), 2048, 0.95)
    alone = summarize_reach(
        rows[:2], counts_of([50] * 2, [0] * 2, 1000), np.array(["S", "S"], dtype=object), 2048, 0.95
    )
    assert got is not None
    assert alone is not None
    assert got["S"]["proven"]["0.0001"] == 0
    assert alone["S"]["proven"]["0.0001"] == 1
    assert got["S"]["largest_certificate"] == lower_bound(0.0, 1e-3, 130, 1000, 1 - 0.05 / number)


def test_the_summary_counts_what_is_proven() -> None:
    counts = counts_of([50, 0, 100, 200, 0], [0, 70, 0, 300, 0], 1000)
    category = np.array(["S", "E", "S", "P", "O"], dtype=object)
    missed = {"status": "unreachable", "whole_mass": None, "open_mass": None, "rollouts": 0, "certificate": None}
    rows = [row_of("p-0", "rlvr", 900), row_of("p-1", "base", 0), row_of("p-2", "rlvr", 0, **missed)]
    got = summarize_reach([*rows, row_of("elsewhere", "rlvr", 1000)], counts, category, 2048, 0.95)
    assert got is not None
    lost, new = got["S"], got["E"]
    assert (lost["problems"], lost["examined"], lost["certified"], lost["unreachable"]) == (2, 2, 1, 1)
    assert lost["proven"] == {"0.001": 0, "0.0001": 1, "1e-05": 1, "1e-06": 1}
    assert lost["largest_certificate"] == lower_bound(1e-7, 1e-3, 900, 1000, 0.975)  # two examined
    assert new["proven"] == {"0.001": 0, "0.0001": 0, "1e-05": 0, "1e-06": 0}
    assert new["smallest_upper"] == upper_bound(1000, 0, 0.99)  # one of five problems
    for ends in got["expected"].values():
        assert sum(low for low, _ in ends.values()) <= 5 <= sum(high for _, high in ends.values())
    # At 100,000 samples the certificate of about 9e-4 makes p-0 a hit of both models; that of p-1 is 1e-7.
    assert got["expected"]["100000"]["P"][0] == pytest.approx(2 + 0.00995, abs=1e-4)
    assert got["expected"]["100000"]["S"][1] == pytest.approx(2, abs=1e-3)  # p-2 and perhaps p-4
    assert summarize_reach(rows, counts, category, 0, 0.95) is None


def test_the_bounds_of_the_expected_categories_hold_together() -> None:
    """200 simulated analyses of ten problems: the truth is outside some bound in at most 5% (binomial tolerance)."""
    random = stream("reachability", "expected")
    base, rlvr = np.full(10, 0.01), np.full(10, 3e-3)
    inside, category = 0, np.full(10, "P", dtype=object)
    for _ in range(200):
        counts = counts_of(random.binomial(1000, base).tolist(), random.binomial(1000, rlvr).tolist(), 1000)
        rows = [
            row_of(f"p-{i}", "rlvr", int(random.binomial(1000, 0.75)), open_mass=4e-3, whole_mass=0.0)
            for i in np.flatnonzero(counts.c_rlvr <= 3)
        ]
        got = summarize_reach(rows, counts, category, 2048, 0.95)
        assert got is not None
        truth = {k: expected_categories(base, base, rlvr, rlvr, int(k)) for k in got["expected"]}
        inside += all(
            low <= truth[k][name][0] <= high
            for k, ends in got["expected"].items()
            for name, (low, high) in ends.items()
        )
    assert inside >= stats.binom.ppf(0.01, 200, 0.95)


def test_an_estimate_is_not_clipped() -> None:
    """63 of 64 rollouts are correct, and 2 of 32 samples that begin otherwise. At most 1, it would be biased."""
    found = estimate_mass(0.0, 0.97, 63, 64, 2, 32)
    assert found == pytest.approx(0.97 * 63 / 64 + 2 / 32)
    assert found > 1

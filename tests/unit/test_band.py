"""The band over k: its grid, its sets, and how often it covers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from leash.statistics.analysis import analyze_counts
from leash.statistics.band import (
    AugmentedMean,
    DifferenceBand,
    band_ks,
    band_of_curves,
    critical_value,
    difference_band,
    distinct_pass_at_k,
)
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.counts import Counts
from leash.statistics.paired import paired_t
from leash.statistics.pass_at_k import SampleCounts, pass_at_k_columns
from leash.statistics.seeds import stream

SETTINGS = AnalysisSettings()


def samples(n: int, hits: np.ndarray) -> SampleCounts:
    return SampleCounts(np.full(len(hits), n), hits, np.full(len(hits), "k", dtype=object))


def band(low: list[float], high: list[float], ks: list[int] | None = None) -> DifferenceBand:
    least, most = np.array(low), np.array(high)
    return DifferenceBand(np.array(ks or range(1, len(low) + 1)), (least + most) / 2, least, most)


def test_the_grid_has_every_small_k_and_neighbours_within_three_percent() -> None:
    ks = band_ks(5000)
    assert ks[:128].tolist() == list(range(1, 129))
    assert ks[-1] == 5000
    assert (np.diff(ks) >= 1).all()
    assert (ks[1:][ks[1:] > 128] / ks[:-1][ks[1:] > 128] < 1.03).all()
    assert band_ks(1).tolist() == [1]
    assert band_ks(100).tolist() == list(range(1, 101))


def test_the_first_loss_lies_between_the_first_allowed_and_the_first_shown_k() -> None:
    assert band([0.1, 0.1, -0.1, -0.2, -0.3], [0.2, 0.2, 0.1, 0.1, -0.1]).first(-1) == (3, 5)
    assert band([0.1, 0.1, -0.1], [0.2, 0.2, 0.1]).first(-1) == (3, None)
    assert band([0.1, 0.1], [0.2, 0.2]).first(-1) is None
    assert band([-0.2], [-0.1]).first(-1) == (1, 1)
    assert band([-0.1, 0.1], [0.2, 0.2]).first(1) == (1, 2)


def test_between_two_k_of_the_grid_nothing_is_known() -> None:
    """A gain is shown at 128, a loss is possible at 131: it may begin at 129."""
    assert band([0.1, -0.1, -0.2], [0.2, 0.1, -0.1], [128, 131, 134]).first(-1) == (129, 134)


def test_the_crossing_follows_the_last_k_of_the_other_sign() -> None:
    ahead_again = band([0.1, -0.2, 0.1, -0.1, -0.3], [0.2, -0.1, 0.2, 0.1, -0.1])
    assert ahead_again.crossing(-1) == (4, 5)
    assert band([-0.1, -0.1], [0.1, 0.1]).crossing(-1) == (1, None)
    assert band([-0.3, -0.1, 0.1], [-0.1, 0.1, 0.2]).crossing(1) == (2, 3)


def test_equal_counts_are_computed_once_and_alike() -> None:
    rng = stream("test", "band", "distinct")
    hits = rng.integers(0, 5, 60)
    reach = np.full(60, 32)
    ks = band_ks(32)
    expected = pass_at_k_columns(samples(32, hits), reach, ks.tolist())
    assert np.array_equal(distinct_pass_at_k(samples(32, hits), reach, ks), expected)


def test_one_k_gives_the_paired_t_interval() -> None:
    """Where the pseudo-problems are as large as the largest difference, the error is that of `paired_t`."""
    differences = stream("test", "band", "t").normal(0.1, 0.3, (40, 1))
    fitted = AugmentedMean(differences, np.ones(40), np.abs(differences).max(axis=0))
    expected = paired_t(differences)
    assert fitted.centre == pytest.approx(expected.centre, rel=1e-12)
    assert fitted.error == pytest.approx(expected.error, rel=1e-12)
    # At a single k the largest error is the only one: Student's quantile, up to 4,000 draws.
    assert critical_value(fitted.residuals, 40, SETTINGS) == pytest.approx(stats.t.isf(0.025, 40), rel=0.05)


def test_independent_columns_need_the_quantile_of_their_maximum() -> None:
    """Ten orthogonal columns: the largest of ten independent normal errors."""
    residuals = np.repeat(np.eye(10), 50, axis=0)
    tail = (1 - 0.95 ** (1 / 10)) / 2
    expected = stats.norm.isf(tail) * stats.t.isf(0.025, 500) / stats.norm.isf(0.025)
    assert critical_value(residuals, 500, SETTINGS) == pytest.approx(expected, rel=0.03)


def test_the_band_does_not_depend_on_the_order_of_the_problems() -> None:
    rng = stream("test", "band", "order")
    base, rlvr = rng.binomial(64, 0.1, 50), rng.binomial(64, 0.2, 50)
    order, reach = rng.permutation(50), np.full(50, 64)
    one = difference_band(samples(64, base), samples(64, rlvr), reach, SETTINGS)
    other = difference_band(samples(64, base[order]), samples(64, rlvr[order]), reach, SETTINGS)
    assert np.allclose(one.low, other.low, atol=1e-10)
    assert np.allclose(one.high, other.high, atol=1e-10)


def test_models_that_never_differ_keep_an_open_band() -> None:
    hits = np.full(30, 64)
    same = difference_band(samples(64, hits), samples(64, hits), np.full(30, 64), SETTINGS)
    assert (same.low < -0.05).all()
    assert (same.high > 0.05).all()
    nothing = np.zeros(30, dtype=int)
    empty = difference_band(samples(64, nothing), samples(64, nothing), np.full(30, 64), SETTINGS)
    assert not empty.low.any()
    assert not empty.high.any()
    assert empty.first(-1) is None


def test_the_band_ends_where_a_problem_has_no_more_samples() -> None:
    hits = np.array([3, 4, 5])
    base = SampleCounts(np.array([64, 64, 20]), hits, np.array(["k", "k", "k"], dtype=object))
    found = difference_band(base, samples(64, hits), np.array([64, 64, 20]), SETTINGS)
    assert found.ks[-1] == 20
    missing = SampleCounts(np.array([64, 64, 0]), np.array([3, 4, 0]), np.array(["k", "k", None], dtype=object))
    assert not len(difference_band(missing, samples(64, hits), np.full(3, 64), SETTINGS).ks)


def test_clusters_of_copies_are_as_good_as_one_problem_each() -> None:
    rng = stream("test", "band", "clusters")
    base, rlvr = rng.random((20, 6)), rng.random((20, 6))
    ks, copies = np.arange(1, 7), np.repeat(np.arange(20), 5)
    single = band_of_curves(base, rlvr, ks, SETTINGS)
    copied = band_of_curves(base[copies], rlvr[copies], ks, SETTINGS, copies)
    assert np.allclose(single.low, copied.low, atol=1e-9)
    assert np.allclose(single.high, copied.high, atol=1e-9)
    naive = band_of_curves(base[copies], rlvr[copies], ks, SETTINGS)
    assert (naive.high - naive.low < copied.high - copied.low).all()


@pytest.mark.parametrize("problems", [30, 120])
def test_a_real_loss_is_covered_at_all_k_at_once(problems: int) -> None:
    """10% of the problems lost, the others sharpened: true values from half a million problems."""
    rng = stream("test", "band", "coverage", problems)

    def draw(size: int) -> tuple[np.ndarray, np.ndarray]:
        masses = np.where(rng.random(size) < 0.1, 0.0, rng.beta(0.35, 2.5, size))
        sharp = masses**1.3 / (masses**1.3 + (1 - masses) ** 1.3)
        return masses, np.where(rng.random(size) < 0.1, 0.0, sharp)

    ks = band_ks(64)
    base, rlvr = draw(500_000)
    truth = np.array([((1 - base) ** k - (1 - rlvr) ** k).mean() for k in ks])
    covered, trials = 0, 300
    for _ in range(trials):
        mine, theirs = (samples(64, rng.binomial(64, masses)) for masses in draw(problems))
        found = difference_band(mine, theirs, np.full(problems, 64), SETTINGS)
        covered += bool(((found.low <= truth) & (truth <= found.high)).all())
    assert covered / trials > 0.90


def test_an_analysis_has_the_band_and_its_sets() -> None:
    rng = stream("test", "band", "analysis")
    masses = np.concatenate([np.full(60, 0.3), np.full(60, 0.02)])
    hits = rng.binomial(256, masses), rng.binomial(256, np.where(masses > 0.1, 0.6, 0.0))
    ended = np.full(120, "k", dtype=object)
    names = np.array([str(i) for i in range(120)], dtype=object)
    n, dataset = np.full(120, 256), np.full(120, "d", dtype=object)
    counts = Counts(dataset, names, n, hits[0], n, hits[1], ended, ended, n, np.zeros(120))
    analysis = analyze_counts(counts, dataclasses.replace(SETTINGS, resamples=100))
    assert analysis["first_gain"] == [1, 1]
    low, high = analysis["first_loss"]
    assert 1 < low <= analysis["crossing"]["value"] <= high < 256
    assert [analysis["crossing"]["low"], analysis["crossing"]["high"]] == [low, high]
    assert all(analysis["band"][k]["low"] <= analysis["difference"][k]["value"] for k in (1, 2, 64, 256))


def test_the_crossing_is_the_last_one_and_its_set_holds_it() -> None:
    """The curves cross at 5 and again at 1,000: what is shown between does not bound the last crossing."""
    groups = ((300, 300, 700), (400, 40, 3), (300, 0, 6), (400, 1, 0))
    base, rlvr = (np.repeat([group[which] for group in groups], [group[0] for group in groups]) for which in (1, 2))
    size = len(base)
    ended, n = np.full(size, "k", dtype=object), np.full(size, 1024)
    names = np.array([str(i) for i in range(size)], dtype=object)
    counts = Counts(np.full(size, "d", dtype=object), names, n, base, n, rlvr, ended, ended, n, np.zeros(size))
    crossing = analyze_counts(counts, dataclasses.replace(SETTINGS, resamples=50), deconvolved=False)["crossing"]
    assert crossing["low"] <= crossing["value"]
    assert crossing["high"] is None or crossing["high"] >= crossing["value"]


def test_an_empty_band_knows_nothing() -> None:
    nothing = band([], [])
    assert nothing.first(-1) == nothing.first(1) == (1, None)
    assert nothing.crossing(-1) == (1, None)

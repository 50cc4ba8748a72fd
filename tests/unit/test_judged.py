"""The statistics of a judge that makes mistakes: against brute force, identities and simulated truth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from leash.statistics import judged, seeds
from leash.statistics.judged import Bounds, Calibration, ChosenHits, JudgedTexts, JudgeRates

PRIOR = judged.SHARE_PRIORS[0]
PERFECT = Calibration(100_000, 100_000, 100_000, 100_000)


def chosen(*problems: tuple[int, list[bool]]) -> ChosenHits:
    """Problems with their number of hits and the judge's words, every hit with a text of its own."""
    place = np.repeat(np.arange(len(problems)), [len(words) for _, words in problems])
    words = np.array([word for _, said in problems for word in said], dtype=bool)
    return ChosenHits(place, np.arange(len(words)), words, np.array([total for total, _ in problems]))


def test_a_perfect_judge_of_all_hits_gives_the_raw_share() -> None:
    hits = chosen((3, [True, True, False]), (1, [False]), (2, [True, False]))
    share = judged.corrected_share(hits, PERFECT, 0.95, 500, seeds.stream("t"))
    assert share is not None
    assert share["value"] == pytest.approx(3 / 6)
    assert share["high"] - share["low"] < 0.01  # all hits were judged, and the judge is known


def test_the_share_weighs_problems_by_their_hits_and_undoes_the_errors() -> None:
    calibration = Calibration(10, 8, 10, 9)  # 0.8 and 0.9
    hits = chosen((30, [True, False, True]), (10, [False]))
    share = judged.corrected_share(hits, calibration, 0.95, 2000, seeds.stream("t"))
    rate = 30 / 40 * 2 / 3
    assert share is not None
    assert share["value"] == pytest.approx((rate + 0.9 - 1) / (0.8 + 0.9 - 1))
    assert 0 <= share["low"] < share["value"] < share["high"] <= 1


def test_a_problem_without_a_judged_hit_leaves_no_share() -> None:
    hits = chosen((3, [True]), (5, []))
    assert judged.corrected_share(hits, PERFECT, 0.95, 100, seeds.stream("t")) is None


def test_hits_with_the_same_text_are_one_judgement() -> None:
    calibration = Calibration(50, 40, 50, 45)
    words = np.ones(40, dtype=bool)
    words[:10] = False
    several = ChosenHits(np.zeros(40, dtype=np.int64), np.arange(40), words, np.array([40]))
    one = ChosenHits(np.zeros(40, dtype=np.int64), np.arange(40) // 10, words, np.array([40]))
    wide, narrow = (judged.corrected_share(h, calibration, 0.95, 4000, seeds.stream("t")) for h in (one, several))
    assert wide is not None
    assert narrow is not None
    assert wide["high"] - wide["low"] > narrow["high"] - narrow["low"]


@pytest.mark.parametrize(
    ("counts", "usable"),
    [((50, 40, 50, 45), True), ((50, 25, 50, 25), False), ((4, 3, 4, 3), False), ((50, 50, 50, 2), False)],
)
def test_a_judge_no_better_than_chance_is_refused(counts: tuple[int, int, int, int], usable: bool) -> None:
    reason = Calibration(*counts).refusal(0.95)
    assert (reason is None) == usable
    if reason:
        assert "chance" in reason


def test_without_traces_there_is_no_correction() -> None:
    assert "no calibration" in str(Calibration(0, 0, 10, 9).refusal(0.95))
    assert Calibration(0, 0, 10, 9).interval("sensitivity", 0.95) is None


def test_exact_intervals_of_sensitivity_and_specificity() -> None:
    calibration = Calibration(20, 20, 10, 5)
    high = calibration.interval("sensitivity", 0.95)
    assert high is not None
    assert (high["value"], high["high"]) == (1.0, 1.0)
    assert high["low"] == pytest.approx(0.025 ** (1 / 20))


def constant_rates(sensitivity: float, specificity: float, draws: int) -> JudgeRates:
    return JudgeRates(np.full((draws, 3), sensitivity), np.full((draws, 3), specificity))


def test_draws_agree_with_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """One problem, texts of the base alone, the prior of the shares known: the posterior by enumeration of all truths
    (the mass of the grid has its prior mean, since a single problem is one draw from it)."""
    monkeypatch.setattr(judged, "SHIFTS", np.array([0.0]))
    se, sp, words = 0.8, 0.9, [1, 1, 0, -1]
    texts = JudgedTexts(np.zeros(4, dtype=np.int64), np.array([[1, 0]] * 4), np.array(words), 1)
    soundness = judged.draw_soundness(texts, constant_rates(se, sp, 800), PRIOR, seeds.stream("t"))
    margin = judged.grid_prior(PRIOR).reshape(len(judged.SHARE_LOGITS), -1).sum(axis=1)
    shares = 1 / (1 + np.exp(-judged.SHARE_LOGITS))
    weight = {}
    for truth in itertools.product([0, 1], repeat=4):
        prior = float(np.sum(margin * np.prod([shares if t else 1 - shares for t in truth], axis=0)))
        likelihood = 1.0
        for t, word in zip(truth, words, strict=True):
            called = se if t else 1 - sp
            likelihood *= 1.0 if word < 0 else called if word else 1 - called
        weight[truth] = prior * likelihood
    total = sum(weight.values())
    none = weight[0, 0, 0, 0] / total
    unknown = sum(w for truth, w in weight.items() if truth[3]) / total
    assert (~soundness.any(axis=1)).mean() == pytest.approx(none, abs=0.02)
    assert soundness[:, 3].mean() == pytest.approx(unknown, abs=0.02)


def test_a_perfect_judge_of_every_text_leaves_no_doubt() -> None:
    random = seeds.stream("texts")
    problem = np.repeat(np.arange(10), 4)
    hits, truth = random.integers(0, 3, (40, 2)), random.random(40) < 0.4
    hits[hits.sum(axis=1) == 0] = 1
    texts = JudgedTexts(problem, hits, truth.astype(np.int64), 10)
    rates = constant_rates(1 - 1e-9, 1 - 1e-9, 3)
    soundness = judged.draw_soundness(texts, rates, PRIOR, random)
    assert np.all(soundness == truth)
    sound = judged.sound_hits(texts, soundness)
    expected = np.array([(hits * truth[:, None])[problem == i].sum(axis=0) for i in range(10)])
    assert np.all(sound.all == expected)
    letters = judged.count_letters(sound, np.full((10, 2), 2))
    assert letters["E"].value[0] == np.sum((expected[:, 0] < 2) & (expected[:, 1] >= 2))
    assert sum(int(count.value[0]) for count in letters.values()) == 10
    # Every text was asked about, so there is nothing to bound.
    assert all(np.array_equal(count.least, count.most) for count in letters.values())


def test_texts_that_nobody_asked_about_widen_the_categories() -> None:
    """Each bound is what the category can be for some way in which these texts are sound, by enumeration."""
    hits = np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    texts = JudgedTexts(np.zeros(4, dtype=np.int64), hits, np.array([0, -1, 1, -1]), 1)
    needed = np.ones((1, 2), dtype=np.int64)
    found = judged.count_letters(judged.sound_hits(texts, np.array([[False, True, True, True]])), needed)
    possible = []
    for unasked in itertools.product([False, True], repeat=2):
        soundness = np.array([[False, unasked[0], True, unasked[1]]])
        counts = judged.count_sound_hits(texts, soundness)
        possible.append(judged.count_letters(judged.SoundHits(counts, counts), needed))
    for letter in "PESO":
        values = [each[letter].value[0] for each in possible]
        assert (found[letter].least[0], found[letter].most[0]) == (min(values), max(values))
    assert found["P"].value[0] == 1


def test_intervals_are_the_union_over_priors() -> None:
    draws = [Bounds(each - 1, each, each + 2) for each in (np.array([3, 3, 4]), np.array([7, 8, 8]))]
    found = judged.summarize_draws(draws, 0.95)
    assert (found["low"], found["high"]) == (2, 10)
    assert found["value"] == pytest.approx((10 / 3 + 23 / 3) / 2)


def test_sound_pass_at_k_is_the_share_of_subsets_with_a_sound_hit() -> None:
    n, k, sound = 6, 3, 2
    subsets = list(itertools.combinations(range(n), k))
    share = np.mean([any(each < sound for each in subset) for subset in subsets])
    value = judged.sound_pass_at_k(np.array([[sound, 0, 6]]), np.full(3, n), k)
    assert value[0] == pytest.approx((share + 0 + 1) / 3)


def test_made_up_problems_are_covered() -> None:
    """Shares at the ends and between, a judge at 0.8 and 0.9: most intervals of the letters cover."""
    covered = []
    for trial in range(6):
        random = seeds.stream("covered", trial)
        share = random.choice([0.0, 0.5, 1.0], 40, p=[0.4, 0.3, 0.3])
        problem = np.repeat(np.arange(40), 8)
        truth = random.random(320) < share[problem]
        hits = np.where((np.arange(320) % 2)[:, None] == 1, [[0, 1]], [[1, 0]])
        said = random.random(320) < np.where(truth, 0.8, 0.1)
        calibrations = [
            Calibration(100, int(random.binomial(100, 0.8)), 100, int(random.binomial(100, 0.9))) for _ in range(2)
        ]
        rates = judged.draw_rates(calibrations, 12, random)
        texts, needed = JudgedTexts(problem, hits, said.astype(np.int64), 40), np.ones((40, 2), dtype=np.int64)
        true = judged.count_letters(judged.sound_hits(texts, truth[None]), needed)
        soundness = [judged.draw_soundness(texts, rates, prior, random) for prior in judged.SHARE_PRIORS]
        drawn = [judged.count_letters(judged.sound_hits(texts, each), needed) for each in soundness]
        for letter in "PESO":
            found = judged.summarize_draws([each[letter] for each in drawn], 0.95)
            covered.append(found["low"] <= true[letter].value[0] <= found["high"])
    assert sum(covered) >= 21  # of 24

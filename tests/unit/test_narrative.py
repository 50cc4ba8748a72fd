"""Every sentence about results says what its numbers show, and no more."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from leash.report.compare_text import format_comparison
from leash.report.narrative import (
    deconvolved_sentence,
    sharpening_sentence,
    uncertainty_sentences,
    verdict_sentences,
)
from leash.statistics.analysis import analyze_counts
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.counts import Counts
from leash.statistics.decision import correct_for_several, decide, is_beyond_noise
from leash.statistics.endings import EndingComparison

Four = tuple[int, int, int, int]  # samples and hits of the base, and of the trained model
WORDS = 47  # of a first sentence
P, E, S, NEITHER = (64, 20, 64, 30), (64, 0, 64, 9), (64, 9, 64, 0), (64, 0, 64, 0)
LUCKY_E, LUCKY_S = (64, 0, 64, 1), (64, 1, 64, 0)
CANT_TELL = "The data can't tell whether tuned reaches more problems than base"


def analyze(rows: Sequence[Four], k: Sequence[int] = (64,), epsilon: float = 0.0, stop: int | None = None) -> Any:
    """The analysis as data/analysis/*.json has it. Problems with `stop` hits and fewer than k samples stopped early."""
    n_base, c_base, n_rlvr, c_rlvr = (np.array(column) for column in zip(*rows, strict=True))
    budgets = np.resize(k, len(rows))

    def ended(n: Any, c: Any) -> Any:
        how = [
            "hit" if c == stop and n < most else "k" if n == most else None
            for n, c, most in zip(n, c, budgets, strict=True)
        ]
        return np.array(how, dtype=object)

    counts = Counts(
        dataset=np.full(len(rows), "exam", dtype=object),
        problem_id=np.array([f"p{i}" for i in range(len(rows))], dtype=object),
        n_base=n_base,
        c_base=c_base,
        n_rlvr=n_rlvr,
        c_rlvr=c_rlvr,
        ended_base=ended(n_base, c_base),
        ended_rlvr=ended(n_rlvr, c_rlvr),
        k=budgets,
        epsilon=np.full(len(rows), epsilon),
    )
    return json.loads(json.dumps(analyze_counts(counts, AnalysisSettings(resamples=200)), allow_nan=False))


def verdict(*args: Any, **more: Any) -> list[str]:
    return verdict_sentences(analyze(*args, **more), "base", "tuned")


CASES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "a gain": (
        {"rows": [P] * 30 + [E] * 12 + [NEITHER] * 10},
        [
            r"^tuned reaches more problems than base: of 52, 12 are newly reached and none is no longer seen \(k = ",
            r"net \+28\.6% of those either reaches \(95%: \+\d",
            r"^The new problems \(p < 0\.001\) are more than noise: with 32 samples, E is 12\.0 and S is 0\.0, where ",
        ],
        ["problems no longer seen", "can't tell"],
    ),
    "a loss": (
        {"rows": [P] * 30 + [S] * 12 + [NEITHER] * 10},
        [
            r"^tuned reaches fewer problems than base: of 52, none is newly reached and 12 are no longer seen",
            r"net −28\.6% of those either reaches \(95%: −\d",
            r"^The problems no longer seen \(p < 0\.001\) are more than noise: ",
            r"^On the first try tuned is right more often \(pass@1 0\.213 → 0\.270\)\.$",
        ],
        ["new problems", "can't tell", "reaches more"],
    ),
    "real gains and losses that balance": (
        {"rows": [P] * 30 + [E] * 15 + [S] * 14},
        [
            rf"^{CANT_TELL}: of 59, 15 are newly reached and 14 are no longer seen",
            r"net \+1\.7% .*: −\d.* to \+\d.*; a net change of 23\.7% of the problems would have shown\.$",
            r"^The new problems \(p < 0\.001\) and problems no longer seen \(p < 0\.001\) are more than noise: ",
        ],
        ["reaches fewer"],
    ),
    "one hit more or less on a few problems": (
        {"rows": [P] * 30 + [LUCKY_E] * 3 + [LUCKY_S] * 3},
        [
            rf"^{CANT_TELL}: of 36, 3 are newly reached and 3 are no longer seen",
            r"net 0% ",
            r"^Luck alone may explain the new problems \(p = 0\.66\) and problems no longer seen \(p = 0\.66\): "
            r"with 32 samples, E is 1",
            r"and S is 1\.5, where base against itself gives 1\.5 for each\.$",
        ],
        ["more than noise"],
    ),
    "true losses and lucky gains": (
        {"rows": [P] * 30 + [S] * 12 + [LUCKY_E, (64, 1, 64, 1), (64, 1, 64, 1)]},
        [
            r"^tuned reaches fewer problems than base: of 45, 1 is newly reached and 12 are no longer seen",
            r"^The problems no longer seen \(p < 0\.001\) are more than noise; luck alone may explain the "
            r"new problems \(p = 0\.72\): ",
        ],
        ["new problems are more"],
    ),
    "no difference": (
        {"rows": [P] * 30 + [NEITHER] * 3},
        [
            r"^tuned and base reach the same 30 of 33 problems: none is newly reached and none is no longer seen",
            r"the net may be anything from −\d.*% to \+\d.*%\.$",
        ],
        ["noise", "reaches more", "reaches fewer"],
    ),
    "one loss among hundreds": (
        {"rows": [P] * 300 + [S]},
        [
            r"^tuned reaches as many problems as base, give or take 2% of them: of 301, none is newly reached and 1 ",
            r"net −0\.3% .*; at most 1\.9% of what base reaches is no longer seen \(95%\)\.$",
        ],
        ["can't tell whether tuned reaches", "fewer"],
    ),
    "hundreds without a difference": (
        {"rows": [P] * 300},
        [
            r"^tuned reaches as many problems as base, give or take 2% of them: of 300, none is newly reached ",
            r"; at most 1\.3% of what base reaches is no longer seen \(95%\)\.$",
        ],
        ["noise", "fewer", "reaches more"],
    ),
    "nothing reachable": (
        {"rows": [NEITHER] * 3},
        [
            r"^Neither tuned nor base reaches any of 3 problems \(k = 64, ε = 0\)\.$",
            r"^The data can't tell whether tuned is right more often on the first try",
        ],
        ["noise", "net"],
    ),
    "one problem, lost": (
        {"rows": [S]},
        [
            rf"^{CANT_TELL}: of 1, none is newly reached and 1 is no longer seen",
            r"net −100\.0% .*−100\.0% to \+.*; no net change could",
        ],
        ["tuned reaches fewer"],
    ),
    "one problem, neither's": (
        {"rows": [NEITHER]},
        [r"^Neither tuned nor base reaches any of 1 problem \("],
        ["problems"],
    ),
    "a handful, all lost": (
        {"rows": [S] * 5},
        [
            rf"^{CANT_TELL}: of 5, none is newly reached and 5 are no longer seen",
            r"; the interval excludes 0, but the exact McNemar test does not agree \(p = 0\.0625\)\.$",
        ],
        ["tuned reaches fewer"],
    ),
    "one sample each, a gain": (
        {"rows": [(1, 0, 1, 1)] * 14 + [(1, 1, 1, 0)] + [(1, 1, 1, 1)] * 5 + [(1, 0, 1, 0)] * 20, "k": [1]},
        [
            r"^tuned solves more problems than base in one sample each: of 40, 14 are solved by tuned alone and 1 by "
            r"base alone \(k = 1, ε = 0\), net \+65\.0% of those either solves \(95%: \+",
            r"^One sample per problem gives no noise floor: it cannot show how much of this is luck, nor what either ",
            r"^pass@1 is 0\.150 for base and 0\.475 for tuned\.$",
        ],
        ["are more than noise", "reach", "lost"],
    ),
    "one sample each, all of three": (
        {"rows": [(1, 1, 1, 0)] * 3, "k": [1]},
        [
            r"^The data can't tell whether tuned solves more problems than base in one sample each: of 3, none is "
            r"solved by tuned alone and 3 by base alone",
        ],
        ["reach", "lost", "right less often"],
    ),
    "one sample each, no difference": (
        {"rows": [(1, 1, 1, 1)] * 5 + [(1, 0, 1, 0)] * 3, "k": [1]},
        [r"^tuned and base solve the same 5 of 8 problems in one sample each: none is solved by tuned alone"],
        ["reach", "lost"],
    ),
    "few samples each": (
        {"rows": [(8, 0, 8, 3)] * 12 + [(8, 4, 8, 4)] * 10, "k": [8]},
        [r"^tuned solves more problems than base in 8 samples each: of 22, 12 are solved by tuned alone and none by "],
        ["reach", "lost"],
    ),
    "an epsilon that no share exceeds": (
        {"rows": [(1, 1, 1, 1)] * 5, "k": [1], "epsilon": 3.0},
        [r"^No result for tuned and base at k = 1, ε = 3: .* Set `categorize\.epsilon` \(or `--epsilon`\) to 0\.$"],
        ["Neither"],
    ),
    "several k": (
        {"rows": [P, S, NEITHER, P] * 12, "k": [64, 64, 64, 64], "epsilon": 0.01},
        [r"of 48, none is newly reached and 12 are no longer seen \(k = 64, ε = 0\.01\)"],
        [],
    ),
    "k of several data sets": (
        {"rows": [(32, 5, 32, 9), S] * 12, "k": [32, 64]},
        [r"\(k = 32 to 64, ε = 0\)", r"with 16 to 32 samples, "],
        [],
    ),
    "thousands": (
        {"rows": [P] * 2000 + [E] * 1100 + [NEITHER] * 300},
        [r"of 3,400, 1,100 are newly reached and none is no longer seen"],
        [],
    ),
    "stops at the first hit": (
        {"rows": [(3, 1, 2, 1)] * 30 + [(9, 1, 64, 0)] * 12, "stop": 1},
        [
            r"^tuned reaches fewer problems than base: of 42, none is newly reached and 12 are no longer seen",
            r"^The data can't tell how many problems no longer seen luck alone would give: sampling stopped early\.$",
        ],
        ["more than noise"],
    ),
    "stops at the third hit, above epsilon": (
        {"rows": [(9, 3, 8, 3)] * 30 + [(9, 3, 64, 0)] * 12, "stop": 3, "epsilon": 0.04},
        [
            r"^tuned reaches fewer problems than base: of 42, none is newly reached and 12 are no longer seen",
            r"^The data can't tell how many problems no longer seen luck alone would give: sampling stopped early\.$",
        ],
        ["more than noise"],
    ),
    "some with too few samples": (
        {"rows": [P] * 5 + [(3, 1, 64, 0)]},
        [r"the same 5 of 5 problems", r"^1 problem with fewer than k samples of a model was left out\.$"],
        [],
    ),
    "all with too few samples": (
        {"rows": [(3, 1, 3, 0)] * 10},
        [r"^No result for tuned and base yet: none of 10 problems has enough samples of both\.$"],
        ["net", "noise", "pass@1"],
    ),
    "one with too few samples": (
        {"rows": [(3, 1, 3, 0)]},
        [r"^No result for tuned and base yet: the only problem lacks enough samples of both\.$"],
        ["problems"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_says_what_the_numbers_show_and_no_more(case: str) -> None:
    given, wanted, unwanted = CASES[case]
    sentences = verdict(**given)
    for pattern in wanted:
        assert any(re.search(pattern, sentence) for sentence in sentences), sentences
    for word in unwanted:
        assert word not in " ".join(sentences)


@pytest.mark.parametrize("case", CASES)
def test_a_verdict_has_at_most_four_sentences_and_a_short_first_one(case: str) -> None:
    sentences = verdict(**CASES[case][0])
    assert len(re.sub(r" = | to ", "–", sentences[0]).split()) <= WORDS
    assert len(sentences) <= 4
    for sentence in sentences:
        assert sentence.endswith(".")
        assert not re.search(r"None|nan|-\d|RLVR|rlvr|\b0 (became|were|was)|\b1 (were|problems)", sentence)


def test_without_a_problem_there_is_no_result() -> None:
    assert verdict_sentences(None, "base", "tuned") == ["No result for tuned and base: there is no problem."]


@pytest.mark.parametrize(
    ("low", "high", "p_value", "sure"),
    [
        (-0.3, -0.1, 0.01, True),
        (0.1, 0.3, 0.01, True),
        (-0.3, 0.1, 0.01, False),
        (-0.3, 0.0, 0.01, False),
        (-0.3, -0.1, 0.06, False),
        (None, None, 0.01, False),
    ],
)
def test_more_or_fewer_needs_the_interval_and_the_corrected_test(
    low: float | None, high: float | None, p_value: float, sure: bool
) -> None:
    changed = copy.deepcopy(analyze([P] * 30 + [S] * 12))
    changed["NSCR"] |= {"low": low, "high": high}
    changed["test"] |= {"p_value": 0.0001, "p_adjusted": p_value}
    assert (decide(changed).outcome != "undecided") is sure
    assert verdict_sentences(changed, "base", "tuned")[0].startswith("The data can't tell") is not sure


@pytest.mark.parametrize(("p_value", "sure"), [(0.024, True), (0.0251, False), (0.04, False), (None, None)])
def test_each_of_gains_and_losses_is_beyond_noise_at_half_the_error_rate(p_value: float | None, sure: bool) -> None:
    changed = copy.deepcopy(analyze([P] * 30 + [E] * 12 + [S] * 12))
    changed["noise"] |= {"gains_p_adjusted": p_value, "losses_p_adjusted": p_value}
    assert [is_beyond_noise(changed, what) for what in ("gains", "losses")] == [sure, sure]


def test_two_hits_on_one_of_thirty_problems_are_not_called_more_than_noise() -> None:
    """Had nothing changed, both hits would be the base's in a quarter of the runs."""
    found = analyze([P] * 29 + [(64, 2, 64, 0)])
    assert found["noise"]["losses_p"] == pytest.approx(math.comb(64, 2) / math.comb(128, 2))
    assert is_beyond_noise(found, "losses") is False
    assert "more than noise" not in " ".join(verdict_sentences(found, "base", "tuned"))


def test_the_number_of_comparisons_is_stated_beside_a_corrected_p_value() -> None:
    several = [analyze([P] * 30 + [S] * 12)] + [analyze([P] * 30 + [E, S]) for _ in range(3)]
    correct_for_several(several)
    several[0]["NSCR"] |= {"low": -0.3, "high": 0.01}
    assert "p = 0.00195 after correcting for 4 comparisons" in verdict_sentences(several[0], "base", "tuned")[0]
    assert uncertainty_sentences(several[0])[0].endswith("p = 0.002, corrected for 4 comparisons.")


def test_a_test_that_disagrees_with_the_interval_is_named() -> None:
    changed = copy.deepcopy(analyze([P] * 30 + [S] * 12))
    changed["NSCR"] |= {"low": -0.3, "high": 0.01}
    [first, *_] = verdict_sentences(changed, "base", "tuned")
    assert first.endswith("; the exact McNemar test sees a change (p = 0.000488), but the interval includes 0.")


@pytest.mark.parametrize(
    ("base", "tuned", "p_value", "wanted"),
    [
        (0.38, 0.02, 1e-6, "Part of this may be format: base gave no answer in 38% of its completions, tuned in 2%."),
        (0.02, 0.38, 1e-6, "Format differs, too: base gave no answer in 2% of its completions, tuned in 38%."),
        (0.38, 0.02, 0.2, None),  # may be noise
        (0.38, 0.02, 0.03, None),  # two endings are tested
        (0.06, 0.02, 1e-6, None),  # too little to matter
    ],
)
def test_a_difference_of_format_is_reported(base: float, tuned: float, p_value: float, wanted: str | None) -> None:
    gained = analyze([P] * 30 + [E] * 12)
    sentences = verdict_sentences(gained, "base", "tuned", [EndingComparison("no_answer", base, tuned, p_value)])
    assert [sentence for sentence in sentences if "ormat" in sentence] == ([wanted] if wanted else [])


def test_cut_off_completions_are_reported_beside_missing_answers() -> None:
    lost = analyze([P] * 30 + [S] * 12)
    both = [EndingComparison("no_answer", 0.02, 0.2, 1e-6), EndingComparison("truncated", 0.1, 0.5, 1e-6)]
    assert verdict_sentences(lost, "base", "tuned", both)[1] == (
        "Part of this may be format: base gave no answer in 2% of its completions, tuned in 20%; "
        "base was cut off in 10% of its completions, tuned in 50%."
    )


def test_a_lower_pass_at_1_is_reported() -> None:
    sentences = verdict([(64, 30, 64, 10)] * 30)
    assert "On the first try tuned is right less often (pass@1 0.469 → 0.156)." in sentences


def test_sharpening_names_the_factor_and_how_many_problems_depart_from_it() -> None:
    sentence = sharpening_sentence(analyze([(64, 10, 64, 20)] * 20 + [(64, 40, 64, 2)]))
    assert re.match(
        r"One uniform sharpening \(odds × \d\S*, \S+ to \S+\) explains \d+% of the change; of 21 ", sentence
    )
    assert "0 gained more than that and 1 less." in sentence


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"rows": [(1, 0, 1, 1)] * 5, "k": [1]}, "at least two samples per problem"),
        ({"rows": [(3, 1, 2, 1)] * 30 + [(9, 1, 64, 0)] * 12, "stop": 1}, "sampling stopped early"),
        ({"rows": [NEITHER] * 5}, "a model has no hits"),
    ],
)
def test_without_a_sharpening_estimate_the_sentence_says_why(given: dict[str, Any], reason: str) -> None:
    assert reason in sharpening_sentence(analyze(**given))


def test_intervals_and_noise_floors_are_two_sentences_and_one_sample_has_no_floor() -> None:
    intervals, floor = uncertainty_sentences(analyze([P] * 30 + [E] * 12))
    assert re.match(
        r"Intervals over problems: SRR \d.* to \d.*, NDR .*, NSCR .*\. McNemar test .*: p = 0\.000\d+\.$", intervals
    )
    assert floor.startswith("At k = 32, the pair against its noise floor ")
    *_, last = uncertainty_sentences(analyze([(1, 0, 1, 1)] * 5, k=[1]))
    assert last.endswith("so there is no noise floor.")


def test_the_masses_behind_the_counts_are_one_sentence_where_samples_show_them() -> None:
    found = deconvolved_sentence(analyze([P] * 30 + [E] * 12))
    number = r"\d+\.\d \(\d+\.\d to \d+\.\d\)"
    assert re.fullmatch(
        rf"Freed of sampling noise, at ε = 0\.05: P {number}, E {number}, S {number}, O {number}; "
        r"counted there: 30, 12, 0, 0\.",
        found,
    )
    assert deconvolved_sentence(analyze([(1, 0, 1, 1)] * 5, k=[1])) == ""


def test_compare_and_the_report_have_the_same_headline() -> None:
    """The counts of `leash compare` have no model names; otherwise its verdict is the report's, word for word."""
    for case in CASES.values():
        analysis = analyze(**case[0])
        sentences = verdict_sentences(analysis, "the base", "the second model")
        assert format_comparison(analysis).lower().startswith("\n".join(sentences).lower())

"""The sentences on the form of answers and on their working say what the counts show, and no more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from leash.report.narrative import control_headline, format_sentences, judged_sentences, reasoning_sentences
from leash.statistics.analysis import analyze_counts
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.counts import Counts

K = 64
HITS = {"P": (20, 30), "E": (0, 9), "S": (9, 0), "O": (0, 0)}  # of the base and of the trained model
KINDS = ("sound", "unsound", "direct", "unchecked")
Work = Mapping[str, int]
ALL_SOUND: Work = {"sound": 100}


def analyze(letters: str, stopped: int = 0) -> Any:
    """The analysis of problems with these categories. The first `stopped` of them have too few samples."""
    base, rlvr = (np.array(column) for column in zip(*(HITS[letter] for letter in letters), strict=True))
    n = np.where(np.arange(len(letters)) < stopped, K - 1, K)
    ended = np.array(["k" if each == K else None for each in n], dtype=object)
    counts = Counts(
        dataset=np.full(len(letters), "exam", dtype=object),
        problem_id=np.array([f"p{i}" for i in range(len(letters))], dtype=object),
        n_base=n,
        c_base=base,
        n_rlvr=n,
        c_rlvr=rlvr,
        ended_base=ended,
        ended_rlvr=ended,
        k=np.full(len(letters), K),
        epsilon=np.zeros(len(letters)),
    )
    return json.loads(json.dumps(analyze_counts(counts, AnalysisSettings(resamples=200)), allow_nan=False))


def with_controls(
    own: str,
    *,
    strict: str = "",
    lenient: str = "",
    sound: str = "",
    unrefuted: str = "",
    stopped: int = 0,
    unseen: tuple[int, int] = (0, 0),
    work: tuple[Work, Work] = (ALL_SOUND, ALL_SOUND),
) -> Any:
    """An analysis with its controls as data/analysis has them: the letter of each problem in each view (the run's own
    by default), how many right answers strict reading misses, and the working of the hits."""
    analysis = analyze(own)
    analysis["controls"] = {}
    for name, letters in {"strict": strict, "lenient": lenient, "sound": sound, "unrefuted": unrefuted}.items():
        found = analyze(letters or own, stopped if letters or name in ("sound", "unrefuted") else 0)
        pairs = list(zip(own, letters or own, strict=True))[stopped if letters else 0 :]
        moves = Counter(f"{ours}{theirs}" for ours, theirs in pairs if ours != theirs)
        analysis["controls"][name] = {**found, "moves": dict(moves), "guessed_moves": {}}
    analysis["working"] = {}
    for role, missed, counts in zip(("base", "rlvr"), unseen, work, strict=True):
        kinds = {kind: counts.get(kind, 0) for kind in KINDS}
        hits = sum(kinds.values())
        right = hits + missed
        numbers = {"strict": hits, "lenient": right, "hits": hits, "unseen_share": missed / right if right else None}
        analysis["working"][role] = {**numbers, **kinds}
    return analysis


def form(analysis: Any, reading: str = "strict") -> list[str]:
    return format_sentences(analysis, "base", "tuned", reading)


def reasoning(analysis: Any) -> list[str]:
    return reasoning_sentences(analysis, "base", "tuned")


def joined(sentences: Sequence[str]) -> str:
    return " ".join(sentences)


GAIN = "P" * 20 + "E" * 12 + "O" * 3
LESS_FORMAT = "P" * 20 + "P" * 5 + "E" * 7 + "O" * 3
ALL_FORMAT = "P" * 20 + "P" * 12 + "O" * 3


def test_expansions_that_are_format_alone() -> None:
    said = form(with_controls(GAIN, lenient=LESS_FORMAT, unseen=(25, 0)))
    assert said == [
        "Format: 5 of 12 expansions are format alone: base had the right answer in another form.",
        "The decision is the same in both views: tuned reaches more problems than base.",
        "Of the right answers in any form, strict reading does not see 20.0% of those of base (25 of 125) and 0% of "
        "those of tuned (0 of 100).",
    ]


def test_a_decision_that_depends_on_the_reading() -> None:
    said = form(with_controls(GAIN, lenient=ALL_FORMAT, unseen=(25, 0)))
    assert said[0] == "Format: all 12 expansions are format alone: base had the right answer in another form."
    assert said[1] == (
        "By strict reading tuned reaches more problems than base; by lenient reading the data can't tell whether tuned "
        "reaches more problems than base."
    )


def test_shrinkages_that_are_format_alone() -> None:
    said = form(with_controls("P" * 20 + "S" * 4 + "O", lenient="P" * 23 + "S" + "O", unseen=(0, 1)))
    assert said[0] == "Format: 3 of 4 shrinkages are format alone: tuned had the right answer in another form."
    one = form(with_controls("P" * 20 + "S", lenient="P" * 21))
    assert one[0] == "Format: the only shrinkage is format alone: tuned had the right answer in another form."


def test_both_directions_and_problems_that_lenient_reading_adds() -> None:
    own, lenient = "PPP" + "EE" + "SS" + "OOOOOO", "PPP" + "PE" + "PS" + "EESPPO"
    said = form(with_controls(own, lenient=lenient))
    assert said[0] == (
        "Format: 1 of 2 expansions is format alone: base had the right answer in another form; 1 of 2 shrinkages is "
        "format alone: tuned had the right answer in another form."
    )
    assert said[1] == (
        "Lenient reading changes 5 more problems: 2 that tuned alone then reaches, 1 that base alone then reaches and "
        "2 that both models then reach."
    )


def test_a_lenient_run_tells_the_same_of_the_same_samples() -> None:
    """The moves of an analysis begin at the run's own reading, but the sentence always goes from strict to lenient."""
    by_strict = form(with_controls(GAIN, lenient=LESS_FORMAT, unseen=(25, 0)))
    by_lenient = form(with_controls(LESS_FORMAT, strict=GAIN, unseen=(25, 0)), "lenient")
    assert by_strict == by_lenient


def test_no_category_depends_on_the_form() -> None:
    said = form(with_controls(GAIN))
    assert said == [
        "No category depends on the form of the answer: strict and lenient reading agree on all 35 problems.",
        "The decision is the same in both views: tuned reaches more problems than base.",
        "Strict reading sees every right answer of base and tuned.",
    ]


def test_early_stops_leave_problems_without_a_category() -> None:
    some = form(with_controls(GAIN, lenient=GAIN, stopped=10))
    assert some[0] == (
        "10 of 35 problems have no category by lenient reading: sampling stopped early by strict reading, or samples "
        "are missing."
    )
    assert "agree on the 25 problems." in some[1]
    none = form(with_controls(GAIN, lenient=GAIN, stopped=35))
    assert none[0].startswith("No problem has a category by lenient reading: sampling stopped early by strict reading")
    assert not {word for word in ("agree", "decision", "Format:") if word in joined(none)}
    working = reasoning(with_controls(GAIN, stopped=35))
    assert working[0].startswith("No problem has a category by sound working: ")
    assert "instead of" not in joined(working)
    headline = control_headline(with_controls(GAIN, stopped=35), "sound", "base", "tuned")
    assert headline.startswith("Counting only hits with sound working, no problem has a category: ")


def test_a_share_is_never_rounded_to_none_or_all() -> None:
    said = form(with_controls("P" * 9, unseen=(3, 0), work=({"sound": 27_313}, ALL_SOUND)))
    assert "does not see under 0.1% of those of base (3 of 27,316) and 0% of" in said[-1]
    said = reasoning(with_controls("P" * 9, work=({"sound": 9999, "unsound": 1}, ALL_SOUND)))
    assert (
        "Of the 10,000 hits of base, over 99.9% have working without a visible error and under 0.1% wrong working."
        in said
    )


def test_right_working_gives_other_categories() -> None:
    own, sound = "P" * 20 + "S" * 6, "P" * 12 + "E" * 7 + "O" + "S" * 2 + "O" * 4
    work = ({"sound": 60, "unsound": 36, "direct": 4}, {"sound": 80, "unsound": 20})
    said = reasoning(with_controls(own, sound=sound, unrefuted=own, work=work))
    assert said[0] == (
        "Counting only hits with sound working, there are 7 expansions instead of none, 2 shrinkages instead of 6, "
        "12 problems of both models instead of 20 and 5 of neither instead of none (P/E/S/O 12/7/2/5 instead of "
        "20/0/6/0)."
    )
    assert said[1].startswith("By the answer alone tuned reaches fewer problems than base; counting only hits with ")
    assert said[2:] == [
        "Of the 100 hits of base, 60.0% have working without a visible error, 36.0% wrong working and 4.0% none.",
        "Of the 100 hits of tuned, 80.0% have working without a visible error and 20.0% wrong working.",
    ]


def test_working_that_changes_nothing() -> None:
    said = reasoning(with_controls(GAIN))
    assert said[0] == ("Counting only hits with sound working, every category is the same (P/E/S/O 20/12/0/3).")
    swapped = reasoning(with_controls("PE", sound="EP"))
    assert swapped[0] == ("Counting only hits with sound working, problems change places, but P/E/S/O stay 1/1/0/0.")


def test_a_caution_if_many_hits_show_no_working() -> None:
    own, sound = "P" * 20 + "S" * 6, "E" * 12 + "P" * 8 + "O" * 6
    work = ({"sound": 20, "direct": 70, "unchecked": 10}, {"sound": 100})
    said = reasoning(with_controls(own, sound=sound, unrefuted=own, work=work))
    assert said[-1] == (
        "Caution: of the 100 hits of base, 70 show no working and 10 show working that can't be checked: this view "
        "can't credit them, and it favours tuned, which shows its working more often than base. Counting them, too, "
        "gives the other bound: P/E/S/O 20/0/6/0; there tuned reaches fewer problems than base. The two bounds decide "
        "differently, so the working does not settle it."
    )
    # Working that can't be checked is shown, too.
    for few in ({"sound": 95, "direct": 5}, {"sound": 80, "unchecked": 20}):
        said = reasoning(with_controls(own, sound=sound, work=({"sound": 10, "unchecked": 90}, few)))
        assert "it favours tuned, whose working can be checked more often than that of base." in said[-1]
    said = reasoning(
        with_controls(own, sound=sound, work=({"sound": 10, "unchecked": 80, "direct": 10}, {"sound": 99, "direct": 1}))
    )
    assert "shows its working" not in said[-1]
    alike = reasoning(with_controls(own, work=({"sound": 50, "direct": 50}, {"sound": 50, "direct": 50})))
    assert "favours" not in alike[-1]
    assert "differently" not in alike[-1]


@pytest.mark.parametrize("kind", ["direct", "unchecked"])
def test_nothing_to_check(kind: str) -> None:
    """Hits that nobody looked at are not checked, either."""
    said = reasoning(with_controls("P" * 20, sound="O" * 20, work=({kind: 100}, {kind: 50})))
    assert said[0] == "Leash can't judge the reasoning: no hit of either model shows working that it can check."
    assert "instead of" not in joined(said)
    assert len(said) == 3
    unknown = with_controls("P" * 20)
    for counts in unknown["working"].values():
        counts |= dict.fromkeys(KINDS, 0)
    assert reasoning(unknown)[1] == "Of the 100 hits of base, 100.0% have working that can't be checked."


def test_no_hits_need_no_sentence() -> None:
    analysis = with_controls("O" * 5, work=({}, {}))
    assert reasoning(analysis) == []
    assert not [sentence for sentence in form(analysis) if "right answer" in sentence]


def test_the_headline_of_a_view_is_its_own() -> None:
    analysis = with_controls(GAIN, lenient=ALL_FORMAT)
    assert control_headline(analysis, "lenient", "base", "tuned").startswith(
        "By lenient reading: tuned and base reach the same 32 of 35 problems"
    )
    assert control_headline(analysis, "strict", "base", "tuned").startswith(
        "By strict reading: tuned reaches more problems than base: of 35, 12 are newly reached"
    )


def test_the_headline_by_right_working_says_if_the_other_bound_decides_otherwise() -> None:
    differing = with_controls("P" * 20 + "S" * 9, sound="E" * 15 + "P" * 14, unrefuted="P" * 20 + "S" * 9)
    headline = control_headline(differing, "sound", "base", "tuned")
    assert headline.startswith("Counting only hits with sound working: tuned reaches more problems than base: ")
    other = " With the hits whose working can't be checked, tuned reaches fewer problems than base."
    assert headline.endswith(other)
    assert other not in control_headline(with_controls(GAIN), "sound", "base", "tuned")


def rate(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.05, "high": value + 0.05}


JUDGED: dict[str, Any] = {
    "judge": "a-judge",
    "rule": "majority",
    "votes": 3,
    "asked": {"base": 150, "rlvr": 250},
    "hits": {"base": 4000, "rlvr": 5000},
    "sensitivity": {"base": rate(0.8), "rlvr": rate(0.85)},
    "specificity": {"base": rate(0.9), "rlvr": rate(0.95)},
    "sound_hits": {role: {"value": 60.0, "low": 50.0, "high": 70.0} for role in ("base", "rlvr")},
    "categories": {letter: {"value": 6.12, "low": 3.0, "high": 9.5} for letter in "PESO"},
    "cot_pass_at_k": {"base": {"1": rate(0.1), "8": rate(0.25)}, "rlvr": {"1": rate(0.2), "8": rate(0.5)}},
    "refused": None,
}


def test_a_judge_is_reported_with_its_errors() -> None:
    [said] = judged_sentences({"judged": JUDGED})
    assert said == (
        "a-judge judged 400 of 9,000 hits with working (majority of 3 votes): corrected for its errors, "
        "P 6.1 (3.0 to 9.5), E 6.1 (3.0 to 9.5), S 6.1 (3.0 to 9.5), O 6.1 (3.0 to 9.5). "
        "It calls 80% (base) and 85% (rlvr) of the right working right (sensitivity) and calls 90% (base) and 95% "
        "(rlvr) of the planted errors wrong (specificity)."
    )
    assert reasoning(with_controls(GAIN) | {"judged": JUDGED})[-1] == said


def test_a_judge_that_is_refused_counts_nothing() -> None:
    refused = JUDGED | {
        "refused": "it is no better than chance.",
        "sensitivity": {"base": rate(0.5), "rlvr": None},
        "votes": 1,
    }
    [said] = judged_sentences({"judged": refused})
    assert said == (
        "a-judge judged 400 of 9,000 hits with working; nothing is concluded from it: it is no better than chance. It "
        "calls 50% (base) of the right working right (sensitivity) and calls 90% (base) and 95% (rlvr) of the planted "
        "errors wrong (specificity)."
    )
    assert judged_sentences({"judged": None}) == judged_sentences({}) == []


def test_a_form_that_a_guesser_might_find_is_said() -> None:
    analysis = with_controls("E" * 3 + "P" * 9, lenient="P" * 12)
    assert "(on" not in format_sentences(analysis, "base", "tuned", "strict")[0]
    analysis["controls"]["lenient"]["guessed_moves"] = {"EP": 2}
    [said, *_] = format_sentences(analysis, "base", "tuned", "strict")
    assert "another form (on 2 of them in no more samples than a guesser might)" in said

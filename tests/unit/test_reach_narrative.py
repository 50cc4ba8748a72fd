"""The sentences on certificates: what they claim, what they don't, and that every number in them is proven."""

from __future__ import annotations

from typing import Any

import pytest

from leash.formatting import format_factor, format_mass, format_once_in
from leash.report.narrative import problem_reach_sentences, reach_headline, reach_sentences

MASSES = ("0.001", "0.0001", "1e-05", "1e-06")


def category(problems: int, *proven: int, **changes: Any) -> dict[str, Any]:
    counts = proven or (0, 0, 0, 0)
    return {
        **{"problems": problems, "examined": problems, "certified": max(counts), "unreachable": 0},
        **{"proven": dict(zip(MASSES, counts, strict=True)), "smallest_upper": 0.0029, "largest_certificate": 1.3e-3},
        **changes,
    }


def analysis(lost: dict[str, Any], new: dict[str, Any] | None = None, k: int = 1024) -> dict[str, Any]:
    ends = {"P": [101.26, 110.0], "E": [0.0, 1.01], "S": [2.0, 3.0], "O": [1.0, 4.0]}
    reach = {"confidence": 0.95, "rollouts": 2048, "S": lost, "E": new or category(0), "expected": {"1000000": ends}}
    return {"k": k, "confidence": 0.95, "reach": reach}


ROW = {
    **{"status": "certified", "target": "rlvr", "n_target": 1024, "upper": 0.00292, "certificate": 6.49e-5},
    **{"amplification": 1 / 1536, "amplification_low": 1 / 8010, "amplification_high": 1 / 319},
    **{"pilot": 1024, "rollouts": 1024, "completions": 3, "untempered": 1e-9},
    **{"cut_token": 1, "trace_tokens": ["a", " 7", "b"], "trace_nlls": [0.1, 6.0, 0.1]},
    **{"profile_depths": [1, 2], "profile_trials": [300, 400], "profile_hits": [3, 380]},
}


def about(**changes: Any) -> list[str]:
    return problem_reach_sentences({**ROW, **changes}, "tuned", "mine", 0.95, "temperature 0.8, top_p 0.9")


def test_a_stage_that_is_off_says_nothing() -> None:
    for missing in ({}, {"reach": None}):
        assert reach_headline({"k": 1024, "confidence": 0.95, **missing}, "mine", "tuned") == ""
        assert reach_sentences({"k": 1024, "confidence": 0.95, **missing}, "mine", "tuned") == []


def test_the_headline_names_the_mass_of_most_and_a_larger_one() -> None:
    assert reach_headline(analysis(category(17, 1, 6, 12, 15)), "mine", "tuned") == (
        "Of the 17 no longer seen, at least 15 are still within tuned's reach with a mass of 1e-6 or more, 6 of them "
        "with 1e-4 or more (95%)."
    )
    # The same number at a larger mass says more.
    one = reach_headline(analysis(category(1, 0, 1, 1, 1)), "mine", "tuned")
    assert "at least 1 is still within tuned's reach with a mass of 1e-4 or more (95%)" in one


def test_expansions_were_within_the_reach_of_the_base() -> None:
    sentence = reach_headline(analysis(category(0), category(12, 0, 0, 0, 9)), "mine", "tuned")
    assert sentence.startswith("Of the 12 newly reached, at least 9 were within mine's reach with a mass of 1e-6")
    few = reach_headline(analysis(category(0), category(12, 0, 0, 0, 9), k=8), "mine", "tuned")
    assert few.startswith("Of the 12 solved by tuned alone, at least 9 were")


def test_nothing_found_is_not_called_a_loss() -> None:
    sentence = reach_headline(analysis(category(17)), "mine", "tuned")
    assert sentence == (
        "For none of the 17 no longer seen is a mass of 1e-6 or more proven (95%), which is no proof of absence."
    )
    assert reach_headline(analysis(category(17, examined=0)), "mine", "tuned") == ""


def test_a_certificate_below_every_threshold_is_not_called_reach() -> None:
    """At top_p 1 each softmax model has such certificates: every known completion has a probability above 0."""
    for letter in ("S", "E"):
        tiny, other = category(17, certified=17, largest_certificate=3.17e-31), category(0)
        found = analysis(tiny, other) if letter == "S" else analysis(other, tiny)
        headline = reach_headline(found, "mine", "tuned")
        assert headline == reach_headline({**found, "reach": {**found["reach"], letter: category(17)}}, "mine", "tuned")
        assert "within" not in headline
        sentence = next(each for each in reach_sentences(found, "mine", "tuned") if each.startswith(f"{letter}: "))
        assert "reaches" not in sentence
        assert "no mass of 1e-6 or more is proven" in sentence
        assert "the largest certificate by itself is 3.1e-31 (95%)" in sentence


def test_the_section_counts_what_is_not_proven() -> None:
    lost = category(17, 1, 6, 12, 12, certified=13, unreachable=2, examined=16)
    first, *others = reach_sentences(analysis(lost), "mine", "tuned")
    assert "1 with a mass of 1e-3, 6 with a mass of 1e-4, 12 with a mass of 1e-5" in first
    # One of these two has a certificate, but of less.
    assert "for 2 no mass of 1e-6 or more is proven, which is no proof of absence; on 2 every known" in first
    assert first.endswith("1 was not examined.")
    # Ranges are rounded outwards.
    assert "101.2 to 110.0 P, 0.0 to 1.1 E" in others[0]
    assert "; samples alone leave masses up to 2.9e-3 possible on each (95%); 1 was not" in first
    everything = reach_sentences(analysis(category(17, 1, 6, 12, 17)), "mine", "tuned")[0]
    assert "samples alone" not in everything
    nothing = category(3, largest_certificate=0.0)
    assert "samples alone leave masses up to 2.9e-3" in reach_sentences(analysis(nothing), "mine", "tuned")[0]
    assert "is proven for tuned (95%), which is no proof" in reach_sentences(analysis(nothing), "mine", "tuned")[0]


def test_a_certificate_as_a_frequency() -> None:
    first, amplification, cut = about()
    assert first == (
        "tuned still reaches it with probability at least 6.4e-5, once in 16,000 samples (95%); its 1,024 samples "
        "allow at most 3e-3."
    )
    assert amplification == "The mass of mine is 1,500 times as large (310 to 8,100, 95%)."
    assert cut == (
        "The leash was cut at token 2 of 3, “7”: 1.0% of the rollouts that begin before it are correct and 95.0% of "
        "the rollouts that begin after it are correct."
    )
    assert about(cut_token=0)[2] == (
        "The leash was cut at token 1 of 3, “a”: 1.0% of the rollouts that begin after it are correct."
    )
    assert about(trace_tokens=None, profile_depths=[], profile_trials=[], profile_hits=[])[2] == (
        "The leash was cut at token 2 of 3."
    )
    assert about(target="base")[0].startswith("tuned reaches it with")
    assert about(amplification_low=0.0)[1] == "The mass of mine is at least 310 times as large (95%)."
    new = {"target": "base", "amplification": 1536.0, "amplification_low": 319.0, "amplification_high": 8010.0}
    assert about(**new)[1] == amplification
    assert about(**new | {"amplification_high": None})[1] == about(amplification_low=0.0)[1]
    unknown = dict.fromkeys(("amplification", "amplification_low", "amplification_high", "cut_token"))
    assert about(**unknown)[1:] == about(target="base", **unknown)[1:] == []


def test_without_a_certificate_only_the_upper_bound_is_said() -> None:
    [sentence] = about(status="no_hit")
    assert "2,048 rollouts, which is no proof of absence: its 1,024 samples allow at most 3e-3 (95%)" in sentence


def test_unreachable_is_said_of_the_settings() -> None:
    [sentence] = about(status="unreachable", pilot=0, rollouts=0)
    assert sentence.startswith("At these settings (temperature 0.8, top_p 0.9), tuned can't write any of the 3 known")
    assert sentence.endswith("At temperature 1 and top_p 1 their mass is 1e-9.")
    assert "the only known correct completion" in about(status="unreachable", completions=1)[0]
    # Rollouts went from the possible beginnings of these completions.
    assert about(status="unreachable") == [sentence, *about(status="no_hit")]


@pytest.mark.parametrize("mass", [6.45e-5, 1e-6, 9.99e-4, 0.0123, 0.5, 1.0, 3.3e-9])
def test_bounds_are_rounded_to_the_safe_side(mass: float) -> None:
    assert float(format_mass(mass, "down")) <= mass <= float(format_mass(mass, "up"))
    assert float(format_mass(mass)) == pytest.approx(mass, rel=0.05)
    assert 1 / mass <= float(format_once_in(mass).replace(",", "")) <= 1.11 / mass
    assert float(format_factor(1 / mass, "down").replace(",", "")) <= 1 / mass

"""How sure the result is, what one uniform sharpening explains, where curves cross, what lies beyond the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leash.formatting import format_number, format_value, join_names, pluralize
from leash.statistics.sharpening_test import MIN_EXPECTED_COUNT
from leash.statistics.support import smallest_identified

Analysis = Mapping[str, Any]

MAX_NAMED_PROBLEMS = 8
SUMMARY_RATIOS = ("SRR", "NDR", "NSCR")


def uncertainty_sentences(analysis: Analysis) -> list[str]:
    """The intervals of the main ratios, and the same ratios beside their noise floors."""
    sentences = []
    ranges = [
        f"{name} {format_value(analysis[name]['low'])} to {format_value(analysis[name]['high'])}"
        for name in SUMMARY_RATIOS
        if analysis[name]["low"] is not None
    ]
    if ranges:
        test, several = analysis["test"], analysis["corrected_for"]
        corrected = f", corrected for {several} comparisons" if several > 1 else ""
        units = "clusters" if analysis["clusters"] else "problems"
        sentences.append(
            f"Intervals over {units}: {', '.join(ranges)}. {test['name']} test of E against S: "
            f"p = {format_value(test['p_adjusted'])}{corrected}."
        )
    floor = analysis["noise_floor"]
    beside = []
    for name in SUMMARY_RATIOS:
        pair, base = (floor[which][name]["value"] for which in ("pair", "base"))
        if pair is not None and base is not None:
            beside.append(f"{name} {format_value(pair)} against {format_value(base)}")
    if analysis["k"] == 1:
        sentences.append("One sample per problem cannot be split into two halves, so there is no noise floor.")
    elif beside:
        half = max(floor["k"]) if isinstance(floor["k"], list) else floor["k"]
        sentences.append(
            f"At k = {half}, the pair against its noise floor (two halves of the base's samples, no change at all): "
            f"{', '.join(beside)}."
        )
    return sentences


def deconvolved_sentence(analysis: Analysis) -> str:
    """P, E, S and O of the masses themselves, at the chosen epsilon or the next that the samples identify, beside what
    is counted there. Empty if no epsilon is identified."""
    found = smallest_identified(analysis["deconvolved"], analysis["epsilon"])
    if found is None:
        return ""
    numbers = ", ".join(
        f"{name} {found[name]['value']:.1f} ({found[name]['low']:.1f} to {found[name]['high']:.1f})" for name in "PESO"
    )
    counted = next((row for row in analysis["by_epsilon"] if row["epsilon"] == found["epsilon"]), {"P": None})
    if found["epsilon"] == analysis["epsilon"]:
        counted = analysis["categories"]
    seen = "" if counted["P"] is None else f"; counted there: {', '.join(f'{counted[x]:.4g}' for x in 'PESO')}"
    return f"Freed of sampling noise, at ε = {format_number(found['epsilon'])}: {numbers}{seen}."


def sharpening_sentence(analysis: Analysis) -> str:
    """How much of the change one common factor on the odds of a hit explains, or why there is no such estimate."""
    tilt = analysis["tilt"]
    if tilt["odds_ratio"] is None:
        return _no_sharpening_sentence(analysis)
    odds, above, below = tilt["odds_ratio"], len(tilt["above"]), len(tilt["below"])
    factor = f"odds × {odds['value']:.3g}, {odds['low_problems']:.3g} to {odds['high_problems']:.3g}"
    if tilt["explained"] is None:
        claim = f"There is no more change than noise for one uniform sharpening ({factor}) to explain"
    else:
        claim = f"One uniform sharpening ({factor}) explains {tilt['explained']:.0%} of the change"
    sentence = f"{claim}; of {pluralize(tilt['problems'], 'problem')}, {above} gained more than that and {below} less."
    homogeneity = tilt["homogeneity"]
    if not homogeneity["valid"]:
        sentence += (
            f" The Breslow–Day test is not valid: {homogeneity['sparse']:.0%} of the problems expect fewer than "
            f"{MIN_EXPECTED_COUNT:.0f} in a cell."
        )
    return sentence


def _no_sharpening_sentence(analysis: Analysis) -> str:
    k = analysis["k"]
    if (max(k) if isinstance(k, list) else k) < 2:
        return "The sharpening test needs at least two samples per problem."
    # Intervals over samples are null exactly if sampling stopped early; a ratio of 0/0 has none in any case.
    if analysis["NSCR"]["value"] is not None and analysis["NSCR"]["low_samples"] is None:
        return "The sharpening test needs a number of samples that was fixed in advance, but sampling stopped early."
    return "No finite factor on the odds fits: a model has no hits, or no misses."


def named_problem_sentences(analysis: Analysis) -> list[str]:
    """Which problems depart from one uniform sharpening, and whose hits are not shown to be above guessing."""
    tilt = analysis["tilt"]
    lists = {}
    if tilt["odds_ratio"] is not None:
        lists["Gained more than one uniform sharpening gives"] = tilt["above"]
        lists["Gained less than it, or fell"] = tilt["below"]
    for role, model in (("base", "the base"), ("rlvr", "the trained model")):
        floor = analysis["guess_floor"][role]
        tested = f"{len(floor['not_above']):,} of {pluralize(floor['tested'], 'tested problem')}"
        lists[f"Hits of {model} not shown to be above guessing ({tested})"] = floor["not_above"]
    sentences = []
    for model, floor in analysis["guess_floor"].items():
        if floor["mean"] is not None and floor["share"] is not None:
            who = "The base" if model == "base" else "The trained model"
            on = pluralize(floor["problems"], "problem")
            sentences.append(
                f"{who} is right in {floor['share']:.1%} of the samples on the {on} with a guess floor; the floor is "
                f"{floor['mean']:.1%}."
            )
    for heading, problems in lists.items():
        if problems:
            names = ", ".join(problem["problem_id"] for problem in problems[:MAX_NAMED_PROBLEMS])
            rest = len(problems) - MAX_NAMED_PROBLEMS
            sentences.append(f"{heading}: {names}{f' and {rest} more' if rest > 0 else ''}.")
    return sentences


def crossing_sentence(analysis: Analysis) -> str:
    """Where the pass@k curves cross. Empty at k = 1, which has no curve."""
    crossing = analysis["crossing"]
    if len(analysis["difference"]) < 2:
        return ""
    if not analysis["band"]:
        return ""
    if crossing["value"] is None:
        return "The pass@k curves don't cross within these samples."
    # A bound of null lies beyond the largest k.
    high = "beyond these samples" if crossing["high"] is None else f"{crossing['high']:,}"
    model = "The base" if crossing["by"] == "base" else "The second model"
    if crossing["low"] == 1 and crossing["high"] is None:
        return f"{model} seems to overtake at k* = {crossing['value']:,.0f}, but the band does not show that it does."
    return f"{model} overtakes at k* = {crossing['value']:,.0f} ({crossing['low']:,} to {high})."


def band_sentence(analysis: Analysis) -> str:
    """At which k the trained model is shown to be ahead or behind, all k taken together. Empty at k = 1."""
    if len(analysis["band"]) < 2:
        return ""
    ks, band = [int(k) for k in analysis["band"]], analysis["band"].values()
    gains = _join_ranges(ks, [ends["low"] > 0 for ends in band])
    losses = _join_ranges(ks, [ends["high"] < 0 for ends in band])
    shown = [f"{name} at k = {ranges}" for name, ranges in (("a gain", gains), ("a loss", losses)) if ranges]
    what = " and ".join(shown) or f"neither a gain nor a loss at any k up to {ks[-1]:,}"
    return f"Over all k together, pass@k shows {what} ({analysis['confidence'] * 100:g}% band)."


def _join_ranges(ks: Sequence[int], chosen: Sequence[bool]) -> str:
    """The chosen k as text: "1 to 4 and 28 to 1,024". Empty if there is none."""
    ranges: list[list[int]] = []
    for place, (k, is_chosen) in enumerate(zip(ks, chosen, strict=True)):
        if is_chosen and place and chosen[place - 1]:
            ranges[-1][1] = k
        elif is_chosen:
            ranges.append([k, k])
    names = [f"{first:,} to {last:,}" if last > first else f"{first:,}" for first, last in ranges]
    return join_names(names) if names else ""


def certainty_sentence(analysis: Analysis) -> str:
    """How many categories are sure, and how many problems the fitted masses expect in each. Empty at epsilon = 0: one
    hit proves a mass above 0, and nothing proves a mass of 0."""
    epsilon, sure, expected = analysis["epsilon"], analysis["sure"], analysis["posterior"]
    if not (max(epsilon) if isinstance(epsilon, list) else epsilon):
        return ""
    calls = join_names([f"{sure[name]:,} {name}" for name in "PESO"])
    masses = join_names([f"{expected[name]:,.1f} {name}" for name in "PESO"])
    percent = f"{analysis['confidence'] * 100:g}%"
    return f"Surely (each model, {percent}): {calls}, {sure['open']:,} open; expected by the fitted masses: {masses}."


def extrapolation_sentence(analysis: Analysis, base: str, trained: str) -> str:
    """pass@k at eight times k: by the fitted masses, and over all masses that fit the counts."""
    told = []
    for role, model in (("base", base), ("rlvr", trained)):
        found = (analysis["extrapolation"] or {}).get(role) or {}
        fitted, possible = (found.get(name) or {} for name in ("pass_at_k", "identified"))
        if not fitted and not possible:
            continue
        k = max(fitted or possible, key=int)
        value = "no fitted value"
        if fitted:
            estimate = {end: format_value(number) for end, number in fitted[k].items()}
            value = f"{estimate['value']} ({estimate['low']} to {estimate['high']}) by the fitted masses"
        if k in possible:
            between = f"{format_value(possible[k]['low'])} to {format_value(possible[k]['high'])}"
            value += f", and without a model anything from {between}"
        told.append(f"{model} {value}")
    if not told:
        return ""
    return (
        f"pass@{int(k):,}, beyond the samples: {'; '.join(told)}. Beyond k of the order of n², n being the samples, "
        f"nothing is identified without assumptions."
    )


def expected_counts_caveat(analysis: Analysis) -> str:
    """What `leash compare --k` counts if problems have more than k samples."""
    if analysis["counting"] != "expected":
        return ""
    return (
        "Some problems have more than k samples, and counts don't tell which came first: P, E, S and O are those "
        "expected at k; the tests of single problems and the sharpening are of all samples."
    )

"""Is a problem out of reach, or only below what k samples show? Sentences on certificates.

    reach_headline(analysis, "base", "rlvr")     how many E and S are proven to be within the other model's reach
    reach_sentences(analysis, "base", "rlvr")    the same by mass, what is not proven, and P, E, S, O at larger k
    problem_reach_sentences(row, "rlvr", ...)    one problem: a row of data/reach/{pair}.parquet

In: the key `reach` of an analysis (stages/categorize/reachability.py), null or absent if the stage did not run. A lower
bound is rounded down and an upper one up. Nothing here calls a problem lost: no certificate is no proof of absence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from leash.formatting import format_factor, format_mass, format_once_in, join_names, pluralize
from leash.statistics.support import detectable_mass

Analysis = Mapping[str, Any]
Row = Mapping[str, Any]

# "Reaches" needs a k at which a model without a hit has at most this mass, at the run's confidence.
MAX_HIDDEN_MASS = 0.1
# The headline names a larger mass, too, if it is proven for this share of the problems that it names first.
MIN_TELLING_SHARE = 0.25
NO_PROOF = "which is no proof of absence"


def reach_headline(analysis: Analysis, base: str, trained: str) -> str:
    """How many expansions and shrinkages are proven to be within the other model's reach. Empty: none was examined."""
    reach = analysis.get("reach")
    if not reach:
        return ""
    sentences = [
        _headline_of(reach[letter], _name_problems(analysis, letter, base, trained), letter, target, reach)
        for letter, target in (("S", trained), ("E", base))
        if reach[letter]["examined"]
    ]
    return " ".join(sentences)


def reach_sentences(analysis: Analysis, base: str, trained: str) -> list[str]:
    """How many E and S are proven to be within reach at each mass, what was not examined or is unreachable, and the
    expected categories at larger k."""
    reach = analysis.get("reach")
    if not reach:
        return []
    sentences = []
    for letter, target in (("S", trained), ("E", base)):
        found = reach[letter]
        if found["problems"]:
            sentences.append(_letter_sentence(found, letter, target, reach))
    sentences += [
        _expected_sentence(reach, base, trained),
        "A certificate is as right as the grader: a wrong answer that is called right from a prefix is certified, too.",
    ]
    return [sentence for sentence in sentences if sentence]


def problem_reach_sentences(row: Row, target: str, donor: str, confidence: float, settings: str) -> list[str]:
    """What is known about a model's mass on one problem. `settings` names temperature and top_p."""
    percent = f"{confidence * 100:g}%"
    most = f"its {pluralize(row['n_target'], 'sample')} allow at most {format_mass(row['upper'], 'up')}"
    if row["status"] != "certified":
        rollouts = row["pilot"] + row["rollouts"]
        found = f"No certificate for {target} was found with {pluralize(rollouts, 'rollout')}, {NO_PROOF}"
        sentences = [f"{found}: {most} ({percent})."]
        if row["status"] == "no_hit":
            return sentences
        return [_unreachable_sentence(row, target, settings), *(sentences if rollouts else ())]
    still = "still reaches" if row["target"] == "rlvr" else "reaches"
    sentences = [
        f"{target} {still} it with probability at least {format_mass(row['certificate'], 'down')}, once in "
        f"{format_once_in(row['certificate'])} samples ({percent}); {most}.",
        _amplification_sentence(row, donor, percent),
        _cut_sentence(row),
    ]
    return [sentence for sentence in sentences if sentence]


def is_reach_measurable(k: int | list[int], confidence: float) -> bool:
    """Whether k samples (the smallest k of several data sets) show what a model can reach.

    No hit in k leaves any mass up to -ln(1 - confidence)/k possible, which must be small: k is 30 or more at 95%.
    """
    return detectable_mass(min(k) if isinstance(k, list) else k, confidence) <= MAX_HIDDEN_MASS


def _name_problems(analysis: Analysis, letter: str, base: str, trained: str) -> str:
    """The problems of a category as the headline calls them: "17 no longer seen"."""
    number = analysis["reach"][letter]["problems"]
    if is_reach_measurable(analysis["k"], analysis["confidence"]):
        return f"{number:,} {'no longer seen' if letter == 'S' else 'newly reached'}"
    return f"{number:,} solved by {base if letter == 'S' else trained} alone"


def _headline_of(found: Row, problems: str, letter: str, target: str, reach: Row) -> str:
    """One sentence on a category: the mass that is proven for most problems, and a larger one that is telling."""
    number = max(found["proven"].values())
    percent = f"{reach['confidence'] * 100:g}%"
    if not number:
        # A certificate alone says nothing: at top_p 1 every known completion has a probability above 0.
        least = format_mass(min(map(float, found["proven"])))
        return f"For none of the {problems} is a mass of {least} or more proven ({percent}), {NO_PROOF}."
    by_mass = sorted(((float(mass), count) for mass, count in found["proven"].items()), reverse=True)
    mass = next(mass for mass, count in by_mass if count == number)
    telling = next((each for each in by_mass if each[1] >= MIN_TELLING_SHARE * number), by_mass[-1])
    also = f", {telling[1]:,} of them with {format_mass(telling[0])} or more" if telling[0] > mass else ""
    within = _within(number, letter, target)
    return f"Of the {problems}, at least {within} with a mass of {format_mass(mass)} or more{also} ({percent})."


def _within(number: int, letter: str, target: str) -> str:
    """ "15 are still within rlvr's reach" or "9 were within base's reach"."""
    one = number == 1
    verb = ("is still" if one else "are still") if letter == "S" else ("was" if one else "were")
    return f"{number:,} {verb} within {target}'s reach"


def _letter_sentence(found: Row, letter: str, target: str, reach: Row) -> str:
    """A category by mass, with the problems that were not examined or cannot be reached."""
    problems = pluralize(found["problems"], "problem")
    if not found["examined"]:
        return f"{letter}: none of {problems} was examined."
    smallest = format_mass(min(map(float, found["proven"])))
    by_mass = [
        f"{count:,} with a mass of {format_mass(float(mass))}" for mass, count in found["proven"].items() if count
    ]
    percent = f"{reach['confidence'] * 100:g}%"
    unproven = found["examined"] - max(found["proven"].values()) - found["unreachable"]
    rest = []
    if by_mass:
        what = f"{target} is proven to reach {join_names(by_mass)} or more ({percent} for all of these numbers)"
        if unproven:
            rest.append(f"for {unproven:,} no mass of {smallest} or more is proven, {NO_PROOF}")
    else:
        what = f"no mass of {smallest} or more is proven for {target} ({percent}), {NO_PROOF}"
        if largest := found["largest_certificate"]:
            rest.append(f"the largest certificate by itself is {format_mass(largest, 'down')} ({percent})")
    if number := found["unreachable"]:
        rest.append(
            f"on {number:,} every known correct completion is impossible for {target} at this temperature and top_p"
        )
    if max(found["proven"].values()) < found["examined"]:  # the smallest of the upper bounds holds for each
        possible = format_mass(found["smallest_upper"], "down")
        rest.append(f"samples alone leave masses up to {possible} possible on each ({percent})")
    if number := found["problems"] - found["examined"]:
        rest.append(f"{number:,} {'was' if number == 1 else 'were'} not examined")
    return f"{letter}: of {problems}, {what}{''.join(f'; {part}' for part in rest)}."


def _expected_sentence(reach: Row, base: str, trained: str) -> str:
    """The categories to expect with the largest number of samples, as far as both bounds of each mass tell."""
    k = max(reach["expected"], key=int)
    ranges = [
        f"{math.floor(10 * low) / 10:.1f} to {math.ceil(10 * high) / 10:.1f} {letter}"
        for letter, (low, high) in reach["expected"][k].items()
    ]
    if not ranges:
        return ""
    return (
        f"With {int(k):,} samples of {base} and of {trained} one would expect {join_names(ranges)} "
        f"(by all bounds together, {reach['confidence'] * 100:g}%)."
    )


def _unreachable_sentence(row: Row, target: str, settings: str) -> str:
    known, each = "the only known correct completion", "it"
    if row["completions"] > 1:
        known, each = f"any of the {row['completions']:,} known correct completions", "each of them"
    sentence = f"At these settings ({settings}), {target} can't write {known}: {each} has a token that is never drawn."
    if not row["untempered"]:
        return sentence
    whose = "its" if row["completions"] == 1 else "their"
    return f"{sentence} At temperature 1 and top_p 1 {whose} mass is {format_mass(row['untempered'])}."


def _amplification_sentence(row: Row, donor: str, percent: str) -> str:
    """How many times the target's mass the donor's is; a bound that is not known is not said."""
    value, low, high = (row[f"amplification{end}"] for end in ("", "_low", "_high"))
    if row["target"] == "rlvr":  # the amplification is the target's mass over the donor's
        value, low, high = (1 / each if each else None for each in (value, high, low))
    if low is None:
        return ""
    least = format_factor(low, "down")
    if value is None or high is None:
        return f"The mass of {donor} is at least {least} times as large ({percent})."
    ends = f"{least} to {format_factor(high, 'up')}, {percent}"
    return f"The mass of {donor} is {format_factor(value)} times as large ({ends})."


def _cut_sentence(row: Row) -> str:
    """Where the leash was cut: the token, and the shares of correct rollouts before and after it."""
    place, tokens = row["cut_token"], row["trace_tokens"]
    if place is None:
        return ""
    sentence = f"The leash was cut at token {place + 1:,} of {len(row['trace_nlls']):,}"
    if tokens:  # its text is on this machine
        token = tokens[place].strip() or tokens[place].replace("\n", "\\n")
        sentence += f", “{token}”"
    profile = list(zip(row["profile_depths"], row["profile_trials"], row["profile_hits"], strict=True))
    before = [f"{hits / trials:.1%}" for depth, trials, hits in profile if depth <= place and trials]
    after = [f"{hits / trials:.1%}" for depth, trials, hits in profile if depth > place and trials]
    # A trace that is cut at its first token was measured after it alone.
    ends = [(before[-1:], "before"), (after[:1], "after")]
    chances = [f"{share} of the rollouts that begin {where} it are correct" for found, where in ends for share in found]
    return f"{sentence}: {join_names(chances)}." if chances else f"{sentence}."


def _has_or_have(number: int) -> str:
    return "has" if number == 1 else "have"

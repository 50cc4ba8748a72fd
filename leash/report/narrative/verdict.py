"""The verdict on a group of problems: the headline, then certificates, format, noise and pass@1.

    verdict_sentences(analysis, "base", "rlvr")  ->  ["rlvr reaches fewer problems than base: of 120, ...", ...]

The first sentence is for people in a meeting. It claims "more" or "fewer" only if leash.statistics.decision decides so;
otherwise it says that the data can't tell, and why. Its verb depends on k: few samples show what a model solved, not
what it can reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from leash.formatting import format_count, format_number, format_signed_percent, join_names, pluralize
from leash.report.narrative.reachability import is_reach_measurable, reach_headline
from leash.statistics.decision import decide, has_comparable_floor, is_beyond_noise
from leash.statistics.endings import EndingComparison

Analysis = Mapping[str, Any]
Row = Mapping[str, Any]

TEST_NAMES = {
    "McNemar": "the exact McNemar test",
    "paired t": "the paired t test over problems",
    "sign flip": "the exact sign-flip test over clusters",
}
# No hit in k samples proves no loss.
CHANGE_PHRASES = {"gains": "new problems", "losses": "problems no longer seen"}
ENDING_PHRASES = {"no_answer": "gave no answer in", "truncated": "was cut off in"}


def verdict_sentences(
    analysis: Analysis | None, base: str, trained: str, endings: Sequence[EndingComparison] = ()
) -> list[str]:
    """The verdict on a group of problems: the headline, what certificates prove, format, noise, pass@1 and problems
    left out."""
    if not analysis:
        return [f"No result for {trained} and {base}: there is no problem."]
    if analysis["uncategorized"] == (problems := analysis["problems"]):
        which = f"none of {problems:,} problems has" if problems > 1 else "the only problem lacks"
        return [f"No result for {trained} and {base} yet: {which} enough samples of both."]
    sentences = [
        headline_sentence(analysis, base, trained),
        reach_headline(analysis, base, trained),
        ending_sentence(analysis, endings, base, trained),
        noise_sentence(analysis, base),
        pass_at_1_sentence(analysis, base, trained),
    ]
    if number := analysis["uncategorized"]:
        sentences.append(
            f"{pluralize(number, 'problem')} with fewer than k samples of a model {_was_or_were(number)} left out."
        )
    return [sentence for sentence in sentences if sentence]


def headline_sentence(analysis: Analysis, base: str, trained: str) -> str:
    """How many problems each model has alone, of how many, and the net change with its interval."""
    gained, lost, kept = (analysis["categories"][name] for name in "ESP")
    problems = analysis["problems"] - analysis["uncategorized"]
    k, epsilon, net = analysis["k"], analysis["epsilon"], analysis["NSCR"]
    setting = f"k = {format_number(k)}, ε = {format_number(epsilon)}"
    if (min(epsilon) if isinstance(epsilon, list) else epsilon) >= 1:
        return (
            f"No result for {trained} and {base} at {setting}: no share of samples can exceed this ε. "
            f"Set `categorize.epsilon` (or `--epsilon`) to 0."
        )

    if is_reach_measurable(k, analysis["confidence"]):
        verb, verbs, within = "reach", "reaches", ""
        change = (
            f"{_count_or_none(gained)} {_is_or_are(gained)} newly reached and {_count_or_none(lost)} "
            f"{_is_or_are(lost)} no longer seen"
        )
    else:
        each = "one sample each" if k == 1 else f"{format_number(k)} samples each"
        verb, verbs, within = "solve", "solves", f" in {each}"
        change = (
            f"{_count_or_none(gained)} {_is_or_are(gained)} solved by {trained} alone and "
            f"{_count_or_none(lost)} by {base} alone"
        )
    of_problems = pluralize(problems, "problem")
    if not gained + lost + kept:
        return f"Neither {trained} nor {base} {verbs} any of {of_problems}{within} ({setting})."
    decision = decide(analysis)
    if not gained + lost and decision.outcome == "undecided":
        return (
            f"{trained} and {base} {verb} the same {_count_or_none(kept)} of {of_problems}{within}: {change} "
            f"({setting}); the net may be anything from {_percent_range(net)}."
        )

    percent = f"{analysis['confidence'] * 100:g}%"
    claim, limit = _claim_and_limit(analysis, decision.outcome, base, trained, verbs, within)
    clusters = analysis["clusters"]
    over = f" over {pluralize(clusters['count'], 'cluster')}" if clusters else ""
    interval = "its interval is unknown" if net["low"] is None else f"{percent}{over}: {_percent_range(net)}"
    # If only one of the two criteria is met, say which: the reader may know only one of them.
    disagreement = ""
    test, several = TEST_NAMES[analysis["test"]["name"]], analysis["corrected_for"]
    if clusters:
        test = test.replace("problems", "clusters")
    p_value = f"p = {decision.p_value:.3g}" + (f" after correcting for {several} comparisons" if several > 1 else "")
    if decision.interval_excludes_zero and not decision.test_rejects:
        disagreement = f"; the interval excludes 0, but {test} does not agree ({p_value})"
    elif decision.test_rejects and not decision.interval_excludes_zero and net["low"] is not None:
        disagreement = f"; {test} sees a change ({p_value}), but the interval includes 0"
    if decision.outcome == "undecided" and _too_few_clusters(analysis):
        disagreement = ""
        changed = pluralize(clusters["changed"], "cluster")
        limit = f"; only {changed} changed, too few to decide ({p_value})"
    elif disagreement and decision.outcome == "undecided":
        limit = ""  # one reason is enough for a sentence
    return (
        f"{claim}: of {problems:,}, {change} ({setting}), net {format_signed_percent(net['value'])} of those either "
        f"{verbs} ({interval}){disagreement}{limit}."
    )


def _too_few_clusters(analysis: Analysis) -> bool:
    """Whether too few clusters changed for any net change to be significant."""
    clusters = analysis["clusters"]
    return bool(clusters and clusters["changed"] is not None and analysis["test"]["smallest_change"] is None)


def _claim_and_limit(
    analysis: Analysis, outcome: str, base: str, trained: str, verbs: str, within: str
) -> tuple[str, str]:
    """What is decided, and how large a change may hide behind "can't tell" or "as many"."""
    if outcome == "undecided":
        claim = f"The data can't tell whether {trained} {verbs} more problems than {base}{within}"
        smallest = analysis["test"]["smallest_change"]
        if smallest is None:
            return claim, "; no net change could have shown"
        return claim, f"; a net change of {smallest:.1%} of the problems would have shown"
    if outcome == "equivalent":
        claim = (
            f"{trained} {verbs} as many problems as {base}{within}, give or take "
            f"{analysis['equivalence']['margin'] * 100:g}% of them"
        )
        retained = analysis["SRR"]["low"]
        if retained is None:
            return claim, ""
        percent = f"{analysis['confidence'] * 100:g}%"
        return claim, f"; at most {1 - retained:.1%} of what {base} {verbs} is no longer seen ({percent})"
    return f"{trained} {verbs} {outcome} problems than {base}{within}", ""


def ending_sentence(analysis: Analysis, endings: Sequence[EndingComparison], base: str, trained: str) -> str:
    """A warning if one model's completions end without an answer, or cut off, more often than the other's."""
    differing = [ending for ending in endings if ending.differs(analysis["confidence"])]
    if not differing:
        return ""
    shares = "; ".join(
        f"{base} {ENDING_PHRASES[ending.status]} {ending.base:.0%} of its completions, {trained} in {ending.rlvr:.0%}"
        for ending in differing
    )
    # Format explains a difference only if the model that lacks answers is the one that lacks problems.
    net = analysis["categories"]["E"] - analysis["categories"]["S"]
    explains = any((ending.base - ending.rlvr) * net > 0 for ending in differing)
    return f"{'Part of this may be format' if explains else 'Format differs, too'}: {shares}."


def noise_sentence(analysis: Analysis, base: str) -> str:
    """Which of E and S are more than luck explains, by the exact test at all samples, beside the noise floor,
    which is known at half of the samples only."""
    floor, noise = analysis["noise_floor"], analysis["noise"]
    kinds: tuple[tuple[Literal["gains", "losses"], str], ...] = (("gains", "E"), ("losses", "S"))
    present = [what for what, category in kinds if analysis["categories"][category]]
    if not present:
        return ""
    if floor["k"] is None:
        return (
            "One sample per problem gives no noise floor: it cannot show how much of this is luck, nor what either "
            "model solves in more samples."
        )
    if noise["gains_p"] is None:
        changes = join_names([CHANGE_PHRASES[what] for what in present])
        return f"The data can't tell how many {changes} luck alone would give: sampling stopped early."
    p_values = {what: noise[f"{what}_p_adjusted"] for what in present}
    shown = {
        what: f"{CHANGE_PHRASES[what]} (p {'< 0.001' if p < 0.001 else f'= {p:.2g}'})" for what, p in p_values.items()
    }
    beyond = [shown[what] for what in present if is_beyond_noise(analysis, what)]
    unclear = [shown[what] for what in present if not is_beyond_noise(analysis, what)]
    if not beyond:
        claim = f"Luck alone may explain the {join_names(unclear)}"
    else:
        claim = f"The {join_names(beyond)} are more than noise"
        claim += f"; luck alone may explain the {join_names(unclear)}" if unclear else ""
    if not has_comparable_floor(floor):
        return f"{claim}."
    return (
        f"{claim}: with {format_number(floor['k'])} samples, E is {floor['pair']['E']:.1f} and S is "
        f"{floor['pair']['S']:.1f}, where {base} against itself gives {floor['base']['E']:.1f} for each."
    )


def pass_at_1_sentence(analysis: Analysis, base: str, trained: str) -> str:
    """pass@1 of both models; empty if an early stop left it unknown."""
    difference = analysis["difference"].get("1", {"value": None})
    before, after = (analysis["pass_at_k"][role].get("1", {"value": None})["value"] for role in ("base", "rlvr"))
    if None in (difference["value"], before, after):
        return ""
    if analysis["k"] == 1:  # at k = 1 the headline has made the claim already
        return f"pass@1 is {before:.3f} for {base} and {after:.3f} for {trained}."
    change = f"pass@1 {before:.3f} → {after:.3f}"
    if difference["low"] is None or difference["low"] <= 0 <= difference["high"]:
        return f"The data can't tell whether {trained} is right more often on the first try ({change})."
    return f"On the first try {trained} is right {'more' if difference['value'] > 0 else 'less'} often ({change})."


def _count_or_none(number: float) -> str:
    return format_count(number) if number else "none"


def _is_or_are(number: float) -> str:
    return "is" if number in (0, 1) else "are"


def _was_or_were(number: float) -> str:
    return "was" if number in (0, 1) else "were"


def _percent_range(estimate: Row) -> str:
    return f"{format_signed_percent(estimate['low'])} to {format_signed_percent(estimate['high'])}"

"""Format or capability, and was the reasoning right? Sentences on the controls of a group of problems.

    format_sentences(analysis, "base", "rlvr", "strict")   what changes if an answer counts in any form
    reasoning_sentences(analysis, "base", "rlvr")          what changes if only hits with right working count

In: the keys `controls` and `working` of an analysis (stages/categorize/controls.py), and `judged` if a judge was asked.
The decision of a control is its own test at the run's k and epsilon. Nothing is claimed about problems without a
category under a control: sampling that stopped early stopped by the run's own reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leash.formatting import join_names, pluralize
from leash.report.narrative.reachability import is_reach_measurable
from leash.report.narrative.verdict import headline_sentence

Analysis = Mapping[str, Any]
Moves = Mapping[str, int]

# Above this share of hits without a checked working, the view `sound` gets a caution.
MAX_UNJUDGED = 0.1
# What counts as a hit, in a sentence and as the name of a row.
CONTROL_PHRASES = {
    "strict": "By strict reading",
    "lenient": "By lenient reading",
    "sound": "Counting only hits with sound working",
    "unrefuted": "Counting all hits but those whose working has an error",
}
CONTROL_LABELS = {
    "strict": "strict: answer as asked for",
    "lenient": "lenient: answer in any form",
    "sound": "sound: checked working, no error",
    "unrefuted": "unrefuted: no wrong working",
}


def format_sentences(analysis: Analysis, base: str, trained: str, reading: str) -> list[str]:
    """How many expansions and shrinkages are a matter of form, whether the decision depends on the reading, and what
    strict reading does not see. `reading` is the run's own."""
    strict, lenient = (analysis["controls"][name] for name in ("strict", "lenient"))
    other = lenient if reading == "strict" else strict
    compared = other["problems"] - other["uncategorized"]
    sentences = [_uncategorized_sentence(other, "lenient" if reading == "strict" else "strict", reading)]
    if compared:
        moves = _strict_to_lenient(analysis, reading)
        sentences.append(_form_sentence(strict, moves, lenient["guessed_moves"], base, trained))
        sentences.append(_added_sentence(moves, base, trained))
        if not moves:
            which = "all" if not other["uncategorized"] else "the"
            sentences.append(
                f"No category depends on the form of the answer: strict and lenient reading agree on {which} "
                f"{pluralize(compared, 'problem')}."
            )
        sentences.append(_decisions_sentence(analysis, ("strict", "lenient"), base, trained))
    sentences.append(_unseen_sentence(analysis["working"], base, trained))
    return [sentence for sentence in sentences if sentence]


def reasoning_sentences(analysis: Analysis, base: str, trained: str) -> list[str]:
    """What the working of the hits is like, what the categories are if only right working counts, what can't be judged,
    and what a judge says."""
    models = {"base": base, "rlvr": trained}
    working = {role: _complete_working(analysis["working"][role]) for role in models}
    judged = judged_sentences(analysis)
    if not any(counts["hits"] for counts in working.values()):
        return judged
    shares = [_working_sentence(working[role], model) for role, model in models.items() if working[role]["hits"]]
    if not any(counts["sound"] + counts["unsound"] for counts in working.values()):
        return [
            "Leash can't judge the reasoning: no hit of either model shows working that it can check.",
            *shares,
            *judged,
        ]
    sound = analysis["controls"]["sound"]
    sentences = [_uncategorized_sentence(sound, "sound", None)]
    if sound["problems"] > sound["uncategorized"]:
        sentences.append(_instead_sentence(analysis, "sound"))
        sentences.append(_decisions_sentence(analysis, ("answer", "sound"), base, trained))
    sentences += [*shares, _unjudged_sentence(analysis, working, base, trained), *judged]
    return [sentence for sentence in sentences if sentence]


def control_headline(analysis: Analysis, control: str, base: str, trained: str) -> str:
    """The headline by a control, for the page's map: its own counts, interval and decision."""
    found = analysis["controls"][control]
    if found["uncategorized"] == found["problems"]:
        why = "sampling stopped early by the run's own reading, or samples are missing"
        return f"{CONTROL_PHRASES[control]}, no problem has a category: {why}."
    # How many clusters changed is known for the run's own reading alone.
    clusters = analysis["clusters"] and {**analysis["clusters"], "changed": None}
    headline = f"{CONTROL_PHRASES[control]}: {headline_sentence({**found, 'clusters': clusters}, base, trained)}"
    bound = analysis["controls"]["unrefuted"]
    if control == "sound" and bound["decision"] != found["decision"]:
        headline += f" With the hits whose working can't be checked, {_decided(bound, base, trained)}."
    return headline


def judged_sentences(analysis: Analysis) -> list[str]:
    """What a judge says of the working, corrected for its own errors, or why that is refused."""
    judged = analysis.get("judged")
    if not judged:
        return []
    quality = _judge_quality(judged)
    number, hits = (sum(judged[name].values()) for name in ("asked", "hits"))
    asked = f"{judged['judge']} judged {number:,} of {pluralize(hits, 'hit')} with working"
    votes = f" ({judged['rule']} of {judged['votes']} votes)" if judged["votes"] > 1 else ""
    if judged["refused"]:
        return [f"{asked}{votes}; nothing is concluded from it: {judged['refused'].rstrip('.')}.{quality}"]
    known = {letter: found for letter, found in (judged["categories"] or {}).items() if found["value"] is not None}
    numbers = [f"{letter} {_estimate(known[letter])}" for letter in "PESO" if letter in known]
    corrected = f": corrected for its errors, {', '.join(numbers)}" if numbers else ""
    return [f"{asked}{votes}{corrected}.{quality}"]


def _judge_quality(judged: Analysis) -> str:
    """The judge's sensitivity and specificity, which may differ between the models."""
    parts = []
    for name, what in (("sensitivity", "right working right"), ("specificity", "planted errors wrong")):
        shown = [f"{rate['value']:.0%} ({role})" for role, rate in judged[name].items() if rate is not None]
        if shown:
            parts.append(f"calls {join_names(shown)} of the {what} ({name})")
    return f" It {join_names(parts)}." if parts else ""


def _estimate(estimate: Mapping[str, Any]) -> str:
    ends = "" if estimate["low"] is None else f" ({estimate['low']:.1f} to {estimate['high']:.1f})"
    return f"{estimate['value']:.1f}{ends}"


def _strict_to_lenient(analysis: Analysis, reading: str) -> dict[str, int]:
    """The moves from strict to lenient reading: {"EP": 5} are five expansions that lenient reading preserves. The moves
    of an analysis begin at the run's own reading."""
    if reading == "strict":
        return dict(analysis["controls"]["lenient"]["moves"])
    return {move[::-1]: number for move, number in analysis["controls"]["strict"]["moves"].items()}


def _form_sentence(strict: Analysis, moves: Moves, guessed: Moves, base: str, trained: str) -> str:
    """How many expansions and shrinkages of strict reading are reached by both models in some form."""
    kinds = (("EP", "E", "expansion", base), ("SP", "S", "shrinkage", trained))
    parts = []
    for move, letter, noun, model in kinds:
        if number := moves.get(move, 0):
            total = strict["categories"][letter]
            which = f"{number:,} of {pluralize(total, noun)} {_is_or_are(number)}"
            if number == total:
                which = f"the only {noun} is" if total == 1 else f"all {pluralize(total, noun)} are"
            part = f"{which} format alone: {model} had the right answer in another form"
            if unproven := guessed.get(move, 0):
                part += f" (on {unproven:,} of them in no more samples than a guesser might)"
            parts.append(part)
    return f"Format: {'; '.join(parts)}." if parts else ""


def _added_sentence(moves: Moves, base: str, trained: str) -> str:
    """The moves that are no expansion or shrinkage explained by form."""
    rest = {move: number for move, number in moves.items() if move not in ("EP", "SP") and number}
    if not rest:
        return ""
    alone = {"OE": f"{trained} alone", "OS": f"{base} alone", "OP": "both models"}
    parts = [f"{number:,} that {alone[move]} then reach" for move, number in rest.items() if move in alone]
    parts = [part if " both " in part else f"{part}es" for part in parts]
    parts += [
        f"{number:,} that {_is_or_are(number)} {move[1]} instead of {move[0]}"
        for move, number in rest.items()
        if move not in alone
    ]
    return f"Lenient reading changes {pluralize(sum(rest.values()), 'more problem')}: {join_names(parts)}."


def _uncategorized_sentence(found: Analysis, control: str, reading: str | None) -> str:
    """Problems without a category under a control alone."""
    number, problems = found["uncategorized"], found["problems"]
    if not number:
        return ""
    have = "has" if number == 1 else "have"
    which = f"{number:,} of {pluralize(problems, 'problem')} {have} no category"
    if number == problems:
        which = "No problem has a category"
    by = f"{control} reading" if reading else "sound working"
    stopped = f"by {reading} reading" if reading else "by the run's own reading"
    return f"{which} by {by}: sampling stopped early {stopped}, or samples are missing."


def _decisions_sentence(analysis: Analysis, views: tuple[str, str], base: str, trained: str) -> str:
    """What each of two views decides by its own test: "answer" is the run's own."""
    first, second = (analysis if view == "answer" else analysis["controls"][view] for view in views)
    words = {"answer": "By the answer alone", **CONTROL_PHRASES}
    claims = [_decided(found, base, trained) for found in (first, second)]
    if first["decision"] == second["decision"]:
        return f"The decision is the same in both views: {claims[0]}."
    begin, *rest = (words[view] for view in views)
    return f"{begin} {claims[0]}; {rest[0][0].lower()}{rest[0][1:]}{',' if views[1] == 'sound' else ''} {claims[1]}."


def _decided(found: Analysis, base: str, trained: str) -> str:
    verbs = "reaches" if is_reach_measurable(found["k"], found["confidence"]) else "solves"
    return {
        "more": f"{trained} {verbs} more problems than {base}",
        "fewer": f"{trained} {verbs} fewer problems than {base}",
        "equivalent": f"{trained} {verbs} as many problems as {base}",
        "undecided": f"the data can't tell whether {trained} {verbs} more problems than {base}",
    }[found["decision"]]


def _unseen_sentence(working: Analysis, base: str, trained: str) -> str:
    """The share of right answers, in any form, that strict reading does not see."""
    models = [(model, working[role]) for role, model in (("base", base), ("rlvr", trained)) if working[role]["lenient"]]
    # The share is unknown if sampling stopped by hits.
    if not models or any(counts["unseen_share"] is None for _, counts in models):
        return ""
    if not any(counts["unseen_share"] for _, counts in models):
        return f"Strict reading sees every right answer of {join_names([model for model, _ in models])}."
    parts = [
        f"{_percent(counts['unseen_share'])} of those of {model} "
        f"({counts['lenient'] - counts['strict']:,} of {counts['lenient']:,})"
        for model, counts in models
    ]
    return f"Of the right answers in any form, strict reading does not see {join_names(parts)}."


def _complete_working(counts: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of hits by their working. A hit whose working nobody looked at is not checked."""
    seen = sum(counts[name] for name in ("sound", "unsound", "direct"))
    return {**counts, "unchecked": counts["hits"] - seen}


def _working_sentence(counts: Mapping[str, Any], model: str) -> str:
    hits = counts["hits"]
    kinds = {
        "sound": "have working without a visible error",  # an error that no checker sees may be in it
        "unsound": "wrong working",
        "direct": "none",
        "unchecked": "working that can't be checked",
    }
    parts = [f"{_percent(counts[name] / hits)} {words}" for name, words in kinds.items() if counts[name]]
    if not counts["sound"]:
        parts[0] = parts[0].replace(" ", " have ", 1).replace("have none", "show no working")
    return f"Of the {pluralize(hits, 'hit')} of {model}, {join_names(parts)}."


def _instead_sentence(analysis: Analysis, control: str) -> str:
    """The categories by a control beside the run's own."""
    ours, theirs = analysis["categories"], analysis["controls"][control]["categories"]
    if not analysis["controls"][control]["moves"] and ours == theirs:
        return f"{CONTROL_PHRASES[control]}, every category is the same (P/E/S/O {_letters(ours)})."
    changed = [
        f"{_count_or_no(theirs[letter])} {words} instead of {ours[letter] or 'none'}"
        for letter, words in (
            ("E", "expansions"),
            ("S", "shrinkages"),
            ("P", "problems of both models"),
            ("O", "of neither"),
        )
        if theirs[letter] != ours[letter]
    ]
    if not changed:
        return f"{CONTROL_PHRASES[control]}, problems change places, but P/E/S/O stay {_letters(ours)}."
    uncategorized = analysis["controls"][control]["uncategorized"]
    left = f", {pluralize(uncategorized, 'problem')} left out" if uncategorized else ""
    return (
        f"{CONTROL_PHRASES[control]}, there are {join_names(changed)} (P/E/S/O {_letters(theirs)} instead of "
        f"{_letters(ours)}{left})."
    )


def _unjudged_sentence(analysis: Analysis, working: Mapping[str, Any], base: str, trained: str) -> str:
    """A caution if many hits show no working that was checked, with the other bound: all of them counted."""
    parts, shares, direct = [], {}, {}
    for role, model in (("base", base), ("rlvr", trained)):
        counts = working[role]
        if not counts["hits"]:
            continue
        shares[model] = (counts["direct"] + counts["unchecked"]) / counts["hits"]
        direct[model] = counts["direct"] / counts["hits"]
        if shares[model] > MAX_UNJUDGED:
            kinds = [("direct", "show no working"), ("unchecked", "show working that can't be checked")]
            shown = join_names([f"{counts[name]:,} {words}" for name, words in kinds if counts[name]])
            parts.append(f"of the {pluralize(counts['hits'], 'hit')} of {model}, {shown}")
    if not parts:
        return ""
    favours = ""
    if len(shares) == 2 and abs(shares[base] - shares[trained]) > MAX_UNJUDGED:
        less, more = sorted(shares, key=lambda model: shares[model])
        # Working that can't be checked is shown all the same.
        is_shown = direct[more] - direct[less] > MAX_UNJUDGED
        why = "which shows its working" if is_shown else "whose working can be checked"
        favours = f", and it favours {less}, {why} more often than {more if is_shown else f'that of {more}'}"
    unrefuted = analysis["controls"]["unrefuted"]
    other = ""
    if unrefuted["problems"] > unrefuted["uncategorized"]:
        other = (
            f" Counting them, too, gives the other bound: P/E/S/O {_letters(unrefuted['categories'])}; there "
            f"{_decided(unrefuted, base, trained)}."
        )
        if unrefuted["decision"] != analysis["controls"]["sound"]["decision"]:
            other += " The two bounds decide differently, so the working does not settle it."
    sentence = f"{'; '.join(parts)}: this view can't credit them{favours}."
    return f"Caution: {sentence}{other}"


def _letters(categories: Mapping[str, Any]) -> str:
    return "/".join(f"{categories[letter]:,}" for letter in "PESO")


def _percent(share: float) -> str:
    """A share with one decimal; never "0.0%" for some, nor "100.0%" for not all."""
    if share == 0:
        return "0%"
    if share < 0.0005:
        return "under 0.1%"
    if 0.9995 <= share < 1:
        return "over 99.9%"
    return f"{share:.1%}"


def _count_or_no(number: int) -> str:
    return f"{number:,}" if number else "no"


def _is_or_are(number: int) -> str:
    return "is" if number == 1 else "are"

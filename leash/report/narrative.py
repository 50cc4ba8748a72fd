"""Every English sentence that Leash writes about results.

In:  the dictionary that leash/statistics/analysis.py builds (docs/compare.md lists its keys), or a row of a table.
Out: strings. `leash compare`, the report, its page and metrics.json all call these functions.

    verdict_sentences(analysis, "base", "rlvr")  ->  ["rlvr reaches fewer problems than base: of 120, ...", ...]

The first sentence of a verdict is for people in a meeting. It claims "more" or "fewer" only if
leash.statistics.decision decides so; otherwise it says that the data can't tell, and why. Its verb depends on k: few
samples show what a model solved, not what it can reach.

Not here: captions of figures and tables, and error messages. This module decides nothing and must stay light:
importing it loads neither matplotlib nor DuckDB nor torch nor pyarrow (tests/unit/test_imports.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from leash.formatting import format_count, format_number, format_signed_percent, format_value, join_names, pluralize
from leash.statistics.bootstrap_weights import Estimate
from leash.statistics.decision import decide, has_comparable_floor, is_beyond_noise
from leash.statistics.endings import EndingComparison
from leash.statistics.sharpening_test import MIN_EXPECTED_COUNT
from leash.statistics.support import detectable_mass, smallest_identified

Analysis = Mapping[str, Any]
Row = Mapping[str, Any]

# "Reaches" needs a k at which a model without a hit has at most this mass, at the run's confidence.
MAX_HIDDEN_MASS = 0.1
MAX_NAMED_PROBLEMS = 8
SUMMARY_RATIOS = ("SRR", "NDR", "NSCR")
TEST_NAMES = {
    "McNemar": "the exact McNemar test",
    "paired t": "the paired t test over problems",
    "sign flip": "the exact sign-flip test over clusters",
}
ENDING_PHRASES = {"no_answer": "gave no answer in", "truncated": "was cut off in"}
CATEGORY_PHRASES = {"S": "that only {base} solves", "O": "that neither solves", "E": "that only {rlvr} solves"}
DIVERGENCE_PHRASES = {
    1: "on average they diverge: tokens became less certain and answers less varied",
    -1: "on average they diverge: tokens became more certain and answers more varied",
}
CORRELATION_PHRASES = {
    1: "problem by problem the changes are positively correlated",
    0: "problem by problem no correlation is visible",
    -1: "problem by problem the changes are negatively correlated",
}


# ---- the verdict -----------------------------------------------------------------------------------------------------


def verdict_sentences(
    analysis: Analysis | None, base: str, trained: str, endings: Sequence[EndingComparison] = ()
) -> list[str]:
    """The verdict on a group of problems: the headline, then format, noise, pass@1 and problems left out."""
    if not analysis:
        return [f"No result for {trained} and {base}: there is no problem."]
    if analysis["uncategorized"] == (problems := analysis["problems"]):
        which = f"none of {problems:,} problems has" if problems > 1 else "the only problem lacks"
        return [f"No result for {trained} and {base} yet: {which} enough samples of both."]
    sentences = [
        headline_sentence(analysis, base, trained),
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
    """Which of gains and losses are more than luck explains, by the exact test at all samples, beside the noise floor,
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
        return f"The data can't tell how many {join_names(present)} luck alone would give: sampling stopped early."
    p_values = {what: noise[f"{what}_p_adjusted"] for what in present}
    shown = {what: f"{what} (p {'< 0.001' if p < 0.001 else f'= {p:.2g}'})" for what, p in p_values.items()}
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


def is_reach_measurable(k: int | list[int], confidence: float) -> bool:
    """Whether k samples (the smallest k of several data sets) show what a model can reach.

    No hit in k leaves any mass up to -ln(1 - confidence)/k possible, which must be small: k is 30 or more at 95%.
    """
    return detectable_mass(min(k) if isinstance(k, list) else k, confidence) <= MAX_HIDDEN_MASS


def _count_or_none(number: float) -> str:
    return format_count(number) if number else "none"


def _is_or_are(number: float) -> str:
    return "is" if number in (0, 1) else "are"


def _was_or_were(number: float) -> str:
    return "was" if number in (0, 1) else "were"


def _percent_range(estimate: Row) -> str:
    return f"{format_signed_percent(estimate['low'])} to {format_signed_percent(estimate['high'])}"


# ---- uncertainty, sharpening and crossing ----------------------------------------------------------------------------


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
    """Which problems depart from one uniform sharpening, and whose hits guessing explains."""
    tilt, guessing = analysis["tilt"], analysis["guess_floor"]
    if tilt["odds_ratio"] is None:
        return []
    lists = {
        "Gained more than one uniform sharpening gives": tilt["above"],
        "Gained less than it, or fell": tilt["below"],
        "Hits of the base that guessing explains": guessing["base"]["not_above"],
        "Hits of the trained model that guessing explains": guessing["rlvr"]["not_above"],
    }
    sentences = []
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


# ---- the other measures ----------------------------------------------------------------------------------------------


def style_sentence(row: Row, base: str, rlvr: str) -> str:
    """A row of the table `style`: by how much log-perplexity changed beyond a change of style."""
    category = CATEGORY_PHRASES[row["category"]].format(base=base, rlvr=rlvr)
    changes = (row["change"], row["control"])
    change, control = (f"{'rose' if value >= 0 else 'fell'} by {abs(value):.3f}" for value in changes)
    sentence = (
        f"{row['pair']}, traces of {row['source']}: log-perplexity per {row['per']} {change} on the "
        f"{pluralize(row['problems'], 'problem')} {category} and {control} on the "
        f"{pluralize(row['control_problems'], 'problem')} that both solve; beyond style that is "
        f"{row['beyond_style']:+.3f}"
    )
    low, high = row["beyond_style_low"], row["beyond_style_high"]
    if low is None:
        return f"{sentence}, from too few problems to say how surely."
    sentence += f" [{low:+.3f}, {high:+.3f}]"
    if low > 0:
        return f"{sentence}: these solutions have become stranger to {rlvr} than style explains."
    if high < 0:
        return f"{sentence}: these solutions have become more familiar to {rlvr} than style explains."
    return f"{sentence}: no more than a change of style, as far as these problems can tell."


def ever_reached_sentence(row: Row) -> str:
    """A row of the table `ever_reached`: how many problems any checkpoint of a training reached, beside what the base
    reaches with as many samples."""
    if row["ever_reached"] is None:
        return f"What the {row['training']} training of {row['base']} ever reached is unknown: samples are missing."
    many = row["base_at_total_k"]
    by_base = (
        "can't be compared: it has too few samples, or ε is above 0"
        if many is None
        else f"reaches {format_count(many)}"
    )
    return (
        f"At least one of the {row['checkpoints']} checkpoints of the {row['training']} training reached "
        f"{row['ever_reached']:,} of {pluralize(row['problems'], 'problem')} ({row['k']:,} samples each): the last one "
        f"{row['reached']:,}, only earlier ones {row['only_before']:,}. With as many samples as all of them together "
        f"({row['total_k']:,}), {row['base']} {by_base}."
    )


def decoupling_sentence(row: Row) -> str:
    """A row of the table `decoupling`: how token and answer entropy changed, and whether they changed together.

    It claims a change only if the interval is on one side of 0.
    """
    token, answer = _estimate_from_row(row, "token_entropy"), _estimate_from_row(row, "answer_entropy_mm")
    scope = row["pair"] if row["dataset"] == "all" else f"{row['pair']} on {row['dataset']}"
    if 0 < row["compared"] < row["problems"]:
        scope += f", by {row['compared']} of {row['problems']} problems"
    if answer.value is None:
        return f"{scope}: answer entropy is not measured, because no problem has enough samples of both models."
    if token.value is None:
        return f"{scope}: token entropy is not measured; answer entropy {_describe_change(answer, ' nats')}."
    if token.sign * answer.sign == 0:
        relation = "the data can't tell whether they move together on average"
    elif token.sign == answer.sign:
        relation = "on average they move together"
    else:
        relation = DIVERGENCE_PHRASES[token.sign]
    return (
        f"{scope}: token entropy {_describe_change(token, ' nats')} while answer entropy {_describe_change(answer)}: "
        f"{relation}; {_describe_correlation(row)}."
    )


def _describe_change(change: Estimate, unit: str = "") -> str:
    if change.low is None or change.high is None:
        return f"moved by {change.value:+.3g}{unit} (of one problem, so without an interval)"
    if change.sign == 0 and change.low == change.high:
        return "stayed as it was"
    if change.sign == 0:
        return f"moved by {change.value:+.3g}{unit} [{change.low:+.3g}, {change.high:+.3g}] (perhaps not at all)"
    low, high = sorted((abs(change.low), abs(change.high)))
    return f"{'rose' if change.sign > 0 else 'fell'} by {abs(change.value or 0):.3g}{unit} [{low:.3g}, {high:.3g}]"


def _describe_correlation(row: Row) -> str:
    rank = _estimate_from_row(row, "spearman")
    over = f"over {pluralize(row['compared'], 'problem')}"
    if rank.value is None:
        return f"problem by problem there is nothing to correlate ({over})"
    if rank.low is None or rank.high is None:
        return f"problem by problem they are too few to tell (Spearman {rank.value:.3g} {over})"
    return f"{CORRELATION_PHRASES[rank.sign]} (Spearman {rank.value:.3g} [{rank.low:.3g}, {rank.high:.3g}] {over})"


def _estimate_from_row(row: Row, name: str) -> Estimate:
    return Estimate(*(row[f"{name}{end}"] for end in ("", "_low", "_high")))


def decisive_hits_sentence(categories: int, completions: int, disagreeing: int, max_hits: int) -> str:
    """How many categories depend on at most `max_hits` hits, and how often the second check disagrees with them."""
    return (
        f"{categories:,} categories depend on {max_hits} hits or fewer, {completions:,} completions in all; the second "
        f"check disagrees with the grader on {disagreeing:,} of them."
    )


def decisive_hit_reason(hit: Row) -> str:
    """Why a hit is decisive: "O without the 2 hits of rlvr"."""
    hits, needed = hit["hits"], hit["hangs_on"]
    which = f"{needed} of the {hits} hits" if hits > needed else f"the {hits} hits" if hits > 1 else "the only hit"
    return f"{hit['otherwise']} without {which} of {hit['model']}"

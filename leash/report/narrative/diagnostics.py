"""Style, entropy, the training trajectory and decisive hits: sentences on rows of the report's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leash.formatting import format_count, pluralize
from leash.statistics.answer_entropy import MAX_UNSEEN, identified_direction, is_mostly_unseen
from leash.statistics.bootstrap_weights import Estimate
from leash.statistics.style import MAX_MASS_RATIO, MIN_EFFECT

Row = Mapping[str, Any]

CATEGORY_PHRASES = {"S": "that only {base} solves", "O": "that neither solves", "E": "that only {rlvr} solves"}
# Why the change beyond style could not be measured, or why nothing is claimed about it (leash/statistics/style.py).
UNMEASURED_STYLE_PHRASES = {
    "tokenizers": "the two models tokenize differently, so this can't be told from a change of style",
    "no entropies": "vLLM gives no entropies, so this can't be told from a change of style; set `perplexity.engine` to "
    "torch",
    "few controls": "too few problems (or clusters) of the same data sets are solved by both models with masses that "
    "may be the same, so this can't be told from a change of style",
    "few problems": "these traces can't determine what a change of style would do",
}
WITHHELD_STYLE_PHRASES = {
    "few problems": "too few problems for an interval",
    "interval": "a change of style may explain all of it",
    "small": f"below {MIN_EFFECT} nats, the least that is claimed",
}


def style_sentence(row: Row, base: str, rlvr: str) -> str:
    """A row of the table `style`: how much less likely solutions became, and what of that is more than style."""
    category = CATEGORY_PHRASES[row["category"]].format(base=base, rlvr=rlvr)
    start = f"{row['pair']}, traces of {row['source']}: log-perplexity per {row['per']} {_rose_or_fell(row['change'])}"
    asked = f"on the {pluralize(row['problems'], 'problem')} {category}"
    if row["beyond_style"] is None:
        return f"{start} {asked}; {UNMEASURED_STYLE_PHRASES[row['withheld']]}."
    left_out = row["left_out"]
    if left_out:
        asked += f" ({left_out} more {_is_or_are(left_out)} in data sets with too few problems to compare with)"
    beyond = row["out_of_range"]
    out_of_range = f" ({beyond:.0%} of the tokens are too surprising to compare)" if beyond >= 0.01 else ""
    sentence = (
        f"{start} {asked} and {_rose_or_fell(row['control'])} on the "
        f"{pluralize(row['control_problems'], 'problem')} of the same data sets that both solve, with masses that may "
        f"differ by less than a factor of {MAX_MASS_RATIO:g}. Given how sure {base} was of each token, "
        f"{_signed_interval(row, 'beyond_style')} is left{out_of_range}"
    )
    if row["withheld"] == "length" and row["beyond_length"] is None:
        return (
            f"{sentence}, but the traces have other lengths than all that they are compared with: nothing is claimed."
        )
    if row["withheld"] in ("length", "order"):
        control = f"beyond_{row['withheld']}"
        what = "length of the traces" if row["withheld"] == "length" else "order of their sentences"
        disagrees = f"the control for the {what} does not agree ({_signed_interval(row, control)})"
        return f"{sentence}, but {disagrees}: nothing is claimed."
    if row["withheld"]:
        return f"{sentence}: {WITHHELD_STYLE_PHRASES[row['withheld']]}."
    controls = "length and order agree" if row["beyond_order"] is not None else "length agrees, order can't be tested"
    return (
        f"{sentence}, more than a change of style ({controls}): these solutions have become {row['claim']} to {rlvr}. "
        f"A new wording that moves rare tokens would look the same: to {base} the mean surprise of these traces was "
        f"{row['surprise']:.2f} nats per token, that of the compared ones {row['control_surprise']:.2f}."
    )


def _rose_or_fell(change: float) -> str:
    return f"{'rose' if change >= 0 else 'fell'} by {abs(change):.3f}"


def _is_or_are(number: int) -> str:
    return "is" if number == 1 else "are"


def _signed_interval(row: Row, name: str) -> str:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:+.3f}" + ("" if low is None else f" [{low:+.3f}, {high:+.3f}]")


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
    """A row of the table `decoupling`: how token and answer entropy changed on a data set.

    It claims a direction only if both intervals are on one side of 0 and unseen answers can't turn it.
    """
    token, answer = _estimate_from_row(row, "token_entropy"), _estimate_from_row(row, "answer_entropy_adjusted_all")
    scope = row["pair"] if row["dataset"] == "all" else f"{row['pair']} on {row['dataset']}"
    if 0 < row["compared"] < row["problems"]:
        scope += f", by {row['compared']} of {row['problems']} problems"
    if answer.value is None:
        why = "no problem has enough samples of both models"
        if row["compared"]:
            why = "a problem lacks samples that the others have"
        return f"{scope}: answer entropy is not measured, because {why}."
    # Data sets may differ in their number of samples.
    most = row["common_samples_most"]
    samples = f"{row['common_samples']:,}" + (f" to {most:,}" if most != row["common_samples"] else "")
    unseen = [row["base_unseen_all"], row["rlvr_unseen_all"]]
    turned = answer.sign != identified_direction(answer, *unseen)
    # A number whose sign may be wrong is not called a rise or a fall.
    answers = f"answer entropy {_describe_change(answer)}"
    if turned or is_mostly_unseen(unseen):
        answers = f"the estimate of answer entropy {_describe_number(answer)}"
    answers += f" (Chao–Jost, of {samples} samples per problem)"
    left_open = _describe_unseen(row, samples, turned)
    if token.value is None:
        return f"{scope}: token entropy is not measured; {answers}.{left_open}"
    return (
        f"{scope}: token entropy {_describe_change(token)} (of {row['samples']:,} samples per problem) and {answers}: "
        f"{row['relation']}.{_describe_parts(row) if token.sign else ''}{left_open}"
    )


def _describe_change(change: Estimate) -> str:
    if change.low is None or change.high is None:
        return f"moved by {change.value:+.3g} nats on one problem, so without an interval"
    if change.sign == 0 and change.low == change.high:
        return "stayed as it was"
    if change.sign == 0:
        return f"moved by {change.value:+.3g} nats [{change.low:+.3g}, {change.high:+.3g}], perhaps not at all"
    low, high = sorted((abs(change.low), abs(change.high)))
    return f"{'rose' if change.sign > 0 else 'fell'} by {abs(change.value or 0):.3g} nats [{low:.3g}, {high:.3g}]"


def _describe_number(change: Estimate) -> str:
    """A change without a claim about its direction."""
    if change.low is None or change.low == change.high:
        return _describe_change(change)
    return f"moved by {change.value:+.3g} nats [{change.low:+.3g}, {change.high:+.3g}]"


def _describe_parts(row: Row) -> str:
    """Why token entropy changed: what is from other lengths, and where in completions the rest is."""
    if row["uncovered"] is None:
        return ""
    if row["rest_part"] is None:
        return (
            f" Why token entropy changed is not known: {row['uncovered']:.0%} of the completions of {row['rlvr']} have "
            f"lengths that {row['base']} does not have."
        )
    rest = _estimate_from_row(row, "rest_part")
    ends = "" if rest.low is None else f" [{rest.low:+.3f}, {rest.high:+.3f}]"
    return (
        f" Of the change of token entropy, {row['length_part']:+.3f} is from completions of other lengths; at the same "
        f"length {rest.value:+.3f}{ends} is left, {row['first_half_rest']:+.3f} in first halves of completions and "
        f"{row['second_half_rest']:+.3f} in second halves."
    )


def _describe_unseen(row: Row, samples: str, turned: bool) -> str:
    """Which answer entropies the samples don't identify, or why the direction of their change is not claimed."""
    unseen = {row[role]: row[f"{role}_unseen_all"] for role in ("base", "rlvr")}
    much = [f"{share:.0%} of that of {model}" for model, share in unseen.items() if (share or 0) > MAX_UNSEEN]
    if much:
        return (
            f" Of the answer mass, {' and '.join(much)} is unseen in {samples} samples (above {MAX_UNSEEN:.0%}): the "
            f"samples don't identify these answer entropies, nor whether they rose or fell."
        )
    if turned:
        model = max(unseen, key=lambda name: unseen[name] or 0)
        return (
            f" Of the answer mass of {model}, {unseen[model]:.0%} is unseen in {samples} samples: the number of "
            f"answers that share it could turn the direction."
        )
    if row["unidentified_at"] is None:
        return ""
    return (
        f" At {row['samples']:,} samples, more than {MAX_UNSEEN:.0%} of the answer mass is unseen: these samples don't "
        f"identify the answer entropies."
    )


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

"""Style, entropy, the training trajectory and decisive hits: sentences on rows of the report's tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leash.formatting import format_count, pluralize
from leash.statistics.answer_entropy import MAX_UNSEEN
from leash.statistics.bootstrap_weights import Estimate

Row = Mapping[str, Any]

CATEGORY_PHRASES = {"S": "that only {base} solves", "O": "that neither solves", "E": "that only {rlvr} solves"}


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
    """A row of the table `decoupling`: how token and answer entropy changed on a data set.

    It claims a direction only if both intervals are on one side of 0.
    """
    token, answer = _estimate_from_row(row, "token_entropy"), _estimate_from_row(row, "answer_entropy_adjusted_all")
    scope = row["pair"] if row["dataset"] == "all" else f"{row['pair']} on {row['dataset']}"
    if 0 < row["compared"] < row["problems"]:
        scope += f", by {row['compared']} of {row['problems']} problems"
    if answer.value is None:
        return f"{scope}: answer entropy is not measured, because no problem has enough samples of both models."
    # Data sets may differ in their number of samples.
    most = row["common_samples_most"]
    samples = f"{row['common_samples']:,}" + (f" to {most:,}" if most != row["common_samples"] else "")
    answers = f"answer entropy {_describe_change(answer)} (Chao–Jost, of {samples} samples per problem)"
    if token.value is None:
        return f"{scope}: token entropy is not measured; {answers}.{_describe_unseen(row, samples)}"
    return (
        f"{scope}: token entropy {_describe_change(token)} (of {row['samples']:,} samples per problem) and {answers}: "
        f"{row['relation']}.{_describe_parts(row) if token.sign else ''}{_describe_unseen(row, samples)}"
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


def _describe_parts(row: Row) -> str:
    """Why token entropy changed: what remains at the same length and position is surer or less sure."""
    if row["uncovered"] is None:
        return ""
    if row["rest_part"] is None:
        return (
            f" Why token entropy changed is not known: {row['uncovered']:.0%} of the steps of {row['rlvr']} are at "
            f"lengths and positions that {row['base']} does not have."
        )
    rest = _estimate_from_row(row, "rest_part")
    ends = "" if rest.low is None else f" [{rest.low:+.3f}, {rest.high:+.3f}]"
    return (
        f" Of the change of token entropy, {row['position_part']:+.3f} is from where in a completion the steps are, "
        f"{row['length_part']:+.3f} from how long completions are, and {rest.value:+.3f}{ends} is left at the same "
        f"length and position."
    )


def _describe_unseen(row: Row, samples: str) -> str:
    """Which answer entropies are only lower bounds."""
    if row["lower_bound_at"] is None:
        return ""
    unseen = {row[role]: row[f"{role}_unseen_all"] for role in ("base", "rlvr")}
    much = [f"{share:.0%} of that of {model}" for model, share in unseen.items() if (share or 0) > MAX_UNSEEN]
    if not much:
        return (
            f" At {row['samples']:,} samples, more than {MAX_UNSEEN:.0%} of the answer mass is unseen: answer "
            f"entropies there are lower bounds."
        )
    return (
        f" Of the answer mass, {' and '.join(much)} is unseen in {samples} samples (above {MAX_UNSEEN:.0%}): these "
        f"answer entropies are lower bounds, not the entropies, and more samples would raise them."
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

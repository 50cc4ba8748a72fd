"""What the tables of a pair say about a problem (`tables.REACH_SCHEMA`, and the texts of `tables.TRACES_SCHEMA`), from
the finished search."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from leash.reach.search import Search
from leash.statistics import reachability
from leash.statistics.rounding import round_digits

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# A depth of the profile with fewer rollouts says little about where the chance of a correct answer rises.
MIN_PROFILE_TRIALS = 8


def build_row(search: Search, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    task = search.task
    row: dict[str, Any] = {
        "dataset": task.place.dataset,
        "problem_id": task.problem_id,
        "target": task.place.role,
        "status": "no_hit",
        **{name: getattr(task, name) for name in ("n_target", "c_target", "n_donor", "c_donor")},
        "completions": len(search.known),
        "outside": sum(each.logp == -np.inf for each in search.of_donor),
        "untempered": float(np.exp([-each.untempered for each in search.known]).sum()),
        "upper": reachability.upper_bound(task.n_target, task.c_target, search.settings.confidence),
        **dict.fromkeys(("prefixes", "pilot", "rollouts", "hits", "tokens"), 0),
        **_pooled(search),
    }
    if search.tree.trace:
        row |= {**_bounds(search), **_trace(search, tokenizer)}
        row["cut_token"] = find_cut_token(row["trace_nlls"], search.tree.profile(), row.get("estimate") or 0.0)
    # Otherwise the target has hits of its own, or the known completions are too long or never ended.
    if row["status"] == "no_hit" and not task.c_target and search.never_drawn:
        row["status"] = "unreachable"
    audited = search.audited()
    row |= {
        "hit_rollouts": [hit.rollout for hit in audited],
        "hit_shares": [round_digits(hit.share) for hit in audited],
        "hit_answers": [hit.answer for hit in audited],
        "hit_texts": [hit.text for hit in audited],
    }
    return {name: round_digits(value) if isinstance(value, float) else value for name, value in row.items()}


def _pooled(search: Search) -> dict[str, Any]:
    """The pooled mass. If a hit ended the donor's sampling, its number of samples depends on them, which biases it. And
    if scoring calls impossible what a model wrote, its scores are not the probabilities of its samples: such a
    completion of the donor would count as much as if the target alone could write it."""
    task = search.task
    wrote_impossible = any(
        (each.completion.times[task.place.donor] and each.donor_logp == -np.inf)
        or (each.completion.times[task.place.target] and each.logp == -np.inf)
        for each in search.known
    )
    if task.donor_stopped or wrote_impossible:
        return {"pooled": None, "pooled_error": None}
    own, other = (
        np.array([each.completion.times[model] for each in search.known])
        for model in (task.place.target, task.place.donor)
    )
    logp, donor_logp = (np.array([getattr(each, name) for each in search.known]) for name in ("logp", "donor_logp"))
    pooled = reachability.pooled_mass(logp, donor_logp, own, other, task.n_target, task.n_donor)
    return {"pooled": pooled.value, "pooled_error": pooled.error}


def _bounds(search: Search) -> dict[str, Any]:
    """The numbers of the cut and of its rollouts."""
    task, cut, confidence = search.task, search.cut, search.settings.confidence
    if cut is None:  # so improbable that nothing has a mass that a float can hold
        return {"status": "no_hit", "pilot": search.pilot, "tokens": search.tokens}
    numbers = cut.whole_mass, cut.open_mass, search.hits, search.rollouts
    others = sum(
        each.completion.times[task.place.target] for each in search.known if not cut.covers(each.completion.tokens)
    )
    estimate = reachability.estimate_mass(*numbers, others, task.n_target)
    # Without the last hit, the donor's counts are those of a share again (`intervals.curtailed_interval`).
    n_donor, c_donor = task.n_donor - task.donor_stopped, task.c_donor - task.donor_stopped
    times = reachability.Amplification(None, None, None)
    if c_donor:
        times = reachability.amplification(
            n_donor, c_donor, task.n_target, task.c_target, *numbers, estimate, confidence
        )
    if task.place.role == "rlvr":
        times = times.inverse()  # the table has the trained model's mass over the base's
    certificate = reachability.lower_bound(*numbers, confidence)
    lengths = np.array([len(prefix) for prefix in cut.prefixes])
    return {
        "status": "certified" if certificate > 0 else "no_hit",
        "whole_mass": cut.whole_mass,
        "open_mass": cut.open_mass,
        "certificate": certificate,
        "estimate": estimate,
        "amplification": times.value,
        "amplification_low": times.low,
        "amplification_high": times.high,
        "prefixes": len(cut.prefixes) + len(cut.whole),
        "pilot": search.pilot,
        "rollouts": search.rollouts,
        "hits": search.hits,
        "tokens": search.tokens,
        "depth": float((lengths * cut.masses).sum() / cut.open_mass) if cut.open_mass else None,
    }


def _trace(search: Search, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The trace token by token, and its profile."""
    trace = search.tree.trace
    known = next(each for each in search.known if each.completion.tokens == trace)
    profile = search.tree.profile()
    depths, trials, hits = ([row[column] for row in profile] for column in range(3))
    return {
        "trace_tokens": [str(tokenizer.decode([token])) for token in trace],
        "trace_nlls": [round_digits(nll) for nll in known.nlls.tolist()],
        "trace_donor_nlls": [round_digits(nll) for nll in known.donor_nlls.tolist()],
        "profile_depths": depths,
        "profile_trials": trials,
        "profile_hits": hits,
    }


def find_cut_token(nlls: Sequence[float], profile: Sequence[tuple[int, int, int]], mass: float) -> int | None:
    """The place of the token where the leash was cut: between the two neighbouring depths of the profile with the
    largest rise of the chance of a correct answer, the least likely token. Before the first token the chance is the
    estimated mass, after the last it is 1."""
    usable = [row for row in profile if row[1] >= MIN_PROFILE_TRIALS] or list(profile)
    if not usable:
        return None
    reached = np.exp(-np.cumsum(nlls))
    chances = [(0, mass or 0.5 / (usable[0][1] + 1))]
    for depth, trials, hits in usable:
        chance = (hits + 0.5) / (trials + 1)  # half a hit more, so that no hits are a small chance instead of 0
        if not hits and 0 < mass < chance * reached[depth - 1]:  # nor can it be more than what makes the estimated mass
            chance = mass / float(reached[depth - 1])
        chances.append((depth, chance))
    chances.append((len(nlls), 1.0))
    rises = [(np.log(after / before), begin, end) for (begin, before), (end, after) in pairwise(chances)]
    _, begin, end = max(rises, key=lambda rise: rise[0])
    return begin + int(np.argmax(nlls[begin:end]))

"""What the page says of a problem's reach: sentences, and the chance of a correct answer along a trace.

In:  the rows of data/reach with their pair (a problem and a target each), and the problems' numbers on the page.
Out: plain data for the page's script, by pair and number of the problem.

A profile has a row per measured depth: how many tokens, the text since the depth before with the token
where the leash was cut apart, the probability of that beginning, and the rollouts that began so, with their hits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pyarrow as pa

from leash.formatting import format_mass, truncate
from leash.params.groups import Params
from leash.report.narrative import problem_reach_sentences
from leash.statistics.counts import ROLES

ProblemNumbers = Mapping[tuple[str, str], int]
Row = Mapping[str, Any]
# Of a profile, those around the cut are kept in any case.
MAX_PROFILE_ROWS = 12
# On either side of the token where the leash was cut.
MAX_PIECE_CHARS = 80
# Problems beyond these have sentences, but no profile: it may take two thousand characters.
MAX_PROFILES = 1000


def build_reach_entries(
    params: Params, reach: pa.Table, problems: ProblemNumbers
) -> dict[str, dict[int, list[dict[str, Any]]]]:
    """By pair and problem, an entry for each model whose mass was examined there."""
    settings = f"temperature {params.sample.temperature:g}, top_p {params.sample.top_p:g}"
    entries: dict[str, dict[int, list[dict[str, Any]]]] = {pair: {} for pair in params.run.pairs}
    for place, row in enumerate(reach.to_pylist()):
        models = dict(zip(ROLES, params.models_of(row["pair"]), strict=True))
        target = models.pop(row["target"])
        [donor] = models.values()
        sentences = problem_reach_sentences(row, target, donor, params.reach.confidence, settings)
        profile = describe_profile(row) if place < MAX_PROFILES else []
        number = problems[row["dataset"], row["problem_id"]]
        entry = {"target": target, "sentences": sentences, "profile": profile}
        entries[row["pair"]].setdefault(number, []).append(entry)
    return entries


def describe_profile(row: Row) -> list[list[Any]]:
    """Along the trace, per depth: tokens, the text since the depth before in three pieces (before the cut token, that
    token, after it), the probability of the beginning, rollouts, hits."""
    if not row["profile_depths"]:
        return []
    # Without its text on this machine, the trace has its numbers alone.
    tokens, cut = row["trace_tokens"] or [""] * len(row["trace_nlls"]), row["cut_token"]
    measured = dict(
        zip(row["profile_depths"], zip(row["profile_trials"], row["profile_hits"], strict=True), strict=True)
    )
    described = []
    for before, depth in pairwise([0, *choose_depths(sorted(measured), cut)]):
        inside = cut is not None and before <= cut < depth
        middle = (cut, cut + 1) if inside else (depth, depth)
        ends = (before, middle[0]), middle, (middle[1], depth)
        pieces = [truncate("".join(tokens[begin:end]), MAX_PIECE_CHARS, tail_chars=30) for begin, end in ends]
        mass = math.exp(-sum(row["trace_nlls"][:depth]))
        described.append([depth, *pieces, format_mass(mass), *measured[depth]])
    return described


def choose_depths(depths: list[int], cut: int | None) -> list[int]:
    """At most MAX_PROFILE_ROWS of these depths: the first and the last, those on both sides of the cut, and others at
    equal steps."""
    if len(depths) <= MAX_PROFILE_ROWS:
        return depths
    first_after = next((i for i, depth in enumerate(depths) if cut is not None and depth > cut), 0)
    kept = {0, len(depths) - 1, first_after, max(first_after - 1, 0)}
    steps = MAX_PROFILE_ROWS - len(kept)
    kept |= {round((i + 1) * len(depths) / (steps + 1)) for i in range(steps)}
    return [depths[i] for i in sorted(kept) if i < len(depths)]

"""Where to start rollouts: the search for a good cut through the prefixes of known correct completions.

A *cut* is a set of prefixes, none of which begins another. With p(s) the probability that the model writes prefix s and
V(s) the chance that it is correct if it goes on from there, the model's mass on the problem is at least the sum of
p(s) V(s). Long prefixes have a large V and a small p; the cut that proves most is in between, where the decisive steps
are behind and the rest is likely. This module chooses it, from a first part of the rollouts (the pilot):

    tree = PrefixTree([(tokens, nlls), ...])           # the donor's correct completions, scored by the target
    prefixes = tree.first_round(512, random)           # draw these rollouts, then tree.record and tree.add them
    cut = tree.best_cut(1024, 0.95)                    # again with draw_prefixes(cut, 512, random), then for good

Not covered: drawing rollouts and scores, and the bound itself (reachability.py). The search may be as clever as it
likes without making the bound wrong, since the bound rests on rollouts that the search has not seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.prefix_cuts import PENALTIES, Cut, correct_masses, penalized_cuts, trace_cut
from leash.statistics.prefix_levels import Levels, Packed, Prefix, Rollout, build_levels, pack, unpack
from leash.statistics.reachability import lower_bounds

__all__ = ["Cut", "Prefix", "PrefixTree", "Round", "draw_prefixes", "plan_round"]

MAX_DEPTHS = 64
FIRST_DEPTHS = 8
TRACE_ROLLOUTS = 8
# Where to cut is looked for within this many nats: prefixes that are rarer, below 1e-13, prove too little.
MAX_NLL = 30.0


class PrefixTree:
    """Known correct completions of a problem with the target's nll of each token, and rollouts from their prefixes.

    `depths` are the lengths that prefixes may have. `trace` is the donor's completion that is likeliest under the
    target, or if all are impossible, the one with the longest possible beginning; empty if none has any."""

    def __init__(self, completions: Sequence[tuple[Prefix, FloatArray]], depths: Sequence[int] | None = None) -> None:
        self._known: dict[Packed, FloatArray] = {}
        self._rollouts: list[Rollout] = []
        self._levels: Levels | None = None
        for completion, nlls in completions:
            self.add(completion, nlls)
        self._donor = dict(self._known)
        self._progress = np.minimum(mean_cumulative(list(self._donor.values())), MAX_NLL)
        self.depths = self._choose_depths() if depths is None else tuple(sorted(set(depths)))
        self.trace, self._possible = self._choose_trace()

    def add(self, completion: Prefix, nlls: FloatArray) -> None:
        """A correct completion that the model can write."""
        if completion:
            self._known.setdefault(pack(completion), np.cumsum(np.asarray(nlls, dtype=float)))
            self._levels = None

    def record(self, prefix: Prefix, completion: Prefix, hit: bool) -> None:
        """A rollout that began with this prefix and became this completion (all its tokens)."""
        self._rollouts.append(Rollout(len(prefix), pack(completion), hit))
        self._levels = None

    def _choose_trace(self) -> tuple[Prefix, int]:
        """The trace, and how many of its first tokens are possible."""
        candidates: list[tuple[float, float, Prefix, int]] = []
        for completion, nlls in self._donor.items():
            if possible := int((nlls < np.inf).sum()):
                rank = -possible if possible < len(nlls) else -np.inf
                candidates.append((rank, float(nlls[possible - 1]), unpack(completion), possible))
        return min(candidates)[2:] if candidates else ((), 0)

    def _choose_depths(self) -> tuple[int, ...]:
        longest = len(self._progress)
        if longest <= MAX_DEPTHS:
            return tuple(range(1, longest + 1))
        return equal_steps(self._progress, np.arange(1, longest + 1), MAX_DEPTHS)

    def first_round(self, rollouts: int, random: np.random.Generator) -> list[Prefix]:
        """The prefix of each rollout of the first round: at several depths, some from the trace's own prefix. Of
        the others, half draw a prefix in proportion to its probability and half in proportion to the donor's
        completions. The first alone would not find decisive steps that can be at any depth: wherever it looks, nearly
        all of the probability is on prefixes without them."""
        donor = build_levels(self._donor, self.depths, self._donor)
        usable = [level for level in donor.levels if len(level.mass)]
        if not usable:
            return []
        wanted = equal_steps(self._progress, np.array([level.depth for level in usable]), FIRST_DEPTHS)
        prefixes: list[Prefix] = []
        chosen = [level for level in usable if level.depth in wanted]
        for i, level in enumerate(chosen):
            share = (i + 1) * rollouts // len(chosen) - i * rollouts // len(chosen)
            along = min(TRACE_ROLLOUTS, share) if level.depth <= min(self._possible, len(self.trace) - 1) else 0
            prefixes += [self.trace[: level.depth]] * along
            chances = level.mass / level.mass.sum() + level.donors / level.donors.sum()
            drawn = random.choice(len(level.mass), share - along, p=chances / 2)
            prefixes += [donor.prefix(level, node) for node in drawn.tolist()]
        return prefixes

    def best_cut(self, rollouts: int, confidence: float) -> Cut | None:
        """The cut with the largest bound to expect from this many rollouts; None if nothing has any mass."""
        tree = self._build()
        if not len(tree.whole) and not any(len(level.mass) for level in tree.levels):
            return None
        correct = correct_masses(tree)
        taken, (whole, opened, mass) = penalized_cuts(tree, correct, PENALTIES)
        bounds = lower_bounds(whole, opened, mass, rollouts, confidence)
        best = int(np.argmax(bounds))
        return trace_cut(tree, [level[:, best] for level in taken])

    def profile(self) -> list[tuple[int, int, int]]:
        """Depth, rollouts and correct rollouts of each prefix of the trace from which, or through which, any went."""
        tree = self._build()
        if not self.trace:
            return []
        place = tree.sequences.index(pack(self.trace))
        nodes = [(level, level.node_of[place]) for level in tree.levels if level.depth < len(self.trace)]
        # No node: the prefix is so improbable that its mass is 0, and no rollout began with it.
        rows = [(level.depth, int(level.trials[node]), int(level.hits[node])) for level, node in nodes if node >= 0]
        return [row for row in rows if row[1]]

    def _build(self) -> Levels:
        if self._levels is None:
            self._levels = build_levels(self._known, self.depths, self._donor, self._rollouts)
        return self._levels


def draw_prefixes(cut: Cut, rollouts: int, random: np.random.Generator) -> list[Prefix]:
    """The prefix of each rollout, in proportion to its probability. Every rollout is then a trial with the same chance
    of success, whatever the prefixes: the mean of V over the cut. Empty if the cut has no open prefix."""
    if not cut.prefixes:
        return []
    return [cut.prefixes[i] for i in random.choice(len(cut.prefixes), rollouts, p=cut.masses / cut.open_mass)]


@dataclass(frozen=True)
class Round:
    """The prefix of each rollout of a round, and the cut that they are drawn from (None: several depths)."""

    prefixes: list[Prefix]
    cut: Cut | None


def plan_round(tree: PrefixTree, number: int, budget: int, confidence: float, random: np.random.Generator) -> Round:
    """Round 1, 2 or 3 of a search with this budget of rollouts: a quarter at several depths, a quarter from the best
    cut so far, and all the others, which alone count for the certificate, from the best cut after both. The round is
    over if it has no prefixes."""
    pilot = budget // 4
    final = budget - 2 * pilot
    if number == 1:
        return Round(tree.first_round(pilot, random), None)
    cut = tree.best_cut(final, confidence)
    drawn = draw_prefixes(cut, pilot if number == 2 else final, random) if cut else []
    return Round(drawn, cut)


def mean_cumulative(cumulated: Sequence[FloatArray]) -> FloatArray:
    """The mean nll of the first 1, 2, … tokens. A completion keeps its last value when it is over or impossible."""
    total = np.zeros(max((len(nlls) for nlls in cumulated), default=0))
    for nlls in cumulated:
        finite = nlls[nlls < np.inf]
        last = finite[-1] if len(finite) else 0.0
        total[: len(finite)] += finite
        total[len(finite) :] += last
    return total / max(len(cumulated), 1)


def equal_steps(progress: FloatArray, depths: IntArray, number: int) -> tuple[int, ...]:
    """At most this many of the depths, at equal steps of the progress. Where one token takes several steps, the depth
    that includes it is chosen once, and the widest gaps between the chosen depths are halved instead."""
    if len(depths) <= number:
        return tuple(depths.tolist())
    steps = progress[-1] * (np.arange(number) + 0.5) / number
    chosen = set(np.minimum(np.searchsorted(progress[depths - 1], steps), len(depths) - 1).tolist())
    while len(chosen) < number:
        ends = [-1, *sorted(chosen), len(depths)]
        low, high = max(itertools.pairwise(ends), key=lambda gap: gap[1] - gap[0])
        chosen.add((low + high) // 2)
    return tuple(depths[sorted(chosen)].tolist())

"""The search for a good cut, and the rollouts that count: one problem, in three rounds.

    first     a quarter of the budget, at several depths of the donor's completions
    second    a quarter, from the best cut so far
    final     half, from the cut that both rounds chose; only these decide the certificate

After each of the first two rounds the correct rollouts become known completions, too: they show ways to a correct answer
that the donor never took. The caller draws the rollouts of a round for all problems together, and scores them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from leash.params.groups import Reach
from leash.reach.known import Completion
from leash.reach.known_scores import TokenScores
from leash.reach.rollouts import PlannedRollouts, plan_rollouts
from leash.reach.tasks import Task
from leash.statistics import seeds
from leash.statistics.array_types import FloatArray
from leash.statistics.prefix_levels import Prefix
from leash.statistics.prefix_tree import Cut, PrefixTree, draw_prefixes

Round = Literal["first", "second", "final"]
ROUNDS: tuple[Round, ...] = ("first", "second", "final")
# Where a good prefix makes most rollouts correct, these many show enough of the ways; scoring more would cost time.
MAX_NEW_COMPLETIONS = 256


@dataclass(frozen=True)
class KnownCompletion:
    """A correct completion that one of the models wrote, with the nll of each token under the target and under the
    donor as they are sampled (infinite: impossible)."""

    completion: Completion
    nlls: FloatArray
    donor_nlls: FloatArray
    untempered: float

    @property
    def logp(self) -> float:
        return -float(self.nlls.sum())

    @property
    def donor_logp(self) -> float:
        return -float(self.donor_nlls.sum())


def to_known(
    completion: Completion, target: TokenScores, donor: TokenScores, max_tokens: int
) -> KnownCompletion:
    both = (decoding_nlls(completion, scores, max_tokens) for scores in (target, donor))
    return KnownCompletion(completion, *both, target.untempered)


def decoding_nlls(completion: Completion, scores: TokenScores, max_tokens: int) -> FloatArray:
    """The nll of each token. After an empty prompt the first token has none: such completions prove nothing."""
    if len(scores.nlls) != len(completion.tokens):
        return np.full(len(completion.tokens), np.inf)
    return completion.decoding_nlls(scores.nlls, max_tokens)


@dataclass
class Search:
    """A task's known completions, rollouts and cut."""

    task: Task
    known: Sequence[KnownCompletion]
    settings: Reach
    tree: PrefixTree = field(init=False)
    cut: Cut | None = None
    planned: dict[Round, list[PlannedRollouts]] = field(default_factory=dict)
    pilot: int = 0
    rollouts: int = 0
    hits: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        depths = None if self.settings.depths == "auto" else self.settings.depths
        donor = [(each.completion.tokens, each.nlls) for each in self.of_donor]
        self.tree = PrefixTree(donor, depths)

    @property
    def of_donor(self) -> list[KnownCompletion]:
        return [each for each in self.known if each.completion.times[self.task.place.donor]]

    def plan(self, name: Round) -> list[PlannedRollouts]:
        """Choose the prefixes of a round's rollouts."""
        quarter, half = self.settings.rollouts // 4, self.settings.rollouts // 2
        begin, count = {"first": (0, quarter), "second": (quarter, quarter), "final": (2 * quarter, half)}[name]
        prefixes: list[Prefix] = []
        if self.tree.trace:
            place = self.task.place
            stream = ("reach", place.pair, place.target, place.dataset, self.task.problem_id, name)
            random = seeds.stream(self.settings.seed, *stream)
            if name == "first":
                prefixes = self.tree.first_round(count, random)
            else:
                self.cut = self.tree.best_cut(half, self.settings.confidence)
                prefixes = draw_prefixes(self.cut, count, random) if self.cut else []
        self.planned[name] = plan_rollouts(self.task, prefixes, begin)
        return self.planned[name]

    def record(self, name: Round, rollouts: Mapping[int, tuple[Prefix, dict[str, Any], Prefix, bool]]) -> None:
        """Note the rollouts of a round by their numbers: prefix, row of the ledger, tokens, and whether correct."""
        for number in sorted(rollouts):
            prefix, row, tokens, hit = rollouts[number]
            self.tree.record(prefix, tokens, hit)
            self.tokens += row["tokens"] - len(prefix)
            if name == "final":
                self.rollouts += 1
                self.hits += hit
            else:
                self.pilot += 1

    def add(self, completion: Completion, nlls: FloatArray) -> None:
        """A correct rollout of the pilot."""
        self.tree.add(completion.tokens, nlls)

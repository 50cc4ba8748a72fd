"""The search for a good cut, and the rollouts that count: one problem, in three rounds.

    first     a quarter of the budget, at several depths of the donor's completions
    second    a quarter, from the best cut so far
    final     half, from the cut that both rounds chose; only these decide the certificate

After each of the first two rounds the correct rollouts become known completions, too: they show ways to a correct
answer that the donor never took. The caller draws the rollouts of a round for all problems together, and scores them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from leash.params.groups import Reach
from leash.reach.known import Completion
from leash.reach.known_scores import TokenScores
from leash.reach.rollouts import PlannedRollouts, plan_rollouts
from leash.reach.tasks import Task
from leash.statistics import seeds
from leash.statistics.array_types import FloatArray
from leash.statistics.prefix_tree import Cut, Prefix, PrefixTree, plan_round

ROUNDS = ("first", "second", "final")  # numbered from 1
# Where a good prefix makes most rollouts correct, these many show enough of the ways; scoring more would cost time.
MAX_NEW_COMPLETIONS = 256
# So many final rollouts, and complete sequences, are shown with their texts: a person checks what a certificate counts.
MAX_AUDITED = 3


@dataclass(frozen=True)
class KnownCompletion:
    """A correct completion that one of the models wrote, with the nll of each token under the target and under the
    donor as they are sampled (infinite: impossible)."""

    completion: Completion
    nlls: FloatArray
    donor_nlls: FloatArray
    untempered: float
    excluded: bool = False  # temperature and top_p give one of its tokens no probability under the target

    @property
    def logp(self) -> float:
        return -float(self.nlls.sum())

    @property
    def donor_logp(self) -> float:
        return -float(self.donor_nlls.sum())


@dataclass(frozen=True)
class AuditedHit:
    """A correct final rollout, or a complete sequence of the cut (`rollout` is None). `share` is how much of the mass
    that the certificate counts, as estimated, is behind the rollout's prefix, or is the complete sequence's own."""

    rollout: int | None
    share: float
    answer: str
    text: str


def decoding_nlls(completion: Completion, scores: TokenScores, max_tokens: int, ends: frozenset[int]) -> FloatArray:
    """The nll of each token. After an empty prompt the first token has none: such completions prove nothing."""
    if len(scores.nlls) != len(completion.tokens):
        return np.full(len(completion.tokens), np.inf)
    return completion.decoding_nlls(scores.nlls, max_tokens, ends)


@dataclass
class Search:
    """A task's known completions, rollouts and cut."""

    task: Task
    known: Sequence[KnownCompletion]
    settings: Reach
    tree: PrefixTree = field(init=False)
    _donor_tokens: set[Prefix] = field(init=False)
    cut: Cut | None = None
    planned: dict[int, list[PlannedRollouts]] = field(default_factory=dict)
    pilot: int = 0
    rollouts: int = 0
    hits: int = 0
    tokens: int = 0
    reached: bool = False  # whether any rollout was correct
    hits_behind: Counter[Prefix] = field(default_factory=Counter)  # correct final rollouts by prefix
    new_hits: dict[Prefix, tuple[int, Completion]] = field(default_factory=dict)  # correct rollouts of a pilot round
    _found: list[Completion] = field(default_factory=list)  # correct rollouts of the pilot that are known completions
    _masses: dict[Prefix, float] = field(default_factory=dict)  # of the cut's prefixes
    _kept: list[tuple[Prefix, int, str, str]] = field(default_factory=list)  # final rollouts with answers and texts

    def __post_init__(self) -> None:
        depths = None if self.settings.depths == "auto" else self.settings.depths
        donor = [(each.completion.tokens, each.nlls) for each in self.of_donor]
        self.tree = PrefixTree(donor, depths)
        self._donor_tokens = {tokens for tokens, _ in donor}

    @property
    def of_donor(self) -> list[KnownCompletion]:
        return [each for each in self.known if each.completion.times[self.task.place.donor]]

    @property
    def never_drawn(self) -> bool:
        """Whether temperature and top_p exclude a token of each of the donor's completions, and no rollout that began
        like one of them was correct."""
        return not self.reached and all(each.excluded for each in self.of_donor)

    def plan(self, number: int) -> list[PlannedRollouts]:
        """Choose the prefixes of a round's rollouts."""
        place, budget = self.task.place, self.settings.rollouts
        prefixes: list[Prefix] = []
        if self.tree.trace:
            stream = ("reach", place.pair, place.target, place.dataset, self.task.problem_id, ROUNDS[number - 1])
            random = seeds.stream(self.settings.seed, *stream)
            planned = plan_round(self.tree, number, budget, self.settings.confidence, random)
            prefixes, self.cut = planned.prefixes, planned.cut
            if self.cut:
                self._masses = dict(zip(self.cut.prefixes, self.cut.masses.tolist(), strict=True))
        begin = (number - 1) * (budget // 4)
        self.planned[number] = plan_rollouts(self.task, prefixes, begin)
        return self.planned[number]

    def record(self, number: int, prefix: Prefix, tokens: Prefix, hit: bool) -> None:
        """Note a rollout: all its tokens, of which the prefix was given. The order of rollouts does not matter."""
        # Beyond the deepest prefix the tree needs no tokens, and there may be thousands of long rollouts.
        self.tree.record(prefix, tokens[: self.tree.depths[-1]], hit)
        self.tokens += len(tokens) - len(prefix)
        self.reached |= hit
        if number == len(ROUNDS):
            self.rollouts += 1
            self.hits += hit
            self.hits_behind[prefix] += hit
        else:
            self.pilot += 1

    def add(self, completion: Completion, nlls: FloatArray) -> None:
        """A correct rollout of the pilot that becomes a known completion."""
        self._found.append(completion)
        self.tree.add(completion.tokens, nlls)

    def keep_for_audit(self, prefix: Prefix, rollout: int, answer: str, text: str) -> None:
        """Keep a correct final rollout if it is one of those to show, whatever order they come in: the first of each
        prefix, by falling mass of the prefixes, then the second of each, and so on."""
        behind: Counter[Prefix] = Counter()
        order = []
        for each in sorted([*self._kept, (prefix, rollout, answer, text)]):
            order.append((behind[each[0]], -self._masses[each[0]], each))
            behind[each[0]] += 1
        self._kept = [each for _, _, each in sorted(order)[:MAX_AUDITED]]

    def audited(self) -> list[AuditedHit]:
        """What the certificate rests on, the largest shares first: correct final rollouts from several prefixes, and
        the likeliest complete sequences of the cut."""
        cut = self.cut
        if cut is None:
            return []
        each_hit = cut.open_mass / max(self.rollouts, 1)
        total = cut.whole_mass + each_hit * self.hits
        shown = [
            AuditedHit(number, each_hit * self.hits_behind[prefix] / total, answer, text)
            for prefix, number, answer, text in self._kept
        ]
        completions = {each.tokens: each for each in (*(known.completion for known in self.known), *self._found)}
        likeliest = np.argsort(-cut.whole_masses, kind="stable")[:MAX_AUDITED].tolist()
        for i in likeliest:
            completion = completions[cut.whole[i]]
            shown.append(AuditedHit(None, float(cut.whole_masses[i]) / total, completion.answer, completion.text))
        return sorted(shown, key=lambda hit: -hit.share)

    def keep_hit(self, rollout: int, hit: Completion) -> None:
        """Keep a correct rollout of the pilot if it is new and one of the first, whatever order they come in."""
        before = self.new_hits.get(hit.tokens)
        if hit.tokens in self._donor_tokens or (before and before[0] <= rollout):
            return
        self.new_hits[hit.tokens] = rollout, hit
        if len(self.new_hits) > MAX_NEW_COMPLETIONS:
            del self.new_hits[max(self.new_hits, key=lambda tokens: self.new_hits[tokens][0])]

    def take_new(self) -> list[Completion]:
        """The correct rollouts of a round that become known completions."""
        taken = [hit for _, hit in sorted(self.new_hits.values(), key=lambda each: each[0])]
        self.new_hits = {}
        return taken

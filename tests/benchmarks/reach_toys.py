"""Certificates of toy language models whose masses are known exactly.

    python tests/benchmarks/reach_toys.py [--trials 400] [--rollouts 2048]

A toy is a pair of Markov chains over a few tokens. A completion is correct if it takes every decisive step and makes no
mistake; the decisive steps are rare for the target and common for the donor, so that the target's mass is between 1e-2
and 1e-8. Each trial draws samples of both models, searches for prefixes and bounds the target's mass from below, as the
stage `reach` does with real models.

Each of the four masses has toys of six kinds, with the trials divided among them. Ours is the least share of trials,
over the masses, whose certificate is below the truth; theirs is what 95% confidence promises. It must hold up to Monte
Carlo error (goals.py), also for the correct mass behind the prefixes alone, which is less than the truth. The median
certificate must be at least a third of the truth wherever the best possible cut through the donor's completions, chosen
with all chances known, gives half of it.

Not covered: real models (`reach` on the embedded pair), and toys without a decisive prefix beyond their coverage.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
from goals import Goals
from result import tell

from leash.statistics.array_types import BoolArray, FloatArray, IntArray
from leash.statistics.prefix_cuts import PENALTIES, penalized_cuts
from leash.statistics.prefix_levels import build_levels, pack
from leash.statistics.prefix_tree import Prefix, PrefixTree, plan_round
from leash.statistics.reachability import estimate_mass, lower_bound, lower_bounds, pooled_mass
from leash.statistics.seeds import stream

CONFIDENCE = 0.95
SAMPLES = 1024
MASSES = (1e-2, 1e-4, 1e-6, 1e-8)
WORDS = 6
END, STEP, MISTAKE = WORDS, 1, 0  # tokens; a step is what is decisive at some positions
SHORTEST, LONGEST = 16, 32
# A cut that gives this share of the truth, if all chances are known, is a decisive one; a third of the truth is enough.
DECISIVE, ENOUGH = 0.5, 1 / 3


@dataclass(frozen=True)
class Toy:
    """`steps` are the decisive positions; of each, the chances of target and donor to take it. `sharpness` scales the
    spread of the other tokens: 0 is uniform, 4 is nearly deterministic. `anywhere`: one of the steps is enough."""

    name: str
    steps: dict[int, tuple[float, float]]
    anywhere: bool = False
    sharpness: float = 3.0
    mistakes: float = 0.01


class Chain:
    """Chances of the next token by position, track and last token. On the track, a decisive position leads off it
    unless the step is taken, and a mistake elsewhere does; off the track nothing is correct."""

    def __init__(self, chances: FloatArray, toy: Toy) -> None:
        self.chances = chances
        self.cumulative = np.cumsum(chances, axis=-1)
        token = np.arange(WORDS + 1)
        must = [position in toy.steps and not toy.anywhere for position in range(LONGEST)]
        self.keeps = np.array([token == STEP if step else token != MISTAKE for step in must])
        # On the track a completion may still lack a step, wherever: state 0. Then it may not end.
        self.first = 0 if toy.anywhere else 1
        self.value = np.zeros((LONGEST + 1, 2, WORDS))
        for position in reversed(range(LONGEST)):
            for state in (0, 1):
                going_on = np.append(self.value[position + 1, state], float(state))
                going_on[STEP] = self.value[position + 1, 1, STEP]
                self.value[position, state] = chances[position] @ (going_on * self.keeps[position])

    @property
    def mass(self) -> float:
        return float(self.value[0, self.first, 0])

    def chance_from(self, prefix: Prefix) -> float:
        """The chance to be correct in the end, from a prefix on the track."""
        state = int(self.first or STEP in prefix)
        return float(self.value[len(prefix), state, prefix[-1]])

    def sample(self, prefixes: list[Prefix], random: np.random.Generator) -> tuple[list[Prefix], BoolArray]:
        """A completion of each prefix, and whether it is correct."""
        tokens = np.full((len(prefixes), LONGEST), -1, dtype=np.int64)
        for row, prefix in zip(tokens, prefixes, strict=True):
            row[: len(prefix)] = prefix
        last = np.zeros(len(prefixes), dtype=np.int64)
        open_, on_track = np.ones(len(prefixes), dtype=bool), np.ones(len(prefixes), dtype=bool)
        has_step = np.full(len(prefixes), bool(self.first))
        for position in range(LONGEST):
            drawn = (random.random(len(last))[:, None] > self.cumulative[position, last]).sum(axis=1)
            given = tokens[:, position] >= 0
            token = np.where(given, tokens[:, position], np.minimum(drawn, WORDS))
            tokens[:, position] = np.where(open_, token, -1)
            on_track &= ~open_ | self.keeps[position][token]
            has_step |= open_ & (token == STEP)
            open_ &= token != END
            last = np.where(token == END, 0, token)
        return [tuple(row[row >= 0].tolist()) for row in tokens], on_track & has_step

    def nlls(self, completion: Prefix) -> FloatArray:
        last = (0, *completion[:-1])
        with np.errstate(divide="ignore"):
            return np.asarray(-np.log(self.chances[np.arange(len(completion)), last, completion]))


def make_chains(toy: Toy) -> tuple[Chain, Chain]:
    """The target and the donor."""
    random = stream("reach toys", toy.name)
    logits = random.normal(0, toy.sharpness, (LONGEST, WORDS, WORDS))
    chains = []
    for model, noise in enumerate((0.0, 0.5)):
        spread = np.exp(logits + random.normal(0, noise, logits.shape))
        spread[..., MISTAKE] = 0
        if toy.anywhere:
            spread[..., STEP] = 0
        chances = np.zeros((LONGEST, WORDS, WORDS + 1))
        chances[..., :WORDS] = spread / spread.sum(axis=-1, keepdims=True) * (1 - toy.mistakes)
        chances[..., MISTAKE] = toy.mistakes
        for position, both in toy.steps.items():
            others = spread.copy()[position]
            others[:, STEP] = 0
            chances[position, :, :WORDS] = others / others.sum(axis=-1, keepdims=True) * (1 - both[model])
            chances[position, :, STEP] = both[model]
        end = np.where(np.arange(LONGEST) >= SHORTEST, 0.15, 0.0)
        end[-1] = 1.0
        chances *= 1 - end[:, None, None]
        chances[..., END] = end[:, None]
        chains.append(Chain(chances, toy))
    return chains[0], chains[1]


@dataclass(frozen=True)
class Trial:
    """What a trial gave. `inside` is the correct mass behind its prefixes, `best` what the best cut gives."""

    truth: float
    inside: float
    certificate: float
    best: float
    estimate: float
    pooled: float
    seconds: float


def counted(completions: list[Prefix], correct: BoolArray) -> dict[Prefix, int]:
    hits: dict[Prefix, int] = {}
    for completion, hit in zip(completions, correct.tolist(), strict=True):
        if hit:
            hits[completion] = hits.get(completion, 0) + 1
    return hits


def run_trial(target: Chain, donor: Chain, budget: int, random: np.random.Generator) -> Trial | None:
    """One search and its certificate; None if the donor has no hit."""
    own = counted(*target.sample([()] * SAMPLES, random))
    others = counted(*donor.sample([()] * SAMPLES, random))
    if not others:
        return None
    seconds = -time.process_time()
    known = [(completion, target.nlls(completion)) for completion in others]
    tree = PrefixTree(known)
    seconds += time.process_time()
    for number in (1, 2):
        seconds -= time.process_time()
        prefixes = plan_round(tree, number, budget, CONFIDENCE, random).prefixes
        seconds += time.process_time()
        completions, correct = target.sample(prefixes, random)
        scores = [target.nlls(completion) for completion in completions]
        seconds -= time.process_time()
        for prefix, completion, hit, nlls in zip(prefixes, completions, correct.tolist(), scores, strict=True):
            tree.record(prefix, completion, hit)
            if hit:
                tree.add(completion, nlls)
        seconds += time.process_time()
    seconds -= time.process_time()
    final = plan_round(tree, 3, budget, CONFIDENCE, random)
    seconds += time.process_time()
    assert final.cut is not None
    hits = int(target.sample(final.prefixes, random)[1].sum()) if final.prefixes else 0
    numbers = (final.cut.whole_mass, final.cut.open_mass, hits, len(final.prefixes))
    outside = sum(count for completion, count in own.items() if not final.cut.covers(completion))
    chances = np.array([target.chance_from(prefix) for prefix in final.cut.prefixes])
    return Trial(
        target.mass,
        final.cut.whole_mass + float((final.cut.masses * chances).sum()),
        lower_bound(*numbers, CONFIDENCE),
        best_possible(target, known, tree.depths, budget - budget // 4 * 2),
        estimate_mass(*numbers, outside, SAMPLES),
        pool(target, donor, own, others),
        seconds,
    )


def pool(target: Chain, donor: Chain, own: dict[Prefix, int], others: dict[Prefix, int]) -> float:
    both = list(own | others)
    logp = [np.array([-chain.nlls(completion).sum() for completion in both]) for chain in (target, donor)]
    hits: list[IntArray] = [np.array([counts.get(x, 0) for x in both]) for counts in (own, others)]
    return pooled_mass(logp[0], logp[1], hits[0], hits[1], SAMPLES, SAMPLES).value


def best_possible(
    target: Chain, known: list[tuple[Prefix, FloatArray]], depths: tuple[int, ...], rollouts: int
) -> float:
    """The bound to expect of the best cut through the donor's completions if every chance is known."""
    cumulated = {pack(completion): np.cumsum(nlls) for completion, nlls in known}
    tree = build_levels(cumulated, depths, cumulated)
    correct = []
    for level in tree.levels:
        prefixes = [tree.prefix(level, node) for node in range(len(level.mass))]
        correct.append(level.mass * np.array([target.chance_from(prefix) for prefix in prefixes]))
    _, (whole, opened, mass) = penalized_cuts(tree, correct, PENALTIES)
    return float(lower_bounds(whole, opened, mass, rollouts, CONFIDENCE).max())


def make_toys(mass: float) -> list[Toy]:
    chance = mass / 0.7
    anywhere = dict.fromkeys(range(3, 15), (chance / 12, 0.08))
    return [
        Toy(f"one step, {mass:g}", {3: (chance, 0.5)}),
        Toy(f"two steps, {mass:g}", {2: (chance**0.5, 0.5), 9: (chance**0.5, 0.5)}),
        Toy(f"a late step, {mass:g}", {12: (chance, 0.5)}, sharpness=5.0),
        Toy(f"diffuse, {mass:g}", {5: (chance, 0.5)}, sharpness=1.0),
        Toy(f"step anywhere, {mass:g}", anywhere, anywhere=True, sharpness=4.0),
        Toy(f"few hits, {mass:g}", {3: (chance**0.5, 0.08), 8: (chance**0.5, 0.08)}),
    ]


def measure(toy: Toy, trials: int, budget: int, goals: Goals) -> list[Trial]:
    """Run the trials of a toy and print its row."""
    target, donor = make_chains(toy)
    drawn = (run_trial(target, donor, budget, stream("reach toys", toy.name, trial)) for trial in range(trials))
    runs = [trial for trial in drawn if trial is not None]
    certificate, best, estimate, pooled = (
        np.array([getattr(trial, name) for trial in runs]) / target.mass
        for name in ("certificate", "best", "estimate", "pooled")
    )
    low, middle, high = np.quantile(certificate, [0.1, 0.5, 0.9])
    mark = ""
    if np.median(best) >= DECISIVE:
        mark = goals.check_value(f"{toy.name}: median of certificate / truth", float(middle), ENOUGH, 1)
    seconds = np.median([trial.seconds for trial in runs])
    print(
        f"{toy.name:<22}{target.mass:>10.3g}{donor.mass:>8.3f}{f'{middle:.2f} ({low:.2f} to {high:.2f})':>22}"
        f"{np.median(best):>7.2f}{estimate.mean():>9.2f} ± {estimate.std() / len(runs) ** 0.5:<6.2f}"
        f"{np.median(pooled):>7.2f}{seconds:>8.3f}{mark}",
        flush=True,
    )
    return runs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--rollouts", type=int, default=2048)
    options = parser.parse_args()
    goals, shares = Goals(), []
    print(f"{options.trials} trials of each mass, {options.rollouts:,} rollouts, {SAMPLES:,} samples of each model;")
    print("certificate, best possible cut, estimate and pooled mass as multiples of the truth")
    print(
        f"{'toy':<22}{'truth':>10}{'donor':>8}{'certificate, 80%':>22}{'best':>7}{'estimate':>18}{'pooled':>7}{'s':>8}"
    )
    for mass in MASSES:
        toys = make_toys(mass)
        runs = [
            run for toy in toys for run in measure(toy, math.ceil(options.trials / len(toys)), options.rollouts, goals)
        ]
        for what, least in (("truth", "truth"), ("correct mass of their own prefixes", "inside")):
            below = np.array([run.certificate <= getattr(run, least) for run in runs])
            mark = goals.check(f"{mass:g}: below the {what}", below, CONFIDENCE, 1)
            print(f"    {below.mean():.1%} of {len(runs)} certificates are below the {what}{mark}", flush=True)
            if least == "truth":
                shares.append(float(below.mean()))
    for missed in goals.missed:
        print("missed:", missed)
    tell(
        "certificates of toys below the truth",
        ours=min(shares),
        theirs=CONFIDENCE,
        ratio=min(shares) / CONFIDENCE,
        goal=">= 95%, medians within 3x of the truth",
        ok=not goals.missed,
    )


if __name__ == "__main__":
    main()

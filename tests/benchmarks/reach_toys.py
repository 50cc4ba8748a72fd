"""Certificates of toy language models whose masses are known exactly.

    python tests/benchmarks/reach_toys.py [--trials 400] [--rollouts 2048]

A toy is a pair of Markov chains over a few tokens. A completion is correct if it takes every decisive step and makes no
mistake; the decisive steps are rare for the target and common for the donor, so that the target's mass is between 1e-2
and 1e-8. Each trial draws samples of both models, searches for prefixes and bounds the target's mass from below, as the
stage `reach` does with real models.

Ours is the least share over the toys of trials whose certificate is below the truth, theirs what 95% confidence
promises. It must hold up to Monte Carlo error (goals.py), and the median certificate must be at least a third of the
truth wherever the best possible cut through the donor's completions, chosen with all chances known, gives half of it.

Not covered: real models (`reach` on the embedded pair), and toys without a decisive prefix beyond their coverage.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from goals import Goals
from result import tell

from leash.statistics.array_types import BoolArray, FloatArray, IntArray
from leash.statistics.prefix_levels import build_levels
from leash.statistics.prefix_tree import PENALTIES, Prefix, PrefixTree, penalized_cuts, plan_round
from leash.statistics.reachability import estimate_mass, lower_bound, lower_bounds, pooled_mass
from leash.statistics.seeds import stream

CONFIDENCE = 0.95
SAMPLES = 1024
WORDS = 6
END, STEP, MISTAKE = WORDS, 1, 0  # tokens; a step is what is decisive at some positions
SHORTEST, LONGEST = 16, 32
ON_TRACK, LOST = 0, 1
# A cut that gives this share of the truth, if all chances are known, is a decisive one; a third of the truth is enough.
DECISIVE, ENOUGH = 0.5, 1 / 3


@dataclass(frozen=True)
class Toy:
    """`steps` are the decisive positions; of each, the chances of target and donor to take it. `entropy` scales the
    spread of the other tokens: 0 is uniform, 4 is nearly deterministic."""

    name: str
    steps: dict[int, tuple[float, float]]
    sharpness: float = 3.0
    mistakes: float = 0.01


class Chain:
    """Chances of the next token by position, track and last token. On the track, a decisive position leads off it
    unless the step is taken, and a mistake elsewhere does; off the track nothing is correct."""

    def __init__(self, chances: FloatArray, steps: set[int]) -> None:
        self.chances = chances
        self.cumulative = np.cumsum(chances, axis=-1)
        token = np.arange(WORDS + 1)
        keeps = [token == STEP if position in steps else token != MISTAKE for position in range(LONGEST)]
        self.keeps = np.array(keeps)
        # The chance to be correct in the end, before each position, on the track, after each last token.
        self.value = np.zeros((LONGEST + 1, WORDS))
        for position in reversed(range(LONGEST)):
            going_on = np.append(self.value[position + 1], 1.0)  # END on the track is correct
            self.value[position] = chances[position] @ (going_on * self.keeps[position])

    @property
    def mass(self) -> float:
        return float(self.value[0, 0])

    def sample(self, prefixes: list[Prefix], random: np.random.Generator) -> tuple[list[Prefix], BoolArray]:
        """A completion of each prefix, and whether it is correct."""
        tokens = np.full((len(prefixes), LONGEST), -1, dtype=np.int64)
        for row, prefix in zip(tokens, prefixes, strict=True):
            row[: len(prefix)] = prefix
        last = np.zeros(len(prefixes), dtype=np.int64)
        open_, on_track = np.ones(len(prefixes), dtype=bool), np.ones(len(prefixes), dtype=bool)
        for position in range(LONGEST):
            drawn = (random.random(len(last))[:, None] > self.cumulative[position, last]).sum(axis=1)
            given = tokens[:, position] >= 0
            token = np.where(given, tokens[:, position], np.minimum(drawn, WORDS))
            tokens[:, position] = np.where(open_, token, -1)
            on_track &= ~open_ | self.keeps[position][token]
            open_ &= token != END
            last = np.where(token == END, 0, token)
        return [tuple(row[row >= 0].tolist()) for row in tokens], on_track

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
        chains.append(Chain(chances, set(toy.steps)))
    return chains[0], chains[1]


@dataclass(frozen=True)
class Trial:
    truth: float
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
    return Trial(
        target.mass,
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
    tree = build_levels({completion: np.cumsum(nlls) for completion, nlls in known}, depths)
    correct = []
    for level in tree.levels:
        last = [tree.sequences[i][level.depth - 1] for i in level.example]
        correct.append(level.mass * target.value[level.depth, last])
    _, (whole, opened, mass) = penalized_cuts(tree, correct, PENALTIES)
    return float(lower_bounds(whole, opened, mass, rollouts, CONFIDENCE).max())


def make_toys() -> list[Toy]:
    toys = []
    for mass in (1e-2, 1e-4, 1e-6, 1e-8):
        chance = mass / 0.7
        toys += [
            Toy(f"one step, {mass:g}", {3: (chance, 0.5)}),
            Toy(f"two steps, {mass:g}", {2: (chance**0.5, 0.5), 9: (chance**0.5, 0.5)}),
            Toy(f"a late step, {mass:g}", {12: (chance, 0.5)}, sharpness=5.0),
            Toy(f"diffuse, {mass:g}", {5: (chance, 0.5)}, sharpness=1.0),
            Toy(f"few hits, {mass:g}", {3: (chance**0.5, 0.08), 8: (chance**0.5, 0.08)}),
        ]
    return toys


def measure(toy: Toy, trials: int, budget: int, goals: Goals) -> float:
    """Print a row for this toy; return the share of trials whose certificate is below the truth."""
    target, donor = make_chains(toy)
    drawn = (run_trial(target, donor, budget, stream("reach toys", toy.name, trial)) for trial in range(trials))
    runs = [trial for trial in drawn if trial is not None]
    certificate, best, estimate, pooled = (
        np.array([getattr(trial, name) for trial in runs]) / target.mass
        for name in ("certificate", "best", "estimate", "pooled")
    )
    low, middle, high = np.quantile(certificate, [0.1, 0.5, 0.9])
    mark = goals.check(f"{toy.name}: below the truth", certificate <= 1, CONFIDENCE, 1)
    if np.median(best) >= DECISIVE:
        mark += goals.check_value(f"{toy.name}: median of certificate / truth", float(middle), ENOUGH, 1)
    seconds = np.median([trial.seconds for trial in runs])
    print(
        f"{toy.name:<22}{target.mass:>10.3g}{donor.mass:>8.3f}{(certificate <= 1).mean():>8.1%}"
        f"{f'{middle:.2f} ({low:.2f} to {high:.2f})':>22}{np.median(best):>7.2f}"
        f"{estimate.mean():>9.2f} ± {estimate.std() / len(runs) ** 0.5:<6.2f}{np.median(pooled):>7.2f}{seconds:>8.3f}{mark}",
        flush=True,
    )
    return float((certificate <= 1).mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--rollouts", type=int, default=2048)
    options = parser.parse_args()
    goals = Goals()
    print(f"{options.trials} trials each, {options.rollouts:,} rollouts, {SAMPLES:,} samples of each model")
    print(f"{'':<40}{'below':>8}{'certificate / truth':>22}{'best':>7}{'estimate':>18}{'pooled':>7}{'search':>8}")
    print(f"{'toy':<22}{'truth':>10}{'donor':>8}{'truth':>8}{'median, central 80%':>22}{'cut':>7}", end="")
    print(f"{'mean':>18}{'median':>7}{'s':>8}")
    shares = [measure(toy, options.trials, options.rollouts, goals) for toy in make_toys()]
    for missed in goals.missed:
        print("missed:", missed)
    tell(
        "certificates of toys below the truth",
        ours=min(shares),
        theirs=CONFIDENCE,
        ratio=min(shares) / CONFIDENCE,
        goal="95%, medians within 3x of the truth",
        ok=not goals.missed,
    )


if __name__ == "__main__":
    main()

"""The best cut through a tree of prefixes, given what rollouts showed so far.

    correct = correct_masses(levels)
    taken, (whole, opened, mass) = penalized_cuts(levels, correct, PENALTIES)
    cut = trace_cut(levels, [level[:, best] for level in taken])

The rollouts of a pilot are few and the nodes many, so that most nodes have none of their own. Their V is guessed from
the nodes that have some, by how much likelier the donor takes them on its way to a correct completion: if both models
were correct in the same ways, V would be in proportion to (share of the donor's completions) / p. A node after a
decisive step that the donor takes and the target does not stands out, wherever it is.

Not covered: the bound itself. Guesses decide only where to look, so that a wrong one costs efficiency, not validity.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from leash.statistics.array_types import BoolArray, FloatArray
from leash.statistics.prefix_levels import Levels, Prefix, unpack

# A cut of mass P is worth the penalty * P. At 1 only complete sequences are in it.
PENALTIES = np.append(np.geomspace(1e-5, 0.9, 40), 1.0)
# A guessed V counts as much as this many rollouts.
GUESS_ROLLOUTS = 2.0


@dataclass(frozen=True)
class Cut:
    """Prefixes, none of which begins another: open ones, and complete sequences, which are correct, with the
    probability of each."""

    prefixes: tuple[Prefix, ...]
    masses: FloatArray
    whole: tuple[Prefix, ...]
    whole_masses: FloatArray

    @property
    def whole_mass(self) -> float:
        return float(self.whole_masses.sum())

    @property
    def open_mass(self) -> float:
        return float(self.masses.sum())

    def covers(self, completion: Prefix) -> bool:
        """Does this completion begin with a member of the cut?"""
        starts = set(self.prefixes)
        lengths = {len(prefix) for prefix in starts}
        return completion in self.whole or any(completion[:length] in starts for length in lengths)


def correct_masses(tree: Levels) -> list[FloatArray]:
    """The estimated mass of correct completions behind each node, level by level: at least what is known to be
    behind it, or estimated to be behind longer prefixes."""
    below = [np.zeros(len(level.mass)) for level in tree.levels]
    for j, node, mass in zip(tree.whole_level, tree.whole_node, tree.whole_mass, strict=True):
        if j >= 0:
            below[j][node] += mass
    chances = estimate_chances(tree)
    correct: list[FloatArray] = []
    for j in range(len(tree.levels) - 1, -1, -1):
        level = tree.levels[j]
        own = level.mass * chances[j]
        correct.insert(0, np.minimum(np.maximum(own, below[j]), level.mass))
        if j:
            np.add.at(below[j - 1], level.parent, correct[0])
    return correct


def estimate_chances(tree: Levels) -> list[FloatArray]:
    """V of each node, level by level: its rollouts and the guess. A node that no completion of the donor passes, but a
    correct rollout did, is guessed to be like the prefix before it."""
    with np.errstate(divide="ignore"):
        ratios = [np.log(level.donors) - np.log(level.mass) for level in tree.levels]
    guesses = guess_chances(tree, ratios)
    chances: list[FloatArray] = []
    for level, guess in zip(tree.levels, guesses, strict=True):
        before = chances[-1][level.parent] if chances else np.zeros(len(guess))
        prior = np.where(level.donors > 0, guess, before)
        chances.append((level.hits + GUESS_ROLLOUTS * prior) / (level.trials + GUESS_ROLLOUTS))
    return chances


def guess_chances(tree: Levels, ratios: Sequence[FloatArray]) -> list[FloatArray]:
    """V by the log ratio of donor and target: an increasing function, fitted to the rollouts that started at nodes of
    the donor. Between two nodes it falls in proportion to the ratio, but not below the lower one: a straight line would
    give prefixes before a decisive step, whose p is large, a V that is wrong by orders of magnitude."""
    started = [(level.starts > 0) & (level.donors > 0) for level in tree.levels]
    ratio, starts, hits = (
        np.concatenate([values[mask] for values, mask in zip(every, started, strict=True)])
        for every in (ratios, [level.starts for level in tree.levels], [level.start_hits for level in tree.levels])
    )
    if not len(ratio):
        return [np.zeros(len(level.mass)) for level in tree.levels]
    order = np.argsort(ratio, kind="stable")
    ratio, starts, hits = ratio[order], starts[order], hits[order]
    fit = optimize.isotonic_regression(hits / starts, weights=starts).x
    # Past either end there is nothing to fall from, or down to.
    ends, values = np.append(ratio, np.inf), np.concatenate([[0.0], fit, [0.0]])
    guesses = []
    for own in ratios:
        above = np.searchsorted(ratio, own, side="right")
        guesses.append(np.maximum(values[above], values[above + 1] * np.exp(own - ends[above])))
    return guesses


def penalized_cuts(
    tree: Levels, correct: Sequence[FloatArray], penalties: FloatArray
) -> tuple[list[BoolArray], tuple[FloatArray, FloatArray, FloatArray]]:
    """For each penalty, the cut with the largest correct mass - penalty * open mass: which nodes stop there rather than
    go on to longer prefixes, level by level, and the whole mass, open mass and correct open mass of the cut."""
    count = len(penalties)
    # Of the best cut behind each node: value, whole mass, open mass, correct open mass.
    sums = [np.zeros((4, len(level.mass), count)) for level in tree.levels]
    top = np.zeros((4, count))
    for j, node, mass in zip(tree.whole_level, tree.whole_node, tree.whole_mass, strict=True):
        (sums[j][:2, node] if j >= 0 else top[:2])[...] += mass
    taken: list[BoolArray] = []
    for j in range(len(tree.levels) - 1, -1, -1):
        level = tree.levels[j]
        mass, good = level.mass[:, None], correct[j][:, None]
        value = good - penalties * mass
        stop = value > sums[j][0]
        here = np.stack([value, np.zeros_like(value), *np.broadcast_arrays(mass, good, value)[:2]])
        best = np.where(stop, here, sums[j])
        taken.insert(0, stop)
        if j and len(level.mass):
            starts = np.flatnonzero(np.diff(level.parent, prepend=-1))
            sums[j - 1][:, level.parent[starts]] += np.add.reduceat(best, starts, axis=1)
        elif not j:
            top += best.sum(axis=1)
    return taken, (top[1], top[2], top[3])


def trace_cut(tree: Levels, taken: Sequence[BoolArray]) -> Cut:
    """The cut of these decisions: from short to long prefixes, a node is in it if it stops and none above it does."""
    prefixes: list[Prefix] = []
    masses: list[float] = []
    on: list[BoolArray] = []
    for j, level in enumerate(tree.levels):
        reached = on[j - 1][level.parent] if j else np.ones(len(level.mass), dtype=bool)
        stops = np.flatnonzero(reached & taken[j])
        prefixes += [tree.prefix(level, node) for node in stops.tolist()]
        masses += level.mass[stops].tolist()
        on.append(reached & ~taken[j])
    kept = [j < 0 or bool(on[j][node]) for j, node in zip(tree.whole_level, tree.whole_node, strict=True)]
    whole = tuple(unpack(tree.sequences[i]) for i, keep in zip(tree.whole, kept, strict=True) if keep)
    return Cut(tuple(prefixes), np.array(masses), whole, tree.whole_mass[np.array(kept, dtype=bool)])

"""Why did the token entropy of a pair change? Position, length, and the rest: pure functions, no I/O.

Token entropy by the paper's averaging is a mean over steps, then samples, then problems: a step of a completion with T
tokens has the weight 1/T. Steps are put into cells by the length of their completion and their position in it, both in
powers of two. Each model's average is then the sum over cells of its weight w times its mean entropy h there. With b
for the base and r for the trained model, and w(p), h(p) for all lengths together at position p:

    position = sum over p of (w_r(p) - w_b(p)) h_b(p)       the base's entropies, at the places of the trained model
    length   = sum over cells of w_r h_b - sum w_b h_b - position        and in completions of its lengths
    rest     = sum over cells of w_r (h_r - h_b)            same length, same place, and still surer or less sure

The three add up to the change. Completions of equal length may still be of another kind, and a cell mixes problems: the
rest is not proven to be certainty. A cell that the base lacks gets the base's mean at that position, or else its mean
over the data set; if more than MAX_UNCOVERED of the trained model's weight is in such cells, nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_estimates import functional_estimate
from leash.statistics.bootstrap_weights import BootstrapWeights, Estimate

PARTS = ("position_part", "length_part", "rest_part")
MAX_UNCOVERED = 0.2


@dataclass(frozen=True)
class EntropyCells:
    """The cells of a pair: arrays of problems by cells. A weight is the share of a problem's steps (each as 1/T of its
    sample) in a cell, an entropy the sum of the entropies of these steps with the same weights. `place` numbers the
    position of each cell and `dataset` its data set: the same position of two data sets is two places."""

    base_weight: FloatArray
    base_entropy: FloatArray
    rlvr_weight: FloatArray
    rlvr_entropy: FloatArray
    place: IntArray
    dataset: IntArray

    @property
    def uncovered(self) -> float:
        """The share of the trained model's weight in cells that the base lacks."""
        weight = self.rlvr_weight.sum(axis=0)
        return float(weight[self.base_weight.sum(axis=0) == 0].sum() / max(weight.sum(), 1e-300))

    def decompose(self, problem_weights: FloatArray) -> FloatArray:
        """Position, length and rest (columns) under each row of problem weights."""
        shares = problem_weights / problem_weights.sum(axis=1, keepdims=True)
        wb, sb, wr, sr = (
            shares @ values for values in (self.base_weight, self.base_entropy, self.rlvr_weight, self.rlvr_entropy)
        )
        by_place, by_dataset = _membership(self.place), _membership(self.dataset)
        overall = _ratio(sb @ by_dataset, wb @ by_dataset, np.zeros(1))
        # The data set of each place, to fall back on where the base has no step there.
        dataset_of_place = np.zeros(by_place.shape[1], dtype=int)
        dataset_of_place[self.place] = self.dataset
        at_place = _ratio(sb @ by_place, wb @ by_place, overall[:, dataset_of_place])
        in_cell = _ratio(sb, wb, at_place[:, self.place])
        base, trained, moved = sb.sum(axis=1), sr.sum(axis=1), (wr * in_cell).sum(axis=1)
        position = ((wr - wb) @ by_place * at_place).sum(axis=1)
        return np.stack([position, moved - base - position, trained - moved], axis=1)


def _membership(groups: IntArray) -> FloatArray:
    """A matrix that sums columns by group."""
    return np.eye(int(groups.max(initial=-1)) + 1)[groups]


def _ratio(sums: FloatArray, weights: FloatArray, otherwise: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(weights > 0, sums / weights, otherwise)


def decomposition_estimates(cells: EntropyCells, weights: BootstrapWeights, confidence: float) -> dict[str, Estimate]:
    """The three parts with their intervals over problems; without values if the base covers too little."""
    if len(cells.base_weight) == 0 or cells.uncovered > MAX_UNCOVERED:
        return dict.fromkeys(PARTS, Estimate())
    return dict(zip(PARTS, functional_estimate(cells.decompose, weights, confidence), strict=True))

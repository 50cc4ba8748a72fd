"""Why did the token entropy of a pair change? Other lengths, and the rest at the same length: pure functions, no I/O.

Token entropy by the paper's averaging is a mean over steps, then samples, then problems: a step of a completion with T
tokens has the weight 1/T. Steps are put into cells by the length of their completion, in quarters of powers of two, and
by half: the first half of its steps (the middle one included) or the second. Each model's average is then the sum over
cells of its weight w times its mean entropy h there. The weights depend on lengths alone. With b for the base and r for
the trained model:

    length      = sum over cells of (w_r - w_b) h_b         the base's entropies, in completions of the lengths of r
    rest        = sum over cells of w_r (h_r - h_b)         the same length, and still surer or less sure
    first half  = the rest in the cells of first halves
    second half = the rest in the cells of second halves

Length and rest add up to the change, and the two halves to the rest. There is no part of its own for the position: a
completion's length fixes which positions it has. Completions of equal length may still be of another kind, and a cell
mixes problems: the rest is not proven to be certainty. Where the base has no completion of a length, its mean over the
lengths of the same power of two stands in; if more than MAX_UNCOVERED of the trained model's completions have a length
in a power of two that the base lacks, nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leash.statistics.array_types import BoolArray, FloatArray, IntArray
from leash.statistics.bootstrap_estimates import functional_estimate
from leash.statistics.bootstrap_weights import BootstrapWeights, Estimate

PARTS = ("length_part", "rest_part", "first_half_rest", "second_half_rest")
LENGTHS_PER_OCTAVE = 4  # as in cells.sql
MAX_UNCOVERED = 0.2


@dataclass(frozen=True)
class EntropyCells:
    """The cells of a pair: arrays of problems by cells. A weight is the share of a problem's steps (each as 1/T of its
    sample) in a cell, an entropy the sum of the entropies of these steps with the same weights. `octave` numbers the
    data set, power of two and half of each cell, `dataset` its data set and half; `late` marks second halves."""

    base_weight: FloatArray
    base_entropy: FloatArray
    rlvr_weight: FloatArray
    rlvr_entropy: FloatArray
    octave: IntArray
    dataset: IntArray
    late: BoolArray

    @property
    def uncovered(self) -> float:
        """The share of the trained model's weight at lengths in a power of two that the base lacks."""
        octaves = _membership(self.octave)
        weight, base = self.rlvr_weight.sum(axis=0) @ octaves, self.base_weight.sum(axis=0) @ octaves
        return float(weight[base == 0].sum() / max(weight.sum(), 1e-300))

    def decompose(self, problem_weights: FloatArray) -> FloatArray:
        """The parts (columns) under each row of problem weights."""
        shares = problem_weights / problem_weights.sum(axis=1, keepdims=True)
        wb, sb, wr, sr = (
            shares @ values for values in (self.base_weight, self.base_entropy, self.rlvr_weight, self.rlvr_entropy)
        )
        in_cell = np.zeros_like(sb)
        for group in (self.dataset, self.octave, np.arange(sb.shape[1])):  # the finest that the base has stays
            member = _membership(group)
            with np.errstate(invalid="ignore", divide="ignore"):
                mean = (sb @ member / (wb @ member))[:, group]
            in_cell = np.where((wb @ member)[:, group] > 0, mean, in_cell)
        rest = sr - wr * in_cell
        first, second = rest[:, ~self.late].sum(axis=1), rest[:, self.late].sum(axis=1)
        length = (wr * in_cell).sum(axis=1) - sb.sum(axis=1)
        return np.stack([length, first + second, first, second], axis=1)


def _membership(groups: IntArray) -> FloatArray:
    """A matrix that sums columns by group."""
    return np.eye(int(groups.max(initial=-1)) + 1)[groups]


def decomposition_estimates(cells: EntropyCells, weights: BootstrapWeights, confidence: float) -> dict[str, Estimate]:
    """The parts with their intervals over problems; without values if the base covers too little."""
    if len(cells.base_weight) == 0 or cells.uncovered > MAX_UNCOVERED:
        return dict.fromkeys(PARTS, Estimate())
    return dict(zip(PARTS, functional_estimate(cells.decompose, weights, confidence), strict=True))

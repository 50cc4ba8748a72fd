"""Ever reached: the problems that any of several models reaches, such as the checkpoints of one training.

A union of m models with k samples each has m k samples, and more samples reach more problems even if nothing changed.
So it is compared in two ways with the base: with the base's reach in m k samples, and as the expected union of k // m
samples of each model with the base's reach in as many. The models are sampled independently. Both comparisons are fair
at epsilon = 0 only: above it, the base must exceed epsilon in all samples together, a model of the union in its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.categories import support_probability
from leash.statistics.pass_at_k import SampleCounts


def union_probability(supports: FloatArray) -> FloatArray:
    """The probability that any model supports each problem, from a row of probabilities for each model. NaN if that is
    unknown: no model surely does, and of one it is unknown."""
    missed = np.prod(1 - supports, axis=0)
    return np.where((supports == 1).any(axis=0), 1.0, 1 - missed)


def reach_probability(samples: SampleCounts, drawn: IntArray, k: int, epsilon: FloatArray) -> FloatArray:
    """The probability that k of a model's samples support each problem; NaN if fewer than k were to be drawn."""
    support = support_probability(samples, np.full(len(samples.n), k), epsilon)
    return np.where(drawn >= k, support, np.nan)


def union_of_shares(models: Sequence[SampleCounts], k: int, epsilon: FloatArray) -> FloatArray:
    """`union_probability` of k // m samples of each of the m models, which have k each; NaN if that is no sample."""
    share = k // len(models)
    if not share:
        return np.full(len(epsilon), np.nan)
    drawn = np.full(len(epsilon), k)
    return union_probability(np.stack([reach_probability(model, drawn, share, epsilon) for model in models]))

"""maj@k: how often the most frequent of k answers is correct.

Estimated by repeatedly drawing k of a problem's samples without replacement; the first k alone would be one such draw.
Samples without an answer have no vote; answers with equally many votes win equally often. It is exact at k = 1 and
if k is the number of samples.

    maj_at_k(np.array([6, 3]), np.array([True, False]), blank=1, ks=[1, 10], resamples=100, drawn=...)  ->  [0.6, 1.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from leash.statistics.array_types import BoolArray, FloatArray, IntArray

MAJORITY_RESAMPLES = 100
# Events of a probability below exp(-20) are ignored.
NEGLIGIBLE_NEG_LOG_PROB = 20.0


def maj_at_k(
    times: IntArray, correct: BoolArray, blank: int, ks: Sequence[int], resamples: int, drawn: np.random.Generator
) -> list[float]:
    """maj@k at each k. `times`: how often each answer was given, the most frequent first; `blank`: samples without one.
    NaN if there are fewer than k samples."""
    n = int(times.sum()) + blank
    if not correct.any():
        return [0.0 if k <= n else float("nan") for k in ks]
    distances = distances_to_first(times / n)
    found = []
    for k in ks:
        if k > n:
            found.append(float("nan"))
        elif k == 1:
            found.append(float(times[correct].sum() / n))
        elif k == n:
            found.append(float(correct_win_probability(times[None, :], correct)[0]))
        else:
            # How many of the most frequent answers can get the most votes.
            few = int(np.searchsorted(distances, NEGLIGIBLE_NEG_LOG_PROB / k))
            found.append(_drawn_maj_at_k(times, correct, few, k, n, resamples, drawn))
    return found


def distances_to_first(shares: FloatArray) -> FloatArray:
    """(√q - √p)² of each answer's share p and the first one's, q: in k votes, with or without replacement, an answer
    gets as many as the first with a probability of at most exp(-k (√q - √p)²)."""
    roots = np.sqrt(shares)
    return np.asarray((roots[0] - roots) ** 2)


def _drawn_maj_at_k(
    times: IntArray, correct: BoolArray, few: int, k: int, n: int, resamples: int, drawn: np.random.Generator
) -> float:
    """maj@k from random draws, in which only the first few answers can get the most votes."""
    if few == 1 and k * times[0] / n > NEGLIGIBLE_NEG_LOG_PROB:
        return float(correct[0])
    rest = n - int(times[:few].sum())
    # Either method is exact; this is the one that draws fewer numbers.
    method: Literal["count", "marginals"] = "count" if k < few else "marginals"
    votes = drawn.multivariate_hypergeometric([*times[:few].tolist(), rest], k, size=resamples, method=method)[:, :few]
    return float(correct_win_probability(votes, correct[:few]).mean())


def correct_win_probability(votes: IntArray, correct: BoolArray) -> FloatArray:
    """The probability that a correct answer wins each vote: the correct share of the answers with the most votes."""
    most = votes.max(axis=1, keepdims=True)
    first = (votes == most) & (most > 0)
    return np.asarray((first & correct).sum(axis=1) / np.maximum(first.sum(axis=1), 1))

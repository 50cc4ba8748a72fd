"""maj@k: how often the most frequent of k answers is correct.

Estimated by repeatedly drawing k of a problem's samples without replacement; the first k alone would be one such draw.
Samples without an answer have no vote; answers with equally many votes win equally often. It is exact at k = 1 and
if k is the number of samples.

    maj_at_k(np.array([6, 3]), np.array([True, False]), blank=1, k=10, resamples=100, drawn=...)  ->  1.0
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from leash.statistics.array_types import BoolArray, FloatArray, IntArray

MAJORITY_RESAMPLES = 100
# Events of a probability below exp(-20) are ignored.
NEGLIGIBLE_NEG_LOG_PROB = 20.0


def maj_at_k(
    times: IntArray, correct: BoolArray, blank: int, k: int, resamples: int, drawn: np.random.Generator
) -> float:
    """`times`: how often each answer was given, the most frequent first; `blank`: samples without one. NaN if there are
    fewer than k samples."""
    n = int(times.sum()) + blank
    if k > n:
        return float("nan")
    if not correct.any():
        return 0.0
    if k == 1:
        return float(times[correct].sum() / n)
    if k == n:
        return float(correct_win_probability(times[None, :], correct)[0])
    few = count_contenders(times / n, k)
    if few == 1 and k * times[0] / n > NEGLIGIBLE_NEG_LOG_PROB:
        return float(correct[0])
    rest = n - int(times[:few].sum())
    # Either method is exact; this is the one that draws fewer numbers.
    method: Literal["count", "marginals"] = "count" if k < few else "marginals"
    votes = drawn.multivariate_hypergeometric([*times[:few], rest], k, size=resamples, method=method)[:, :few]
    return float(correct_win_probability(votes, correct[:few]).mean())


def count_contenders(shares: FloatArray, k: int) -> int:
    """How many of the most frequent answers can get the most votes of k. An answer of share p gets as many votes as the
    first, of share q, with a probability of at most exp(-k (√q - √p)²), with or without replacement."""
    return int((k * (np.sqrt(shares[0]) - np.sqrt(shares)) ** 2 < NEGLIGIBLE_NEG_LOG_PROB).sum())


def correct_win_probability(votes: IntArray, correct: BoolArray) -> FloatArray:
    """The probability that a correct answer wins each vote: the correct share of the answers with the most votes."""
    most = votes.max(axis=1, keepdims=True)
    first = (votes == most) & (most > 0)
    return np.asarray((first & correct).sum(axis=1) / np.maximum(first.sum(axis=1), 1))

"""maj@k: how often the most frequent of k answers is right.

Estimated by drawing k of a problem's samples without replacement, again and again, from the table of its answers: not
from the first k alone, which are one such draw. Samples without an answer have no vote; answers with equally many
votes win equally often. Exact at k = 1 and where k is all there are.

    maj_at_k(np.array([6, 3]), np.array([True, False]), blank=1, k=10, resamples=100, drawn=...)  ->  1.0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from stages.categorize.statistics import Ints, Reals, Truths

RESAMPLES = 100
SURELY = 20.0  # what has a chance of exp(-20) is left out


def curve(
    times: Ints, correct: Truths, blank: int, budgets: Sequence[int], resamples: int, drawn: np.random.Generator
) -> list[float]:
    """maj@k for every budget; NaN where there are fewer samples."""
    return [maj_at_k(times, correct, blank, k, resamples, drawn) for k in budgets]


def maj_at_k(times: Ints, correct: Truths, blank: int, k: int, resamples: int, drawn: np.random.Generator) -> float:
    """`times`: how often each answer was given, the most frequent first; `blank`: samples without one."""
    n = int(times.sum()) + blank
    if k > n:
        return float("nan")
    if not correct.any():
        return 0.0
    if k == 1:
        return float(times[correct].sum() / n)
    if k == n:
        return float(won(times[None, :], correct)[0])
    few = contenders(times / n, k)
    if few == 1 and k * times[0] / n > SURELY:
        return float(correct[0])
    rest = n - int(times[:few].sum())
    how: Literal["count", "marginals"] = "count" if k < few else "marginals"  # whichever draws fewer numbers
    votes = drawn.multivariate_hypergeometric([*times[:few], rest], k, size=resamples, method=how)[:, :few]
    return float(won(votes, correct[:few]).mean())


def contenders(shares: Reals, k: int) -> int:
    """How many of the most frequent answers can have the most votes of k. One of share p has as many as the first, of
    share q, with a chance of at most exp(-k (√q - √p)²), whether drawn with replacement or without."""
    return int((k * (np.sqrt(shares[0]) - np.sqrt(shares)) ** 2 < SURELY).sum())


def won(votes: Ints, correct: Truths) -> Reals:
    """The chance that a right answer wins each vote: its share of those with the most votes."""
    most = votes.max(axis=1, keepdims=True)
    first = (votes == most) & (most > 0)
    return np.asarray((first & correct).sum(axis=1) / np.maximum(first.sum(axis=1), 1))

"""The shares that a problem's right answers have among the wrong answers to the other problems of its data set.

    sum_other_shares(here, right, wrong)  ->  {"others": array([12, 0]), "shares": array([3.1, 0.0]), ...}

`right` and `wrong` are sparse matrices with a row per problem and a column per answer that is right on some problem,
`here` has the rows of `right` that are asked for.
A problem counts as another one if the model gave two or more wrong answers to it, and if none of the answers that are
right here is right there, too. leash/statistics/guessing.py says what the sums are for.

Which problems share a right answer is a product of problems with problems. It is computed for a few right sets at a
time, so memory does not grow with it. In SQL, 2,000 problems that accept several out of 20 answers took a minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from leash.statistics.array_types import FloatArray, IntArray

# At most this many pairs of a right set and another problem are in memory.
MAX_PAIRS = 4_000_000


@dataclass(frozen=True)
class WrongAnswers:
    """How often a model gave each wrong answer to each problem. `total` also counts answers that are right nowhere."""

    times: Any  # sparse: problems × answers
    total: IntArray


def sum_other_shares(here: Any, right: Any, wrong: WrongAnswers) -> dict[str, FloatArray]:
    """For each row of `here`, over the other problems with m wrong answers of which its right answers have the share s:
    their number (`others`), and the sums of s (`shares`), s² (`squares`), s(1 - s)/(m - 1) (`noise`) and 1/m
    (`one_hit`)."""
    guessed = np.flatnonzero(wrong.total > 1)
    total = wrong.total[guessed].astype(float)
    first, set_of = find_right_sets(here)
    shares_of = (sparse.diags(1 / total) @ wrong.times[guessed]).T.tocsr()
    right_there = right[guessed].T.tocsr()
    size = max(1, MAX_PAIRS // max(1, len(guessed)))
    parts = [np.zeros((5, 0))]
    for begin in range(0, len(first), size):
        sets = here[first[begin : begin + size]]
        overlap = sets @ right_there
        overlap.data[:] = 1
        share = (sets @ shares_of).tocsr()
        share -= share.multiply(overlap)  # the same numbers, so the difference is exactly 0
        row = np.repeat(np.arange(sets.shape[0]), np.diff(share.indptr))
        s, rest = share.data, total[share.indices] - 1
        summed = [np.bincount(row, values, sets.shape[0]) for values in (s, s**2, s * (1 - s) / rest)]
        others = len(guessed) - np.diff(overlap.indptr)
        one_hit = np.where(others > 0, (1 / total).sum() - overlap @ (1 / total), 0.0)
        parts.append(np.array([others, *summed, one_hit]))
    names = ("others", "shares", "squares", "noise", "one_hit")
    return dict(zip(names, np.concatenate(parts, axis=1)[:, set_of], strict=True))


def find_right_sets(right: Any) -> tuple[IntArray, IntArray]:
    """Problems with the same right answers have the same sums: the first problem of each set of right answers, and the
    number of each problem's set."""
    right.sort_indices()
    numbers: dict[bytes, int] = {}
    first: list[int] = []
    set_of = np.zeros(right.shape[0], dtype=np.int64)
    for problem in range(right.shape[0]):
        key = right.indices[right.indptr[problem] : right.indptr[problem + 1]].tobytes()
        if key not in numbers:
            numbers[key] = len(first)
            first.append(problem)
        set_of[problem] = numbers[key]
    return np.array(first, dtype=np.int64), set_of

"""Sums over the other problems of a data set are those of a plain loop, however many problems share right answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from leash.statistics import other_shares
from leash.statistics.other_shares import WrongAnswers, sum_other_shares
from leash.statistics.seeds import stream

PROBLEMS, ANSWERS = 40, 12


@pytest.mark.parametrize("pairs_in_memory", [1, 150, 10**6])
@pytest.mark.parametrize("most_right", [1, 2, 5])
def test_sums_are_those_of_a_plain_loop(monkeypatch: pytest.MonkeyPatch, pairs_in_memory: int, most_right: int) -> None:
    """Up to five of twelve answers are right on a problem; one answer is right on a third of them."""
    monkeypatch.setattr(other_shares, "MAX_PAIRS", pairs_in_memory)
    rng = stream("test", "other shares", most_right)
    right = np.zeros((PROBLEMS, ANSWERS))
    for row in right:
        row[rng.choice(ANSWERS, rng.integers(0, most_right + 1), replace=False)] = 1
    right[::3, 0] = 1
    times = rng.poisson(0.6, (PROBLEMS, ANSWERS)) * (1 - right)
    total = (times.sum(axis=1) + rng.integers(0, 2, PROBLEMS)).astype(np.int64)
    matrix = sparse.csr_matrix(right)
    found = sum_other_shares(matrix, matrix, WrongAnswers(sparse.csr_matrix(times), total))
    for problem in range(PROBLEMS):
        others = [i for i in range(PROBLEMS) if total[i] > 1 and not (right[i] * right[problem]).any()]
        m = total[others].astype(float)
        s = (times[others] * right[problem]).sum(axis=1) / m
        expected = {"others": len(others), "shares": s.sum(), "squares": (s**2).sum(), "one_hit": (1 / m).sum()}
        expected["noise"] = (s * (1 - s) / (m - 1)).sum()
        assert {name: values[problem] for name, values in found.items()} == pytest.approx(expected, abs=1e-12)


def test_nothing_is_left_where_one_answer_is_right_everywhere() -> None:
    """Every problem accepts the first answer and one of its own."""
    right = sparse.csr_matrix(np.hstack([np.ones((6, 1)), np.eye(6)]))
    times = sparse.csr_matrix(np.hstack([np.zeros((6, 1)), 2 * (1 - np.eye(6))]))
    found = sum_other_shares(right, right, WrongAnswers(times, np.full(6, 10)))
    assert {name: values.tolist() for name, values in found.items()} == dict.fromkeys(found, [0.0] * 6)

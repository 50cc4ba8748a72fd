"""Support from counts, and its statistics, against enumeration, scipy and the paper's own rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from leash.counting import metrics
from leash.statistics import intervals, testing
from leash.statistics.support import detectable_mass
from stages.categorize import stage


def support(counts: list[tuple[int, int, int, int]], epsilon: float = 0.0, k: int | None = None) -> pa.Table:
    """The support table of problems with these (n_base, c_base, n_rlvr, c_rlvr)."""
    rows = [
        {
            "pair": "x",
            "dataset": "d",
            "domain": "math",
            "problem_id": f"p{i:04d}",
            "unit_key": f"p{i:04d}",
            "k": k or n_base,
            "epsilon": epsilon,
            "n_base": n_base,
            "c_base": c_base,
            "ended_base": "k" if n_base >= (k or n_base) else None,
            "n_rlvr": n_rlvr,
            "c_rlvr": c_rlvr,
            "ended_rlvr": "k" if n_rlvr >= (k or n_base) else None,
        }
        for i, (n_base, c_base, n_rlvr, c_rlvr) in enumerate(counts)
    ]
    return stage.add_categories(pa.Table.from_pylist(rows), 0.95)


def overall(table: pa.Table, counted: str = "chosen") -> dict[str, Any]:
    rows = metrics.compute_metrics(table).to_pylist()
    return next(row for row in rows if row["dataset"] == "all" and row["counted"] == counted)


def curve(table: pa.Table, role: str) -> dict[int, float]:
    rows = metrics.compute_pass_at_k(table).to_pylist()
    return {row["k"]: row["pass_at_k"] for row in rows if row["dataset"] == "all" and row["role"] == role}


def test_categories_are_strict_about_epsilon() -> None:
    counts = [(100, 5, 100, 6), (100, 6, 100, 5), (100, 6, 100, 6), (100, 5, 100, 5), (100, 0, 100, 6)]
    assert support(counts, 0.05)["category"].to_pylist() == ["E", "S", "P", "O", "E"]
    assert support(counts, 0.0)["category"].to_pylist() == ["P", "P", "P", "P", "E"]


def test_too_few_samples_are_not_guessed() -> None:
    assert support([(100, 5, 60, 6)])["category"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("p", "e", "s", "o", "printed"),
    [  # arXiv 2507.14843v4, Table 1: ProRL-v1 math and non-math, OLMo; Table 3: SFT and DAPO on AIME25
        (1355, 5, 56, 131, (0.96, 0.00, 0.01, -0.04)),
        (1045, 31, 107, 674, (0.91, 0.03, 0.06, -0.06)),
        (761, 83, 104, 599, (0.88, 0.10, 0.18, -0.02)),
        (14, 5, 1, 10, (0.93, 0.26, 0.41, 0.20)),
        (15, 2, 0, 13, (1.00, 0.12, 0.21, 0.12)),
    ],
)
def test_ratios_are_the_papers(p: int, e: int, s: int, o: int, printed: tuple[float, ...]) -> None:
    counts = [(4, 1, 4, 1)] * p + [(4, 0, 4, 1)] * e + [(4, 1, 4, 0)] * s + [(4, 0, 4, 0)] * o
    row = overall(support(counts))
    assert (row["P"], row["E"], row["S"], row["O"]) == (p, e, s, o)
    assert tuple(round(row[name], 2) for name in ("SRR", "NDR", "SDS", "NSCR")) == printed


def test_zero_over_zero_is_null() -> None:
    row = overall(support([(4, 0, 4, 0)]))
    assert [row[name] for name in ("SRR", "NDR", "SDS", "NSCR")] == [None] * 4
    row = overall(support([(4, 1, 4, 0)]))
    assert (row["SRR"], row["NDR"], row["SDS"], row["NSCR"]) == (0, None, None, -1)


def test_the_papers_counting_stands_beside_the_chosen_epsilon() -> None:
    table = support([(100, 1, 100, 50), (100, 0, 100, 1)], epsilon=0.1)
    assert (overall(table)["E"], overall(table)["O"]) == (1, 1)
    assert (overall(table, "any hit")["P"], overall(table, "any hit")["E"]) == (1, 1)


def every_count(most: int) -> Iterator[tuple[int, int]]:
    yield from ((n, c) for n in range(1, most + 1) for c in range(n + 1))


def test_pass_at_k_equals_enumeration() -> None:
    for n, c in every_count(8):
        found = curve(support([(n, c, n, c)]), "base")
        assert set(found) == {2**i for i in range(4) if 2**i <= n}
        for k, value in found.items():
            draws = list(combinations([True] * c + [False] * (n - c), k))
            assert value == pytest.approx(sum(any(draw) for draw in draws) / len(draws), abs=1e-12)


def test_pass_at_k_loses_no_precision_at_16384() -> None:
    n = 16384
    for c in (1, 2, 37, 8000, 16383, 16384):
        found = curve(support([(n, c, n, 0)]), "base")
        for k in (1, 64, 4096, 16384):
            exact = 1 - math.comb(n - c, k) / math.comb(n, k)
            assert found[k] == pytest.approx(exact, abs=1e-9)


def test_pass_at_k_is_null_where_samples_are_too_few() -> None:
    found = curve(support([(8, 1, 8, 1), (4, 1, 8, 1)], k=8), "base")
    assert found[4] is not None
    assert found[8] is None


def test_clopper_pearson_equals_scipy() -> None:
    counts = np.array(list(every_count(12)))
    low, high = intervals.clopper_pearson(counts[:, 0], counts[:, 1], 0.9)
    for (n, c), a, b in zip(counts.tolist(), low, high, strict=True):
        expected = stats.binomtest(c, n).proportion_ci(0.9, method="exact")
        assert (a, b) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_no_samples_at_all_have_the_widest_interval() -> None:
    low, high = intervals.clopper_pearson(np.array([0]), np.array([0]), 0.95)
    assert (low[0], high[0]) == (0.0, 1.0)


def test_fisher_tells_luck_from_change() -> None:
    four = [(1024, 0, 1024, 2), (1024, 0, 1024, 40), (1024, 40, 1024, 0), (1024, 9, 1024, 9), (1024, 0, 1024, 0)]
    assert support(four)["tested_category"].to_pylist() == ["undetermined", "E", "S", "P", "undetermined"]
    # No number of misses proves a mass of 0, but it proves one below epsilon.
    above = support(four, epsilon=0.01)["tested_category"].to_pylist()
    assert above == ["O", "E", "S", "undetermined", "O"]


def test_correction_is_within_each_pair() -> None:
    p_values = np.array([0.01, 0.02, 0.9, 0.01])
    families = np.array(["a", "a", "a", "b"], dtype=object)
    assert testing.benjamini_hochberg(p_values, families).tolist() == pytest.approx([0.03, 0.03, 0.9, 0.01])


def test_detectability_bound_is_the_papers() -> None:
    assert detectable_mass(8192, 0.95) == pytest.approx(3.66e-4, abs=1e-6)

"""G-Pass@k, consolidation, the efficiency gap and Cover@τ, as the report shows them."""

from __future__ import annotations

import json
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

from leash.report import consistency_tables
from leash.report.cells import format_cells
from leash.report.figures import coverage, style
from leash.statistics.analysis import analyze_counts
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.counts import ROLES, Counts

HITS = {"base": [0, 2, 4, 8], "rlvr": [0, 0, 8, 8]}


def analysis_of(n: int, hits: dict[str, list[int]]) -> dict[str, Any]:
    """The analysis of a pair with n samples of each problem, as the report reads it from disk."""
    size = len(hits["base"])
    names = np.array([str(i) for i in range(size)], dtype=object)
    columns: dict[str, Any] = {}
    for role in ROLES:
        columns |= {f"n_{role}": np.full(size, n), f"c_{role}": np.array(hits[role])}
        columns[f"ended_{role}"] = np.full(size, "k", dtype=object)
    counts = Counts(names, names, **columns, k=np.full(size, n), epsilon=np.zeros(size))
    return dict(json.loads(json.dumps(analyze_counts(counts, AnalysisSettings(resamples=50)))))


def test_g_pass_has_a_row_for_each_k_that_the_samples_allow() -> None:
    table = consistency_tables.g_pass_table({"tuned": {"all": analysis_of(8, HITS)}})
    rows = table.to_pylist()
    assert [(row["pair"], row["dataset"], row["k"]) for row in rows] == [("tuned", "all", 4), ("tuned", "all", 8)]
    # All 8 samples: at least half are hits on two problems of each model, all of them on one and on two.
    assert [rows[1][f"{role}_g_pass_{tau}"] for tau in ("0.5", "1") for role in ROLES] == [0.5, 0.5, 0.25, 0.5]
    assert all(row["base_g_pass_1_low"] <= row["base_g_pass_1"] <= row["base_g_pass_1_high"] for row in rows)
    header, _ = format_cells(table)
    assert header[3:5] == ["base, τ = 0.25", "trained, τ = 0.25"]


def test_consolidation_and_the_gap_are_beside_the_rates_they_compare() -> None:
    [row] = consistency_tables.consolidation_table({"tuned": {"all": analysis_of(8, HITS)}}).to_pylist()
    assert (row["gap_k"], row["problems"], row["consolidation"]) == (8, 4, 0.5)
    assert row["efficiency_gap"] == pytest.approx(row["base_pass@gap_k"] - row["rlvr_pass@1"]) == pytest.approx(0.25)
    assert row["efficiency_gap_low"] <= row["efficiency_gap"] <= row["efficiency_gap_high"]


def test_the_curves_show_the_share_of_problems_above_each_threshold() -> None:
    analyses = {"all": analysis_of(8, HITS), "one": analysis_of(8, {role: HITS[role][1:3] for role in ROLES})}
    with style.style_context():
        figure = coverage.draw_cover_at_tau(analyses, ["all", "one"], "base", "tuned")
        drawn = [line.get_xydata() for line in figure.axes[0].get_lines()]
        plt.close(figure)
    for role, points in zip(ROLES, drawn, strict=True):
        masses = np.array(HITS[role]) / 8
        for tau, share in np.asarray(points):
            assert share == (masses >= tau - 1e-9).mean()
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["all problems", "one"]


def test_without_samples_the_figure_says_so() -> None:
    with style.style_context():
        figure = coverage.draw_cover_at_tau({}, ["all"], "base", "tuned")
        plt.close(figure)
    assert "Cover@τ is unknown" in " ".join(figure.axes[0].texts[0].get_text().split())

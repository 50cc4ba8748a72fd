"""Every published row of support counts (arXiv 2507.14843v4, Tables 1, 3, 4 and 6 to 12: leash/report/published.csv)
gives the ratios that are printed beside it, but for eight slips of the paper's.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from leash.report import published
from leash.statistics.ratios import RATIO_NAMES, compute_ratios

ROWS = list(csv.DictReader((Path(published.__file__).parent / "published.csv").open(encoding="utf-8")))
SLIPS = {  # (table, model, data set, step): what is printed otherwise than its counts give
    ("1", "ProRL-1.5B-v1", "Overall", ""): {"NDR"},
    ("1", "AceReason-Nemotron-7B", "Non-Math", ""): {"SRR", "SDS"},
    ("1", "AceReason-Nemotron-14B", "Non-Math", ""): {"NSCR"},
    ("1", "OVR-7B-RL", "Math", ""): {"SRR"},
    ("7", "AceReason-Nemotron-7B", "Overall", ""): {"SRR"},
    ("8", "Skywork-OR1-7B", "Math", ""): {"NSCR"},
    ("8", "Skywork-OR1-7B", "Overall", ""): {"SDS", "NSCR"},
    # its metrics are those of 19 preserved problems, which would make 31 of 30
    ("4", "DeepSeek-R1-Distill-Qwen-1.5B DAPO", "AIME2025", "300"): {"SRR", "NDR", "SDS", "NSCR"},
}


def name(row: dict[str, str]) -> tuple[str, str, str, str]:
    return row["table"], row["model"], row["dataset"], row["step"]


def otherwise(row: dict[str, str]) -> set[str]:
    """Which ratios are not those of the counts, at the digits that are printed."""
    p, e, s = (int(row[letter]) for letter in "PES")
    found = {ratio: float(value) for ratio, value in compute_ratios(p, e, s).items()}
    digits = {ratio: len(row[ratio].split(".")[1]) for ratio in RATIO_NAMES}
    return {r for r in RATIO_NAMES if abs(found[r] - float(row[r])) > 0.5 * 10 ** -digits[r] + 1e-12}


def test_there_are_178_rows_each_of_its_own() -> None:
    assert len(ROWS) == 178
    assert len({name(row) for row in ROWS}) == 178


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(name(row)).replace(" ", "_"))
def test_ratios_follow_from_the_counts(row: dict[str, str]) -> None:
    assert otherwise(row) == SLIPS.get(name(row), set())


@pytest.mark.parametrize("row", [row for row in ROWS if row["pass_base"]], ids=lambda row: "-".join(name(row)))
def test_pass_at_k_is_the_share_of_problems_with_a_hit(row: dict[str, str]) -> None:
    p, e, s, o = (int(row[letter]) for letter in "PESO")
    assert 100 * (p + s) / (p + e + s + o) == pytest.approx(float(row["pass_base"]), abs=0.051)
    assert 100 * (p + e) / (p + e + s + o) == pytest.approx(float(row["pass_rlvr"]), abs=0.051)

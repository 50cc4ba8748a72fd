"""Intervals, noise floors and the sharpening test as numbers: rows of pass@k, and what `metrics.json` keeps.

In: the analyses of a run by pair and group of problems. The sentences about them are in narrative.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from leash.report.narrative import SUMMARY_RATIOS
from leash.statistics.counts import ROLES
from leash.statistics.ratios import RATIO_NAMES

PASS_AT_K_SCHEMA = pa.schema(
    [("pair", pa.string()), ("dataset", pa.string()), ("role", pa.string()), ("k", pa.int32())]
    + [(name, pa.float64()) for name in ("pass_at_k", "low", "high", "first_k", "maj_at_k")]
)
Analysis = Mapping[str, Any]


def pass_at_k_rows(pass_at_k: pa.Table, analyses: Mapping[str, Mapping[str, Analysis]]) -> list[dict[str, Any]]:
    """pass@k with its interval over problems, the plain hit rate of the first k samples, and maj@k."""
    rows: list[dict[str, Any]] = pass_at_k.to_pylist()
    for row in rows:
        analysis = analyses[row["pair"]].get(row["dataset"], {})
        estimate, first, majority = (
            analysis.get(name, {}).get(row["role"], {}).get(str(row["k"]), {})
            for name in ("pass_at_k", "first_k_hit_rate", "maj_at_k")
        )
        row |= {"low": estimate.get("low"), "high": estimate.get("high")}
        row |= {"first_k": first.get("value"), "maj_at_k": majority.get("value")}
    return rows


def uncertainty_metrics(analysis: Analysis | None) -> dict[str, Any]:
    """The part of an analysis that `metrics.json` keeps."""
    if analysis is None:
        return {}
    floor, crossing, tilt = analysis["noise_floor"], analysis["crossing"], analysis["tilt"]
    odds = tilt["odds_ratio"]
    return {
        "intervals": {name: {"low": analysis[name]["low"], "high": analysis[name]["high"]} for name in RATIO_NAMES},
        "tested": {name: analysis["tested"][name] for name in ("E", "S")},
        "mcnemar_p": analysis["mcnemar"]["p_value"],
        "half": {
            "k": max(floor["k"]) if isinstance(floor["k"], list) else floor["k"],
            **{name: {which: floor[which][name]["value"] for which in ("pair", "base")} for name in SUMMARY_RATIOS},
        },
        "crossing": {name: crossing[name] for name in ("value", "low", "high")},
        "tilt": {"odds_ratio": None}
        if odds is None
        else {
            "odds_ratio": odds["value"],
            "low": odds["low_problems"],
            "high": odds["high_problems"],
            "explained": tilt["explained"],
            **{name: len(tilt[name]) for name in ("above", "below")},
            "problems": tilt["problems"],
        },
        "not_above_guessing": {role: len(analysis["guess_floor"][role]["not_above"]) for role in ROLES},
    }

"""The tables of the controls: the categories if something else counts as a hit, and the working of the hits.

In:  the analyses by pair and group of problems: `controls` and `working` (stages/categorize/controls.py), and `judged`
     if a judge was asked.
Out: Arrow tables for the report. changed_by_control.sql lists the problems whose category depends on a control.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from leash import tables
from leash.cross_pair import ESTIMATE_SUFFIXES, estimate_columns
from leash.report.narrative import SUMMARY_RATIOS
from leash.statistics.counts import ROLES

AnalysesByPair = Mapping[str, Mapping[str, Mapping[str, Any]]]
Row = dict[str, Any]
WORKING_KINDS = ("strict", "lenient", "hits", "sound", "unsound", "direct", "unchecked")
KEY_COLUMNS = {"pair": tables.STRING, "dataset": tables.STRING}


def _estimates(*names: str) -> dict[str, pa.DataType]:
    return {f"{name}{end}": tables.FLOAT64 for name in names for end in ESTIMATE_SUFFIXES}


CONTROLS_SCHEMA = pa.schema(
    {
        **KEY_COLUMNS,
        "view": tables.STRING,
        **dict.fromkeys(("problems", "uncategorized", *"PESO"), pa.int64()),
        **_estimates(*SUMMARY_RATIOS),
        **dict.fromkeys(("E_tested", "S_tested"), pa.int64()),
        **_estimates(*(f"{role}_pass@{k}" for k in "1k" for role in ROLES)),
        **{"p_value": tables.FLOAT64, "decision": tables.STRING},
        **{f"{role}_guess_floor": tables.FLOAT64 for role in ROLES},
    }
)
WORKING_SCHEMA = pa.schema(
    {
        **KEY_COLUMNS,
        "role": tables.STRING,
        **dict.fromkeys(WORKING_KINDS, pa.int64()),
        "unseen_share": tables.FLOAT64,
    }
)
JUDGED_SCHEMA = pa.schema(
    {
        **KEY_COLUMNS,
        **{"judge": tables.STRING, "rule": tables.STRING},
        **dict.fromkeys(("votes", "asked", "hits"), pa.int64()),
        **_estimates(*(f"{role}_sound_hits" for role in ROLES), *"PESO"),
        **_estimates(*(f"{role}_cot_pass@{k}" for k in "1k" for role in ROLES)),
        "refused": tables.STRING,
    }
)
UNKNOWN = {"value": None, "low": None, "high": None}


def pass_at_ends(curves: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """pass@1 and pass@k of both models from their curves. Over data sets that differ in k, it is at the largest k that
    all have. A judge that is refused has no curves."""
    estimates = {}
    for role in ROLES:
        curve = (curves or {}).get(role, {})
        known = [k for k, estimate in curve.items() if estimate["value"] is not None]
        estimates[f"{role}_pass@1"] = curve.get("1", UNKNOWN)
        estimates[f"{role}_pass@k"] = curve[max(known, key=int)] if known else UNKNOWN
    return estimates


def controls_table(analyses: AnalysesByPair) -> pa.Table:
    """A row per pair, group of problems and control. `uncategorized` problems have no category under that control."""
    rows: list[Row] = []
    for pair, groups in analyses.items():
        for group, analysis in groups.items():
            for control, found in analysis["controls"].items():
                about = {"pair": pair, "dataset": group, "view": control}
                numbers = {name: found[name] for name in ("problems", "uncategorized", "decision")}
                estimates = {**{name: found[name] for name in SUMMARY_RATIOS}, **pass_at_ends(found["pass_at_k"])}
                rows.append(
                    {
                        **about,
                        **numbers,
                        **found["categories"],
                        **estimate_columns(estimates),
                        **{f"{letter}_tested": found["tested"][letter] for letter in "ES"},
                        "p_value": found["test"]["p_adjusted"],
                        **{f"{role}_guess_floor": found["guess_floor"][role]["mean"] for role in ROLES},
                    }
                )
    return tables.table_from_rows(rows, CONTROLS_SCHEMA)


def working_table(analyses: AnalysesByPair) -> pa.Table:
    """A row per pair, group of problems and model: its hits by reading, and by their working."""
    rows = [
        {"pair": pair, "dataset": group, "role": role, **analysis["working"][role]}
        for pair, groups in analyses.items()
        for group, analysis in groups.items()
        for role in ROLES
    ]
    return tables.table_from_rows(rows, WORKING_SCHEMA)


def judged_table(analyses: AnalysesByPair) -> pa.Table:
    """A row per pair and group of problems whose hits a judge was asked about."""
    rows: list[Row] = []
    for pair, groups in analyses.items():
        for group, analysis in groups.items():
            if not (judged := analysis.get("judged")):
                continue
            sound, categories = (judged.get(name) or {} for name in ("sound_hits", "categories"))
            estimates = {f"{role}_sound_hits": sound.get(role) or UNKNOWN for role in ROLES}
            estimates |= {letter: categories.get(letter) or UNKNOWN for letter in "PESO"}
            ends = pass_at_ends(judged.get("cot_pass_at_k"))
            estimates |= {name.replace("_pass", "_cot_pass"): estimate for name, estimate in ends.items()}
            plain = {name: judged[name] for name in ("judge", "rule", "votes", "refused")}
            plain |= {name: sum(judged[name].values()) for name in ("asked", "hits")}
            rows.append({"pair": pair, "dataset": group, **plain, **estimate_columns(estimates)})
    return tables.table_from_rows(rows, JUDGED_SCHEMA)


def control_metrics(groups: Mapping[str, Mapping[str, Any]]) -> Row:
    """The part of metrics.json on the controls: by group of problems, what each control counts and decides, and the
    working of the hits; what a judge found, if one was asked."""
    return {
        "controls": {
            group: {control: _control_numbers(found) for control, found in analysis["controls"].items()}
            for group, analysis in groups.items()
        },
        "working": {
            group: {role: dict(analysis["working"][role]) for role in ROLES} for group, analysis in groups.items()
        },
        "judged": {group: dict(analysis["judged"]) for group, analysis in groups.items() if analysis.get("judged")},
    }


def _control_numbers(found: Mapping[str, Any]) -> Row:
    return {
        **{name: found[name] for name in ("problems", "uncategorized")},
        **found["categories"],
        **{name: {end: found[name][end] for end in ("value", "low", "high")} for name in SUMMARY_RATIOS},
        "tested": {letter: found["tested"][letter] for letter in "ES"},
        **{
            name: {end: estimate[end] for end in ("value", "low", "high")}
            for name, estimate in pass_at_ends(found["pass_at_k"]).items()
        },
        "p_adjusted": found["test"]["p_adjusted"],
        "decision": found["decision"],
        "moves": dict(found["moves"]),
        "guess_floor": {role: found["guess_floor"][role]["mean"] for role in ROLES},
    }

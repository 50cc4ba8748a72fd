"""How reliably the models solve what they solve: G-Pass@k, consolidation and the sampling-efficiency gap.

In:  the analyses by pair and group of problems (docs/compare.md lists their keys).
Out: two Arrow tables for the report. The figure `cover_at_tau` shows the same question for every threshold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from leash import tables
from leash.cross_pair import ESTIMATE_SUFFIXES, estimate_columns
from leash.statistics.aggregate_columns import G_PASS_TAUS
from leash.statistics.counts import ROLES

AnalysesByPair = Mapping[str, Mapping[str, Mapping[str, Any]]]
KEY_COLUMNS = {"pair": tables.STRING, "dataset": tables.STRING}


def _estimate_schema(names: list[str]) -> dict[str, pa.DataType]:
    return {f"{name}{end}": tables.FLOAT64 for name in names for end in ESTIMATE_SUFFIXES}


G_PASS_SCHEMA = pa.schema(
    {
        **KEY_COLUMNS,
        "k": pa.int64(),
        **_estimate_schema([f"{role}_g_pass_{tau:g}" for tau in G_PASS_TAUS for role in ROLES]),
    }
)
CONSOLIDATION_SCHEMA = pa.schema(
    {
        **KEY_COLUMNS,
        "problems": pa.int64(),
        **_estimate_schema(["consolidation", "base_pass@1", "rlvr_pass@1"]),
        "gap_k": pa.int64(),
        **_estimate_schema(["base_pass@gap_k", "efficiency_gap"]),
    }
)


def g_pass_table(analyses: AnalysesByPair) -> pa.Table:
    """G-Pass@k of both models: a row per pair, group of problems and k, a column per model and τ."""
    return tables.table_from_rows(list(_g_pass_rows(analyses)), G_PASS_SCHEMA)


def _g_pass_rows(analyses: AnalysesByPair) -> Iterator[dict[str, Any]]:
    for pair, groups in analyses.items():
        for group, analysis in groups.items():
            by_role = analysis["g_pass_at_k"]
            for k, of_base in by_role["base"].items():
                estimates = {
                    f"{role}_g_pass_{float(tau):g}": by_role[role][k][tau] for tau in of_base for role in ROLES
                }
                if any(estimate["value"] is not None for estimate in estimates.values()):
                    yield {"pair": pair, "dataset": group, "k": int(k), **estimate_columns(estimates)}


def consolidation_table(analyses: AnalysesByPair) -> pa.Table:
    """Consolidation and the efficiency gap: a row per pair and group of problems, with the pass@k they compare."""
    rows = []
    for pair, groups in analyses.items():
        for group, analysis in groups.items():
            gap, curves = analysis["efficiency_gap"], analysis["pass_at_k"]
            estimates = {
                "consolidation": analysis["consolidation"],
                **{f"{role}_pass@1": curves[role]["1"] for role in ROLES},
                "base_pass@gap_k": curves["base"][str(gap["k"])],
                "efficiency_gap": gap,
            }
            about = {"pair": pair, "dataset": group, "problems": analysis["problems"], "gap_k": gap["k"]}
            rows.append({**about, **estimate_columns(estimates)})
    return tables.table_from_rows(rows, CONSOLIDATION_SCHEMA)

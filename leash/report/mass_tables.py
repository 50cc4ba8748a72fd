"""The tables about true masses: how sure the categories are, and pass@k beyond the samples.

In: the analyses of data/analysis by pair and group of problems. Out: Arrow tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from leash.params.groups import Params
from leash.statistics.counts import ROLES
from leash.tables import FLOAT64, STRING

INT64 = pa.int64()
Analyses = Mapping[str, Mapping[str, Mapping[str, Any]]]

CERTAINTY_SCHEMA = pa.schema(
    {
        **{"pair": STRING, "dataset": STRING, "problems": INT64},
        **{f"{name}_sure": INT64 for name in "PESO"},
        "open": INT64,
        **{f"{name}_posterior": FLOAT64 for name in "PESO"},
        **{f"{name}_share{end}": FLOAT64 for name in "PESO" for end in ("", "_most")},
    }
)
EXTRAPOLATION_SCHEMA = pa.schema(
    {
        **{"pair": STRING, "model": STRING, "k": INT64},
        **{f"fitted{end}": FLOAT64 for end in ("", "_low", "_high")},
        **{f"possible{end}": FLOAT64 for end in ("", "_most")},
    }
)


def certainty_table(analyses: Analyses) -> pa.Table:
    """A row per pair and group of problems."""
    rows = []
    for pair, groups in analyses.items():
        for group, analysis in groups.items():
            row: dict[str, Any] = {"pair": pair, "dataset": group, "problems": analysis["problems"]}
            row |= {f"{name}_sure": analysis["sure"][name] for name in "PESO"} | {"open": analysis["sure"]["open"]}
            row |= {f"{name}_posterior": analysis["posterior"][name] for name in "PESO"}
            for name, ends in (analysis["identified"] or {}).items():
                row |= {f"{name}_share": ends["low"], f"{name}_share_most": ends["high"]}
            rows.append(row)
    return pa.Table.from_pylist(rows, schema=CERTAINTY_SCHEMA)


def extrapolation_table(params: Params, analyses: Analyses) -> pa.Table:
    """A row per pair, model and k beyond the samples, of all problems."""
    rows: list[dict[str, Any]] = []
    for pair, groups in analyses.items():
        found = groups.get("all", {}).get("extrapolation")
        for role, model in zip(ROLES, params.models_of(pair), strict=True):
            rows.extend({"pair": pair, "model": model, **row} for row in _extrapolated_rows((found or {}).get(role)))
    return pa.Table.from_pylist(rows, schema=EXTRAPOLATION_SCHEMA)


def _extrapolated_rows(found: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    fitted, possible = ((found or {}).get(name) or {} for name in ("pass_at_k", "identified"))
    for k in sorted({*fitted, *possible}, key=int):
        estimate, ends = fitted.get(k, {}), possible.get(k, {})
        row: dict[str, Any] = {"k": int(k), "possible": ends.get("low"), "possible_most": ends.get("high")}
        names = {"fitted": "value", "fitted_low": "low", "fitted_high": "high"}
        yield row | {column: estimate.get(name) for column, name in names.items()}

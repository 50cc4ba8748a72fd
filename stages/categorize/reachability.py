"""What is known of masses far below 1/k: columns of the support table, and the dictionary `reach` of an analysis.

In:  data/reach/{pair}.parquet, if `reach.rollouts` is above 0, and the rows of data/support.
Out: `pooled_*` and `certified_*` of each problem that was examined, and by group of problems what
     leash.statistics.reachability says: how many E and S are proven to be within reach, and P, E, S, O at larger k.

A row of the reach table belongs to the run's k (`params.k`); another `categorize.k` or epsilon chooses among the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from leash import tables
from leash.counting.metrics import group_masks
from leash.params.groups import Params
from leash.statistics.counts import ROLES, Counts
from leash.statistics.reachability import summarize_reach

MADE_BY = "leash reach"
# A column of the support table, and what it is in the reach table.
SUPPORT_COLUMNS = {"pooled": "pooled", "certified": "certificate"}
NUMBER_COLUMNS = [field.name for field in tables.REACH_SCHEMA if not pa.types.is_list(field.type)]
Row = Mapping[str, Any]


def load_rows(params: Params, pair: str) -> list[Row]:
    """The numbers of the pair's reach table, without traces and profiles; nothing if the stage is off."""
    if not params.reach.rollouts:
        return []
    table = tables.read(tables.reach_path(pair), tables.REACH_SCHEMA, MADE_BY)
    return list(table.select(NUMBER_COLUMNS).to_pylist())


def add_support_columns(support: pa.Table, rows: Sequence[Row]) -> pa.Table:
    """The support table of a pair with the columns of the reach table; null where no row is about a problem."""
    by_key = {(row["dataset"], row["problem_id"], row["target"]): row for row in rows}
    problems = list(zip(support["dataset"].to_pylist(), support["problem_id"].to_pylist(), strict=True))
    # The empty table of a unit that can't be counted has all columns of the schema already.
    old = {f"{name}_{role}" for name in SUPPORT_COLUMNS for role in ROLES} & set(support.column_names)
    support = support.drop_columns(sorted(old))
    for name, source in SUPPORT_COLUMNS.items():
        for role in ROLES:
            values = [by_key.get((*problem, role), {}).get(source) for problem in problems] if rows else []
            column = pa.array(values, pa.float64()) if rows else pa.nulls(support.num_rows, pa.float64())
            support = support.append_column(f"{name}_{role}", column)
    return support


def summarize_groups(params: Params, rows: Sequence[Row], support: pa.Table) -> dict[str, dict[str, Any] | None]:
    """The dictionary of each group of problems of a pair; None for every group if the stage is off."""
    counts, category = Counts.from_table(support), support["category"].to_numpy(zero_copy_only=False)
    return {
        name: summarize_reach(rows, counts.where(mask), category[mask], params.reach.rollouts, params.reach.confidence)
        for name, mask in group_masks(support).items()
        if mask.any()
    }

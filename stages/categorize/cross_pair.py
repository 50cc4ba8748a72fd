"""Compare several pairs at the k that all have: checkpoints of one training, and trainings of one base.

data/analysis/trajectory.parquet has a row for each pair and group of problems, along each training by its steps.
data/analysis/paired.parquet has a row for each two trained models of one base that are compared on the same problems:
every checkpoint with the one before it, and the last of every training with the last of every other. Two trained
models are compared by the same statistics as a base and its trained model.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leash import tables
from leash.counting.analysis_settings import settings_of
from leash.counting.metrics import group_masks
from leash.cross_pair import (
    PAIRED_PATH,
    PAIRED_SCHEMA,
    TRAJECTORY_PATH,
    common_k,
    estimate_columns,
    pairs_to_compare,
    ratio_floor_columns,
    sort_pairs_by_step,
    trajectory_schema,
)
from leash.params.groups import Params
from leash.statistics.analysis import analyze_counts
from leash.statistics.counts import ROLES, Counts
from leash.statistics.decision import holm
from stages.categorize.group_analysis import AnalysesByPair


def write_cross_pair_tables(params: Params, support: pa.Table, analyses: AnalysesByPair) -> None:
    """Write both tables from the support of all compared models at `common_k`. `analyses` are those at each pair's own
    k, which are used again if that is the common one."""
    k, settings = common_k(params), settings_of(params)
    trajectory: list[dict[str, Any]] = []
    for pair in sort_pairs_by_step(params):
        rows = support.filter(pc.equal(support["pair"], pair))
        counts = Counts.from_table(rows)
        about = {"pair": pair, **params.pairs[pair].model_dump(include={"base", "training", "step"}), "k": k}
        for group, mask in group_masks(rows).items():
            if not mask.any():
                continue
            analysis = analyses[pair][group]
            if analysis["k"] != k:
                analysis = analyze_counts(counts.where(mask), settings, deconvolved=False)
            curves = {f"{role}_pass@{at}": analysis["pass_at_k"][role][at] for at in (1, k) for role in ROLES}
            values = {**estimate_columns(curves), **analysis["categories"], **ratio_floor_columns(analysis)}
            trajectory.append({**about, "dataset": group, "problems": analysis["problems"], **values})
    schema = trajectory_schema(k)
    tables.write(TRAJECTORY_PATH, tables.table_from_rows(trajectory, schema), schema)

    paired: list[dict[str, Any]] = []
    for name, (first, second) in pairs_to_compare(params).items():
        counts = Counts.from_table(support.filter(pc.equal(support["pair"], name)))
        analysis = analyze_counts(counts, settings, deconvolved=False)
        # The first model takes the role of the base: P, E, S, O are both, only the second, only the first, neither.
        categories = zip(("both", "second_only", "first_only", "neither"), analysis["categories"].values(), strict=True)
        differences = {"pass@1_difference": analysis["difference"][1], "pass@k_difference": analysis["difference"][k]}
        values = {**dict(categories), "p_value": analysis["test"]["p_value"], **estimate_columns(differences)}
        paired.append({"first": first, "second": second, "k": k, **values})
    for row, p_value in zip(paired, holm([row["p_value"] for row in paired]), strict=True):
        row["p_value"] = p_value
    tables.write(PAIRED_PATH, tables.table_from_rows(paired, PAIRED_SCHEMA), PAIRED_SCHEMA)

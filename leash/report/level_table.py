"""The table by level: what became of the problems of each level, for data sets whose problems have levels.

In: the support tables of all pairs. Out: a row per pair, data set and level. A level is a part of a data set, so its
intervals are wide, and nothing is decided here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leash import tables
from leash.cross_pair import ESTIMATE_SUFFIXES
from leash.statistics.analysis import to_jsonable
from leash.statistics.array_types import is_none
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.categories import classify_counts
from leash.statistics.counts import ROLES, Counts
from leash.statistics.pass_at_k import pass_at_k_columns
from leash.statistics.problem_group import describe_categories

LEVELS_SCHEMA = pa.schema(
    {
        **dict.fromkeys(("pair", "dataset", "level"), pa.string()),
        **dict.fromkeys(("k", "problems", *"PESO"), pa.int64()),
        **{f"{role}_pass@{k}": pa.float64() for k in "1k" for role in ROLES},
        **{f"NSCR{end}": pa.float64() for end in ESTIMATE_SUFFIXES},
    }
)


def compute_levels(support: pa.Table, settings: AnalysisSettings) -> pa.Table:
    """A row per pair, data set and level, whose problems have one k. pass@k is null if one of them has fewer samples;
    P, E, S, O leave such problems out."""
    rows: list[dict[str, Any]] = []
    for pair in dict.fromkeys(support["pair"].to_pylist()):
        counts = Counts.from_table(support.filter(pc.equal(support["pair"], pair)))
        assert counts.level is not None
        has_level = ~is_none(counts.level)
        keys = {*zip(counts.dataset[has_level].tolist(), counts.level[has_level].tolist(), strict=True)}
        for dataset, level in sorted(keys, key=lambda key: (key[0], _level_order(key[1]))):
            group = counts.where((counts.dataset == dataset) & (counts.level == level))
            key = {"pair": pair, "dataset": dataset, "level": level}
            rows.append({**key, **to_jsonable(describe_level(group, settings))})
    return tables.table_from_rows(rows, LEVELS_SCHEMA)


def describe_level(counts: Counts, settings: AnalysisSettings) -> dict[str, Any]:
    k = int(counts.k.max())
    weights = settings.drawn(len(counts), settings.clusters_of(counts))
    described = describe_categories(classify_counts(counts), weights, settings.confidence)
    passes = {role: pass_at_k_columns(counts.samples(role), counts.k, (1, k)).mean(axis=0) for role in ROLES}
    return {
        "k": k,
        "problems": len(counts),
        **{letter: round(described[letter]) for letter in "PESO"},
        **{f"{role}_pass@{name}": float(passes[role][i]) for i, name in enumerate("1k") for role in ROLES},
        **{f"NSCR{end}": described["NSCR"][which] for end, which in ESTIMATE_SUFFIXES.items()},
    }


def _level_order(level: str) -> tuple[bool, float, str]:
    """Numbers first, by size; then words in the order of the alphabet."""
    try:
        number = float(level)
    except ValueError:
        number = np.inf
    return not np.isfinite(number), number if np.isfinite(number) else 0.0, level

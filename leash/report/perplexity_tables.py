"""The two perplexity tables of the report: perplexity by category, and its change beyond style.

In: the scores of reference traces and the categories of problems. leash/statistics/perplexity.py has the method.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leash import database
from leash.params.groups import Params
from leash.scoring.scorable import open_perplexity_scores
from leash.statistics import perplexity
from leash.statistics.array_types import ObjectArray
from leash.statistics.counts import ROLES
from leash.statistics.perplexity import Resamples, TraceScores
from leash.tables import FLOAT64, INT32, STRING

TRACES_SQL = Path(__file__).parent / "traces.sql"
# Support did not change on preserved problems, so a change of perplexity there is a change of style.
CONTROL_CATEGORY = "P"
TESTED_CATEGORIES = ("S", "O", "E")
KEY_COLUMNS = [("pair", STRING), ("dataset", STRING), ("source", STRING), ("category", STRING), ("per", STRING)]
PERPLEXITY_MEASURES = ("perplexity_base", "perplexity_rlvr", "mean_perplexity_base", "mean_perplexity_rlvr")
CHANGE_MEASURES = ("change", "control", "beyond_style", "beyond_length", "beyond_order")


def _estimate_fields(names: tuple[str, ...]) -> list[tuple[str, pa.DataType]]:
    return [(f"{name}{end}", FLOAT64) for name in names for end in ("", "_low", "_high")]


SIZE_COLUMNS = [("problems", INT32), ("traces", INT32), ("length", pa.int64())]
BY_CATEGORY_SCHEMA = pa.schema([*KEY_COLUMNS, *SIZE_COLUMNS, *_estimate_fields(PERPLEXITY_MEASURES)])
STYLE_SCHEMA = pa.schema(
    [*KEY_COLUMNS, ("problems", INT32), ("control_problems", INT32), *_estimate_fields(CHANGE_MEASURES)]
)


def compute_perplexity_tables(params: Params) -> tuple[pa.Table, pa.Table]:
    """Both tables, from the scores and categories on disk."""
    with open_perplexity_scores(params, "support") as connection:
        traces = database.query(connection, TRACES_SQL, {"models": list(params.models)})
    return build_tables(params, traces)


def build_tables(params: Params, traces: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Both tables, with rows for every pair, data set (and all of them) and source of traces."""
    categories: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    for pair in params.run.pairs:
        of_pair = traces.filter(pc.equal(traces["pair"], pair))
        for keys, group, category, resamples in _iterate_groups(params, pair, of_pair):
            parts = {name: group.where(category == name) for name in "PESO" if (category == name).any()}
            for name, part in parts.items():
                row = {**keys, "category": name, "problems": part.problems}
                row |= {"traces": len(part.problem), "length": int(part.length.sum())}
                for role in ROLES:
                    nll = getattr(part, role)
                    row |= perplexity.perplexity(part, nll, resamples).columns(f"perplexity_{role}")
                    row |= perplexity.mean_perplexity(part, nll, resamples).columns(f"mean_perplexity_{role}")
                categories.append(row)
            control = parts.get(CONTROL_CATEGORY)
            for name in TESTED_CATEGORIES:
                if control is not None and name in parts:
                    changes.append({**keys, "category": name, **_change_columns(parts[name], control, resamples)})
    by_category = pa.Table.from_pylist(categories, schema=BY_CATEGORY_SCHEMA)
    return by_category, pa.Table.from_pylist(changes, schema=STYLE_SCHEMA)


def _iterate_groups(
    params: Params, pair: str, rows: pa.Table
) -> Iterator[tuple[dict[str, Any], TraceScores, ObjectArray, Resamples]]:
    """For each data set (and all of them) and source: its traces, their categories, and the resamples, which are the
    same for all sources of a data set."""
    # If the two models split a text into different tokens, perplexities per token can't be compared.
    unit = "token" if rows["tokens_base"].equals(rows["tokens_rlvr"]) else "byte"
    length = "tokens_base" if unit == "token" else "bytes"
    settings = params.categorize
    for dataset, mask in perplexity.group_masks(rows["dataset"].to_pylist()).items():
        part = rows.filter(pa.array(mask))
        # Problems of different data sets may share an id.
        keys = zip(part["dataset"].to_pylist(), part["problem_id"].to_pylist(), strict=True)
        _, problem = np.unique(np.array([f"{name}\n{key}" for name, key in keys], dtype=str), return_inverse=True)
        scores = (length, "nll_base", "nll_rlvr", "shuffled_base", "shuffled_rlvr")
        traces = TraceScores(problem, *(np.array(part[name].to_pylist(), dtype=float) for name in scores))
        category, source = (np.array(part[name].to_pylist(), dtype=object) for name in ("category", "source"))
        resamples = perplexity.draw_resamples(
            traces.problems, settings.bootstrap, settings.confidence, params.perplexity.seed, pair, dataset
        )
        for name in sorted(set(source)):
            inside = source == name
            about = {"pair": pair, "dataset": dataset, "source": name, "per": unit}
            yield about, traces.where(inside), category[inside], resamples


def _change_columns(traces: TraceScores, control: TraceScores, resamples: Resamples) -> dict[str, Any]:
    return {
        **{"problems": traces.problems, "control_problems": control.problems},
        **perplexity.log_perplexity_change(traces, resamples).columns("change"),
        **perplexity.log_perplexity_change(control, resamples).columns("control"),
        **perplexity.change_beyond_style(traces, control, resamples).columns("beyond_style"),
        **perplexity.change_beyond_length(traces, control, resamples).columns("beyond_length"),
        **perplexity.change_beyond_order(traces, control, resamples).columns("beyond_order"),
    }

"""The two perplexity tables of the report: perplexity by category, and its change beyond style.

In: the scores of reference traces and the categories of problems. The methods are in leash/statistics/perplexity.py and
leash/statistics/style.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leash import database
from leash.params.groups import Params
from leash.scoring.scorable import open_perplexity_scores
from leash.statistics import perplexity, style
from leash.statistics.array_types import BoolArray, FloatArray, IntArray, ObjectArray
from leash.statistics.clusters import number_clusters, regroup
from leash.statistics.counts import ROLES
from leash.statistics.perplexity import Resamples, TraceScores
from leash.statistics.style import StyleEstimates, StyleTraces, TokenSums
from leash.tables import FLOAT64, INT32, STRING

TRACES_SQL = Path(__file__).parent / "traces.sql"
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
    [
        *KEY_COLUMNS,
        ("problems", INT32),
        ("control_problems", INT32),
        ("left_out", INT32),  # problems in data sets with too few controls
        ("surprise", FLOAT64),  # of the base, per token
        ("control_surprise", FLOAT64),
        ("out_of_range", FLOAT64),  # share of tokens that surprise the base more than those of the controls
        *_estimate_fields(CHANGE_MEASURES),
        ("claim", STRING),
        ("withheld", STRING),  # why nothing is claimed
    ]
)


@dataclass(frozen=True)
class TraceGroup:
    """The traces of a source on a data set, or on all of them, in arrays of equal length."""

    keys: dict[str, Any]
    problem: IntArray
    stratum: IntArray  # number of the data set
    category: ObjectArray
    control: BoolArray  # both models solve the problem, and its masses may be the same
    scores: TraceScores
    straight: TokenSums | None  # None: there are no entropies, or the two models tokenize differently
    shuffled: TokenSums | None
    resamples: Resamples

    def count_problems(self, mask: BoolArray) -> int:
        return len(np.unique(self.problem[mask]))


def compute_perplexity_tables(params: Params) -> tuple[pa.Table, pa.Table]:
    """Both tables, from the scores and categories on disk."""
    with open_perplexity_scores(params, "support") as connection:
        connection.register("controls", mark_controls(connection.table("support").to_arrow_table()))
        bound = {"models": list(params.models), "quantile": style.CONTROL_QUANTILE}
        traces = database.query(connection, TRACES_SQL, bound)
    return build_tables(params, traces)


def mark_controls(support: pa.Table) -> pa.Table:
    """Whether each problem of each pair is a control: both models solve it, and its masses may be the same."""
    bounds = (_numbers(support, f"{end}_{role}") for role in ROLES for end in ("low", "high"))
    preserved = pc.fill_null(pc.equal(support["category"], CONTROL_CATEGORY), False).to_numpy()
    control = preserved & style.may_have_same_mass(*bounds)
    return support.select(["pair", "dataset", "problem_id"]).append_column("control", pa.array(control))


def build_tables(params: Params, traces: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Both tables, with rows for every pair, data set (and all of them) and source of traces."""
    categories: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    for pair in params.run.pairs:
        for group in iterate_groups(params, pair, traces.filter(pc.equal(traces["pair"], pair))):
            present = [name for name in "PESO" if (group.category == name).any()]
            categories += [_perplexity_row(group, name) for name in present]
            changes += [_style_row(group, name) for name in TESTED_CATEGORIES if name in present]
    by_category = pa.Table.from_pylist(categories, schema=BY_CATEGORY_SCHEMA)
    return by_category, pa.Table.from_pylist(changes, schema=STYLE_SCHEMA)


def iterate_groups(params: Params, pair: str, rows: pa.Table) -> Iterator[TraceGroup]:
    """The traces of each source on each data set, and on all of them. All sources of a data set share the resamples."""
    # If the two models split a text into different tokens, only perplexities per byte can be compared.
    per = "token" if rows["tokens_base"].equals(rows["tokens_rlvr"]) else "byte"
    settings = params.categorize
    for dataset, mask in perplexity.group_masks(rows["dataset"].to_pylist()).items():
        part = rows.filter(pa.array(mask))
        problem = _number_problems(part)
        unit = _number_units(part, problem)
        resamples = perplexity.draw_resamples(
            int(unit.max(initial=-1)) + 1,
            settings.bootstrap,
            settings.confidence,
            params.perplexity.seed,
            pair,
            dataset,
        )
        sources = np.array(part["source"].to_pylist(), dtype=object)
        for source in sorted(set(sources)):
            inside = sources == source
            keys = {"pair": pair, "dataset": dataset, "source": source, "per": per}
            yield _build_group(keys, part.filter(pa.array(inside)), problem[inside], unit[inside], resamples)


def _build_group(
    keys: dict[str, Any], rows: pa.Table, problem: IntArray, unit: IntArray, resamples: Resamples
) -> TraceGroup:
    nlls = [_numbers(rows, f"nll_{role}") for role in ROLES]
    if keys["per"] == "byte":
        nlls = [nll - _numbers(rows, f"nll_end_{role}") for nll, role in zip(nlls, ROLES, strict=True)]
    length = _numbers(rows, "tokens_base" if keys["per"] == "token" else "bytes")
    comparable = keys["per"] == "token" and rows["steps"].null_count == 0
    return TraceGroup(
        keys,
        problem,
        np.unique(rows["dataset"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)[1],
        rows["category"].to_numpy(zero_copy_only=False),
        rows["control"].to_numpy(zero_copy_only=False).astype(bool),
        TraceScores(unit, length, *nlls),
        _collect_sums(rows, "") if comparable else None,
        _collect_sums(rows, "shuffled_") if comparable else None,
        resamples,
    )


def _number_problems(rows: pa.Table) -> IntArray:
    """The problem of each trace as a number. Problems of different data sets may share an id."""
    keys = zip(rows["dataset"].to_pylist(), rows["problem_id"].to_pylist(), strict=True)
    return np.unique(np.array([f"{dataset}\n{name}" for dataset, name in keys], dtype=str), return_inverse=True)[1]


def _number_units(rows: pa.Table, problem: IntArray) -> IntArray:
    """What is resampled of each trace, as a number: its problem's cluster, or its problem if clusters don't matter."""
    _, first = np.unique(problem, return_index=True)
    part = rows.take(pa.array(first))
    cluster = number_clusters(part["dataset"].to_pylist(), part["cluster"].to_pylist())
    shared = regroup(cluster, np.ones(len(cluster), dtype=bool))
    return problem if shared is None else shared[problem]


def _numbers(rows: pa.Table, name: str) -> FloatArray:
    return np.array(rows[name].to_pylist(), dtype=float)


def _collect_sums(rows: pa.Table, prefix: str) -> TokenSums:
    """The sums of straight or shuffled traces; 0 if there are none."""
    names = ("n", "s", "h", "ss", "sh", "hh", "d", "sd", "hd")
    n, s, h, ss, sh, hh, d, sd, hd = (np.nan_to_num(_numbers(rows, f"{prefix}{name}")) for name in names)
    xx = np.stack([np.stack(row, axis=1) for row in ((n, s, h), (s, ss, sh), (h, sh, hh))], axis=1)
    return TokenSums(xx, np.stack([d, sd, hd], axis=1), _numbers(rows, "tokens_base"))


def _perplexity_row(group: TraceGroup, category: str) -> dict[str, Any]:
    mask = group.category == category
    part = group.scores.where(mask)
    row = {**group.keys, "category": category, "problems": group.count_problems(mask)}
    row |= {"traces": len(part.unit), "length": int(part.length.sum())}
    for role in ROLES:
        nll = getattr(part, role)
        row |= perplexity.perplexity(part, nll, group.resamples).columns(f"perplexity_{role}")
        row |= perplexity.mean_perplexity(part, nll, group.resamples).columns(f"mean_perplexity_{role}")
    return row


def _style_row(group: TraceGroup, category: str) -> dict[str, Any]:
    """The change on the problems of a category, on its controls, and beyond style."""
    asked = group.category == category
    row = {**group.keys, "category": category, "problems": group.count_problems(asked)}
    row |= perplexity.log_perplexity_change(group.scores.where(asked), group.resamples).columns("change")
    row |= {"claim": "none", "control_problems": 0, "left_out": row["problems"]}
    if group.straight is None or group.shuffled is None:
        return row | {"withheld": "tokenizers" if group.keys["per"] == "byte" else "no entropies"}
    traces = StyleTraces(group.straight, group.shuffled, group.scores.unit, group.stratum, asked, group.control)
    # Data sets without controls, or without problems in question, are left out on both sides.
    used = style.has_controls(traces) & np.isin(group.stratum, group.stratum[asked])
    if not (asked & used).any():
        return row | {"withheld": "few controls"}
    traces = replace(traces, asked=asked & used, control=group.control & used)
    estimates = style.estimate_style(traces, group.resamples)
    claim, withheld = style.judge_style(estimates)
    row |= perplexity.log_perplexity_change(group.scores.where(traces.asked), group.resamples).columns("change")
    row |= style.standardized_control_change(traces, group.scores, group.resamples).columns("control")
    row |= _describe_sides(group, traces, row["problems"])
    return row | _style_columns(estimates) | {"claim": claim, "withheld": withheld}


def _describe_sides(group: TraceGroup, traces: StyleTraces, problems: int) -> dict[str, Any]:
    """How many problems are compared, how surprising their traces are to the base, and how many tokens of the problems
    in question are beyond the range of the controls."""
    asked, control = group.scores.where(traces.asked), group.scores.where(traces.control)
    return {
        "problems": group.count_problems(traces.asked),
        "control_problems": group.count_problems(traces.control),
        "left_out": problems - group.count_problems(traces.asked),
        "surprise": float(asked.base.sum() / asked.length.sum()),
        "control_surprise": float(control.base.sum() / control.length.sum()),
        "out_of_range": float(1 - traces.straight.tokens[traces.asked].sum() / asked.length.sum()),
    }


def _style_columns(estimates: StyleEstimates) -> dict[str, float | None]:
    return {
        **estimates.beyond_style.columns("beyond_style"),
        **estimates.beyond_length.columns("beyond_length"),
        **estimates.beyond_order.columns("beyond_order"),
    }

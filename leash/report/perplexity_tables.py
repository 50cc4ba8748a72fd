"""The two perplexity tables of the report: perplexity by category, and its change beyond style.

In: the scores of reference traces and the categories of problems. The methods are in leash/statistics/perplexity.py and
leash/statistics/style.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
    same_mass: BoolArray  # the problem's masses under both models may be the same
    scores: TraceScores
    straight: TokenSums | None  # None: there are no entropies, or the two models tokenize differently
    shuffled: TokenSums | None
    resamples: Resamples

    def count_problems(self, mask: BoolArray) -> int:
        return len(np.unique(self.problem[mask]))


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
        unit = _number_units(part, "cluster")
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
            yield _build_group(keys, part.filter(pa.array(inside)), unit[inside], resamples)


def _build_group(keys: dict[str, Any], rows: pa.Table, unit: IntArray, resamples: Resamples) -> TraceGroup:
    nlls = [_numbers(rows, f"nll_{role}") for role in ROLES]
    if keys["per"] == "byte":
        nlls = [nll - _numbers(rows, f"nll_end_{role}") for nll, role in zip(nlls, ROLES, strict=True)]
    length = _numbers(rows, "tokens_base" if keys["per"] == "token" else "bytes")
    bounds = (_numbers(rows, f"{end}_{role}") for role in ROLES for end in ("low", "high"))
    comparable = keys["per"] == "token" and rows["entropy"].null_count == 0
    return TraceGroup(
        keys,
        _number_units(rows, "problem_id"),
        np.unique(rows["dataset"].to_numpy(zero_copy_only=False).astype(str), return_inverse=True)[1],
        rows["category"].to_numpy(zero_copy_only=False),
        style.is_mass_unchanged(*bounds),
        TraceScores(unit, length, *nlls),
        _sum_tokens(rows, "") if comparable else None,
        _sum_tokens(rows, "shuffled_") if comparable else None,
        resamples,
    )


def _number_units(rows: pa.Table, column: str) -> IntArray:
    """What each trace belongs to, as numbers: its problem's cluster if `column` is `cluster` and it has one, otherwise
    its problem. Problems of different data sets may share an id."""
    names = zip(*(rows[name].to_pylist() for name in ("dataset", "problem_id", column)), strict=True)
    keys = [
        f"{dataset}\n{column}\n{name}" if name is not None else f"{dataset}\n\n{problem}"
        for dataset, problem, name in names
    ]
    return np.unique(np.array(keys, dtype=str), return_inverse=True)[1]


def _numbers(rows: pa.Table, name: str) -> FloatArray:
    return np.array(rows[name].to_pylist(), dtype=float)


def _sum_tokens(rows: pa.Table, prefix: str) -> TokenSums:
    """The sums over the tokens of straight or shuffled traces. Tables keep six decimals of each token."""
    columns = [rows[f"{prefix}{name}"].combine_chunks() for name in ("surprise", "entropy", "surprise_rlvr")]
    lengths = [pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64) for column in columns]
    # A shuffled version may be split into another number of tokens, or be too long, for one of the models.
    whole = (lengths[0] == lengths[1]) & (lengths[0] == lengths[2])
    kept = [column.filter(pa.array(whole)).flatten().to_numpy().astype(np.float64) for column in columns]
    surprise, entropy, surprise_rlvr = kept
    return style.sum_tokens(np.where(whole, lengths[0], 0), surprise, entropy, surprise_rlvr - surprise)


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
    control = (group.category == CONTROL_CATEGORY) & group.same_mass
    traces = StyleTraces(group.straight, group.shuffled, group.scores.unit, group.stratum, asked, control)
    # Data sets without controls, or without problems in question, are left out on both sides.
    used = style.has_controls(traces) & np.isin(group.stratum, group.stratum[asked])
    if not (asked & used).any():
        return row | {"withheld": "few controls"}
    traces = StyleTraces(group.straight, group.shuffled, traces.unit, traces.stratum, asked & used, control & used)
    estimates = style.estimate_style(traces, group.resamples)
    claim, withheld = style.judge_style(estimates)
    row |= _describe_sides(group, traces, row["problems"])
    row |= style.standardized_control_change(traces, group.resamples).columns("control")
    return row | _style_columns(estimates) | {"claim": claim, "withheld": withheld}


def _describe_sides(group: TraceGroup, traces: StyleTraces, problems: int) -> dict[str, Any]:
    """How many problems are compared, and how surprising their traces are to the base."""

    def surprise(mask: BoolArray) -> float:
        return float(traces.straight.xx[mask][:, 0, 1].sum() / traces.straight.tokens[mask].sum())

    return {
        "problems": group.count_problems(traces.asked),
        "control_problems": group.count_problems(traces.control),
        "left_out": problems - group.count_problems(traces.asked),
        "surprise": surprise(traces.asked),
        "control_surprise": surprise(traces.control),
    }


def _style_columns(estimates: StyleEstimates) -> dict[str, float | None]:
    return {
        **estimates.beyond_style.columns("beyond_style"),
        **estimates.beyond_length.columns("beyond_length"),
        **estimates.beyond_order.columns("beyond_order"),
    }

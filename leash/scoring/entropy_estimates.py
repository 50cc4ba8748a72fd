"""Entropies of groups of problems: each measure of a model, and the changes of a pair, with their intervals.

In: one row per problem, from the queries of the stage `entropy`. Out: rows for its tables.

The paper's decoupling is that token entropy may rise while answer entropy falls. `estimate_decoupling` tests it: the
mean change of both over the problems that both models have, the rank correlation of the problems' changes, and the
share of problems that move each way. Answer entropies that are compared with token entropies have the Miller-Madow
correction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leash.statistics.array_types import BoolArray, FloatArray
from leash.statistics.bootstrap_estimates import mean_estimate, share_estimate, spearman_estimate
from leash.statistics.bootstrap_weights import AnalysisSettings, BootstrapWeights, Estimate
from leash.tables import FLOAT64, INT32, STRING

MEASURE_ESTIMATORS: dict[str, Callable[[FloatArray, BootstrapWeights, float], Estimate]] = {
    "average": share_estimate,
    "tokens": partial(mean_estimate, least=0),
    "token_entropy": partial(mean_estimate, least=0),
    "decoding_entropy": partial(mean_estimate, least=0),
    "forks": partial(mean_estimate, least=0, most=1),
    "answer_entropy": partial(mean_estimate, least=0),
    "answer_entropy_mm": partial(mean_estimate, least=0),
    "unseen": partial(mean_estimate, least=0, most=1),
}
CHANGE_MEASURES = ("token_entropy", "decoding_entropy", "answer_entropy", "answer_entropy_mm")
DECOUPLING_ESTIMATES = (*CHANGE_MEASURES, "spearman", "token_up_answer_down", "token_down_answer_up")

INTERVALS_SCHEMA = pa.schema(
    [
        *(pa.field(name, STRING, nullable=False) for name in ("model", "dataset", "measure")),
        *(pa.field(name, FLOAT64) for name in ("value", "low", "high", "floor")),  # floor: floors.sql
    ]
)
DECOUPLING_SCHEMA = pa.schema(
    [
        *(pa.field(name, STRING, nullable=False) for name in ("pair", "base", "rlvr", "dataset")),
        pa.field("problems", INT32, nullable=False),
        pa.field("compared", INT32, nullable=False),  # problems that both models have
        # The first four are mean differences, second model minus base. The last two are shares of problems.
        *(pa.field(f"{name}{end}", FLOAT64) for name in DECOUPLING_ESTIMATES for end in ("", "_low", "_high")),
    ]
)


def estimate_intervals(measured: pa.Table, floors: pa.Table, settings: AnalysisSettings) -> list[dict[str, Any]]:
    """Every measure of every model with its noise floor, per data set and over all problems."""
    rows = []
    floor_of = {(row["model"], row["dataset"], row["measure"]): row["floor"] for row in floors.to_pylist()}
    for model in pc.unique(measured["model"]).to_pylist():
        for dataset, part in iterate_datasets(measured.filter(pc.equal(measured["model"], model))):
            weights = settings.drawn(part.num_rows)
            for measure, estimator in MEASURE_ESTIMATORS.items():
                estimate = estimator(float_column(part, measure), weights, settings.confidence)
                ends = (estimate.value, estimate.low, estimate.high, floor_of[model, dataset, measure])
                rows.append(dict(zip(INTERVALS_SCHEMA.names, (model, dataset, measure, *ends), strict=True)))
    return rows


def estimate_decoupling(
    changes: pa.Table, pairs: Sequence[dict[str, str]], settings: AnalysisSettings
) -> list[dict[str, Any]]:
    """The changes of every pair, per data set and over all problems."""
    return [
        {**pair, "dataset": dataset, "problems": part.num_rows, **estimate_changes(part, settings)}
        for pair in pairs
        for dataset, part in iterate_datasets(changes.filter(pc.equal(changes["pair"], pair["pair"])))
    ]


def iterate_datasets(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """All problems, then those of each data set."""
    yield "all", rows
    for dataset in sorted(pc.unique(rows["dataset"]).to_pylist()):
        yield dataset, rows.filter(pc.equal(rows["dataset"], dataset))


def estimate_changes(part: pa.Table, settings: AnalysisSettings) -> dict[str, Any]:
    """The changes over the problems that both models have."""
    columns = {name: float_column(part, name) for name in CHANGE_MEASURES}
    answered = ~np.isnan(columns["answer_entropy_mm"])
    scored = answered & ~np.isnan(columns["token_entropy"])
    # A model without weights has no token entropies: then compare the answers alone.
    used = scored if scored.any() else answered
    columns = {name: values[used] for name, values in columns.items()}
    token, answer = columns["token_entropy"], columns["answer_entropy_mm"]
    weights, confidence = settings.drawn(int(used.sum())), settings.confidence

    def share(mask: BoolArray) -> Estimate:
        return share_estimate(np.where(np.isnan(token), math.nan, mask), weights, confidence)

    estimates = {name: mean_estimate(values, weights, confidence) for name, values in columns.items()}
    estimates["spearman"] = spearman_estimate(token, answer, weights, confidence)
    estimates["token_up_answer_down"] = share((token > 0) & (answer < 0))
    estimates["token_down_answer_up"] = share((token < 0) & (answer > 0))
    row: dict[str, Any] = {"compared": int(used.sum())}
    for name, estimate in estimates.items():
        row |= estimate.columns(name)
    return row


def float_column(rows: pa.Table, name: str) -> FloatArray:
    """A column as numbers, with NaN for null."""
    return np.array(rows[name].to_pylist(), dtype=float)

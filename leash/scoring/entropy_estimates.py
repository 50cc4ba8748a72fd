"""Entropies of groups of problems: each measure of a model, and the changes of a pair, with their intervals.

In: one row per problem, from the queries of the stage `entropy`. Out: rows for its tables.

The paper's decoupling is that token entropy may rise while answer entropy falls. The claim is about means over
problems, and `estimate_decoupling` tests these: `relation` names two directions only if both intervals exclude 0 and
unseen answers can't turn the direction of answer entropy. The
rank correlation of the problems' changes is another question. It is cross-fitted, token changes from some samples and
answer changes from others: changes from the same samples share their errors, and a model compared with other samples of
itself would then seem to have correlated changes (in 28 to 48% of runs of one embedded model). It is null over several
data sets, where it would mix differences between them with those within.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leash.statistics.answer_entropy import identified_direction, is_mostly_unseen
from leash.statistics.array_types import BoolArray, FloatArray, IntArray
from leash.statistics.bootstrap_estimates import (
    functional_estimate,
    mean_estimate,
    rate_estimate,
    spearman_estimate,
)
from leash.statistics.bootstrap_weights import AnalysisSettings, BootstrapWeights, Estimate
from leash.statistics.clusters import number_clusters, regroup
from leash.statistics.entropy_decomposition import LENGTHS_PER_OCTAVE, PARTS, EntropyCells, decomposition_estimates
from leash.tables import FLOAT64, INT32, STRING

ANSWER_MEASURES = ("answer_entropy", "answer_entropy_mm", "answer_entropy_adjusted")
# The least and the largest value of each measure of a model.
MEASURES: dict[str, tuple[float, float]] = {
    "average": (0, 1),
    "tokens": (0, math.inf),
    "token_entropy": (0, math.inf),
    "token_entropy_pooled": (0, math.inf),
    "token_entropy_long": (0, math.inf),
    "long_share": (0, 1),
    "decoding_entropy": (0, math.inf),
    "forks": (0, 1),
    **dict.fromkeys(ANSWER_MEASURES, (0, math.inf)),
    "unseen": (0, 1),
    **{f"{name}_all": (0, math.inf) for name in ANSWER_MEASURES},
    "unseen_all": (0, 1),
}
FLOOR_MEASURES = ("average", "tokens", "token_entropy", "decoding_entropy", "forks", *ANSWER_MEASURES, "unseen")
CHANGE_MEASURES = (
    *("token_entropy", "token_entropy_pooled", "token_entropy_long", "decoding_entropy"),
    *ANSWER_MEASURES,
    *(f"{name}_all" for name in ANSWER_MEASURES),
)
DECOUPLING_ESTIMATES = (*CHANGE_MEASURES, *PARTS, "spearman")
UNSEEN_MEASURES = ("base_unseen", "rlvr_unseen", "base_unseen_all", "rlvr_unseen_all")
CANNOT_TELL = "the data can't tell"
RELATIONS = {
    (1, 1): "both rose",
    (-1, -1): "both fell",
    (1, -1): "token entropy rose and answer entropy fell",
    (-1, 1): "token entropy fell and answer entropy rose",
    (1, 0): "token entropy rose; what answer entropy did can't be told",
    (-1, 0): "token entropy fell; what answer entropy did can't be told",
}

INTERVALS_SCHEMA = pa.schema(
    [
        *(pa.field(name, STRING, nullable=False) for name in ("model", "dataset", "measure")),
        *(pa.field(name, FLOAT64) for name in ("value", "low", "high", "floor")),  # floor: floors.sql
    ]
)
DECOUPLING_SCHEMA = pa.schema(
    [
        *(pa.field(name, STRING, nullable=False) for name in ("pair", "base", "rlvr", "dataset")),
        *(pa.field(name, INT32, nullable=False) for name in ("problems", "compared")),  # compared: both models have
        pa.field("samples", INT32, nullable=False),
        # The samples that both models have of every problem; data sets may differ.
        *(pa.field(name, INT32) for name in ("common_samples", "common_samples_most")),
        # The directions of token_entropy and, if the samples identify it, of answer_entropy_adjusted_all; null: one of
        # them is not measured.
        pa.field("relation", STRING),
        *(pa.field(f"{name}{end}", FLOAT64) for name in DECOUPLING_ESTIMATES for end in ("", "_low", "_high")),
        pa.field("long_problems", INT32),  # problems of which both models have a completion of 16 tokens
        pa.field("uncovered", FLOAT64),  # the share of the trained model's completions of lengths that the base lacks
        pa.field("answers_from", STRING),  # the samples of the answers in `spearman`: later ones, or the other half
        *(pa.field(name, FLOAT64) for name in UNSEEN_MEASURES),
        pa.field("unidentified_at", STRING),
    ]
)


def estimate_intervals(measured: pa.Table, floors: pa.Table, settings: AnalysisSettings) -> list[dict[str, Any]]:
    """Every measure of every model with its noise floor, per data set and over all problems."""
    rows = []
    floor_of = {(row["model"], row["dataset"], row["measure"]): row["floor"] for row in floors.to_pylist()}
    for model in pc.unique(measured["model"]).to_pylist():
        for dataset, part in iterate_datasets(measured.filter(pc.equal(measured["model"], model))):
            for measure in MEASURES:
                estimate = estimate_measure(part, measure, settings)
                floor = floor_of.get((model, dataset, measure))
                ends = (estimate.value, estimate.low, estimate.high, floor)
                rows.append(dict(zip(INTERVALS_SCHEMA.names, (model, dataset, measure, *ends), strict=True)))
    return rows


def estimate_measure(part: pa.Table, measure: str, settings: AnalysisSettings) -> Estimate:
    """One measure of one model. `token_entropy_long` is over the problems that have a long completion."""
    everywhere, (least, most) = np.ones(part.num_rows, dtype=bool), MEASURES[measure]
    if measure == "token_entropy_pooled":
        sums, tokens = float_column(part, "entropy_sum"), float_column(part, "tokens")
        return _pooled_estimate([(sums, tokens)], draw_for(part, everywhere, settings), settings.confidence)
    values = float_column(part, measure)
    if measure == "average":
        return rate_estimate(values, draw_for(part, everywhere, settings), settings.confidence)
    used = everywhere
    if measure == "token_entropy_long" and not np.isnan(float_column(part, "token_entropy")).any():
        used = ~np.isnan(values)
    return mean_estimate(values[used], draw_for(part, used, settings), settings.confidence, least, most)


def estimate_decoupling(
    changes: pa.Table,
    cells: pa.Table,
    pairs: Sequence[Mapping[str, str]],
    samples: int,
    settings: AnalysisSettings,
) -> list[dict[str, Any]]:
    """The changes of every pair, per data set and over all problems. `samples` is `entropy.samples`."""
    rows = []
    for pair in pairs:
        of_pair = changes.filter(pc.equal(changes["pair"], pair["pair"]))
        by_model = {model: cells.filter(pc.equal(cells["model"], model)) for model in (pair["base"], pair["rlvr"])}
        several = len(pc.unique(of_pair["dataset"])) > 1
        for dataset, part in iterate_datasets(of_pair):
            row = {**pair, "dataset": dataset, "problems": part.num_rows, "samples": samples}
            found = estimate_changes(part, settings, with_correlation=dataset != "all" or not several)
            if found["compared"] and found["token_entropy"] is not None:
                found |= estimate_parts(part, by_model[pair["base"]], by_model[pair["rlvr"]], settings)
            found["unidentified_at"] = unidentified_at(
                samples,
                [found["base_unseen"], found["rlvr_unseen"]],
                found["common_samples"],
                [found["base_unseen_all"], found["rlvr_unseen_all"]],
            )
            rows.append({**dict.fromkeys(DECOUPLING_SCHEMA.names), **row, **found})
    return rows


def iterate_datasets(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """All problems, then those of each data set."""
    yield "all", rows
    for dataset in sorted(pc.unique(rows["dataset"]).to_pylist()):
        yield dataset, rows.filter(pc.equal(rows["dataset"], dataset))


def compared_problems(part: pa.Table) -> BoolArray:
    """The problems that both models have. A model without weights has no token entropies: then those with answers."""
    answered = ~np.isnan(float_column(part, "answer_entropy"))
    scored = answered & ~np.isnan(float_column(part, "token_entropy"))
    return scored if scored.any() else answered


def estimate_changes(part: pa.Table, settings: AnalysisSettings, with_correlation: bool) -> dict[str, Any]:
    """The changes over the problems that both models have."""
    used = compared_problems(part)
    columns = {
        name: float_column(part, name)[used]
        for name in part.column_names
        if name not in ("pair", "dataset", "problem_id", "cluster")
    }
    weights, confidence = draw_for(part, used, settings), settings.confidence
    row: dict[str, Any] = {"compared": int(used.sum())}
    estimates = {
        name: mean_estimate(columns[name], weights, confidence)
        for name in CHANGE_MEASURES
        if name not in ("token_entropy_pooled", "token_entropy_long")
    }
    estimates["token_entropy_pooled"] = _pooled_estimate(
        [(columns[f"{role}_entropy_sum"], columns[f"{role}_tokens"]) for role in ("rlvr", "base")], weights, confidence
    )
    long = used & ~np.isnan(float_column(part, "token_entropy_long"))
    estimates["token_entropy_long"] = mean_estimate(
        float_column(part, "token_entropy_long")[long], draw_for(part, long, settings), confidence
    )
    row["long_problems"] = int(long.sum()) if estimates["token_entropy"].value is not None else None
    if with_correlation and row["compared"]:
        parts, row["answers_from"] = cross_fitted_changes(columns)
        estimates["spearman"] = spearman_estimate(parts, weights, confidence)
    for name, estimate in estimates.items():
        row |= estimate.columns(name)
    row |= {name: mean_estimate(columns[name], weights, confidence).value for name in UNSEEN_MEASURES}
    common = columns["common_samples"][~np.isnan(columns["common_samples"])]
    row["common_samples"], row["common_samples_most"] = (int(f(common)) if len(common) else None for f in (min, max))
    row["relation"] = name_relation(estimates, row["base_unseen_all"], row["rlvr_unseen_all"])
    return row


def name_relation(
    estimates: Mapping[str, Estimate], base_unseen: float | None, rlvr_unseen: float | None
) -> str | None:
    """The directions of both changes as far as they are clear: nothing if that of token entropy is not."""
    token, answer = estimates["token_entropy"], estimates["answer_entropy_adjusted_all"]
    if token.value is None or answer.value is None:
        return None
    direction = identified_direction(answer, base_unseen, rlvr_unseen)
    return RELATIONS.get((token.sign, direction), CANNOT_TELL)


def cross_fitted_changes(
    columns: Mapping[str, FloatArray],
) -> tuple[list[tuple[FloatArray, FloatArray]], str]:
    """Token changes and answer changes of different samples: of the first samples and of the later ones or, if there
    are none, of one half and of the other, both ways."""
    if not np.isnan(columns["answer_later"]).any():
        return [(columns["token_entropy"], columns["answer_later"])], "later samples"
    ways = (("early", "late"), ("late", "early"))
    halves = [(columns[f"token_{one}"], columns[f"answer_{other}"]) for one, other in ways]
    return halves, "the other half"


def estimate_parts(part: pa.Table, base: pa.Table, rlvr: pa.Table, settings: AnalysisSettings) -> dict[str, Any]:
    """The change of the token entropy from other lengths, and what is left in each half of completions."""
    used = compared_problems(part)
    cells = build_cells(part.filter(pa.array(used)), base, rlvr)
    row: dict[str, Any] = {"uncovered": cells.uncovered}
    weights = draw_for(part, used, settings)
    for name, estimate in decomposition_estimates(cells, weights, settings.confidence).items():
        row |= estimate.columns(name)
    return row


def build_cells(problems: pa.Table, base: pa.Table, rlvr: pa.Table) -> EntropyCells:
    """The rows of cells.sql of two models on these problems as arrays of problems by cells."""
    keys = list(zip(problems["dataset"].to_pylist(), problems["problem_id"].to_pylist(), strict=True))
    row_of = {key: i for i, key in enumerate(keys)}
    cell_of: dict[tuple[str, int, bool], int] = {}
    found = []
    for table in (base, rlvr):
        rows = [row for row in table.to_pylist() if (row["dataset"], row["problem_id"]) in row_of]
        at = [row_of[row["dataset"], row["problem_id"]] for row in rows]
        names = [(row["dataset"], row["length"], row["late"]) for row in rows]
        found.append((at, [cell_of.setdefault(name, len(cell_of)) for name in names], rows))
    arrays = []
    for at, cell, rows in found:
        for name in ("weight", "entropy"):
            values = np.zeros((len(keys), len(cell_of)))
            values[at, cell] = [row[name] for row in rows]
            arrays.append(values)
    octaves = _number([(dataset, length // LENGTHS_PER_OCTAVE, late) for dataset, length, late in cell_of])
    datasets = _number([(dataset, late) for dataset, _, late in cell_of])
    late = np.array([late for _, _, late in cell_of], dtype=bool)
    return EntropyCells(arrays[0], arrays[1], arrays[2], arrays[3], octaves, datasets, late)


def _number(names: Sequence[Any]) -> IntArray:
    index: dict[Any, int] = {}
    return np.array([index.setdefault(name, len(index)) for name in names], dtype=int)


def _pooled_estimate(
    parts: Sequence[tuple[FloatArray, FloatArray]], weights: BootstrapWeights, confidence: float
) -> Estimate:
    """The ratio of two weighted sums over problems; of two such ratios the first minus the second."""
    if weights.problems.shape[1] == 0 or np.isnan(parts).any():
        return Estimate()

    def difference(problem_weights: FloatArray) -> FloatArray:
        ratios = [problem_weights @ sums / np.maximum(problem_weights @ tokens, 1e-300) for sums, tokens in parts]
        return np.asarray(ratios[0] - sum(ratios[1:]))[:, None]

    return functional_estimate(difference, weights, confidence)[0]


def unidentified_at(
    samples: int, unseen: Sequence[float | None], all_samples: int | None, unseen_all: Sequence[float | None]
) -> str | None:
    """The numbers of samples that don't identify the answer entropies, since too much is unseen; None if all do."""
    found = [samples] if is_mostly_unseen(unseen) else []
    if all_samples is not None and all_samples != samples and is_mostly_unseen(unseen_all):
        found.append(all_samples)
    return " and ".join(f"{number:,}" for number in found) or None


def draw_for(part: pa.Table, used: BoolArray, settings: AnalysisSettings) -> BootstrapWeights:
    """Random weights of the problems of a part that are used. Problems of a cluster share one, if clusters count."""
    cluster = None
    if settings.clusters == "auto":
        cluster = regroup(number_clusters(part["dataset"].to_pylist(), part["cluster"].to_pylist()), used)
    return settings.drawn(int(used.sum()), cluster)


def float_column(rows: pa.Table, name: str) -> FloatArray:
    """A column as numbers, with NaN for null."""
    return np.array(rows[name].to_pylist(), dtype=float)

"""What is said of a group of problems: each measure of a model, and the changes of a pair, with their intervals.

    intervals(measured, floors, settings)[1]  ->  {"model": "base", "dataset": "all", "measure": "tokens",
                                                   "value": 31.5, "low": 27.9, "high": 35.3, "floor": 0.4}

The paper's decoupling is that token entropy may rise while answer entropy falls. `decoupling` puts it to the test: the
mean change of both over the problems that both models have, how the changes of single problems go together, and how
many problems go each way. Answer entropies that meet token entropies are Miller and Madow's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.categorize.statistics.arrays import Reals, Truths
from stages.categorize.statistics.resampling import Estimate, Settings, Weights
from stages.entropy.statistics import mean, share, spearman
from stages.tables import INT, REAL, TEXT

MEASURES: dict[str, Callable[[Reals, Weights, float], Estimate]] = {
    "average": share,
    "tokens": partial(mean, least=0),
    "token_entropy": partial(mean, least=0),
    "decoding_entropy": partial(mean, least=0),
    "forks": partial(mean, least=0, most=1),
    "answer_entropy": partial(mean, least=0),
    "answer_entropy_mm": partial(mean, least=0),
    "unseen": partial(mean, least=0, most=1),
}
CHANGES = ("token_entropy", "decoding_entropy", "answer_entropy", "answer_entropy_mm")
ESTIMATES = (*CHANGES, "spearman", "token_up_answer_down", "token_down_answer_up")

INTERVALS = pa.schema(
    [
        *(pa.field(name, TEXT, nullable=False) for name in ("model", "dataset", "measure")),
        *(pa.field(name, REAL) for name in ("value", "low", "high", "floor")),  # floor: see floors.sql
    ]
)
DECOUPLING = pa.schema(
    [
        *(pa.field(name, TEXT, nullable=False) for name in ("pair", "base", "rlvr", "dataset")),
        pa.field("problems", INT, nullable=False),
        pa.field("compared", INT, nullable=False),  # problems that both models have
        # the first four are means of the second model's less the base's; the last two are shares of problems
        *(pa.field(f"{name}{end}", REAL) for name in ESTIMATES for end in ("", "_low", "_high")),
    ]
)


def intervals(measured: pa.Table, floors: pa.Table, chosen: Settings) -> list[dict[str, Any]]:
    """Every measure of every model with its floor, per data set and over all problems."""
    rows = []
    luck = {(row["model"], row["dataset"], row["measure"]): row["floor"] for row in floors.to_pylist()}
    for model in pc.unique(measured["model"]).to_pylist():
        for dataset, part in apart(measured.filter(pc.equal(measured["model"], model))):
            drawn = chosen.drawn(part.num_rows)
            for name, estimated in MEASURES.items():
                found = estimated(reals(part, name), drawn, chosen.confidence)
                key = {"model": model, "dataset": dataset, "measure": name}
                floor = luck[model, dataset, name]
                rows.append({**key, "value": found.value, "low": found.low, "high": found.high, "floor": floor})
    return rows


def decoupling(changes: pa.Table, pairs: Sequence[dict[str, str]], chosen: Settings) -> list[dict[str, Any]]:
    """The changes of every pair, per data set and over all problems."""
    return [
        {**pair, "dataset": dataset, "problems": part.num_rows, **moved(part, chosen)}
        for pair in pairs
        for dataset, part in apart(changes.filter(pc.equal(changes["pair"], pair["pair"])))
    ]


def apart(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """All problems, then those of each data set."""
    yield "all", rows
    for dataset in sorted(pc.unique(rows["dataset"]).to_pylist()):
        yield dataset, rows.filter(pc.equal(rows["dataset"], dataset))


def moved(part: pa.Table, chosen: Settings) -> dict[str, Any]:
    """What changed on the problems that both models have; where no token entropies are, the answers alone."""
    columns = {name: reals(part, name) for name in CHANGES}
    used = compared(columns["token_entropy"], columns["answer_entropy_mm"])
    columns = {name: values[used] for name, values in columns.items()}
    drawn, sure = chosen.drawn(int(used.sum())), chosen.confidence
    token, answer = columns["token_entropy"], columns["answer_entropy_mm"]
    found = {name: mean(values, drawn, sure) for name, values in columns.items()}
    found["spearman"] = spearman(token, answer, drawn, sure)
    found["token_up_answer_down"] = share(both(token > 0, answer < 0, token), drawn, sure)
    found["token_down_answer_up"] = share(both(token < 0, answer > 0, token), drawn, sure)
    row: dict[str, Any] = {"compared": int(used.sum())}
    for name, one in found.items():
        row |= one.columns(name)
    return row


def compared(token: Reals, answer: Reals) -> Truths:
    """The problems with both changes or, if there are none, those whose answers changed by a known amount."""
    answered = ~np.isnan(answer)
    scored = answered & ~np.isnan(token)
    return scored if scored.any() else answered


def both(one: Truths, other: Truths, known: Reals) -> Reals:
    """1 where both hold, 0 where not, NaN where it is not known."""
    return np.where(np.isnan(known), math.nan, one & other)


def reals(rows: pa.Table, name: str) -> Reals:
    """A column with NaN where it is null."""
    return np.array(rows[name].to_pylist(), dtype=float)

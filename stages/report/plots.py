"""What `dvc plots` draws, in the long form it reads; .dvc/plots has the templates.

Of the first pair: pass@k of both models; P, E, S and O of each data set; and the ratios against epsilon, with the
chosen one. A value that is not known has no row, since an empty cell would be drawn as 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stages.params import Params
from stages.report.write import csv

if TYPE_CHECKING:
    from stages.report import Results

RATIOS = ("SRR", "NDR", "NSCR")
CURVES = pa.schema(
    [("k", pa.int32()), ("model", pa.string())] + [(n, pa.float64()) for n in ("pass_at_k", "low", "high")]
)
CATEGORIES = pa.schema([("dataset", pa.string()), ("category", pa.string()), ("problems", pa.int64())])
BY_EPSILON = pa.schema(
    [("epsilon", pa.float64()), ("ratio", pa.string())]
    + [(name, pa.float64()) for name in ("value", "low", "high", "least_chosen", "most_chosen")]
)
Rows = list[dict[str, Any]]


def write(folder: Path, params: Params, results: Results) -> None:
    pair = params.run.pairs[0]
    found = results.analyses[pair].get("all", {})
    drawn = {
        "pass_at_k": (CURVES, curves(params, pair, results.pass_at_k)),
        "categories": (CATEGORIES, categories(pair, results.metrics)),
        "by_epsilon": (BY_EPSILON, by_epsilon(found)),
    }
    for name, (schema, rows) in drawn.items():
        csv(folder / f"{name}.csv", pa.Table.from_pylist(rows, schema=schema))


def curves(params: Params, pair: str, pass_at_k: pa.Table) -> Rows:
    """pass@k of both models over all data sets, by their names."""
    names = dict(zip(("base", "rlvr"), params.models_of(pair), strict=True))
    return [
        {**row, "model": names[row["role"]]}
        for row in pass_at_k.to_pylist()
        if row["pair"] == pair and row["dataset"] == "all" and None not in (row["pass_at_k"], row["low"], row["high"])
    ]


def categories(pair: str, metrics: pa.Table) -> Rows:
    """How many problems of each data set are in each category."""
    return [
        {"dataset": row["dataset"], "category": name, "problems": row[name]}
        for row in metrics.to_pylist()
        if row["pair"] == pair and row["reading"] == "chosen"
        for name in "PESO"
    ]


def by_epsilon(found: dict[str, Any]) -> Rows:
    """The ratios at every epsilon, and the one that was chosen (of several data sets', the least and the most)."""
    chosen = found.get("epsilon")
    least, most = chosen if isinstance(chosen, list) else (chosen, chosen)
    return [
        {"epsilon": at["epsilon"], "ratio": name, **at[name], "least_chosen": least, "most_chosen": most}
        for at in found.get("by_epsilon", [])
        for name in RATIOS
        if at[name] and None not in (at[name]["value"], at[name]["low"], at[name]["high"])
    ]

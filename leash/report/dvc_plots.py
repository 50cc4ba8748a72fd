"""The CSV files that `dvc plots` draws, in long form; .dvc/plots has the templates.

They are about the first pair: pass@k of both models, P, E, S and O of each data set, and the ratios at every epsilon,
with the chosen one. An unknown value has no row, because DVC would draw an empty cell as 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from leash.params.groups import Params
from leash.report.writers import write_csv

if TYPE_CHECKING:
    from leash.report.results import Results

PLOTTED_RATIOS = ("SRR", "NDR", "NSCR")
STRING, FLOAT64 = pa.string(), pa.float64()
PASS_AT_K_SCHEMA = pa.schema({"k": pa.int32(), "model": STRING, **dict.fromkeys(("pass_at_k", "low", "high"), FLOAT64)})
CATEGORIES_SCHEMA = pa.schema({"dataset": STRING, "category": STRING, "problems": pa.int64()})
BY_EPSILON_SCHEMA = pa.schema(
    {
        **{"epsilon": FLOAT64, "ratio": STRING},
        **dict.fromkeys(("value", "low", "high", "least_chosen", "most_chosen"), FLOAT64),
    }
)
Rows = list[dict[str, Any]]


def write_plots(folder: Path, params: Params, results: Results) -> None:
    pair = params.run.pairs[0]
    plots = {
        "pass_at_k": (PASS_AT_K_SCHEMA, pass_at_k_rows(params, pair, results.pass_at_k)),
        "categories": (CATEGORIES_SCHEMA, category_rows(pair, results.metrics)),
        "by_epsilon": (BY_EPSILON_SCHEMA, epsilon_rows(results.analyses[pair].get("all", {}))),
    }
    for name, (schema, rows) in plots.items():
        write_csv(folder / f"{name}.csv", pa.Table.from_pylist(rows, schema=schema))


def pass_at_k_rows(params: Params, pair: str, pass_at_k: pa.Table) -> Rows:
    """pass@k of both models over all data sets, with the models' names instead of their roles."""
    names = dict(zip(("base", "rlvr"), params.models_of(pair), strict=True))
    return [
        {**row, "model": names[row["role"]]}
        for row in pass_at_k.to_pylist()
        if row["pair"] == pair and row["dataset"] == "all" and None not in (row["pass_at_k"], row["low"], row["high"])
    ]


def category_rows(pair: str, metrics: pa.Table) -> Rows:
    return [
        {"dataset": row["dataset"], "category": name, "problems": row[name]}
        for row in metrics.to_pylist()
        if row["pair"] == pair and row["reading"] == "chosen"
        for name in "PESO"
    ]


def epsilon_rows(analysis: dict[str, Any]) -> Rows:
    """The ratios at every epsilon, and the chosen epsilon (the smallest and the largest, if data sets differ)."""
    chosen = analysis.get("epsilon")
    least, most = chosen if isinstance(chosen, list) else (chosen, chosen)
    return [
        {"epsilon": at["epsilon"], "ratio": name, **at[name], "least_chosen": least, "most_chosen": most}
        for at in analysis.get("by_epsilon", [])
        for name in PLOTTED_RATIOS
        if at[name] and None not in (at[name]["value"], at[name]["low"], at[name]["high"])
    ]

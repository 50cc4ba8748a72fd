"""The CSV files that `dvc plots` draws, in long form; .dvc/plots has the templates.

They are about the first pair: pass@k of both models, P, E, S and O of each data set, and the ratios at every epsilon,
with the chosen one. An unknown value has no row, because DVC would draw an empty cell as 0.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from leash.params.groups import Params
from leash.report.cells import write_csv
from leash.report.report_data import Results, matching_rows
from leash.tables import FLOAT64, INT32, STRING

PLOTTED_RATIOS = ("SRR", "NDR", "NSCR")
PASS_AT_K_SCHEMA = pa.schema({"k": INT32, "model": STRING, **dict.fromkeys(("pass_at_k", "low", "high"), FLOAT64)})
CATEGORIES_SCHEMA = pa.schema({"dataset": STRING, "category": STRING, "problems": pa.int64()})
BY_EPSILON_SCHEMA = pa.schema(
    {
        **{"epsilon": FLOAT64, "ratio": STRING},
        **dict.fromkeys(("value", "low", "high", "least_chosen", "most_chosen"), FLOAT64),
    }
)


def write_plots(folder: Path, params: Params, results: Results) -> None:
    pair = params.run.pairs[0]
    names = dict(zip(("base", "rlvr"), params.models_of(pair), strict=True))
    curves = [
        {**row, "model": names[row["role"]]}
        for row in matching_rows(results.pass_at_k, pair=pair, dataset="all")
        if None not in (row["pass_at_k"], row["low"], row["high"])
    ]
    categories = [
        {"dataset": row["dataset"], "category": name, "problems": row[name]}
        for row in matching_rows(results.metrics, pair=pair, counted="chosen")
        for name in "PESO"
    ]
    analysis = results.analyses[pair].get("all", {})
    # The smallest and the largest chosen epsilon, if data sets differ.
    chosen = analysis.get("epsilon")
    least, most = chosen if isinstance(chosen, list) else (chosen, chosen)
    ratios = [
        {"epsilon": at["epsilon"], "ratio": name, **at[name], "least_chosen": least, "most_chosen": most}
        for at in analysis.get("by_epsilon", [])
        for name in PLOTTED_RATIOS
        if at[name] and None not in (at[name]["value"], at[name]["low"], at[name]["high"])
    ]
    write_csv(folder / "pass_at_k.csv", pa.Table.from_pylist(curves, schema=PASS_AT_K_SCHEMA))
    write_csv(folder / "categories.csv", pa.Table.from_pylist(categories, schema=CATEGORIES_SCHEMA))
    write_csv(folder / "by_epsilon.csv", pa.Table.from_pylist(ratios, schema=BY_EPSILON_SCHEMA))

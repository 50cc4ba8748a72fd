"""perplexity: how surprising reference solutions are to each model, by what became of their problems.

In:  the reference traces of the problems, the models, data/support/.
Out: data/perplexity/{model}/{dataset}.parquet (tokens and total negative log-likelihood of every trace) and
     data/perplexity/by_category.parquet (both models of every pair, by source and category).

Scores do not depend on epsilon: when it changes, only the second table is made anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from stages import tables
from stages.models import weights
from stages.params import Params
from stages.scoring import Trace, keep_scores

ROOM = Path(__file__).parent
BY_CATEGORY = tables.DATA / "perplexity" / "by_category.parquet"


def run(params: Params) -> int:
    """Score what is not scored yet; return how many traces that were."""
    traces = {dataset: references(dataset) for dataset in params.run.datasets}
    scored = sum(
        keep_scores(
            tables.perplexity_path(model, dataset),
            tables.PERPLEXITY,
            weights(params, model),
            traces[dataset],
            workers=params.run.workers,
        )
        for model in params.run.models
        for dataset in params.run.datasets
    )
    summary = by_category(params)
    tables.write(BY_CATEGORY, summary, summary.schema)
    return scored


def references(dataset: str) -> list[tuple[dict[str, str], Trace]]:
    """Each problem's reference traces: the solutions that its `meta` carries, by source."""
    problems = tables.read(tables.problems_path(dataset), tables.PROBLEMS, f"leash fetch {dataset}").to_pylist()
    return [
        ({"problem_id": row["problem_id"], "source": source}, Trace(row["question"], text, ended=True))
        for row in problems
        for source, text in json.loads(row["meta"]).get("traces", {}).items()
    ]


def by_category(params: Params) -> pa.Table:
    connection = tables.database(params)
    pairs = [{"pair": p, "base": params.pairs[p].base, "rlvr": params.pairs[p].rlvr} for p in params.run.pairs]
    connection.register("pairs", pa.Table.from_pylist(pairs))
    return tables.query(connection, ROOM / "by_category.sql")

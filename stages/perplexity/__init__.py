"""perplexity: how surprising reference solutions are to each model, by what became of their problems.

In:  the reference traces of the problems, the models, data/support/.
Out: data/perplexity/{model}/{dataset}.parquet (tokens and total negative log-likelihood of every trace) and
     data/perplexity/by_category.parquet (both models of every pair, by source and category).

Scores do not depend on epsilon: when it changes, only the second table is made anew. A model without weights here
(its completions were imported, or a server has it) scores nothing, and questions with images are not scored: these
tables are empty.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from stages import tables
from stages.models import weights
from stages.params import Params
from stages.prompts import asked
from stages.scoring import PRELOAD, Job, Trace, keep_scores, leave_empty, scorable
from stages.work import crew

ROOM = Path(__file__).parent
BY_CATEGORY = tables.DATA / "perplexity" / "by_category.parquet"


def run(params: Params) -> tuple[int, list[str]]:
    """Score what is not scored yet; return how many traces that were, and sentences on what could not be scored."""
    jobs = [job(params, model, dataset) for model, dataset in scorable(params)]
    scored = keep_scores(jobs, tables.PERPLEXITY, "perplexity", crew(params, PRELOAD))
    silent = leave_empty(params, tables.perplexity_path, tables.PERPLEXITY, "perplexities")
    summary = by_category(params)
    tables.write(BY_CATEGORY, summary, summary.schema)
    return scored, silent


def job(params: Params, model: str, dataset: str) -> Job:
    """A model on each problem's reference traces: the solutions that its `meta` carries, by source."""
    problems = tables.read(tables.problems_path(dataset), tables.PROBLEMS, f"leash fetch {dataset}").to_pylist()
    traces = [(row, *trace) for row in problems for trace in json.loads(row["meta"]).get("traces", {}).items()]
    return Job(
        tables.perplexity_path(model, dataset),
        weights(params, model),
        [{"problem_id": row["problem_id"], "source": source} for row, source, _ in traces],
        [Trace(asked(params, model, dataset, row["question"]), text, ended=True) for row, _, text in traces],
    )


def by_category(params: Params) -> pa.Table:
    connection = tables.database(params)
    pairs = [{"pair": p, "base": params.pairs[p].base, "rlvr": params.pairs[p].rlvr} for p in params.run.pairs]
    connection.register("pairs", pa.Table.from_pylist(pairs))
    return tables.query(connection, ROOM / "by_category.sql")

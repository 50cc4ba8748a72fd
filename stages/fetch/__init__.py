"""fetch: problems, whatever their origin, into one table.

In:  a data set of params.yaml: generated, or a file of questions and answers.
Out: data/problems/{dataset}.parquet
"""

from __future__ import annotations

from stages import tables
from stages.errors import LeashError
from stages.fetch import embedded, files
from stages.params import Params


def run(params: Params, name: str) -> int:
    """Write the problems table of a data set and return how many problems it has."""
    if name not in params.datasets:
        raise LeashError(f"There is no data set {name} in params.yaml; its data sets are {', '.join(params.datasets)}.")
    dataset = params.datasets[name]
    rows = list(embedded.problems(name, dataset) if dataset.family else files.problems(name, dataset))
    tables.write(tables.problems_path(name), tables.table(rows, tables.PROBLEMS), tables.PROBLEMS)
    return len(rows)

"""fetch: problems, whatever their origin, into one table.

In:  a data set of params.yaml: generated, a file of questions and answers, or imported with its completions.
Out: data/problems/{dataset}.parquet
"""

from __future__ import annotations

from stages import tables
from stages.errors import LeashError
from stages.fetch import embedded, files
from stages.params import Dataset, Params
from stages.verify import graders


def run(params: Params, name: str) -> int:
    """Write the problems table of a data set and return how many problems it has."""
    if name not in params.datasets:
        raise LeashError(f"There is no data set {name} in params.yaml; its data sets are {', '.join(params.datasets)}.")
    dataset = params.datasets[name]
    if dataset.imported:
        return _imported(name, dataset)
    rows = list(embedded.problems(name, dataset) if dataset.family else files.problems(name, dataset))
    tables.write(tables.problems_path(name), tables.table(rows, tables.PROBLEMS), tables.PROBLEMS)
    return len(rows)


def _imported(name: str, dataset: Dataset) -> int:
    """The table is there already; only its grader may be another than params.yaml names."""
    again = f"leash import FILE --model MODEL --dataset {name}"
    rows = tables.read(tables.problems_path(name), tables.PROBLEMS, again).to_pylist()
    named = "grader" in dataset.model_fields_set
    if named and any(row["grader"] != dataset.grader for row in rows):
        graders.load(dataset.grader)
        rows = [{**row, "grader": dataset.grader} for row in rows]
        tables.write(tables.problems_path(name), tables.table(rows, tables.PROBLEMS), tables.PROBLEMS)
    return len(rows)

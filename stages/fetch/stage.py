"""fetch: write the problems of a data set, whatever their origin, into one table.

In:  a data set of params.yaml: a benchmark of the paper or your own file, from the hub or from a path; generated; or
     imported with its completions.
Out: data/problems/{dataset}.parquet

Warnings report what is unusual about a data set: another number of problems than the benchmark has, or questions that
occur twice, which are put into one cluster. Golds that their grader cannot read are an error.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from leash import tables
from leash.datasets import duplicates
from leash.datasets.loading import FetchResult, load_problems
from leash.errors import LeashError
from leash.params.groups import Params


def run(params: Params, name: str) -> FetchResult:
    fetched = load_problems(params, name)
    all_tables = [tables.table_from_rows(fetched.rows, tables.PROBLEMS_SCHEMA)]
    for other in params.run.datasets:
        # A table that is missing or damaged is fetched later, and then compared with this one.
        with suppress(LeashError):
            if other != name:
                path = tables.problems_path(other)
                all_tables.append(tables.read(path, tables.PROBLEMS_SCHEMA, f"leash fetch {other}"))
    pairs = duplicates.find_duplicates(pa.concat_tables(all_tables))
    own_pairs = [pair for pair in pairs if name in (pair.dataset, pair.other_dataset)]
    rows = duplicates.cluster_duplicates(fetched.rows, own_pairs)
    if not fetched.stored or rows != fetched.rows:
        table = tables.table_from_rows(rows, tables.PROBLEMS_SCHEMA)
        tables.write(tables.problems_path(name), table, tables.PROBLEMS_SCHEMA)
    return replace(fetched, rows=rows, warnings=[*fetched.warnings, *duplicates.describe_duplicates(own_pairs)])

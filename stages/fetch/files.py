r"""A data set of your own: any JSONL, JSON, CSV or Parquet file with a question and an answer column.

{"problem": "What is $2^{10}$?", "answer": "1024"}

datasets:
  mine: {path: mine.jsonl, question: problem, answer: answer, grader: math,
         prompt: "{question}\nPut your final answer in \\boxed{}."}
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from stages.errors import LeashError
from stages.params import Dataset
from stages.verify import graders

READERS = {".jsonl": "read_json_auto", ".json": "read_json_auto", ".csv": "read_csv", ".parquet": "read_parquet"}


def problems(name: str, dataset: Dataset) -> Iterator[dict[str, Any]]:
    graders.load(dataset.grader)  # a misspelt grader is said now, not after sampling
    for number, row in enumerate(_rows(name, dataset)):
        where = f"{dataset.path}, row {number + 1}"
        question, gold = row[dataset.question], golds(row[dataset.answer])
        if not question or not gold:
            empty = dataset.answer if question else dataset.question
            raise LeashError(f"{where}: the column {empty} is empty; fill it in or remove the row.")
        yield {
            "dataset": name,
            "problem_id": str(row[dataset.id]) if dataset.id else f"{name}-{number:05d}",
            "question": dataset.prompt.replace("{question}", str(question)),
            "gold": gold,
            "grader": dataset.grader,
            "meta": json.dumps({"question": str(question)}),
        }


def _rows(name: str, dataset: Dataset) -> list[dict[str, Any]]:
    path = Path(dataset.path or "")
    if dataset.path is None:
        raise LeashError(
            f"The data set {name} has no `path`: download a JSONL, CSV or Parquet file of {dataset.hub} from the hub "
            f"and set `datasets.{name}.path` to where you put it."
        )
    if path.suffix not in READERS:
        raise LeashError(f"{path} is not a kind of file that is read here ({', '.join(READERS)}).")
    if not path.is_file():
        source = f"download it from {dataset.hub} on the hub and " if dataset.hub else ""
        raise LeashError(f"`datasets.{name}.path` is {path}, but there is no such file; {source}put it there.")
    try:
        found = duckdb.connect().sql(f"select * from {READERS[path.suffix]}(?)", params=[str(path)])
        rows: list[dict[str, Any]] = pa.table(found.to_arrow_table()).to_pylist()
    except duckdb.Error as error:
        raise LeashError(f"{path} can't be read: {str(error).splitlines()[0].rstrip('.')}.") from None
    columns = list(rows[0]) if rows else []
    for column in filter(None, (dataset.question, dataset.answer, dataset.id)):
        if column not in columns:
            raise LeashError(f"{path} has no column {column}; it has {', '.join(columns) or 'no rows'}.")
    ids = [row[dataset.id] for row in rows] if dataset.id else []
    if len(set(ids)) < len(ids):
        raise LeashError(f"{path}: the column {dataset.id} does not tell its rows apart; name another as `id`.")
    return rows


def golds(value: Any) -> list[str]:
    """One gold or several, as text; a whole number that was read as 27.0 is 27."""
    if isinstance(value, list):
        return [gold for item in value for gold in golds(item)]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return [str(value).strip()] if value is not None and str(value).strip() else []

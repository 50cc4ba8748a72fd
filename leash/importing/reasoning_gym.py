"""`reasoning-gym`: the output of Reasoning Gym's evaluation scripts, as JSON lines or as the JSON that they write.

{"question": "Find the common rule …", "expected_answer": "0 0 1 5", "best_score": 0.0, "mean_score": 0.0,
 "completions": [{"model_answer": "0 5 1 0", "full_model_response": "<think> To find …", "score": 0.0}]}

The scripts write one JSON file per run (`categories`, in each `datasets`, in each `results`) or per data set
(`results`). `flatten_document` turns both into such rows and adds what stands above a row as `_dataset`, `_category`,
`_config` and `_model`, so that --where can select by it. Rows of the first versions have one response and no
`completions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from leash.importing.raw_rows import Row
from leash.importing.record import Golds, Record, RecordedCompletion, Score, Text, parse_row, parse_run_metadata

RESPONSE_FIELD = "full_model_response"
FIELDS = tuple(frozenset({"question", "expected_answer", field}) for field in ("completions", RESPONSE_FIELD))
META_FIELDS = {"_dataset": "task", "_config": "config", "_idx": "index", "metadata": "metadata"}


class GymResponse(BaseModel):
    full_model_response: Text
    score: Score = None


class GymRow(BaseModel):
    question: Text
    expected_answer: Golds
    completions: list[GymResponse]


def records(rows: Iterable[Row]) -> Iterator[Record]:
    for row in rows:
        if "completions" not in row.fields and RESPONSE_FIELD in row.fields:
            row = Row(row.where, {**row.fields, "completions": [row.fields]})
        fields = parse_row(GymRow, row)
        yield Record(
            row.where,
            fields.question,
            fields.expected_answer,
            [RecordedCompletion(response.full_model_response, score=response.score) for response in fields.completions],
            meta={ours: row.fields[theirs] for theirs, ours in META_FIELDS.items() if theirs in row.fields},
            run_metadata=parse_run_metadata(row.fields, row.fields.get("_meta")),
        )


def flatten_document(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows in the JSON of a run or of a data set; any other object is a row itself."""
    if isinstance(document.get("categories"), list):
        metadata = document.get("metadata")
        above = {"_model": metadata.get("model"), "_meta": metadata} if isinstance(metadata, dict) else {}
        for category in _only_objects(document["categories"]):
            for dataset in _only_objects(category.get("datasets")):
                yield from _flatten_results(dataset, {**above, "_category": category.get("name")})
    elif isinstance(document.get("results"), list):
        yield from _flatten_results(document, {"_model": document.get("model"), "_category": document.get("category")})
    else:
        yield document


def _flatten_results(dataset: dict[str, Any], above: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name = dataset.get("name") or dataset.get("dataset_name")
    shared = {**above, "_dataset": name, "_config": dataset.get("config")}
    shared = {key: value for key, value in shared.items() if value is not None}
    for index, result in enumerate(_only_objects(dataset.get("results"))):
        yield {**shared, "_idx": index, **result}


def _only_objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []

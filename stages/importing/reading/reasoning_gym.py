"""`reasoning-gym`: the output of Reasoning Gym's evaluation scripts, as JSON lines or as the JSON they write.

{"question": "Find the common rule …", "expected_answer": "0 0 1 5", "best_score": 0.0, "mean_score": 0.0,
 "completions": [{"model_answer": "0 5 1 0", "full_model_response": "<think> To find …", "score": 0.0}]}

The scripts write one JSON for a run (`categories`, in each `datasets`, in each `results`) or one for a data set
(`results`); both are taken apart into such rows, and each gets what stood above it as `_dataset`, `_category`,
`_config` and `_model`, to choose by with --where. Rows of the first
versions have one response and no `completions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from stages.errors import LeashError
from stages.importing.reading.record import Record, Recorded, golds, items, needed, said, score, text
from stages.importing.reading.rows import Row, kind

RESPONSE = "full_model_response"
FIELDS = (
    frozenset({"question", "expected_answer", "completions"}),
    frozenset({"question", "expected_answer", RESPONSE}),
)
KEPT = {"_dataset": "task", "_config": "config", "_idx": "index", "metadata": "metadata"}


def records(rows: Iterable[Row]) -> Iterator[Record]:
    for row in rows:
        yield Record(
            row.where,
            text(needed(row, "question"), row.where, "question"),
            golds(needed(row, "expected_answer")),
            [_recorded(completion, row.where) for completion in _completions(row)],
            meta={ours: row.fields[theirs] for theirs, ours in KEPT.items() if theirs in row.fields},
            says=said(row.fields, row.fields.get("_meta")),
        )


def _completions(row: Row) -> list[Any]:
    if "completions" not in row.fields and RESPONSE in row.fields:
        return [row.fields]
    return items(needed(row, "completions"), row.where, "completions")


def _recorded(completion: Any, where: str) -> Recorded:
    if not isinstance(completion, dict):
        raise LeashError(f"{where}: completions holds {kind(completion)}, not objects with {RESPONSE}.")
    return Recorded(text(completion.get(RESPONSE), where, RESPONSE), score=score(completion.get("score")))


def flattened(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of the JSON of a run or of a data set; any other object is a row itself."""
    if isinstance(document.get("categories"), list):
        told = document.get("metadata")
        above = {"_model": told.get("model"), "_meta": told} if isinstance(told, dict) else {}
        for category in _objects(document["categories"]):
            for dataset in _objects(category.get("datasets")):
                yield from _results(dataset, {**above, "_category": category.get("name")})
    elif isinstance(document.get("results"), list):
        yield from _results(document, {"_model": document.get("model"), "_category": document.get("category")})
    else:
        yield document


def _results(dataset: dict[str, Any], above: dict[str, Any]) -> Iterator[dict[str, Any]]:
    name = dataset.get("name") or dataset.get("dataset_name")
    told = {**above, "_dataset": name, "_config": dataset.get("config")}
    own = {key: value for key, value in told.items() if value is not None}
    for index, result in enumerate(_objects(dataset.get("results"))):
        yield {**own, "_idx": index, **result}


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []

r"""`lighteval`: its details Parquet (`--save-details`), of both layouts that its source has had.

{"doc": {"query": "Solve … Find $x$.", "choices": ["$x = \\boxed{7}$"], "gold_index": 0, "id": "3", "task_name": "…"},
 "model_response": {"text": ["So \\boxed{7}"], "output_tokens": [[2215, 11, …]]}, "metric": {"extractive_match": 1.0}}

That is the layout in which a row is the three structs `doc`, `model_response` and `metric`. Before it (up to 0.10)
a row was flat: `example` and `full_prompt`, `predictions`, `gold`, `cont_tokens`, `metrics`; there a column that
Arrow could not hold was written as the text of a Python list, which is read as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from stages.errors import LeashError
from stages.importing.reading.record import Record, Recorded, golds, items, needed, scores, text
from stages.importing.reading.rows import Row, kind

NESTED = frozenset({"doc", "model_response"})
FLAT = frozenset({"full_prompt", "predictions", "gold"})
FIELDS = (NESTED, FLAT)


def records(rows: Iterable[Row]) -> Iterator[Record]:
    for row in rows:
        yield _nested(row) if row.fields.keys() >= NESTED else _flat(row)


def _nested(row: Row) -> Record:
    doc = Row(f"{row.where}, doc", _struct(row, "doc"))
    response = Row(f"{row.where}, model_response", _struct(row, "model_response"))
    told = items(needed(response, "text"), row.where, "model_response.text")
    return Record(
        row.where,
        text(needed(doc, "query"), row.where, "doc.query"),
        _golds(doc),
        _recorded(row.where, told, response.fields.get("output_tokens"), row.fields.get("metric")),
        meta={"task": doc.fields["task_name"]} if doc.fields.get("task_name") else {},
    )


def _flat(row: Row) -> Record:
    told = items(_literal(needed(row, "predictions")), row.where, "predictions")
    return Record(
        row.where,
        text(row.fields.get("example") or needed(row, "full_prompt"), row.where, "full_prompt"),
        golds(_literal(needed(row, "gold"))),
        _recorded(row.where, told, _literal(row.fields.get("cont_tokens")), _literal(row.fields.get("metrics"))),
    )


def _struct(row: Row, name: str) -> dict[str, Any]:
    value = _literal(row.fields[name])
    if not isinstance(value, dict):
        raise LeashError(f"{row.where}: {name} is {kind(value)}, not a struct with fields.")
    return value


def _golds(doc: Row) -> list[str]:
    choices = items(needed(doc, "choices"), doc.where, "choices")
    index = needed(doc, "gold_index")
    try:
        return golds([choices[i] for i in (index if isinstance(index, list) else [index])])
    except (IndexError, TypeError):
        raise LeashError(f"{doc.where}: gold_index {index!r} is not a place among the choices.") from None


def _recorded(where: str, told: list[Any], tokens: Any, metrics: Any) -> list[Recorded]:
    """Tokens are counted where each completion has its own; a metric is one completion's where there is one of each."""
    counted = tokens if isinstance(tokens, list) and len(tokens) == len(told) else [None] * len(told)
    values = list(metrics.values()) if isinstance(metrics, dict) else []
    right = scores(values[0] if len(values) == 1 else None, len(told))
    return [
        Recorded(text(t, where, "the text"), tokens=len(n) if isinstance(n, list) and n else None, score=s)
        for t, n, s in zip(told, counted, right, strict=True)
    ]


def _literal(value: Any) -> Any:
    """A list or a mapping that was written as text."""
    if not isinstance(value, str) or not value.startswith(("[", "{")):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return value

r"""`lighteval`: the details Parquet of lighteval (`--save-details`), in both layouts that it has had.

{"doc": {"query": "Solve … Find $x$.", "choices": ["$x = \\boxed{7}$"], "gold_index": 0, "id": "3", "task_name": "…"},
 "model_response": {"text": ["So \\boxed{7}"], "output_tokens": [[2215, 11, …]]}, "metric": {"extractive_match": 1.0}}

In this layout a row has the three structs `doc`, `model_response` and `metric`. Up to 0.10 a row was flat: `example`
and `full_prompt`, `predictions`, `gold`, `cont_tokens`, `metrics`. There, a column that Arrow could not hold was
written as the text of a Python list, which is parsed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

from leash.importing import record
from leash.importing.raw_rows import ImportFileError, Row
from leash.importing.record import Golds, Record, Text

NESTED_FIELDS = frozenset({"doc", "model_response"})
FLAT_FIELDS = frozenset({"full_prompt", "predictions", "gold"})
FIELDS = (NESTED_FIELDS, FLAT_FIELDS)
MAYBE_LITERAL = BeforeValidator(record.parse_literal)


class Doc(BaseModel):
    query: Text
    choices: list[Any]
    gold_index: Any
    task_name: Any = None


class ModelResponse(BaseModel):
    text: list[Text]
    output_tokens: Any = None


class NestedRow(BaseModel):
    doc: Annotated[Doc, MAYBE_LITERAL]
    model_response: Annotated[ModelResponse, MAYBE_LITERAL]
    metric: Any = None


class FlatRow(BaseModel):
    predictions: Annotated[list[Text], MAYBE_LITERAL]
    gold: Annotated[Golds, MAYBE_LITERAL]
    full_prompt: Any
    example: Any = None
    cont_tokens: Annotated[Any, MAYBE_LITERAL] = None
    metrics: Annotated[Any, MAYBE_LITERAL] = None


def records(rows: Iterable[Row]) -> Iterator[Record]:
    for row in rows:
        yield _parse_nested(row) if row.fields.keys() >= NESTED_FIELDS else _parse_flat(row)


def _parse_nested(row: Row) -> Record:
    fields = record.parse_row(NestedRow, row)
    doc, response = fields.doc, fields.model_response
    indices = doc.gold_index if isinstance(doc.gold_index, list) else [doc.gold_index]
    try:
        golds = [doc.choices[index] for index in indices]
    except (IndexError, TypeError):
        raise ImportFileError(row.where, f"doc.gold_index {doc.gold_index!r} is no index into doc.choices.") from None
    completions = record.pair_completions(response.text, _get_only_metric(fields.metric), response.output_tokens)
    meta = {"task": doc.task_name} if doc.task_name else {}
    return Record(row.where, doc.query, record.parse_worked_golds(golds), completions, meta=meta)


def _parse_flat(row: Row) -> Record:
    fields = record.parse_row(FlatRow, row)
    question = record.require_text(fields.example or fields.full_prompt, row.where, "full_prompt")
    scores = _get_only_metric(fields.metrics)
    completions = record.pair_completions(fields.predictions, scores, fields.cont_tokens)
    return Record(row.where, question, fields.gold, completions)


def _get_only_metric(metrics: Any) -> Any:
    """A metric is the score of the completions only if there is no other one."""
    values = list(metrics.values()) if isinstance(metrics, dict) else []
    return values[0] if len(values) == 1 else None

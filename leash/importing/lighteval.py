r"""`lighteval`: the details Parquet of lighteval (`--save-details`), in both layouts that it has had.

{"doc": {"query": "Solve … Find $x$.", "choices": ["$x = \\boxed{7}$"], "gold_index": 0, "id": "3", "task_name": "…"},
 "model_response": {"text": ["So \\boxed{7}"], "output_tokens": [[2215, 11, …]]}, "metric": {"extractive_match": 1.0}}

In this layout a row has the three structs `doc`, `model_response` and `metric`. Up to 0.10 a row was flat: `example`
and `full_prompt`, `predictions`, `gold`, `cont_tokens`, `metrics`. There, a column that Arrow could not hold was
written as the text of a Python list, which is parsed as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

from leash.importing.raw_rows import ImportFileError, Row
from leash.importing.record import (
    Record,
    RecordedCompletion,
    Text,
    extract_golds,
    parse_row,
    parse_scores,
    require_text,
)

NESTED_FIELDS = frozenset({"doc", "model_response"})
FLAT_FIELDS = frozenset({"full_prompt", "predictions", "gold"})
FIELDS = (NESTED_FIELDS, FLAT_FIELDS)


def _parse_literal(value: Any) -> Any:
    """A list or a mapping that was written as text."""
    if not isinstance(value, str) or not value.startswith(("[", "{")):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return value


class Doc(BaseModel):
    query: Text
    choices: list[Any]
    gold_index: Any
    task_name: Any = None


class ModelResponse(BaseModel):
    text: list[Text]
    output_tokens: Any = None


class NestedRow(BaseModel):
    doc: Annotated[Doc, BeforeValidator(_parse_literal)]
    model_response: Annotated[ModelResponse, BeforeValidator(_parse_literal)]
    metric: Any = None


class FlatRow(BaseModel):
    predictions: Annotated[list[Text], BeforeValidator(_parse_literal)]
    gold: Annotated[Any, BeforeValidator(_parse_literal)]
    full_prompt: Any
    example: Any = None
    cont_tokens: Annotated[Any, BeforeValidator(_parse_literal)] = None
    metrics: Annotated[Any, BeforeValidator(_parse_literal)] = None


def records(rows: Iterable[Row]) -> Iterator[Record]:
    for row in rows:
        yield _parse_nested(row) if row.fields.keys() >= NESTED_FIELDS else _parse_flat(row)


def _parse_nested(row: Row) -> Record:
    fields = parse_row(NestedRow, row)
    doc, response = fields.doc, fields.model_response
    indices = doc.gold_index if isinstance(doc.gold_index, list) else [doc.gold_index]
    try:
        golds = [doc.choices[index] for index in indices]
    except (IndexError, TypeError):
        raise ImportFileError(row.where, f"doc.gold_index {doc.gold_index!r} is no index into doc.choices.") from None
    return Record(
        row.where,
        doc.query,
        extract_golds(golds),
        _parse_completions(response.text, response.output_tokens, fields.metric),
        meta={"task": doc.task_name} if doc.task_name else {},
    )


def _parse_flat(row: Row) -> Record:
    fields = parse_row(FlatRow, row)
    return Record(
        row.where,
        require_text(fields.example or fields.full_prompt, row.where, "full_prompt"),
        extract_golds(fields.gold),
        _parse_completions(fields.predictions, fields.cont_tokens, fields.metrics),
    )


def _parse_completions(texts: Sequence[str], token_ids: Any, metrics: Any) -> list[RecordedCompletion]:
    """Tokens are counted if every completion has its ids. A metric is a completion's score if there is only one."""
    ids = token_ids if isinstance(token_ids, list) and len(token_ids) == len(texts) else [None] * len(texts)
    values = list(metrics.values()) if isinstance(metrics, dict) else []
    scores = parse_scores(values[0] if len(values) == 1 else None, len(texts))
    return [
        RecordedCompletion(text, tokens=len(own) if isinstance(own, list) and own else None, score=score)
        for text, own, score in zip(texts, ids, scores, strict=True)
    ]

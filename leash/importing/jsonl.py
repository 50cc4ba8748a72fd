r"""`jsonl`: your own JSON lines, with one completion or a list of completions per line.

{"problem_id": "q7", "question": "What is $2^{10}$?", "answer": "1024", "text": "… \\boxed{1024}",
 "sample": 3, "tokens": 212, "finish": "stop", "logprob": -41.5, "score": 1}

| what | field (option to name another one) | |
|---|---|---|
| question | `question` (--question) | optional if `problem_id` names a problem of the data set |
| gold | `answer` or `gold` (--answer) | text, number, or a list of them; needed only for new problems |
| completions | `text`, `completion` or `completions` (--text) | text, a list of texts, or of objects with `text` |
| id | `problem_id` (--id) | becomes the id of a new problem |
| sample number | `sample` (--sample) | must be unique within a problem; samples are renumbered in file order |
| tokens, finish, logprob, score | same names | one value, or a list with one value per completion |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from leash.finish import UNKNOWN
from leash.formatting import replace_surrogates
from leash.importing import record
from leash.importing.raw_rows import ImportFileError, Row, describe_type
from leash.importing.record import Count, FieldTypeError, Finish, Golds, MissingFieldError, Number, Record, Score, Text

TEXT_FIELDS = ("text", "completion", "completions")
FIELDS = tuple(frozenset({key, text}) for key in ("question", "problem_id") for text in TEXT_FIELDS)


@dataclass(frozen=True)
class FieldMapping:
    """The fields that hold each part of a row; None stands for the default names."""

    question: str | None = None
    answer: str | None = None
    text: str | None = None
    id: str | None = None
    sample: str | None = None


DEFAULT_MAPPING = FieldMapping()


class ProblemFields(BaseModel):
    sample: Count
    question: Text | None
    gold: Golds


class CompletionFields(BaseModel):
    tokens: Count = None
    finish: Finish = UNKNOWN
    logprob: Number = None
    score: Score = None


def records(rows: Iterable[Row], mapping: FieldMapping = DEFAULT_MAPPING) -> Iterator[Record]:
    for row in rows:
        question = _get_field(row, mapping.question, "question")
        problem_id = _get_field(row, mapping.id, "problem_id")
        if question is None and problem_id is None:
            raise MissingFieldError(row.where, mapping.question or "question", row.fields)
        completions = _parse_completions(row, mapping.text)
        sample, gold = _get_field(row, mapping.sample, "sample"), _get_field(row, mapping.answer, "answer", "gold")
        mapped = Row(row.where, {"question": question, "gold": gold, "sample": sample})
        fields = record.parse_row(ProblemFields, mapped)
        yield Record(
            row.where,
            fields.question,
            fields.gold,
            completions,
            id=None if problem_id is None else replace_surrogates(str(problem_id)),
            sample=fields.sample if len(completions) == 1 else None,
            run_metadata=record.parse_run_metadata(row.fields),
        )


def _get_field(row: Row, mapped: str | None, *defaults: str) -> Any:
    """A field's value: the mapped field, which must exist, or else the first default that exists."""
    if mapped is not None and mapped not in row.fields:
        raise MissingFieldError(row.where, mapped, row.fields)
    names = defaults if mapped is None else (mapped,)
    return next((row.fields[name] for name in names if name in row.fields), None)


def _parse_completions(row: Row, mapped: str | None) -> list[record.RecordedCompletion]:
    name = mapped or next((name for name in TEXT_FIELDS if name in row.fields), None)
    if name not in row.fields:
        raise MissingFieldError(row.where, name or " or ".join(TEXT_FIELDS), row.fields)
    texts = row.fields[name]
    if name == "completions" and not isinstance(texts, list):
        raise FieldTypeError(row.where, name, describe_type(texts), "a list of completions")
    texts = texts if isinstance(texts, list) else [texts]
    columns: dict[str, list[Any]] = {}
    for field in CompletionFields.model_fields:
        value = row.fields.get(field)
        if isinstance(value, list) and len(value) != len(texts):
            raise ImportFileError(row.where, f"{field} has {len(value)} entries for {len(texts)} completions.")
        # A single value beside several completions is theirs only if they can share it, as a finish reason.
        shared = value if len(texts) == 1 or field == "finish" else None
        columns[field] = value if isinstance(value, list) else [shared] * len(texts)
    completions = []
    for number, text in enumerate(texts):
        fields = {field: column[number] for field, column in columns.items()}
        if isinstance(text, dict):
            fields |= text
            text = next((text[field] for field in TEXT_FIELDS if field in text), None)
        text = record.require_text(text, row.where, name)
        stated = record.parse_row(CompletionFields, Row(row.where, fields))
        completions.append(record.RecordedCompletion(text, **dict(stated)))
    return completions

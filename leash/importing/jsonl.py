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

from leash.importing.raw_rows import ImportFileError, Row, describe_type, replace_surrogates
from leash.importing.record import (
    UNKNOWN_FINISH,
    FieldTypeError,
    MissingFieldError,
    Record,
    RecordedCompletion,
    extract_golds,
    parse_count,
    parse_number,
    parse_run_metadata,
    parse_score,
    require_text,
)

TEXT_FIELDS = ("text", "completion", "completions")
GOLD_FIELDS = ("answer", "gold")
COMPLETION_FIELDS = ("tokens", "finish", "logprob", "score")
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


def records(rows: Iterable[Row], mapping: FieldMapping = DEFAULT_MAPPING) -> Iterator[Record]:
    for row in rows:
        question = _get_field(row, mapping.question, ("question",))
        problem_id = _get_field(row, mapping.id, ("problem_id",))
        if question is None and problem_id is None:
            raise MissingFieldError(row.where, mapping.question or "question", row.fields)
        completions = _parse_completions(row, mapping)
        sample = parse_count(_get_field(row, mapping.sample, ("sample",)), row.where, "sample")
        yield Record(
            row.where,
            None if question is None else require_text(question, row.where, "question"),
            extract_golds(_get_field(row, mapping.answer, GOLD_FIELDS)),
            completions,
            id=None if problem_id is None else replace_surrogates(str(problem_id)),
            sample=sample if len(completions) == 1 else None,
            run_metadata=parse_run_metadata(row.fields),
        )


def _get_field(row: Row, mapped: str | None, defaults: tuple[str, ...]) -> Any:
    """A field's value: the mapped field, which must exist, or else the first default that exists."""
    if mapped is not None and mapped not in row.fields:
        raise MissingFieldError(row.where, mapped, row.fields)
    names = defaults if mapped is None else (mapped,)
    return next((row.fields[name] for name in names if name in row.fields), None)


def _parse_completions(row: Row, mapping: FieldMapping) -> list[RecordedCompletion]:
    name = mapping.text or next((name for name in TEXT_FIELDS if name in row.fields), None)
    if name not in row.fields:
        raise MissingFieldError(row.where, name or " or ".join(TEXT_FIELDS), row.fields)
    value = row.fields[name]
    if name == "completions" and not isinstance(value, list):
        raise FieldTypeError(row.where, name, describe_type(value), "a list of completions")
    values = value if isinstance(value, list) else [value]
    columns = {field: _field_per_completion(row, field, len(values)) for field in COMPLETION_FIELDS}
    return [
        _parse_completion(row.where, name, completion, {field: columns[field][i] for field in COMPLETION_FIELDS})
        for i, completion in enumerate(values)
    ]


def _field_per_completion(row: Row, name: str, size: int) -> list[Any]:
    value = row.fields.get(name)
    if isinstance(value, list):
        if len(value) != size:
            raise ImportFileError(row.where, f"{name} has {len(value)} entries for {size} completions.")
        return value
    # A single value beside several completions is theirs only if they can share it, as a finish reason.
    return [value] * size if size == 1 or name == "finish" else [None] * size


def _parse_completion(where: str, name: str, completion: Any, row_fields: dict[str, Any]) -> RecordedCompletion:
    fields, text = row_fields, completion
    if isinstance(completion, dict):
        fields = {field: completion.get(field, row_fields[field]) for field in COMPLETION_FIELDS}
        text = next((completion[field] for field in TEXT_FIELDS if field in completion), None)
    return RecordedCompletion(
        require_text(text, where, name),
        tokens=parse_count(fields["tokens"], where, "tokens"),
        finish=fields["finish"] if isinstance(fields["finish"], str) else UNKNOWN_FINISH,
        logprob=parse_number(fields["logprob"], where, "logprob"),
        score=parse_score(fields["score"]),
    )

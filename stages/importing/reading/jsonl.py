r"""`jsonl`: JSON lines of your own, a completion a line or a list of them.

{"problem_id": "q7", "question": "What is $2^{10}$?", "answer": "1024", "text": "… \\boxed{1024}",
 "sample": 3, "tokens": 212, "finish": "stop", "logprob": -41.5, "score": 1}

| what | field, or the option that names another | |
|---|---|---|
| question | `question` (--question) | may be left out where `problem_id` is that of a problem already there |
| gold | `answer` or `gold` (--answer) | text, number, or a list of them; only for problems not there yet |
| completions | `text`, `completion` or `completions` (--text) | text, a list of texts, or of objects with `text` |
| id | `problem_id` (--id) | names a new problem |
| sample number | `sample` (--sample) | no problem may have one twice; samples are numbered in the order met |
| tokens, finish, logprob, score | so named | a value, or a list of one for each completion |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from stages.errors import LeashError
from stages.importing.reading.record import UNKNOWN, Record, Recorded, count, golds, items, listing, number, said
from stages.importing.reading.record import score as scored
from stages.importing.reading.record import text as checked
from stages.importing.reading.rows import Row, clean

TEXTS = ("text", "completion", "completions")
GOLDS = ("answer", "gold")
TOLD = ("tokens", "finish", "logprob", "score")
FIELDS = tuple(frozenset({key, text}) for key in ("question", "problem_id") for text in TEXTS)


@dataclass(frozen=True)
class Mapping:
    """Which fields hold what; None is the default."""

    question: str | None = None
    answer: str | None = None
    text: str | None = None
    id: str | None = None
    sample: str | None = None


DEFAULTS = Mapping()


def records(rows: Iterable[Row], mapping: Mapping = DEFAULTS) -> Iterator[Record]:
    for row in rows:
        question = _found(row, mapping.question, ("question",))
        identity = _found(row, mapping.id, ("problem_id",))
        if question is None and identity is None:
            name = mapping.question or "question"
            raise LeashError(f"{row.where} has no field {name}; it has {listing(row.fields)}.")
        completions = _completions(row, mapping)
        sample = count(_found(row, mapping.sample, ("sample",)), row.where, "the sample number")
        yield Record(
            row.where,
            None if question is None else checked(question, row.where, "the question"),
            golds(_found(row, mapping.answer, GOLDS)),
            completions,
            id=None if identity is None else clean(str(identity)),
            sample=sample if len(completions) == 1 else None,
            says=said(row.fields),
        )


def _found(row: Row, named: str | None, defaults: tuple[str, ...]) -> Any:
    """A field's value. One that was named must be there; of the defaults the first that is there counts."""
    if named is not None:
        if named not in row.fields:
            raise LeashError(f"{row.where} has no field {named}; it has {listing(row.fields)}.")
        return row.fields[named]
    return next((row.fields[name] for name in defaults if name in row.fields), None)


def _completions(row: Row, mapping: Mapping) -> list[Recorded]:
    name = mapping.text or next((name for name in TEXTS if name in row.fields), None)
    if name not in row.fields:
        raise LeashError(f"{row.where} has no field {name or ' or '.join(TEXTS)}; it has {listing(row.fields)}.")
    value = row.fields[name]
    told = items(value, row.where, name) if name == "completions" or isinstance(value, list) else [value]
    beside = zip(*(_each(row, field, len(told)) for field in TOLD), strict=True)
    return [
        _recorded(row.where, name, one, dict(zip(TOLD, others, strict=True)))
        for one, others in zip(told, beside, strict=True)
    ]


def _each(row: Row, name: str, size: int) -> list[Any]:
    value = row.fields.get(name)
    if isinstance(value, list):
        if len(value) != size:
            raise LeashError(f"{row.where}: {name} has {len(value)} entries for {size} completions.")
        return value
    return [value] * size if size == 1 or value is None or name == "finish" else [None] * size


def _recorded(where: str, name: str, told: Any, beside: dict[str, Any]) -> Recorded:
    if isinstance(told, dict):
        beside = {field: told.get(field, beside[field]) for field in TOLD}
        told = next((told[field] for field in TEXTS if field in told), None)
    finish = beside["finish"]
    return Recorded(
        checked(told, where, name),
        tokens=count(beside["tokens"], where, "tokens"),
        finish=finish if isinstance(finish, str) else UNKNOWN,
        logprob=number(beside["logprob"], where, "logprob"),
        score=scored(beside["score"]),
    )

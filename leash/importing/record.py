"""Records: what every import format becomes. A record is one problem as a file states it, with some completions of it.

Also here: the field checks that all formats share. A format describes its rows as a pydantic model, and `parse_row`
turns pydantic's complaint into an error that names the row and the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, PlainValidator, ValidationError
from pydantic_core import PydanticCustomError

from leash.benchmarks.benchmark import parse_golds
from leash.formatting import truncate
from leash.grading.extraction import extract
from leash.importing.raw_rows import ImportFileError, Row, describe_type, replace_surrogates
from leash.params.groups import MAX_INT32

UNKNOWN_FINISH = "unknown"  # the finish reason if the file does not state one
MAX_NAMES_SHOWN = 12
MAX_QUOTE_CHARS = 80
METADATA_FIELDS = {
    "model": ("_model", "model", "model_name"),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "max_tokens": ("max_tokens", "max_gen_toks", "tokens_to_generate"),
}
# GSM8K ends its worked solutions with "#### 18".
GSM8K_ANSWER_PATTERN = re.compile(r"####\s*(\S.*?)\s*$")
EXPECTED_TYPES = {"list_type": "a list of completions", "model_type": "an object with fields"}

RowModel = TypeVar("RowModel", bound=BaseModel)


class MissingFieldError(ImportFileError):
    def __init__(self, where: str, field: str, fields: Iterable[str]) -> None:
        self.field, self.fields = field, tuple(fields)
        super().__init__(where, f"there is no field {field}; the fields are {format_names(self.fields)}.")


class FieldTypeError(ImportFileError):
    """A field holds a value of the wrong type or out of range."""

    def __init__(self, where: str, field: str, found: str, expected: str) -> None:
        self.field, self.found, self.expected = field, found, expected
        super().__init__(where, f"{field} is {found}, not {expected}; correct the row or remove it.")


@dataclass(frozen=True)
class RecordedCompletion:
    """A completion as the file states it; None stands for what it does not state."""

    text: str
    tokens: int | None = None
    finish: str = UNKNOWN_FINISH
    logprob: float | None = None
    score: float | None = None


@dataclass(frozen=True)
class Record:
    """`sample` is the number that the file gives to its only completion. `run_metadata` is model and decoding."""

    where: str
    question: str | None
    gold: list[str]
    completions: list[RecordedCompletion]
    id: str | None = None
    sample: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    run_metadata: Mapping[str, str] = field(default_factory=dict)


def _validate_text(value: Any) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("text_type", "not text")
    return replace_surrogates(value)


# Not pydantic's own str, which refuses half characters instead of replacing them.
Text = Annotated[str, PlainValidator(_validate_text)]


def parse_row(model: type[RowModel], row: Row) -> RowModel:
    """The fields of a row, checked by the model of its format."""
    try:
        return model.model_validate(row.fields)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_context=False)[0]
        name = ".".join(part for part in fault["loc"] if isinstance(part, str))
        if fault["type"] == "missing":
            raise MissingFieldError(row.where, name, fault["input"]) from None
        expected = EXPECTED_TYPES.get(fault["type"], "text")
        raise FieldTypeError(row.where, name, describe_type(fault["input"]), expected) from None


def require_text(value: Any, where: str, name: str) -> str:
    if not isinstance(value, str):
        raise FieldTypeError(where, name, describe_type(value), "text")
    return replace_surrogates(value)


def format_names(names: Iterable[Any]) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown[:MAX_NAMES_SHOWN]) + (", …" if len(shown) > MAX_NAMES_SHOWN else "") or "none"


def quote(text: str) -> str:
    """The beginning of a text on one line, for a sentence."""
    return truncate(" ".join(text.split()), MAX_QUOTE_CHARS)


def extract_golds(value: Any) -> list[str]:
    """Gold answers as text. Of a worked solution, only its last box or, as in GSM8K, what follows #### counts."""
    golds = []
    for gold in parse_golds(value):
        worked = GSM8K_ANSWER_PATTERN.search(gold)
        golds.append(replace_surrogates(worked[1] if worked else extract(gold) or gold))
    return golds


def parse_count(value: Any, where: str, name: str) -> int | None:
    """A number of tokens, or the number of a sample. Parquet turns whole numbers beside nulls into floats."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INT32:
        raise FieldTypeError(where, name, quote(repr(value)), f"a whole number from 0 to {MAX_INT32}")
    return value


def parse_number(value: Any, where: str, name: str) -> float | None:
    if value is None:
        return None
    if (number := parse_score(value)) is None:
        raise FieldTypeError(where, name, quote(repr(value)), "a number")
    return number


def parse_score(value: Any) -> float | None:
    """A recorded score. It is only reported, never used, so a value that is no number is dropped without an error."""
    if not isinstance(value, bool | int | float):
        return None
    return float(value) if -MAX_INT32 <= value <= MAX_INT32 else None  # the comparison also drops NaN


def parse_scores(value: Any, size: int) -> Sequence[float | None]:
    """One score per completion, if the file has that many."""
    if isinstance(value, list) and len(value) == size:
        return [parse_score(score) for score in value]
    return [parse_score(value)] if size == 1 else [None] * size


def scored_completions(texts: Sequence[str], scores: Any) -> list[RecordedCompletion]:
    pairs = zip(texts, parse_scores(scores, len(texts)), strict=True)
    return [RecordedCompletion(text, score=score) for text, score in pairs]


def parse_run_metadata(*mappings: Any) -> dict[str, str]:
    """Model and decoding, each from the first of some mappings that has it."""
    metadata: dict[str, str] = {}
    for mapping in mappings:
        for name, spellings in METADATA_FIELDS.items() if isinstance(mapping, dict) else ():
            values = (mapping.get(spelling) for spelling in spellings)
            value = next((value for value in values if isinstance(value, str | int | float)), None)
            if value is not None:
                metadata.setdefault(name, str(value))
    return metadata

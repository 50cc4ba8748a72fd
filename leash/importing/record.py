"""Records: what every import format becomes. A record is one problem as a file states it, with some completions of it.

Also here: the field types that all formats share. A format describes its rows as a pydantic model, and `parse_row`
turns pydantic's complaint into an error that names the row and the field.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, PlainValidator, ValidationError
from pydantic_core import PydanticCustomError

from leash.benchmarks.benchmark import parse_golds
from leash.finish import UNKNOWN as UNKNOWN_FINISH
from leash.formatting import replace_surrogates, truncate
from leash.grading.extraction import extract
from leash.importing.raw_rows import ImportFileError, Row, describe_type
from leash.params.groups import MAX_INT32

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


def parse_row(model: type[RowModel], row: Row) -> RowModel:
    """The fields of a row, checked by the model of its format."""
    try:
        return model.model_validate(row.fields)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(part for part in fault["loc"] if isinstance(part, str))
        if fault["type"] == "missing":
            raise MissingFieldError(row.where, name, fault["input"]) from None
        if fault["type"] in EXPECTED_TYPES:
            found, expected = describe_type(fault["input"]), EXPECTED_TYPES[fault["type"]]
        else:
            found, expected = fault["ctx"]["found"], fault["ctx"]["expected"]
        raise FieldTypeError(row.where, name, found, expected) from None


def _wrong_value(found: str, expected: str) -> PydanticCustomError:
    return PydanticCustomError("wrong_value", "{found}, not {expected}", {"found": found, "expected": expected})


def _parse_text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong_value(describe_type(value), "text")
    return replace_surrogates(value)


def _parse_count(value: Any) -> int | None:
    # Parquet turns whole numbers beside nulls into floats.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None or (type(value) is int and 0 <= value <= MAX_INT32):  # a bool is an instance of int
        return value
    raise _wrong_value(quote(repr(value)), f"a whole number from 0 to {MAX_INT32}")


def parse_float_score(value: Any) -> float | None:
    """A recorded score. It is only reported, never used, so a value that is no number is dropped without an error."""
    if not isinstance(value, bool | int | float):
        return None
    return float(value) if -MAX_INT32 <= value <= MAX_INT32 else None  # the comparison also drops NaN


def _parse_number(value: Any) -> float | None:
    if value is not None and parse_float_score(value) is None:
        raise _wrong_value(quote(repr(value)), "a number")
    return parse_float_score(value)


def parse_worked_golds(value: Any) -> list[str]:
    """Gold answers as text. Of a worked solution, only its last box or, as in GSM8K, what follows #### counts."""
    golds = []
    for gold in parse_golds(value):
        worked = GSM8K_ANSWER_PATTERN.search(gold)
        golds.append(replace_surrogates(worked[1] if worked else extract(gold) or gold))
    return golds


# The types of fields. Text is not pydantic's own str, which refuses half characters instead of replacing them.
Text = Annotated[str, PlainValidator(_parse_text)]
Golds = Annotated[list[str], PlainValidator(parse_worked_golds)]
Count = Annotated[int | None, PlainValidator(_parse_count)]  # of tokens, or the number of a sample
Number = Annotated[float | None, PlainValidator(_parse_number)]
Score = Annotated[float | None, PlainValidator(parse_float_score)]
Finish = Annotated[str, PlainValidator(lambda value: value if isinstance(value, str) else UNKNOWN_FINISH)]


def require_text(value: Any, where: str, name: str) -> str:
    """A text that is not one field of a model."""
    if not isinstance(value, str):
        raise FieldTypeError(where, name, describe_type(value), "text")
    return replace_surrogates(value)


def parse_literal(value: Any) -> Any:
    """A list or a mapping that was written as the text of a Python literal; any other value as it is."""
    if not isinstance(value, str) or not value.startswith(("[", "{")):
        return value
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return value


def pair_completions(texts: Sequence[str], scores: Any, token_ids: Any = None) -> list[RecordedCompletion]:
    """Completions with their scores and token counts, if the file has as many of these as completions."""
    if len(texts) == 1 and not isinstance(scores, list):
        scores = [scores]
    lists = (v if isinstance(v, list) and len(v) == len(texts) else [None] * len(texts) for v in (scores, token_ids))
    return [
        RecordedCompletion(
            text, tokens=len(ids) if isinstance(ids, list) and ids else None, score=parse_float_score(score)
        )
        for text, score, ids in zip(texts, *lists, strict=True)
    ]


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


def format_names(names: Iterable[Any]) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown[:MAX_NAMES_SHOWN]) + (", …" if len(shown) > MAX_NAMES_SHOWN else "") or "none"


def quote(text: str) -> str:
    """The beginning of a text on one line, for a sentence."""
    return truncate(" ".join(text.split()), MAX_QUOTE_CHARS)

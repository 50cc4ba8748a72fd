"""The import formats: detect the format of a file, select its rows, and read them as records.

    for record in read_records(ImportSource(Path("samples_gsm8k.jsonl"), "lm-eval")): ...

Each format is a module with FIELDS (sets of fields that identify its rows) and `records` (rows in, records out). This
module writes nothing and does not know the tables of Leash (see importer.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leash.errors import LeashError
from leash.importing import jsonl, lighteval, lm_eval, nemo_skills, qwen_math, reasoning_gym
from leash.importing.raw_rows import ImportFileError, Row, read_rows
from leash.importing.record import Record, format_names

# The order matters: the first format whose fields a row has is its format, and `jsonl` needs the fewest fields.
FORMATS: dict[str, Any] = {
    "qwen-math": qwen_math,
    "reasoning-gym": reasoning_gym,
    "lm-eval": lm_eval,
    "lighteval": lighteval,
    "nemo-skills": nemo_skills,
    "jsonl": jsonl,
}
MAX_VALUES_SHOWN = 8

RowFilter = Mapping[str, frozenset[str]]


class UnknownFormatError(ImportFileError):
    def __init__(self, where: str, fields: Iterable[str]) -> None:
        self.fields = tuple(fields)
        super().__init__(
            where,
            f"the fields {format_names(self.fields)} fit no known format ({', '.join(sorted(FORMATS))}); name the "
            f"fields with --question, --answer and --text, or the format with --format.",
        )


class ImportOptionError(LeashError):
    """An option of `leash import` that cannot be used."""

    def __init__(self, option: str, fault: str) -> None:
        self.option, self.fault = option, fault
        super().__init__(f"{option} {fault}")


@dataclass(frozen=True)
class ImportSource:
    """A file, its format, and the filter that selects its rows."""

    file: Path
    format: str
    where: RowFilter = field(default_factory=dict)
    mapping: jsonl.FieldMapping = jsonl.DEFAULT_MAPPING


def read_records(source: ImportSource) -> Iterator[Record]:
    options = {"mapping": source.mapping} if source.format == "jsonl" else {}
    try:
        yield from FORMATS[source.format].records(_filter_rows(source.file, source.where), **options)
    except RecursionError:
        raise ImportFileError(source.file, "a row is nested too deeply; write its content as text.") from None


def read_first_row(file: Path) -> Row:
    first = next(read_rows(file, reasoning_gym.flatten_document), None)
    if first is None:
        raise ImportFileError(file, "the file is empty.")
    return first


def detect_format(file: Path) -> str:
    """The format of a file, by the fields of its first row."""
    first = read_first_row(file)
    for name, module in FORMATS.items():
        if any(first.fields.keys() >= fields for fields in module.FIELDS):
            return name
    raise UnknownFormatError(first.where, first.fields)


def parse_row_filter(conditions: Iterable[str]) -> RowFilter:
    """FIELD=VALUE conditions. Several values of one field are alternatives."""
    row_filter: dict[str, frozenset[str]] = {}
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not (name and equals):
            raise ImportOptionError(f"--where {condition}", "is not a condition; write it as FIELD=VALUE.")
        row_filter[name] = row_filter.get(name, frozenset()) | {value}
    return row_filter


def _filter_rows(file: Path, where: RowFilter) -> Iterator[Row]:
    """The rows that meet every condition; an error if there is none."""
    values_seen: dict[str, set[str]] = {name: set() for name in where}
    fields: list[str] = []
    any_match = False
    for row in read_rows(file, reasoning_gym.flatten_document):
        fields = list(row.fields)
        values = {name: _get_value(row.fields, name) for name in where}
        if all(values[name] in accepted for name, accepted in where.items()):
            any_match = True
            yield row
        for name, value in values.items():
            if value is not None and len(values_seen[name]) <= MAX_VALUES_SHOWN:
                values_seen[name].add(value)
    if not any_match:
        raise ImportFileError(file, _describe_no_match(where, values_seen, fields))


def _describe_no_match(where: RowFilter, values_seen: Mapping[str, set[str]], fields: list[str]) -> str:
    if not fields:
        return "the file is empty."
    for name, accepted in where.items():
        values = values_seen[name]
        if not values:
            return f"no row has a field {name}; the fields are {format_names(fields)}."
        if not accepted & values and len(values) <= MAX_VALUES_SHOWN:
            return f"no row has {name}={' or '.join(sorted(accepted))}; {name} is {format_names(sorted(values))}."
    return "no row meets every condition of --where."


def _get_value(fields: Mapping[str, Any], name: str) -> str | None:
    """A field's value as one writes it in a condition; `doc.task_name` is a field of a field."""
    outer, dot, inner = name.partition(".")
    if dot and name not in fields:
        return _get_value(below, inner) if isinstance(below := fields.get(outer), dict) else None
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | dict | list) else str(value)

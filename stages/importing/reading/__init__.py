"""Reading completions that other harnesses wrote: a file in, records out. One small file per format.

    for record in records(Source(Path("samples_gsm8k.jsonl"), "lm-eval")): ...

Nothing here writes or knows our tables: that is the room's other half.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from stages.errors import LeashError
from stages.importing.reading import jsonl, lighteval, lm_eval, nemo_skills, qwen_math, reasoning_gym
from stages.importing.reading.record import Record, listing
from stages.importing.reading.rows import Row, content_hash, rows_of

# In the order in which they are tried: the first whose fields a row has is its format.
FORMATS: dict[str, Any] = {
    "qwen-math": qwen_math,
    "reasoning-gym": reasoning_gym,
    "lm-eval": lm_eval,
    "lighteval": lighteval,
    "nemo-skills": nemo_skills,
    "jsonl": jsonl,
}
SHOWN = 8  # values of a field that a sentence lists

Where = Mapping[str, frozenset[str]]


@dataclass(frozen=True)
class Source:
    """A file, its format, and which of its rows count."""

    file: Path
    format: str
    where: Where = field(default_factory=dict)
    mapping: jsonl.Mapping = jsonl.DEFAULTS

    @property
    def hash(self) -> str:
        return content_hash(self.file)


def records(source: Source) -> Iterator[Record]:
    read: Callable[[Iterator[Row]], Iterator[Record]] = FORMATS[source.format].records
    if source.format == "jsonl":
        read = partial(jsonl.records, mapping=source.mapping)
    try:
        yield from read(_chosen(source.file, source.where))
    except RecursionError:
        raise LeashError(f"{source.file}: a row is nested too deeply; write what it holds as text.") from None


def first_row(file: Path) -> Row:
    first = next(rows_of(file, reasoning_gym.flattened), None)
    if first is None:
        raise LeashError(f"{file} is empty: there is no completion in it.")
    return first


def recognised(file: Path) -> str:
    """The format of a file, by the fields of its first row."""
    first = first_row(file)
    for name, module in FORMATS.items():
        if any(first.fields.keys() >= fields for fields in module.FIELDS):
            return name
    raise LeashError(
        f"{first.where} is of no format that is known here ({', '.join(sorted(FORMATS))}): it has the fields "
        f"{listing(first.fields)}; name them with --question, --answer and --text, or the format with --format."
    )


def conditions(written: tuple[str, ...]) -> Where:
    """FIELD=VALUE conditions; of several values of one field any will do."""
    found: dict[str, frozenset[str]] = {}
    for condition in written:
        name, equals, value = condition.partition("=")
        if not (name and equals):
            raise LeashError(f"--where {condition} is not a condition; write it as FIELD=VALUE.")
        found[name] = found.get(name, frozenset()) | {value}
    return found


def _chosen(file: Path, where: Where) -> Iterator[Row]:
    """The rows that meet every condition, of which there must be one."""
    seen: dict[str, set[str]] = {name: set() for name in where}
    fields, found = [], False
    for row in rows_of(file, reasoning_gym.flattened):
        fields = list(row.fields)
        values = {name: _shown(_value(row.fields, name)) for name in where}
        if all(values[name] in wanted for name, wanted in where.items()):
            found = True
            yield row
        for name, value in values.items():
            if value is not None and len(seen[name]) <= SHOWN:
                seen[name].add(value)
    if not found:
        raise LeashError(_nothing_chosen(file, where, seen, fields))


def _nothing_chosen(file: Path, where: Where, seen: Mapping[str, set[str]], fields: list[str]) -> str:
    if not fields:
        return f"{file} is empty: there is no completion in it."
    for name, wanted in where.items():
        if not seen[name]:
            return f"{file} has no row with a field {name}; its fields are {listing(fields)}."
        if not wanted & seen[name] and len(seen[name]) <= SHOWN:
            there = listing(sorted(seen[name]))
            return f"{file} has no row with {name}={' or '.join(sorted(wanted))}; there {name} is {there}."
    return f"{file} has no row that meets every condition of --where."


def _value(fields: Mapping[str, Any], name: str) -> Any:
    """A field's value; `doc.task_name` is a field of a field."""
    if name in fields or "." not in name:
        return fields.get(name)
    outer, _, inner = name.partition(".")
    below = fields.get(outer)
    return _value(below, inner) if isinstance(below, dict) else None


def _shown(value: Any) -> str | None:
    """A value as one writes it in a condition."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | dict | list) else str(value)

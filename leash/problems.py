"""The problems table as graders and samplers use it: by id, with `meta` parsed, without images; and the hash of a
question, which names problems and binds samples to them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from leash import atomic_io, tables

Problem = Mapping[str, Any]
HASHED_COLUMNS = pa.schema([tables.PROBLEMS_SCHEMA.field(name) for name in ("problem_id", "question", "images")])


def load_problems(dataset: str) -> dict[str, Problem]:
    """The problems of a data set by id. Images are not read: they are large, and no grader uses them. Nor are level and
    cluster: only the statistics use them."""
    columns = [name for name in tables.PROBLEMS_SCHEMA.names if name not in ("images", *tables.ADDED_COLUMNS)]
    file = tables.open_table(tables.problems_path(dataset), tables.PROBLEMS_SCHEMA, f"leash fetch {dataset}")
    return index_problems(file.read(columns=columns).to_pylist())


def index_problems(rows: Iterable[Mapping[str, Any]]) -> dict[str, Problem]:
    """Rows of the problems table by id, with `meta` parsed. `meta` also gets the question, which some graders need."""
    return {
        row["problem_id"]: {**row, "meta": {"question": row["question"], **json.loads(row["meta"])}} for row in rows
    }


def problems_hash(problems: Mapping[str, Problem]) -> str:
    """A hash of all that a verdict depends on. A change of level, cluster or images leaves it as it is."""
    rows = [[row[name] for name in ("problem_id", "question", "gold", "grader", "meta")] for row in problems.values()]
    return atomic_io.hash_strings(json.dumps(rows, ensure_ascii=False))


def question_hash(question: str, images: Iterable[bytes] | None = None) -> str:
    """A hash of what is asked: the text and the images. The gold is not part of it, since samples outlive its edits."""
    return atomic_io.hash_strings(question, *map(atomic_io.bytes_hash, images or ()))


def load_question_hashes(dataset: str) -> dict[str, str]:
    """The hash of each problem's question, by id."""
    rows = tables.read(tables.problems_path(dataset), HASHED_COLUMNS, f"leash fetch {dataset}").to_pylist()
    return {row["problem_id"]: question_hash(row["question"], row["images"]) for row in rows}

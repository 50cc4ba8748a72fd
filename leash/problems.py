"""The problems table as graders and samplers use it: by id, with `meta` parsed, without images."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from leash import tables

Problem = Mapping[str, Any]


def load_problems(dataset: str) -> dict[str, Problem]:
    """The problems of a data set by id. Images are not read: they are large, and no grader uses them."""
    columns = [name for name in tables.PROBLEMS_SCHEMA.names if name != "images"]
    file = tables.open_table(tables.problems_path(dataset), tables.PROBLEMS_SCHEMA, f"leash fetch {dataset}")
    return index_problems(file.read(columns=columns).to_pylist())


def index_problems(rows: Iterable[Mapping[str, Any]]) -> dict[str, Problem]:
    """Rows of the problems table by id, with `meta` parsed. `meta` also gets the question, which some graders need."""
    return {
        row["problem_id"]: {**row, "meta": {"question": row["question"], **json.loads(row["meta"])}} for row in rows
    }

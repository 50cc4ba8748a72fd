"""Write a table of the report: CSV for programs, Markdown for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from leash import atomic_io
from leash.formatting import format_markdown_table
from leash.report.cells import display_columns, format_cells


def write_table(path: Path, content: pa.Table) -> None:
    """Write one table as .csv and .md."""
    write_csv(path.with_suffix(".csv"), content)
    atomic_io.write(path.with_suffix(".md"), format_markdown(content))


def write_csv(path: Path, content: pa.Table) -> None:
    with atomic_io.atomic_write(path) as unfinished:
        pyarrow.csv.write_csv(content, unfinished)


def format_markdown(content: pa.Table) -> str:
    align = ["right" if column.number else "left" for column in display_columns(content)]
    return format_markdown_table(*format_cells(content), align)


def round_floats(value: Any) -> Any:
    """The same with floats of six digits: more are noise in a diff of metrics.json."""
    if isinstance(value, dict):
        return {name: round_floats(inner) for name, inner in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value

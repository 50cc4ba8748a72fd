"""Numbers into files: CSV for programs, Markdown for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from stages import disk
from stages.report.cells import cells, columns


def table(path: Path, content: pa.Table) -> None:
    """One table as .csv and .md."""
    csv(path.with_suffix(".csv"), content)
    disk.write(path.with_suffix(".md"), markdown(content))


def csv(path: Path, content: pa.Table) -> None:
    with disk.whole(path) as unfinished:
        pyarrow.csv.write_csv(content, unfinished)


def markdown(content: pa.Table) -> str:
    headings, rows = cells(content)
    rule = ["---:" if column.number else "---" for column in columns(content)]
    lines = [headings, rule, *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def rounded(value: Any) -> Any:
    """Six digits, in whatever holds them: more are noise in a diff."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value

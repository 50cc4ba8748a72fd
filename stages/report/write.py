"""Numbers into files: CSV for programs, Markdown for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from stages import disk
from stages.params import Params
from stages.report.cells import cells, columns, shown

__all__ = ["csv", "curve", "markdown", "rounded", "shown", "table"]


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


def curve(path: Path, params: Params, pass_at_k: pa.Table) -> None:
    """pass@k of the headline pair over all data sets, in the long form that `dvc plots` draws."""
    rows = pass_at_k.filter(
        pc.and_(pc.equal(pass_at_k["pair"], params.run.pairs[0]), pc.equal(pass_at_k["dataset"], "all"))
    )
    csv(path, rows.select(["k", "role", "pass_at_k"]))


def rounded(value: Any) -> Any:
    """Six digits, in whatever holds them: more are noise in a diff."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value

"""Numbers into files: CSV for programs, Markdown for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from stages import disk


def table(path: Path, content: pa.Table) -> None:
    """One table as .csv and .md."""
    csv(path.with_suffix(".csv"), content)
    disk.write(path.with_suffix(".md"), markdown(content))


def csv(path: Path, content: pa.Table) -> None:
    with disk.whole(path) as unfinished:
        pyarrow.csv.write_csv(content, unfinished)


def markdown(content: pa.Table) -> str:
    names = content.column_names
    rows = [[shown(value) for value in row.values()] for row in content.to_pylist()]
    lines = [names, ["---:" if _is_number(content[name].type) else "---" for name in names], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def shown(value: Any) -> str:
    """A cell for people: a dash for what is not defined, three decimals or digits for what is not whole."""
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.3g}"


def rounded(value: Any) -> Any:
    """Six digits, in whatever holds them: more are noise in a diff."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))

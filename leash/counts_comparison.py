"""Counts of a pair from a file, and their analysis: what `leash compare` runs. No model is needed.

In: CSV, JSON lines or Parquet with a row per problem, such as

    problem_id,n_base,c_base,n_rlvr,c_rlvr
    aime-01,1024,3,1024,117

The k of a data set is the largest number of samples that both models have there, unless --k is smaller. If a problem
has more samples than k, its counts do not show which hits were among the first k: its categories are expected ones
(docs/compare.md). The optional column `cluster` names problems that belong together. A support table
(data/support/*.parquet) is such a file, too; its k, epsilon and endings are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np

from leash.errors import LeashError, first_line
from leash.params.groups import MAX_INT32
from leash.statistics.analysis import analyze_counts, to_jsonable, with_k_and_epsilon
from leash.statistics.array_types import FloatArray, IntArray, ObjectArray
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.categories import categorize_problems
from leash.statistics.counts import FIRST_EIGHTH_COLUMNS, LABEL_COLUMNS, ROLES, Counts
from leash.statistics.problem_group import JsonDict
from leash.statistics.sure_support import call_both

REQUIRED_COLUMNS = ("problem_id", "n_base", "c_base", "n_rlvr", "c_rlvr")
SQL_READERS = {
    ".csv": "read_csv($path, all_varchar = true, header = true)",
    ".tsv": "read_csv($path, all_varchar = true, header = true)",
    ".jsonl": "read_json($path)",
    ".ndjson": "read_json($path)",
    ".json": "read_json($path)",
    ".parquet": "read_parquet($path)",
}
SAMPLING_ENDINGS = ("k", "hit", "floor")


class CountsError(LeashError):
    """A file of counts or an option that cannot be used. `where` names the file, its row, or the option."""

    def __init__(self, where: object, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where} {problem}.")


@dataclass(frozen=True)
class CountRows:
    """The columns of a file as text (None: empty)."""

    path: Path
    columns: dict[str, list[str | None]]

    def error(self, row: int, problem: str) -> CountsError:
        name = self.columns["problem_id"][row]
        return CountsError(
            f"{self.path}, row {row + 1}" + ("" if name is None else f" (problem {name})") + ":", problem
        )

    def __len__(self) -> int:
        return len(self.columns["problem_id"])


def parse_epsilon(text: str | None) -> float | Literal["auto"] | None:
    """The value of --epsilon: a number from 0 to below 1, "auto", or None if it is not given."""
    if text is None or text == "auto":
        return "auto" if text else None
    value = _parse_number(text)
    if not 0 <= value < 1:
        raise CountsError("--epsilon", f"is {text}, but should be `auto` or a number from 0 to below 1")
    return value


def _parse_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def compare_counts(path: Path, settings: AnalysisSettings) -> JsonDict:
    """The analysis of a file of counts, with a row per problem."""
    counts = read_counts(path, settings)
    return {
        **analyze_counts(counts, settings),
        "per_problem": build_problem_results(with_k_and_epsilon(counts, settings), settings),
    }


def read_counts(path: Path, settings: AnalysisSettings) -> Counts:
    """The checked counts of a file, or an error on the first that is wrong."""
    rows = _read_rows(path)
    numbers = {name: _parse_counts(rows, name) for name in REQUIRED_COLUMNS[1:]}
    for role in ROLES:
        _require_at_most(rows, numbers, f"c_{role}", f"n_{role}")
    dataset = np.array([name or "all" for name in rows.columns.get("dataset", ["all"] * len(rows))], dtype=object)
    problem = np.array(rows.columns["problem_id"], dtype=object)
    seen: dict[tuple[Any, Any], int] = {}
    for row, key in enumerate(zip(dataset.tolist(), problem.tolist(), strict=True)):
        if key[1] is None:
            raise rows.error(row, "problem_id is missing")
        if key in seen:
            raise rows.error(row, f"the problem is in row {seen[key] + 1} already")
        seen[key] = row
    k = _resolve_k(rows, dataset, numbers, settings.k)
    first: dict[str, IntArray] = {}
    if all(name in rows.columns for name in FIRST_EIGHTH_COLUMNS):
        first = {name: _parse_counts(rows, name) for name in FIRST_EIGHTH_COLUMNS}
        for role in ROLES:
            _require_at_most(rows, first, f"c_{role}_first", f"n_{role}_first")
            for what in ("n", "c"):
                _require_at_most(rows, {**numbers, **first}, f"{what}_{role}_first", f"{what}_{role}")
    columns: dict[str, Any] = {**numbers, **first, "k": k, "epsilon": _read_epsilons(rows)}
    columns |= {f"ended_{role}": _read_endings(rows, role, numbers, k) for role in ROLES}
    columns |= {name: _read_labels(rows, name) for name in LABEL_COLUMNS if name in rows.columns}
    return Counts(dataset, problem, **columns)


def _read_rows(path: Path) -> CountRows:
    """Every column as text: this module checks the values, DuckDB must not guess their types."""
    reader = SQL_READERS.get(Path(path.name.removesuffix(".gz")).suffix.lower())
    if reader is None:
        raise CountsError(path, "should be a .csv, .jsonl or .parquet file of counts")
    if not path.is_file():
        raise CountsError(path, "does not exist; give the path of a file of counts")
    try:
        with duckdb.connect() as connection:
            rows = connection.sql(f"select columns(*)::varchar from {reader}", params={"path": str(path)})
            # A support table may hold answers and completions, too.
            problems = "where unit = 'problem'" if "unit" in rows.columns else ""
            table = connection.sql(f"select * from rows {problems}").to_arrow_table()
    except duckdb.Error as error:
        raise CountsError(path, f"can't be read: {first_line(error)}") from None
    missing = [name for name in REQUIRED_COLUMNS if name not in table.column_names]
    if missing:
        needed = f"it needs the columns {', '.join(REQUIRED_COLUMNS)}"
        for model, role in (("second model", "rlvr"), ("base", "base")):
            if {f"n_{role}", f"c_{role}"} <= set(missing):
                raise CountsError(path, f"has no counts of the {model} (n_{role}, c_{role}); {needed}")
        raise CountsError(path, f"lacks the column {missing[0]}; {needed}")
    if not table.num_rows:
        raise CountsError(path, "holds no problem; it needs a row for each")
    return CountRows(path, {name: [_unquote(text) for text in table[name].to_pylist()] for name in table.column_names})


def _unquote(text: str | None) -> str | None:
    """DuckDB reads a JSON column of numbers and words with its words in quotes."""
    return text[1:-1] if text and len(text) > 1 and text[0] == text[-1] == '"' else text


def _parse_counts(rows: CountRows, name: str) -> IntArray:
    """A column of whole numbers, none of them negative."""
    counts = []
    for row, text in enumerate(rows.columns[name]):
        if text is None or not text.strip():
            raise rows.error(row, f"{name} is missing; each problem needs the counts of both models")
        value = _parse_number(text)
        if not value.is_integer():
            raise rows.error(row, f"{name} is {text}, which is not a whole number")
        if value < 0:
            raise rows.error(row, f"{name} is {text}, but counts can't be negative")
        if value > MAX_INT32:
            raise rows.error(row, f"{name} is {text}, but no table holds more than {MAX_INT32:,}")
        counts.append(int(value))
    return np.array(counts, dtype=np.int64)


def _require_at_most(rows: CountRows, numbers: dict[str, IntArray], part: str, whole: str) -> None:
    for row in np.flatnonzero(numbers[part] > numbers[whole]).tolist():
        raise rows.error(row, f"{part} is {numbers[part][row]}, more than its {whole} of {numbers[whole][row]}")


def _resolve_k(rows: CountRows, dataset: ObjectArray, numbers: dict[str, IntArray], chosen: int | None) -> IntArray:
    """The k of each problem: --k, the file's column k, or the samples that both models have on its data set."""
    available = np.zeros(len(rows), dtype=np.int64)
    for name in dict.fromkeys(dataset.tolist()):
        inside = dataset == name
        available[inside] = min(numbers["n_base"][inside].max(), numbers["n_rlvr"][inside].max())
    own_k = _parse_counts(rows, "k") if "k" in rows.columns else available
    if chosen is not None and chosen > (limit := int(max(own_k.max(), available.max()))):
        problem = f"is {chosen}, but no problem of {rows.path} has more than {limit} samples of both models"
        raise CountsError("--k", problem)
    k = own_k if chosen is None else np.full(len(rows), chosen)
    for row in np.flatnonzero(k < 1).tolist():
        raise rows.error(row, f"there are no samples of both models on data set {dataset[row]}")
    return k


def _read_endings(rows: CountRows, role: str, numbers: dict[str, IntArray], k: IntArray) -> ObjectArray:
    """How sampling ended: the file's column, or "k" if there are k samples. A problem that ended at the file's own k
    has too few samples for a larger one."""
    name, n = f"ended_{role}", numbers[f"n_{role}"]
    endings = rows.columns.get(name)
    if endings is None:
        return np.array(["k" if enough else None for enough in (n >= k).tolist()], dtype=object)
    for row, ending in enumerate(endings):
        if ending is not None and ending not in SAMPLING_ENDINGS:
            raise rows.error(row, f"{name} is {ending}, not one of {', '.join(SAMPLING_ENDINGS)}")
        if ending in ("hit", "floor") and not numbers[f"c_{role}"][row]:
            raise rows.error(row, f"{name} is {ending}, but c_{role} is 0: there was no hit")
    drawn = _parse_counts(rows, "k") if "k" in rows.columns else n
    ended = np.array(endings, dtype=object)
    ended[(ended == "k") & (drawn < k)] = None
    return ended


def _read_epsilons(rows: CountRows) -> FloatArray:
    if "epsilon" not in rows.columns:
        return np.zeros(len(rows))
    epsilons = np.array([_parse_number(text or "0") for text in rows.columns["epsilon"]])
    for row in np.flatnonzero(~((epsilons >= 0) & (epsilons < 1))).tolist():
        text = rows.columns["epsilon"][row]
        raise rows.error(row, f"epsilon is {text}, but should be a number from 0 to below 1")
    return epsilons


def _read_labels(rows: CountRows, name: str) -> ObjectArray:
    """A column of words; empty and blank cells are None."""
    return np.array([(text or "").strip() or None for text in rows.columns[name]], dtype=object)


def build_problem_results(counts: Counts, settings: AnalysisSettings) -> list[JsonDict]:
    """A row per problem: both masses with their exact intervals, its category, and its tests."""
    found = categorize_problems(counts, settings.confidence)
    columns: dict[str, Sequence[Any]] = {
        "dataset": counts.dataset.tolist(),
        "problem_id": counts.problem_id.tolist(),
        "category": found.category.tolist(),
        "tested": found.tested.tolist(),
        "p_value": found.p_values.tolist(),
        "q_value": found.q_values.tolist(),
    }
    for role, calls in call_both(counts, settings.confidence).items():
        columns[f"support_{role}"] = calls.tolist()
        low, high = found.bounds[role]
        masses = zip(found.masses[role].tolist(), low.tolist(), high.tolist(), strict=True)
        columns[f"mass_{role}"] = [dict(zip(("value", "low", "high"), mass, strict=True)) for mass in masses]
    rows = zip(*columns.values(), strict=True)
    return [dict(to_jsonable(dict(zip(columns, row, strict=True)))) for row in rows]

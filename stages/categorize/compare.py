"""compare: the whole support analysis from a table of counts, with no model in sight.

In: CSV, JSON lines or Parquet with a row a problem, such as

    problem_id,n_base,c_base,n_rlvr,c_rlvr
    aime-01,1024,3,1024,117

A data set's k is the most samples that both models have there, unless --k says less. Of a problem with more samples
than k, counts don't tell which hits were among the first k: its categories are expected ones (docs/compare.md). A
support table (data/support/*.parquet) is such a file, too; its k, epsilon and endings are then used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np

from stages.categorize.aggregates import Plain
from stages.categorize.analysis import analysis, at, plain, verdicts
from stages.categorize.counts import FIRST, ROLES, Counts
from stages.categorize.statistics.arrays import Ints, Objects, Reals
from stages.categorize.statistics.resampling import Settings
from stages.errors import LeashError, first_line
from stages.params import LARGEST

NEEDED = ("problem_id", "n_base", "c_base", "n_rlvr", "c_rlvr")
READERS = {
    ".csv": "read_csv($path, all_varchar = true, header = true)",
    ".tsv": "read_csv($path, all_varchar = true, header = true)",
    ".jsonl": "read_json($path)",
    ".ndjson": "read_json($path)",
    ".json": "read_json($path)",
    ".parquet": "read_parquet($path)",
}
ENDINGS = ("k", "hit", "floor")


@dataclass(frozen=True)
class Rows:
    """The columns of a file as text (None: empty), and how to speak of a row."""

    path: Path
    columns: dict[str, list[str | None]]

    def place(self, row: int) -> str:
        return f"{self.path}, row {row + 1} (problem {self.columns['problem_id'][row]})"

    def __len__(self) -> int:
        return len(self.columns["problem_id"])


def epsilon_asked(text: str | None) -> float | Literal["auto"] | None:
    """What `--epsilon` says."""
    if text is None or text == "auto":
        return "auto" if text else None
    return _share(text, "--epsilon", "`auto` or a number")


def _share(text: str, place: str, kind: str = "a number") -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not 0 <= value < 1:
        raise LeashError(f"{place} is {text}, but should be {kind} from 0 to below 1.")
    return value


def compare(path: Path, settings: Settings) -> Plain:
    """The analysis of a file of counts, with a row for each problem."""
    counts = read(path, settings)
    found = analysis(counts, settings)
    return {**found, "per_problem": per_problem(at(counts, settings), settings)}


def read(path: Path, settings: Settings) -> Counts:
    """The counts of a file, each checked, or one sentence on the first that is wrong."""
    rows = _rows(path)
    numbers = {name: _whole(rows, name) for name in NEEDED[1:]}
    for role in ROLES:
        _within(rows, numbers, f"c_{role}", f"n_{role}")
    dataset = np.array([name or "all" for name in rows.columns.get("dataset", ["all"] * len(rows))], dtype=object)
    problem = np.array(rows.columns["problem_id"], dtype=object)
    _once_each(rows, dataset, problem)
    k = _k(rows, dataset, numbers, settings.k)
    return Counts(
        dataset=dataset,
        problem_id=problem,
        **numbers,
        ended_base=_ended(rows, "base", numbers, k),
        ended_rlvr=_ended(rows, "rlvr", numbers, k),
        k=k,
        epsilon=_epsilon(rows),
        **_first(rows, numbers),
    )


def _rows(path: Path) -> Rows:
    columns = _columns(path)
    missing = [name for name in NEEDED if name not in columns]
    if {"n_rlvr", "c_rlvr"} <= set(missing) or {"n_base", "c_base"} <= set(missing):
        which = "second model (n_rlvr, c_rlvr)" if "n_rlvr" in missing else "base (n_base, c_base)"
        raise LeashError(f"{path} has no counts of the {which}; it needs the columns {', '.join(NEEDED)}.")
    if missing:
        raise LeashError(f"{path} lacks the column {missing[0]}; it needs {', '.join(NEEDED)}.")
    if not columns["problem_id"]:
        raise LeashError(f"{path} holds no problem; it needs a row for each.")
    return Rows(path, columns)


def _columns(path: Path) -> dict[str, list[str | None]]:
    """Every column as text: what a file holds is judged here, not guessed by its reader."""
    reader = READERS.get(Path(path.name.removesuffix(".gz")).suffix.lower())
    if reader is None:
        raise LeashError(f"{path} should be a .csv, .jsonl or .parquet file of counts.")
    if not path.is_file():
        raise LeashError(f"There is no file {path}.")
    try:
        with duckdb.connect() as connection:
            found = connection.sql(f"select columns(*)::varchar from {reader}", params={"path": str(path)})
            units = "where unit = 'problem'" if "unit" in found.columns else ""
            table = connection.sql(f"select * from found {units}").to_arrow_table()
    except duckdb.Error as error:
        raise LeashError(f"{path} can't be read: {first_line(error)}.") from None
    return {name: [_unquoted(text) for text in table[name].to_pylist()] for name in table.column_names}


def _unquoted(text: str | None) -> str | None:
    """A JSON column of numbers and words comes with its words in quotes."""
    return text[1:-1] if text and len(text) > 1 and text[0] == text[-1] == '"' else text


def _whole(rows: Rows, name: str) -> Ints:
    """A column of whole numbers, none of them negative."""
    return np.array([_number(rows, name, row, text) for row, text in enumerate(rows.columns[name])], dtype=np.int64)


def _number(rows: Rows, name: str, row: int, text: str | None) -> int:
    if text is None or not text.strip():
        raise LeashError(f"{rows.place(row)}: {name} is missing; each problem needs the counts of both models.")
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not value.is_integer():
        raise LeashError(f"{rows.place(row)}: {name} is {text}, which is not a whole number.")
    if value < 0:
        raise LeashError(f"{rows.place(row)}: {name} is {text}, but counts can't be negative.")
    if value > LARGEST:
        raise LeashError(f"{rows.place(row)}: {name} is {text}, but no table holds more than {LARGEST:,}.")
    return int(value)


def _within(rows: Rows, numbers: dict[str, Ints], part: str, whole: str) -> None:
    for row in np.flatnonzero(numbers[part] > numbers[whole]).tolist():
        said = f"{part} is {numbers[part][row]}, more than its {whole} of {numbers[whole][row]}"
        raise LeashError(f"{rows.place(row)}: {said}.")


def _first(rows: Rows, numbers: dict[str, Ints]) -> dict[str, Ints]:
    """The counts of the first samples, if the file has them."""
    if not all(name in rows.columns for name in FIRST):
        return {}
    first = {name: _whole(rows, name) for name in FIRST}
    for role in ROLES:
        _within(rows, first, f"c_{role}_first", f"n_{role}_first")
        for what in ("n", "c"):
            _within(rows, {**numbers, **first}, f"{what}_{role}_first", f"{what}_{role}")
    return first


def _once_each(rows: Rows, dataset: Objects, problem: Objects) -> None:
    seen: dict[tuple[Any, Any], int] = {}
    for row, name in enumerate(zip(dataset.tolist(), problem.tolist(), strict=True)):
        if name[1] is None:
            raise LeashError(f"{rows.path}, row {row + 1}: problem_id is missing.")
        if name in seen:
            raise LeashError(f"{rows.place(row)}: the problem is in row {seen[name] + 1} already.")
        seen[name] = row


def _k(rows: Rows, dataset: Objects, numbers: dict[str, Ints], asked: int | None) -> Ints:
    """The k of each problem: what is asked for, what the file says, or what both models have on its data set."""
    most = np.zeros(len(rows), dtype=np.int64)
    for name in dict.fromkeys(dataset.tolist()):
        mine = dataset == name
        most[mine] = min(numbers["n_base"][mine].max(), numbers["n_rlvr"][mine].max())
    told = _whole(rows, "k") if "k" in rows.columns else most
    if asked is not None and asked > (limit := int(max(told.max(), most.max()))):
        raise LeashError(f"--k is {asked}, but no problem of {rows.path} has more than {limit} samples of both models.")
    k = told if asked is None else np.full(len(rows), asked)
    for row in np.flatnonzero(k < 1).tolist():
        raise LeashError(f"{rows.place(row)}: there are no samples of both models on data set {dataset[row]}.")
    return k


def _ended(rows: Rows, role: str, numbers: dict[str, Ints], k: Ints) -> Objects:
    """How sampling ended: as the file says, or 'k' where there are k samples. A problem that had all samples of the
    file's own k has too few for a larger one."""
    told, n = rows.columns.get(f"ended_{role}"), numbers[f"n_{role}"]
    if told is None:
        return np.array(["k" if enough else None for enough in (n >= k).tolist()], dtype=object)
    for row, ending in enumerate(told):
        if ending is not None and ending not in ENDINGS:
            raise LeashError(f"{rows.place(row)}: ended_{role} is {ending}, not one of {', '.join(ENDINGS)}.")
        if ending in ("hit", "floor") and not numbers[f"c_{role}"][row]:
            raise LeashError(f"{rows.place(row)}: ended_{role} is {ending}, but c_{role} is 0: there was no hit.")
    drawn = _whole(rows, "k") if "k" in rows.columns else n
    ended = np.array(told, dtype=object)
    ended[(ended == "k") & (drawn < k)] = None
    return ended


def _epsilon(rows: Rows) -> Reals:
    if "epsilon" not in rows.columns:
        return np.zeros(len(rows))
    told = enumerate(rows.columns["epsilon"])
    return np.array([_share(text or "0", f"{rows.place(row)}: epsilon") for row, text in told])


def per_problem(counts: Counts, settings: Settings) -> list[Plain]:
    """A row for each problem: both masses with their exact intervals, its category, and what the tests say of it."""
    found = verdicts(counts, settings)
    columns: dict[str, Sequence[Any]] = {
        "dataset": counts.dataset.tolist(),
        "problem_id": counts.problem_id.tolist(),
        "category": found.category.tolist(),
        "tested": found.tested.tolist(),
        "p_value": found.p_values.tolist(),
        "q_value": found.q_values.tolist(),
    }
    for role in ROLES:
        low, high = found.bounds[role]
        masses = zip(found.masses[role].tolist(), low.tolist(), high.tolist(), strict=True)
        columns[f"mass_{role}"] = [dict(zip(("value", "low", "high"), mass, strict=True)) for mass in masses]
    rows = zip(*columns.values(), strict=True)
    return [dict(plain(dict(zip(columns, row, strict=True)))) for row in rows]

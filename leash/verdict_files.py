"""The verdicts of a model on a data set: few large files, and a manifest that says of which completions they are.

    data/verdicts/base/chain/
        manifest.json               the files, the shards of completions whose verdicts they hold, and a hash of the
                                    graders, problems and settings (`made_from`)
        00000.5f1c….parquet         the first 2^20 rows in the order of problem and sample; the hash of the file
        .parts/9ac2….parquet        a part: the verdicts of a unit, which the next run takes over if this one is killed

The rows of all files together are sorted, and file i holds rows i·2^20 to (i + 1)·2^20. So the same samples and
`made_from` give the same files, whatever was verified first and however often a run was killed. Old rows are copied,
not graded again.

A unit is a row group of a shard of completions. Its verdicts are a part as soon as they are there. `pack` writes the
files under new names, then the manifest, and only then deletes what the manifest does not name. Readers go by the
manifest (`tables.verdict_files`), so at any moment they see the old verdicts or the new ones, each once.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leash import atomic_io, json_checksum, tables
from leash.table_rows import RowGroup, RowReader

MAX_FILE_ROWS = 2**20
# DuckDB gives each of its threads a row group at a time; its own files have about as many rows in one.
ROW_GROUP_ROWS = 2**17
KEY_COLUMNS = ["problem_id", "sample"]
PARTS_FOLDER = ".parts"
GRADE_COLUMNS = ["answer_class", "correct", "score", "status"]  # of leash/grading/graders/types.py: Grade
GRADED_SCHEMA = pa.schema([tables.VERDICTS_SCHEMA.field(n) for n in ("problem_id", "answer", *GRADE_COLUMNS)])
UNKNOWN = -1  # the code of a sample whose problem is not in the data set
Codes = NDArray[np.int64]
NO_CODES: Codes = np.array([], np.int64)


class CompletionsUnit(NamedTuple):
    """A row group of a shard of completions, which is verified at a time."""

    shard: Path
    group: int


class VerdictFiles:
    """The verdicts in a folder. `made_from` is a hash of all that decides them beside the completions."""

    def __init__(self, model: str, dataset: str, made_from: str, problem_ids: Iterable[str]) -> None:
        self.folder = tables.verdicts_folder(model, dataset)
        self._sampled_by, self._made_by = (f"leash {stage} {model} {dataset}" for stage in ("sample", "verify"))
        self._made_from = made_from
        self._rank = {problem: rank for rank, problem in enumerate(sorted(problem_ids))}
        # Where the rows of the next files are: row groups, and for each of them the codes and numbers of its rows.
        self._groups: list[RowGroup] = []
        self._codes: list[Codes] = []
        self._rows: list[NDArray[np.int64]] = []

    def are_of(self, shards: Sequence[Path]) -> bool:
        """Whether these are the verdicts of these shards of completions, and all intact. Shards never change under
        their name. Leftovers of killed runs are deleted."""
        atomic_io.delete_unfinished(self.folder)
        manifest = tables.read_verdicts_manifest(self.folder)
        if manifest is None:
            return False
        self._delete_unnamed(manifest["files"])
        names = [shard.name for shard in shards]
        if manifest["made_from"] != self._made_from or manifest["completions"] != names:
            return False
        if not all(map(self._is_intact, (self.folder / name for name in manifest["files"]))):
            return False
        shutil.rmtree(self.folder / PARTS_FOLDER, ignore_errors=True)
        return True

    def find_stale(self, shards: Sequence[Path]) -> list[CompletionsUnit]:
        """The units of these shards whose verdicts are missing. The others' are taken over."""
        manifest = tables.read_verdicts_manifest(self.folder)
        known = set(manifest["completions"]) if manifest and manifest["made_from"] == self._made_from else set()
        old_groups = [group for file in self._intact_files() for group in _row_groups(file)] if known else []
        old_codes = [self._codes_of(_read_keys(*group)) for group in old_groups]
        present = _sort_codes(old_codes)
        stale: list[CompletionsUnit] = []
        wanted: list[Codes] = []
        for unit, keys in self._read_units(shards):
            if self._is_part_intact(unit):
                self._take_over(unit, _read_keys(self._part_path(unit)))
                continue
            codes = NO_CODES if keys is None else self._codes_of(keys)
            codes = codes[codes != UNKNOWN]  # these need no verdict
            if keys is None or unit.shard.name not in known or not _are_in(present, codes).all():
                stale.append(unit)
            else:
                wanted.append(codes)
        kept = _sort_codes(wanted)
        for group, codes in zip(old_groups, old_codes, strict=True):
            self._append(group, codes, np.flatnonzero(_are_in(kept, codes) & (codes != UNKNOWN)))
        return stale

    def graded_answers(self) -> pa.Table:
        """The answers that have a grade. It depends on `made_from` alone, so those of stale units count, too."""
        parts = [path for path in tables.shards(self.folder / PARTS_FOLDER) if self._is_intact(path)]
        found = [GRADED_SCHEMA.empty_table()]
        for path, group in (group for file in (*self._intact_files(), *parts) for group in _row_groups(file)):
            rows = tables.read_row_group(path, group, GRADED_SCHEMA, self._made_by)
            answered = rows.filter(rows["answer"].is_valid())
            # Equal answers have equal grades, so any row of a group will do.
            distinct = answered.group_by(["problem_id", "answer"], use_threads=False).aggregate(
                [(name, "first") for name in GRADE_COLUMNS]
            )
            found.append(distinct.rename_columns(["problem_id", "answer", *GRADE_COLUMNS]).cast(GRADED_SCHEMA))
        return pa.concat_tables(found)

    def add(self, unit: CompletionsUnit, verdicts: pa.Table) -> None:
        """Keep the verdicts of a unit, on disk when this returns."""
        note = {"made_from": self._made_from, "unit": self._unit_id(unit)}
        tables.write(self._part_path(unit), verdicts, tables.VERDICTS_SCHEMA, note)
        self._take_over(unit, verdicts)

    def pack(self, shards: Sequence[Path]) -> None:
        """Write all verdicts as files, and delete the parts. A kill loses nothing: the parts are deleted last."""
        groups = np.repeat(np.arange(len(self._groups)), [len(codes) for codes in self._codes])
        codes, rows = np.concatenate([*self._codes, NO_CODES]), np.concatenate([*self._rows, NO_CODES])
        order = np.argsort(codes, kind="stable")
        reader = RowReader(self._groups, tables.VERDICTS_SCHEMA, self._made_by)

        def read_row_groups(begin: int) -> Iterator[pa.Table]:
            end = min(begin + MAX_FILE_ROWS, len(order))
            for first in range(begin, end, ROW_GROUP_ROWS):
                places = order[first : min(first + ROW_GROUP_ROWS, end)]
                yield reader.read(groups[places], rows[places])

        files = map(read_row_groups, range(0, max(len(order), 1), MAX_FILE_ROWS))
        self._delete_unnamed(write_files(self.folder, files, self._made_from, [shard.name for shard in shards]))
        shutil.rmtree(self.folder / PARTS_FOLDER, ignore_errors=True)

    def _read_units(self, shards: Sequence[Path]) -> Iterator[tuple[CompletionsUnit, pa.Table | None]]:
        """The units of shards, each with the keys of its samples; None if they can't be read. Whoever verifies the unit
        says that it is damaged."""
        for shard in shards:
            file = tables.open_columns(shard, tables.COMPLETIONS_SCHEMA, self._sampled_by)
            for group in range(file.num_row_groups):
                try:
                    keys = file.read_row_group(group, KEY_COLUMNS)
                except tables.READ_ERRORS:
                    keys = None
                yield CompletionsUnit(shard, group), keys

    def _delete_unnamed(self, names: Sequence[str]) -> None:
        for file in tables.shards(self.folder):
            if file.name not in names:
                file.unlink()

    def _is_intact(self, file: Path) -> bool:
        """Whether a file has the content that was written, from what now decides verdicts."""
        is_written = tables.read_metadata(file).get("made_from") == self._made_from
        return is_written and atomic_io.matches_hash_in_name(file) is not False

    def _intact_files(self) -> list[Path]:
        return [file for file in tables.shards(self.folder) if self._is_intact(file)]

    def _unit_id(self, unit: CompletionsUnit) -> str:
        return atomic_io.hash_strings(self._made_from, unit.shard.name, str(unit.group))

    def _part_path(self, unit: CompletionsUnit) -> Path:
        return self.folder / PARTS_FOLDER / f"{self._unit_id(unit)}.parquet"

    def _is_part_intact(self, unit: CompletionsUnit) -> bool:
        return tables.read_metadata(self._part_path(unit)).get("unit") == self._unit_id(unit)

    def _take_over(self, unit: CompletionsUnit, verdicts: pa.Table) -> None:
        codes = self._codes_of(verdicts)
        self._append((self._part_path(unit), 0), codes, np.arange(len(codes)))

    def _append(self, group: RowGroup, codes: Codes, rows: NDArray[np.int64]) -> None:
        if len(rows):
            self._groups.append(group)
            self._codes.append(codes[rows])
            self._rows.append(rows)

    def _codes_of(self, keys: pa.Table) -> Codes:
        """A number for each sample, in the order of problems and samples; UNKNOWN if its problem is."""
        problems = keys["problem_id"].combine_chunks().dictionary_encode()
        names = problems.dictionary.to_pylist()
        ranks = np.array([self._rank.get(name, UNKNOWN) for name in names], np.int64)[problems.indices.to_numpy()]
        return np.where(ranks == UNKNOWN, UNKNOWN, (ranks << 32) + keys["sample"].to_numpy() + 2**31)


def _sort_codes(parts: Sequence[Codes]) -> Codes:
    """All codes in order, and UNKNOWN behind them, so that a search among them always ends at one."""
    return np.append(np.sort(np.concatenate([*parts, NO_CODES])), UNKNOWN)


def _are_in(known: Codes, codes: Codes) -> NDArray[np.bool_]:
    """Which codes are among the known ones, which `_sort_codes` sorted."""
    found: NDArray[np.bool_] = np.equal(known[np.searchsorted(known[:-1], codes)], codes)
    return found


def write_files(
    folder: Path, files: Iterable[Iterable[pa.Table]], made_from: str, completions: Sequence[str]
) -> list[str]:
    """Write files of verdicts, each of some row groups, and then their manifest. Return their names."""
    names = []
    for number, groups in enumerate(files):
        content = tables.encode_row_groups_with_checksum(groups, tables.VERDICTS_SCHEMA, {"made_from": made_from})
        names.append(f"{number:05d}.{atomic_io.bytes_hash(content)}.parquet")
        atomic_io.write(folder / names[-1], content)
    manifest = json_checksum.with_checksum({"made_from": made_from, "completions": [*completions], "files": names})
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    atomic_io.write(folder / tables.VERDICTS_MANIFEST_FILENAME, text)
    return names


def _read_keys(file: Path, group: int | None = None) -> pa.Table:
    """The keys of a row group, or of a whole part: one without rows may have no row group."""
    opened = tables.open_columns(file, tables.VERDICTS_SCHEMA, "")
    return opened.read(KEY_COLUMNS) if group is None else opened.read_row_group(group, KEY_COLUMNS)


def _row_groups(file: Path) -> list[RowGroup]:
    return [(file, group) for group in range(tables.open_columns(file, tables.VERDICTS_SCHEMA, "").num_row_groups)]

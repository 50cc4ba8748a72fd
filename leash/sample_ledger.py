"""The ledger of samples: a folder of completions that only grows, and detects damage and mixed-up samples.

    data/completions/base/chain/
        manifest.json                                how these samples were drawn
        00000-00002.00000-01024.5f1c….parquet        a shard: problems 0 and 1, samples 0-1023, hash of the file
        .parts/000004.9ac2….parquet                  a part: what has arrived since the last shards

Samples arrive in any order. Every few seconds the new ones are written as a part. When the run ends, or the parts are
large, `settle` sorts them into shards. The same samples therefore give the same files, whatever their order of arrival.
Only the ledger reads parts; a killed run finds them when it continues.

Files are written completely or not at all, and have their hash in their name. A damaged file is restored from DVC's
cache, or its samples are drawn again. The manifest's fingerprint has everything that makes old samples unusable if it
changes (model, prompt, decoding, problem text). On a mismatch the ledger names the field and raises.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leash import atomic_io, dvc_samples, tables
from leash.engines.protocol import Completion
from leash.errors import LeashError

MANIFEST_FILENAME = "manifest.json"
# The manifest's key for the hash of everything else in it.
CHECKSUM_KEY = "seal"
MAX_SHARD_SAMPLES = 2048
# How much finished work a killed run can lose.
PART_INTERVAL_S = 5.0
# When the parts of a run together exceed this, they become shards before its end.
MAX_PARTS_BYTES = 128 * 2**20

SampleNumbers = NDArray[np.int32]  # ascending
SampleKey = tuple[str, int]


class SamplesMismatchError(LeashError):
    """Samples on disk were drawn with other settings. `fields` are the changed fields of the fingerprint; `problem_id`
    is the first problem whose text changed, if no field did."""

    def __init__(self, folder: Path, fields: Sequence[str], problem_id: str | None, resample_command: str) -> None:
        self.folder, self.fields, self.problem_id = folder, tuple(fields), problem_id
        change = ", ".join(fields) or f"text of the problem {problem_id}"
        super().__init__(
            f"{folder} holds samples made with another {change}; undo that change to keep them, or replace them with "
            f"`{resample_command}`."
        )


class DamagedManifestError(LeashError):
    """The manifest cannot be read, and DVC's cache has no good copy."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"{path} is damaged. If its samples were drawn with the present parameters, delete it and run the command "
            f"again. Otherwise start over with `--resample` (for imported samples, `--replace`)."
        )


class LedgerLockedError(LeashError):
    """Another process is writing to the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"Another run is writing to {folder}. Wait until it has ended.")


class Ledger:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._part_folder = folder / ".parts"
        self._problem_index: dict[str, int] = {}
        self._unflushed: list[Completion] = []
        self._part_written_at = -math.inf  # so that the first samples of a run are written at once
        self._pending_manifest: dict[str, Any] | None = None
        self._lock: int | None = None

    def open(
        self,
        fingerprint: Mapping[str, str],
        prompts: Mapping[str, str],
        *,
        again: str,
        engine: str | None = None,
        sources: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Lock the folder, check that the samples on disk have this fingerprint, and add new problems to the manifest.

        `prompts` has a hash of each problem's text, in the order of the problems. `again` is the command that draws the
        samples again, for error messages. `engine` and `sources` record where samples come from.

        A manifest without samples (an engine failed to start) binds nothing. A new manifest is written just before the
        first samples, never after them, so that a kill in between leaves no samples without a manifest.
        """
        self._acquire_lock()
        manifest = self.check(fingerprint, prompts, again=again)
        content: dict[str, Any] = {
            "fingerprint": dict(fingerprint),
            "prompts": {**manifest.get("prompts", {}), **prompts},
            "engines": sorted({*manifest.get("engines", []), *([engine] if engine else [])}),
            "sources": [*manifest.get("sources", []), *map(dict, sources)],
        }
        self._pending_manifest = content if content != manifest else None
        if not self.empty:
            self._write_manifest()
        self._problem_index = {problem: index for index, problem in enumerate(prompts)}

    def check(self, fingerprint: Mapping[str, str], prompts: Mapping[str, str], *, again: str) -> dict[str, Any]:
        """Raise if the samples on disk have another fingerprint. Return their manifest, or an empty dictionary if there
        are no samples or no manifest. It takes no lock."""
        manifest = {} if self.empty else self.manifest()
        if manifest:
            old, old_prompts = manifest["fingerprint"], manifest["prompts"]
            fields = [field for field in {**old, **fingerprint} if old.get(field) != fingerprint.get(field)]
            changed = (problem for problem in prompts if old_prompts.get(problem, prompts[problem]) != prompts[problem])
            problem_id = next(changed, None)
            if fields or problem_id is not None:
                raise SamplesMismatchError(self.folder, fields, None if fields else problem_id, again)
        return manifest

    def close(self) -> None:
        """Release the lock. The end of the process does the same."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def clear(self) -> None:
        """Delete all samples. The manifest is deleted last, so that a half-cleared ledger is still checked."""
        self._acquire_lock()
        for file in self._files():
            file.unlink()
        (self.folder / MANIFEST_FILENAME).unlink(missing_ok=True)

    @property
    def empty(self) -> bool:
        """Whether there are no samples on disk."""
        return not self._files()

    @property
    def size(self) -> int:
        """The bytes of all samples on disk."""
        return sum(file.stat().st_size for file in self._files() if file.exists())

    def manifest(self) -> dict[str, Any]:
        """The content of the manifest, or an empty dictionary if there is no manifest."""
        path = self.folder / MANIFEST_FILENAME
        if not path.exists():
            return {}
        manifest = _parse_manifest(path.read_bytes())
        if manifest is None and _restore_from_cache(path, lambda content: _parse_manifest(content) is not None):
            manifest = _parse_manifest(path.read_bytes())
        if manifest is None:
            raise DamagedManifestError(path)
        return manifest

    def have(self) -> dict[str, SampleNumbers]:
        """The numbers of the samples on disk, by problem. Damaged files are restored or deleted, and unfinished files
        of a killed run are deleted."""
        atomic_io.delete_unfinished(self.folder)
        numbers: dict[str, list[SampleNumbers]] = {}
        for file in self._files():
            if not _is_intact_or_restored(file):
                click.echo(f"Note: {file} was damaged, and its samples are drawn again.", err=True)
                file.unlink()
                continue
            rows = pq.read_table(file, columns=["problem_id", "sample"])
            grouped = rows.group_by("problem_id").aggregate([("sample", "list")]).to_pydict()
            for problem, samples in zip(grouped["problem_id"], grouped["sample_list"], strict=True):
                numbers.setdefault(problem, []).append(np.array(samples, np.int32))
        return {problem: np.unique(np.concatenate(samples)) for problem, samples in numbers.items()}

    def peek(self, columns: Sequence[str], *, below: int | None = None) -> Iterator[pa.Table]:
        """Some columns of the samples on disk (of those with numbers under `below`), file by file.

        Unlike `have`, this repairs and deletes nothing, so it is safe beside a run that samples. A file that cannot be
        read, or that the other run replaces meanwhile, is left out. A sample may come twice.
        """
        filters = None if below is None else [("sample", "<", below)]
        for file in self._files():
            try:
                yield pq.read_table(file, columns=list(columns), filters=filters)
            except (OSError, pa.ArrowException):
                continue

    def texts(self) -> Iterator[dict[str, Any]]:
        """Every sample on disk, once."""
        in_shards = self._part_keys_in_shards()
        for shard in tables.shards(self.folder):
            yield from pq.read_table(shard).to_pylist()
        for part in tables.shards(self._part_folder):
            for row in pq.read_table(part).to_pylist():
                if (row["problem_id"], row["sample"]) not in in_shards:
                    yield row

    def add(self, completions: Iterable[Completion]) -> None:
        """Keep new samples. They are written at once if there are many, else within seconds."""
        self._unflushed += completions
        if len(self._unflushed) >= MAX_SHARD_SAMPLES or time.monotonic() - self._part_written_at > PART_INTERVAL_S:
            self.flush()
            if sum(part.stat().st_size for part in tables.shards(self._part_folder)) > MAX_PARTS_BYTES:
                self.settle()

    def flush(self) -> None:
        """Write the samples that have arrived as a part."""
        self._part_written_at = time.monotonic()
        if not self._unflushed:
            return
        self._write_manifest()
        schema = tables.COMPLETIONS_SCHEMA
        columns = {name: [getattr(completion, name) for completion in self._unflushed] for name in schema.names}
        content = _encode_completions(pa.Table.from_pydict(columns, schema))
        parts = tables.shards(self._part_folder)
        number = 1 + max((int(part.name.partition(".")[0]) for part in parts), default=-1)
        atomic_io.write(self._part_folder / f"{number:06d}.{atomic_io.bytes_hash(content)}.parquet", content)
        self._unflushed = []

    def settle(self) -> None:
        """Turn all parts into shards. If this is killed, the next call completes it."""
        self.flush()
        parts = tables.shards(self._part_folder)
        if parts:
            rows = pa.concat_tables(tables.read(part, tables.COMPLETIONS_SCHEMA, "leash sample") for part in parts)
            # Each sample once, and none that a shard has: an earlier `settle` may have been killed half-way.
            in_shards = self._part_keys_in_shards()
            row_of: dict[SampleKey, int] = {}
            for row, key in enumerate(zip(rows["problem_id"].to_pylist(), rows["sample"].to_pylist(), strict=True)):
                if key not in in_shards:
                    row_of.setdefault(key, row)
            self._write_shards(rows, row_of)
            for part in parts:
                part.unlink()
        if self._part_folder.is_dir():
            self._part_folder.rmdir()

    def retain(self, wanted: Collection[SampleKey]) -> None:
        """Delete all samples but these, and turn all parts into shards. The shards are the same whatever was on disk
        beside the wanted samples. New files are written before old ones are deleted, so that a kill loses nothing."""
        self.flush()
        old = self._files()
        on_disk = [key for file in old for key in _read_sample_keys(file)]
        if not tables.shards(self._part_folder) and len(on_disk) == len(wanted) and set(on_disk) == set(wanted):
            return
        row_of: dict[SampleKey, int] = {}
        for row, key in enumerate(on_disk):
            if key in wanted:
                row_of.setdefault(key, row)
        new: set[Path] = set()
        if row_of:
            rows = pa.concat_tables(tables.read(file, tables.COMPLETIONS_SCHEMA, "leash reach") for file in old)
            new = self._write_shards(rows, row_of)
        for file in old:
            if file not in new:
                file.unlink()
        if self._part_folder.is_dir():
            self._part_folder.rmdir()

    def _files(self) -> list[Path]:
        return [*tables.shards(self.folder), *tables.shards(self._part_folder)]

    def _index_of(self, problem: str) -> int:
        """The problem's place in the data set. Problems that are no longer in it come last."""
        return self._problem_index.get(problem, len(self._problem_index))

    def _part_keys_in_shards(self) -> set[SampleKey]:
        """The samples that are in a part and in a shard, as after a kill during `settle`."""
        in_parts = {key for part in tables.shards(self._part_folder) for key in _read_sample_keys(part)}
        if not in_parts:
            return set()  # without reading the shards, which takes long
        return in_parts & {key for shard in tables.shards(self.folder) for key in _read_sample_keys(shard)}

    def _write_shards(self, rows: pa.Table, row_of: Mapping[SampleKey, int]) -> set[Path]:
        """Write some rows as shards, in their order."""
        ordered = sorted(row_of, key=lambda key: (self._index_of(key[0]), *key))
        rows = rows.take(pa.array([row_of[key] for key in ordered], pa.int64()))
        begins = range(0, rows.num_rows, MAX_SHARD_SAMPLES)
        return {self._write_shard(rows.slice(begin, MAX_SHARD_SAMPLES)) for begin in begins}

    def _write_shard(self, rows: pa.Table) -> Path:
        content = _encode_completions(rows)
        problems = [self._index_of(problem) for problem in set(rows["problem_id"].to_pylist())]
        samples = pc.min_max(rows["sample"]).as_py()
        covers = f"{min(problems):05d}-{max(problems) + 1:05d}.{samples['min']:05d}-{samples['max'] + 1:05d}"
        path = self.folder / f"{covers}.{atomic_io.bytes_hash(content)}.parquet"
        atomic_io.write(path, content)
        return path

    def _write_manifest(self) -> None:
        if self._pending_manifest is not None:
            content = {**self._pending_manifest, CHECKSUM_KEY: _manifest_checksum(self._pending_manifest)}
            atomic_io.write(self.folder / MANIFEST_FILENAME, json.dumps(content, indent=1, sort_keys=True) + "\n")
            self._pending_manifest = None

    def _acquire_lock(self) -> None:
        """Only one run at a time writes here. The lock ends with the process, however that ends."""
        if self._lock is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LedgerLockedError(self.folder) from None
        except OSError:
            pass  # some network file systems have no locks


def _encode_completions(rows: pa.Table) -> bytes:
    """A file of completions. Without tails it lacks their column: the files of runs without stop strings are those of
    versions that had none."""
    schema = tables.COMPLETIONS_SCHEMA
    if rows["tail"].null_count == rows.num_rows:
        schema = schema.remove(schema.get_field_index("tail"))
    return tables.encode_parquet(rows, schema)


def _is_intact_or_restored(file: Path) -> bool:
    return atomic_io.matches_hash_in_name(file) or _restore_from_cache(
        file, lambda content: file.stem.endswith(atomic_io.bytes_hash(content))
    )


def _restore_from_cache(file: Path, is_intact: Callable[[bytes], bool]) -> bool:
    """Replace a damaged file by DVC's copy. Return whether there was an intact one."""
    content = dvc_samples.read_cached_file(file)
    if content is None or not is_intact(content):
        return False
    atomic_io.write(file, content)
    click.echo(f"Note: {file} was damaged and is restored from DVC's cache.", err=True)
    return True


def _manifest_checksum(content: Mapping[str, Any]) -> str:
    return atomic_io.hash_strings(json.dumps(content, sort_keys=True))


def _parse_manifest(content: bytes) -> dict[str, Any] | None:
    """The manifest without its checksum, or None if it is damaged. Old manifests have no checksum."""
    try:
        manifest: dict[str, Any] = json.loads(content)
    except ValueError:
        return None
    checksum = manifest.pop(CHECKSUM_KEY, None)
    return manifest if checksum in (None, _manifest_checksum(manifest)) else None


def _read_sample_keys(file: Path) -> Iterator[SampleKey]:
    rows = pq.read_table(file, columns=["problem_id", "sample"])
    return zip(rows["problem_id"].to_pylist(), rows["sample"].to_pylist(), strict=True)


def read_manifest(model: str, dataset: str) -> dict[str, Any]:
    """The manifest of a model's samples on a data set."""
    return dict(Ledger(tables.completions_folder(model, dataset)).manifest())

"""The ledger of samples: a folder that only ever grows, and knows what it holds.

    data/completions/base/chain/
        manifest.json                                what makes these samples what they are
        00000-00002.00000-01024.5f1c….parquet        a shard: problems 0 and 1, samples 0-1023, the file's own hash
        .parts/000004.9ac2….parquet                  what has arrived since the last shard

Samples arrive in any order, and every few seconds a part is written. When the run ends, or the parts grow large,
they are settled: sorted and written as shards, so that the same samples make the same files whatever their order
of arrival. Nobody but the ledger reads parts; a run that was killed finds its own again.

Shards and parts are written whole or not at all and carry their hash in their name: a damaged one is noticed and
taken from DVC's cache, or its samples are drawn again. What makes old samples unusable (another model, prompt,
decoding or problem text) is the manifest's fingerprint: on a mismatch the ledger names the field and stops.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages import disk, tables
from stages.errors import LeashError
from stages.sample import elsewhere
from stages.sample.engine import Completion

MANIFEST = "manifest.json"
SEAL = "seal"  # the manifest's hash of all else in it
SHARD = 2048  # samples in a shard
PART_SECONDS = 5.0  # the most that a killed run loses, beside what its engine was at
SETTLE_BYTES = 128 * 2**20  # parts larger than this together become shards while the run goes on

Samples = NDArray[np.int32]  # numbers, ascending
Key = tuple[str, int]


class Ledger:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places: dict[str, int] = {}
        self._waiting: list[Completion] = []
        self._part_written = -math.inf  # the first samples of a run are on disk at once
        self._unwritten: dict[str, Any] | None = None  # a manifest that waits for the first samples
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
        """Check that samples on disk are of the same kind, and add the problems that their manifest does not know.

        `prompts` gives a hash of what each problem asks, in the order of the problems; `again` is the command that
        resamples; `engine` and `sources` say where samples come from and are kept beside them.

        A manifest speaks for samples that exist. Without any, an old one (an engine that failed to start left it)
        forbids nothing, and the new one is written just before the first samples: never after them, so that a kill
        in between leaves no samples without a manifest.
        """
        self._take_lock()
        empty = self.empty
        manifest = {} if empty else self.manifest()
        if manifest:
            self._refuse_another_kind(manifest, fingerprint, prompts, again)
        content: dict[str, Any] = {
            "fingerprint": dict(fingerprint),
            "prompts": {**manifest.get("prompts", {}), **prompts},
            "engines": sorted({*manifest.get("engines", []), *([engine] if engine else [])}),
            "sources": [*manifest.get("sources", []), *map(dict, sources)],
        }
        self._unwritten = content if content != manifest else None
        if not empty:
            self._write_manifest()
        self._places = {problem: place for place, problem in enumerate(prompts)}

    def check(self, fingerprint: Mapping[str, str], prompts: Mapping[str, str], *, again: str) -> None:
        """Raise what `open` would about samples of another kind, without taking the lock or starting a manifest."""
        manifest = self.manifest() if self.size else {}
        if manifest:
            self._refuse_another_kind(manifest, fingerprint, prompts, again)

    def peek(self, columns: Sequence[str], *, below: int | None = None) -> Iterator[pa.Table]:
        """Some columns of the samples on disk (of those numbered `below`), file by file, for commands that only look.

        Unlike `have`, this repairs and deletes nothing, so it may run beside a run that samples. A file that cannot be
        read, or that the other run replaces meanwhile, is left out; a sample may come twice."""
        numbered = None if below is None else [("sample", "<", below)]
        for file in (*tables.shards(self.folder), *self._parts()):
            try:
                yield pq.read_table(file, columns=list(columns), filters=numbered)
            except (OSError, pa.ArrowException):
                continue

    @property
    def size(self) -> int:
        """Bytes of the samples on disk."""
        return sum(file.stat().st_size for file in (*tables.shards(self.folder), *self._parts()) if file.exists())

    def manifest(self) -> dict[str, Any]:
        """What the manifest says; nothing where there is none."""
        path = self.folder / MANIFEST
        if not path.exists():
            return {}
        manifest = _unsealed(path.read_bytes())
        if manifest is None and _restored(path, lambda content: _unsealed(content) is not None):
            manifest = _unsealed(path.read_bytes())
        if manifest is None:
            raise LeashError(
                f"{path} is damaged; delete it and run this again if its samples were drawn with the present "
                f"parameters, else begin anew with `--resample` (of imported ones, `--replace`)."
            )
        return manifest

    @property
    def empty(self) -> bool:
        """Whether no file of samples is on disk."""
        return not (tables.shards(self.folder) or self._parts())

    def clear(self) -> None:
        """Throw every sample away; the manifest goes last, so that a half-cleared ledger is still checked."""
        self._take_lock()
        for file in (*tables.shards(self.folder), *self._parts()):
            file.unlink()
        (self.folder / MANIFEST).unlink(missing_ok=True)

    def have(self) -> dict[str, Samples]:
        """Which samples of each problem are on disk, in files whose hash is right. Others are restored or deleted, and
        what a killed run left unfinished is deleted too."""
        disk.sweep(self.folder)
        found: dict[str, list[Samples]] = {}
        for file in (*tables.shards(self.folder), *self._parts()):
            if not disk.intact(file) and not _restored(file, partial(_named_for, file)):
                click.echo(f"Note: {file} was damaged, and its samples are drawn again.", err=True)
                file.unlink()
                continue
            for problem, samples in _by_problem(pq.read_table(file, columns=["problem_id", "sample"])):
                found.setdefault(problem, []).append(samples)
        return {problem: np.unique(np.concatenate(samples)) for problem, samples in found.items()}

    def texts(self) -> Iterator[dict[str, Any]]:
        """Every sample on disk, once: what a shard holds is taken from no part."""
        seen = self._settled()
        for file in tables.shards(self.folder):
            yield from pq.read_table(file).to_pylist()
        for part in self._parts():
            yield from (
                row for row in pq.read_table(part).to_pylist() if (row["problem_id"], row["sample"]) not in seen
            )

    def add(self, completions: Iterable[Completion]) -> None:
        """Keep some samples: on disk at once where they are many, within seconds where they are few."""
        self._waiting += completions
        if len(self._waiting) >= SHARD or time.monotonic() - self._part_written > PART_SECONDS:
            self.flush()
            if sum(part.stat().st_size for part in self._parts()) > SETTLE_BYTES:
                self.settle()

    def flush(self) -> None:
        """Write what has arrived as a part."""
        self._part_written = time.monotonic()
        if self._waiting:
            self._write_manifest()
            content = tables.encoded(_table(self._waiting), tables.COMPLETIONS)
            number = 1 + max((int(part.name.partition(".")[0]) for part in self._parts()), default=-1)
            disk.write(self._part_folder / f"{number:06d}.{disk.bytes_hash(content)}.parquet", content)
            self._waiting = []

    def settle(self) -> None:
        """Turn all parts into shards. Killed half-way, the rest of it is done by the next call."""
        self.flush()
        parts = self._parts()
        if parts:
            rows = pa.concat_tables(tables.read(part, tables.COMPLETIONS, "leash sample") for part in parts)
            rows = self._in_order(rows)
            for begin in range(0, rows.num_rows, SHARD):
                self._write_shard(rows.slice(begin, SHARD))
            for part in parts:
                part.unlink()
        if self._part_folder.is_dir():
            self._part_folder.rmdir()

    def close(self) -> None:
        """Let another run write here; the end of the process does the same."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def _part_folder(self) -> Path:
        return self.folder / ".parts"

    def _parts(self) -> list[Path]:
        return tables.shards(self._part_folder)

    def _settled(self) -> set[Key]:
        """What the shards hold, as far as the parts may hold it too (after a kill while settling)."""
        asked = {key for part in self._parts() for key in _keys(part)}
        return asked & {key for shard in tables.shards(self.folder) for key in _keys(shard)} if asked else set()

    def _in_order(self, rows: pa.Table) -> pa.Table:
        """Rows by problem and sample, each once, and none that a shard has."""
        order: dict[Key, int] = {}
        settled = self._settled()
        keys = zip(rows["problem_id"].to_pylist(), rows["sample"].to_pylist(), strict=True)
        for row, key in enumerate(keys):
            if key not in settled:
                order.setdefault(key, row)
        return rows.take(pa.array([order[key] for key in sorted(order, key=self._place)], pa.int64()))

    def _place(self, key: Key) -> tuple[int, str, int]:
        problem, sample = key
        return self._places.get(problem, len(self._places)), problem, sample

    def _write_shard(self, rows: pa.Table) -> None:
        content = tables.encoded(rows, tables.COMPLETIONS)
        places = [self._places.get(problem, len(self._places)) for problem in set(rows["problem_id"].to_pylist())]
        samples = pc.min_max(rows["sample"]).as_py()
        covers = f"{min(places):05d}-{max(places) + 1:05d}.{samples['min']:05d}-{samples['max'] + 1:05d}"
        disk.write(self.folder / f"{covers}.{disk.bytes_hash(content)}.parquet", content)

    def _refuse_another_kind(
        self, manifest: Mapping[str, Any], fingerprint: Mapping[str, str], prompts: Mapping[str, str], again: str
    ) -> None:
        old, asked = manifest["fingerprint"], manifest["prompts"]
        changed = [field for field in {**old, **fingerprint} if old.get(field) != fingerprint.get(field)]
        texts = [problem for problem in prompts if asked.get(problem, prompts[problem]) != prompts[problem]]
        if changed or texts:
            what = ", ".join(changed) or f"text of the problem {texts[0]}"
            raise LeashError(
                f"{self.folder} holds samples made with another {what}; keep them by undoing that change, "
                f"or replace them with `{again}`."
            )

    def _write_manifest(self) -> None:
        if self._unwritten is not None:
            sealed = {**self._unwritten, SEAL: _seal(self._unwritten)}
            disk.write(self.folder / MANIFEST, json.dumps(sealed, indent=1, sort_keys=True) + "\n")
            self._unwritten = None

    def _take_lock(self) -> None:
        """One run at a time writes here; the lock goes with the process, however it ends."""
        if self._lock is not None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LeashError(f"Another run is writing to {self.folder}; wait until it has ended.") from None
        except OSError:
            pass  # a file system without locks


def _named_for(file: Path, content: bytes) -> bool:
    return file.stem.endswith(disk.bytes_hash(content))


def _restored(file: Path, whole: Callable[[bytes], bool]) -> bool:
    """Take a damaged file from DVC's cache, if that has it and whole."""
    content = elsewhere.cached(file)
    if content is None or not whole(content):
        return False
    disk.write(file, content)
    click.echo(f"Note: {file} was damaged and is restored from DVC's cache.", err=True)
    return True


def _seal(content: Mapping[str, Any]) -> str:
    return disk.hash_of(json.dumps(content, sort_keys=True))


def _unsealed(written: bytes) -> dict[str, Any] | None:
    """What a manifest says, sealed or from before there were seals; None where it is damaged."""
    try:
        manifest: dict[str, Any] = json.loads(written)
    except ValueError:
        return None
    seal = manifest.pop(SEAL, None)
    return manifest if seal in (None, _seal(manifest)) else None


def _table(completions: Sequence[Completion]) -> pa.Table:
    columns = {name: [getattr(c, name) for c in completions] for name in tables.COMPLETIONS.names}
    return pa.Table.from_pydict(columns, tables.COMPLETIONS)


def _keys(file: Path) -> Iterator[Key]:
    rows = pq.read_table(file, columns=["problem_id", "sample"])
    return zip(rows["problem_id"].to_pylist(), rows["sample"].to_pylist(), strict=True)


def _by_problem(rows: pa.Table) -> Iterator[tuple[str, Samples]]:
    grouped = rows.group_by("problem_id").aggregate([("sample", "list")])
    for problem, samples in zip(grouped["problem_id"].to_pylist(), grouped["sample_list"].to_pylist(), strict=True):
        yield problem, np.array(samples, np.int32)

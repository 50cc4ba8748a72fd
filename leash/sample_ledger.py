"""The ledger of samples: a folder of completions that only grows, and detects damage and mixed-up samples.

    data/completions/base/chain/
        manifest.json                                how these samples were drawn
        00000-00002.00000-01024.5f1c….parquet        a shard: problems 0 and 1, samples 0-1023, hash of the file;
                                                     128 MiB of texts at most, in row groups of 2,048 samples
        .parts/000004.9ac2….parquet                  a part: what has arrived since the last shards

Samples arrive in any order. Every few seconds the new ones are written as a part. When the run ends, or the parts are
large, `settle` sorts them into shards. The same samples therefore give the same files, whatever their order of arrival.
Only the ledger reads parts; a killed run finds them when it continues.

Files are written completely or not at all, and have their hash in their name. A damaged file is restored from DVC's
cache, or its samples are drawn again. The manifest's fingerprint has everything that makes old samples unusable if it
changes (model, prompt, decoding, problem text). On a mismatch the ledger names the field and raises.

Each file also states its origin, the fingerprint and the hashes of its problems' texts, in its metadata. So a file of
another run is refused although the manifest is right, and a manifest that is lost is written again from the files.
Files of earlier versions state none: they need their manifest.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from leash import atomic_io, dvc_samples, json_checksum, tables
from leash.engines.protocol import Completion
from leash.errors import LeashError
from leash.table_rows import RowGroup, RowReader

MANIFEST_FILENAME = "manifest.json"
# The manifest's key for the hash of everything else in it.
CHECKSUM_KEY = "seal"
# The key of a file's own origin, in its metadata.
ORIGIN_KEY = "leash.origin"
# Of a manifest that was written again: no file states which engine drew its samples.
UNKNOWN_ENGINE = "unknown"
# By the size of the samples and not of the file, which is known only when it is encoded and changes with the version of
# zstd: so the same samples always end at the same places, and this bounds the memory that a shard takes.
MAX_SHARD_BYTES = 128 * 2**20
# What a sample takes beside its texts and token ids.
ROW_BYTES = 32
# What `verify` works on at a time, and what a reader of few texts has to decompress.
ROW_GROUP_ROWS = 2048
MAX_UNFLUSHED_SAMPLES = 2048
# How much finished work a killed run can lose.
PART_INTERVAL_S = 5.0
# When the parts of a run together exceed this, they become shards before its end.
MAX_PARTS_BYTES = 128 * 2**20
SIZED_SCHEMA = pa.schema(
    [tables.COMPLETIONS_SCHEMA.field(name) for name in ("problem_id", "sample", "text", "tail", "token_ids")]
)


class ImportedFile(BaseModel):
    """What Leash reads of an imported file in a manifest; `leash.importing` writes more. `numbers` are the first sample
    of each problem and the one after its last: `0-50`."""

    file: str
    hash: str
    format: str
    numbers: dict[str, Annotated[str, Field(pattern=r"^\d{1,10}-\d{1,10}$")]]


class Manifest(BaseModel):
    """The content of manifest.json, which can come from strangers."""

    model_config = ConfigDict(strict=True, extra="forbid")

    fingerprint: dict[str, str]
    prompts: dict[str, str]
    engines: list[str]
    sources: list[ImportedFile]


class Origin(BaseModel):
    """What a file of samples states of itself."""

    model_config = ConfigDict(strict=True)

    fingerprint: dict[str, str]
    prompts: dict[str, str]
    imported: bool


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


class RenamedProblemError(LeashError):
    """Samples on disk are of a question that the data set has under another id."""

    def __init__(self, folder: Path, old_id: str, new_id: str, again: str) -> None:
        self.folder, self.old_id, self.new_id = folder, old_id, new_id
        super().__init__(
            f"{folder} holds samples of the problem {old_id}, whose id is {new_id} now. To keep them, name a column "
            f"with the old ids by `datasets.{folder.name}.id`; or replace them with `{again}`."
        )


class ReplacedQuestionError(LeashError):
    """A question that completions were imported for is not in the data set any more, and another one is new in it."""

    def __init__(self, folder: Path, problem_id: str, new_id: str, again: str) -> None:
        self.folder, self.problem_id, self.new_id = folder, problem_id, new_id
        super().__init__(
            f"{folder} holds imported completions of the problem {problem_id}, whose question changed or was replaced: "
            f"{new_id} is new in the data set. Undo that change, or import the completions that fit with `{again}`."
        )


class LostManifestError(LeashError):
    """The manifest is missing or damaged, and neither DVC's cache nor the files of samples tell what it said."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"{path} is missing or damaged, so nothing tells how the samples beside it were drawn. Get it back with "
            f"`dvc checkout {path.parent}`, or start over with `--resample` (for imported samples, `--replace`)."
        )


class LedgerLockedError(LeashError):
    """Another process is writing to the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"Another run is writing to {folder}. Wait until it has ended.")


class Ledger:
    """The samples in a folder. `made_by` is the command that draws them (default: that of completions)."""

    def __init__(self, folder: Path, made_by: str | None = None) -> None:
        self.folder = folder
        self._made_by = made_by or f"leash sample {' '.join(folder.parts[-2:])}"
        self._part_folder = folder / ".parts"
        self._problem_index: dict[str, int] = {}
        self._unflushed: list[Completion] = []
        self._part_written_at = -math.inf  # so that the first samples of a run are written at once
        self._pending_manifest: dict[str, Any] | None = None
        self._origin: dict[str, Any] | None = None  # what new files state
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
        stored = {} if self.empty else self._stored_manifest()
        content: dict[str, Any] = {
            "fingerprint": dict(fingerprint),
            "prompts": {**manifest.get("prompts", {}), **prompts},
            "engines": sorted({*manifest.get("engines", []), *([engine] if engine else [])}),
            "sources": [*manifest.get("sources", []), *map(dict, sources)],
        }
        self._pending_manifest = content if content != stored else None
        self._origin = _origin_of(content)
        if not self.empty:
            self._write_manifest()
        self._problem_index = {problem: index for index, problem in enumerate(prompts)}

    def check(self, fingerprint: Mapping[str, str], prompts: Mapping[str, str], *, again: str) -> dict[str, Any]:
        """Raise if the samples on disk have another fingerprint. Return their manifest, or an empty dictionary if there
        are no samples. It takes no lock."""
        if self.empty:
            return {}
        if (manifest := self._stored_manifest()) is None:
            manifest = self._manifest_of_files()
        present = {"fingerprint": fingerprint, "prompts": prompts}
        self._refuse_other_origin(manifest, present, again)
        self._refuse_other_problems(manifest, prompts, again)
        self._refuse_foreign_files(manifest, again)
        return manifest

    def require_origin(self, prompts: Mapping[str, str], again: str) -> None:
        """Raise if nothing tells how the samples on disk were drawn, if they are not of these problems, if a file was
        drawn otherwise, or if a sample is there twice. This repairs nothing."""
        manifest = self.manifest()
        again = self.replace_command if manifest.get("sources") else again
        self.require_problems(prompts, again)
        self._refuse_foreign_files(manifest, again)
        keys: dict[str, list[SampleNumbers]] = {}
        for file in tables.shards(self.folder):
            _collect_numbers(file, keys)
        self._refuse_repeated(keys)

    def require_problems(self, prompts: Mapping[str, str], again: str) -> None:
        """Raise if the question of a problem changed since its samples were drawn or imported."""
        if manifest := self.manifest():
            self._refuse_other_origin(manifest, {**manifest, "prompts": prompts}, again)
            self._refuse_other_problems(manifest, prompts, again)

    def _refuse_other_problems(self, manifest: Mapping[str, Any], prompts: Mapping[str, str], again: str) -> None:
        """Raise if a problem has another id now, so that its samples would not count, or would all be drawn again.

        The ids of imported completions can come from their questions. There, a question that is gone beside one that is
        new was edited; one that is only gone was removed, and its completions are left out like drawn ones.
        """
        gone = [problem for problem in manifest["prompts"] if problem not in prompts]
        new = {text: problem for problem, text in prompts.items() if problem not in manifest["prompts"]}
        for problem in gone if new else ():
            if (new_id := new.get(manifest["prompts"][problem])) is not None:
                raise RenamedProblemError(self.folder, problem, new_id, again)
        imported = {problem for source in manifest["sources"] for problem in source["numbers"]}
        lost = next((problem for problem in gone if problem in imported), None)
        if lost is not None and new:
            raise ReplacedQuestionError(self.folder, lost, next(iter(new.values())), again)

    def _refuse_other_origin(self, found: Mapping[str, Any], present: Mapping[str, Any], again: str) -> None:
        old, new = found["fingerprint"], present["fingerprint"]
        fields = [field for field in {**old, **new} if old.get(field) != new.get(field)]
        texts = present["prompts"]
        changed = (problem for problem, text in found["prompts"].items() if texts.get(problem, text) != text)
        problem_id = next(changed, None)
        if fields or problem_id is not None:
            raise SamplesMismatchError(self.folder, fields, None if fields else problem_id, again)

    def _refuse_foreign_files(self, manifest: Mapping[str, Any], again: str) -> None:
        """Raise if a file states another origin than the manifest."""
        for file in self._files():
            if (origin := _read_origin(file)) is None:
                continue
            try:
                self._refuse_other_origin(origin, manifest, again)
            except SamplesMismatchError:
                if atomic_io.matches_hash_in_name(file):  # a damaged file is not foreign, and `have` deals with it
                    raise

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
    def replace_command(self) -> str:
        """The command that replaces imported samples."""
        return f"leash import FILE --model {self.folder.parent.name} --dataset {self.folder.name} --replace"

    @property
    def empty(self) -> bool:
        """Whether there are no samples on disk."""
        return not self._files()

    @property
    def size(self) -> int:
        """The bytes of all samples on disk."""
        return sum(file.stat().st_size for file in self._files() if file.exists())

    def manifest(self) -> dict[str, Any]:
        """The content of the manifest, or an empty dictionary if there is none and there are no samples."""
        path = self.folder / MANIFEST_FILENAME
        manifest = self._stored_manifest()
        if manifest is None and (path.exists() or not self.empty):
            raise LostManifestError(path)
        return manifest or {}

    def _stored_manifest(self) -> dict[str, Any] | None:
        """The manifest on disk, or that of DVC's cache if it is damaged or samples have none; None if there is none."""
        path = self.folder / MANIFEST_FILENAME
        manifest = _parse_manifest(path.read_bytes()) if path.exists() else None
        if manifest is not None or (self.empty and not path.exists()):
            return manifest
        restored = _restore_from_cache(path, lambda content: _parse_manifest(content) is not None)
        return _parse_manifest(path.read_bytes()) if restored else None

    def _manifest_of_files(self) -> dict[str, Any]:
        """What the files of samples state of themselves, as their manifest. Not of imported samples: only a manifest
        knows which file each of them is from, without which a second import would count them again."""
        path = self.folder / MANIFEST_FILENAME
        origins = [_read_origin(file) for file in self._files() if atomic_io.matches_hash_in_name(file)]
        known = [origin for origin in origins if origin is not None and not origin["imported"]]
        if not known or len(known) < len(origins):
            raise LostManifestError(path)
        prompts = {problem: text for origin in known for problem, text in origin["prompts"].items()}
        click.echo(f"Note: {path} was lost, and is written again from what the samples beside it state.", err=True)
        fingerprint = known[0]["fingerprint"]  # `check` compares all files with it
        return {"fingerprint": fingerprint, "prompts": prompts, "engines": [UNKNOWN_ENGINE], "sources": []}

    def have(self) -> dict[str, SampleNumbers]:
        """The numbers of the samples on disk, by problem. Damaged files are restored or deleted, unfinished files of
        a killed run are deleted, and a sample that two shards hold is refused: it would count twice."""
        atomic_io.delete_unfinished(self.folder)
        in_shards: dict[str, list[SampleNumbers]] = {}
        in_parts: dict[str, list[SampleNumbers]] = {}
        for file in self._files():
            if not _is_intact_or_restored(file):
                click.echo(f"Note: {file} was damaged, and its samples are drawn again.", err=True)
                file.unlink()
                continue
            _collect_numbers(file, in_shards if file.parent == self.folder else in_parts)
        # A part may hold samples that a shard has, too, until `settle` has ended.
        self._refuse_repeated(in_shards)
        numbers = {problem: in_shards.get(problem, []) + in_parts.get(problem, []) for problem in in_shards | in_parts}
        return {problem: np.unique(np.concatenate(samples)) for problem, samples in numbers.items()}

    def _refuse_repeated(self, in_shards: Mapping[str, Sequence[SampleNumbers]]) -> None:
        for problem, parts in in_shards.items():
            numbers, times = np.unique(np.concatenate(parts), return_counts=True)
            if len(repeated := numbers[times > 1]):
                key = problem, int(repeated[0])
                holders = [file for file in tables.shards(self.folder) if key in _read_sample_keys(file)]
                raise tables.RepeatedSampleError(holders, *key, self._made_by)

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
        seen = self._part_keys_in_shards()
        for shard in tables.shards(self.folder):
            yield from _iterate_rows(shard)
        for part in tables.shards(self._part_folder):
            for row in _iterate_rows(part):
                if (key := (row["problem_id"], row["sample"])) not in seen:
                    seen.add(key)
                    yield row

    def add(self, completions: Iterable[Completion]) -> None:
        """Keep new samples. They are written at once if there are many, else within seconds."""
        self._unflushed += completions
        if len(self._unflushed) >= MAX_UNFLUSHED_SAMPLES or time.monotonic() - self._part_written_at > PART_INTERVAL_S:
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
        content = self._encode(pa.Table.from_pydict(columns, schema))
        atomic_io.write(self._part_path(atomic_io.bytes_hash(content)), content)
        self._unflushed = []

    def _part_path(self, content_hash: str) -> Path:
        """Where the next part goes."""
        parts = tables.shards(self._part_folder)
        number = 1 + max((int(part.name.partition(".")[0]) for part in parts), default=-1)
        return self._part_folder / f"{number:06d}.{content_hash}.parquet"

    def _encode(self, rows: pa.Table) -> bytes:
        """A file of completions with its origin. Without tails it lacks their column, as in versions that had none."""
        origin = self._origin or _origin_of(self.manifest())
        own = set(pc.unique(rows["problem_id"]).to_pylist())
        prompts = {problem: text for problem, text in origin["prompts"].items() if problem in own}
        note = json.dumps({**origin, "prompts": prompts}, sort_keys=True)
        schema = tables.COMPLETIONS_SCHEMA
        if rows["tail"].null_count == rows.num_rows:
            schema = schema.remove(schema.get_field_index("tail"))
        return tables.encode_parquet(rows, schema, {ORIGIN_KEY: note}, ROW_GROUP_ROWS)

    def settle(self) -> None:
        """Turn all parts into shards. If this is killed, the next call completes it."""
        self._settle(lambda key: True)

    def retain(self, wanted: Collection[SampleKey]) -> None:
        """Delete all samples but these, and turn all parts into shards. The shards are the same whatever was on disk
        beside the wanted samples. A kill loses nothing: old shards become parts, which stay until the new shards are
        written. So no two shards hold the same sample at any time. A shard of which all is wanted is not written
        again."""
        self.flush()
        on_disk = [key for file in self._files() for key in _read_sample_keys(file)]
        if not tables.shards(self._part_folder) and len(on_disk) == len(wanted) and set(on_disk) == set(wanted):
            return
        former_shards = set()
        for shard in tables.shards(self.folder):
            self._part_folder.mkdir(exist_ok=True)
            former_shards.add(shard.replace(self._part_path(shard.stem.rpartition(".")[2])))
        self._settle(wanted.__contains__, former_shards)

    def _settle(self, is_wanted: Callable[[SampleKey], bool], former_shards: Collection[Path] = ()) -> None:
        """Turn the wanted samples of all parts into shards, and delete the parts."""
        self.flush()
        parts = tables.shards(self._part_folder)
        if parts:
            # Each sample once, and none that a shard has: an earlier `settle` may have been killed half-way.
            in_shards = self._part_keys_in_shards()
            self._write_shards(parts, lambda key: key not in in_shards and is_wanted(key), former_shards)
            for part in parts:
                part.unlink(missing_ok=True)  # a former shard is one again
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

    def _write_shards(
        self, files: Sequence[Path], is_wanted: Callable[[SampleKey], bool], former_shards: Collection[Path]
    ) -> None:
        """Write the wanted samples of some files as shards, in their order, each once; a former shard with just the
        samples of one becomes it again. There is only one shard in memory at a time, beside a few row groups: all texts
        together can be larger than memory, and than a column of Arrow, which holds 2 GiB."""
        tables.refuse_damaged(files, self._made_by)
        groups = [group for file in files for group in _row_groups(file)]
        place_of: dict[SampleKey, tuple[int, int]] = {}  # row group and row
        bytes_of: dict[SampleKey, int] = {}
        for number, group in enumerate(groups):
            for row, (key, size) in enumerate(_read_sizes(group)):
                if is_wanted(key) and key not in place_of:
                    place_of[key], bytes_of[key] = (number, row), size
        ordered = sorted(place_of, key=lambda key: (self._index_of(key[0]), *key))
        reader = RowReader(groups, tables.COMPLETIONS_SCHEMA, self._made_by)
        for keys in _split_by_size(ordered, bytes_of):
            places = [place_of[key] for key in keys]
            file = groups[places[0][0]][0]
            if file in former_shards and places == _places_of_all(file, groups):
                file.replace(self._shard_path(keys, file.stem.rpartition(".")[2]))
            else:
                numbers, rows = np.array(places, np.int64).T
                self._write_shard(keys, reader.read(numbers, rows))

    def _write_shard(self, keys: Sequence[SampleKey], rows: pa.Table) -> None:
        content = self._encode(rows.combine_chunks())  # the borders of chunks would show in the bytes
        atomic_io.write(self._shard_path(keys, atomic_io.bytes_hash(content)), content)

    def _shard_path(self, keys: Sequence[SampleKey], content_hash: str) -> Path:
        """The place of a shard with these samples."""
        problems = [self._index_of(problem) for problem in {problem for problem, _ in keys}]
        samples = [sample for _, sample in keys]
        covers = f"{min(problems):05d}-{max(problems) + 1:05d}.{min(samples):05d}-{max(samples) + 1:05d}"
        return self.folder / f"{covers}.{content_hash}.parquet"

    def _write_manifest(self) -> None:
        if self._pending_manifest is not None:
            content = json_checksum.with_checksum(self._pending_manifest, CHECKSUM_KEY)
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


def _is_intact_or_restored(file: Path) -> bool:
    return atomic_io.matches_hash_in_name(file) or _restore_from_cache(
        file, lambda content: file.stem.endswith(atomic_io.bytes_hash(content))
    )


def _restore_from_cache(file: Path, is_intact: Callable[[bytes], bool]) -> bool:
    """Replace a damaged file by DVC's copy. Return whether there was an intact one."""
    content = dvc_samples.read_cached_file(file)
    if content is None or not is_intact(content):
        return False
    fault = "damaged" if file.exists() else "missing"
    atomic_io.write(file, content)
    click.echo(f"Note: {file} was {fault} and is restored from DVC's cache.", err=True)
    return True


def _parse_manifest(content: bytes) -> dict[str, Any] | None:
    """The manifest without its checksum, or None if it is damaged. Old manifests have no checksum."""
    try:
        manifest, valid = json_checksum.check(content, CHECKSUM_KEY)
        Manifest.model_validate(manifest)  # its complaints are ValueErrors
    except ValueError:
        return None
    return manifest if valid is not False else None


def _origin_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a file states of samples with this manifest."""
    imported = bool(manifest["sources"])
    return {"fingerprint": manifest["fingerprint"], "prompts": manifest["prompts"], "imported": imported}


def _read_origin(file: Path) -> dict[str, Any] | None:
    """What a file of samples states of itself; None if it states nothing (an earlier version wrote it), or cannot be
    read."""
    try:
        found = (pq.read_schema(file).metadata or {}).get(ORIGIN_KEY.encode())
        return None if found is None else Origin.model_validate_json(found).model_dump()
    except (OSError, pa.ArrowException, ValueError):
        return None


def _collect_numbers(file: Path, numbers: dict[str, list[SampleNumbers]]) -> None:
    """Add the numbers of the samples in a file to those of their problems."""
    rows = pq.read_table(file, columns=["problem_id", "sample"])
    grouped = rows.group_by("problem_id").aggregate([("sample", "list")]).to_pydict()
    for problem, samples in zip(grouped["problem_id"], grouped["sample_list"], strict=True):
        numbers.setdefault(problem, []).append(np.array(samples, np.int32))


def _read_sample_keys(file: Path) -> Iterator[SampleKey]:
    rows = pq.read_table(file, columns=["problem_id", "sample"])
    return zip(rows["problem_id"].to_pylist(), rows["sample"].to_pylist(), strict=True)


def _iterate_rows(file: Path) -> Iterator[dict[str, Any]]:
    """All samples of a file, of which only some are in memory at a time."""
    for batch in pq.ParquetFile(file).iter_batches(ROW_GROUP_ROWS):
        yield from batch.to_pylist()


def _row_groups(file: Path) -> list[RowGroup]:
    return [(file, group) for group in range(pq.read_metadata(file).num_row_groups)]


def _read_sizes(group: RowGroup) -> Iterator[tuple[SampleKey, int]]:
    """The samples of a row group, and how many bytes they have."""
    rows = tables.read_row_group(*group, SIZED_SCHEMA, made_by="leash sample")
    sizes = pc.add(pc.binary_length(rows["text"]), ROW_BYTES)
    sizes = pc.add(sizes, pc.binary_length(rows["tail"]).fill_null(0))
    sizes = pc.add(sizes, pc.multiply(pc.list_value_length(rows["token_ids"]).fill_null(0), 4))
    keys = zip(rows["problem_id"].to_pylist(), rows["sample"].to_pylist(), strict=True)
    return zip(keys, sizes.to_pylist(), strict=True)


def _split_by_size(keys: Sequence[SampleKey], bytes_of: Mapping[SampleKey, int]) -> Iterator[Sequence[SampleKey]]:
    """The samples of one shard after the other."""
    begin = size = 0
    for end, key in enumerate(keys):
        size += bytes_of[key]
        if size > MAX_SHARD_BYTES and end > begin:
            yield keys[begin:end]
            begin, size = end, bytes_of[key]
    if keys:
        yield keys[begin:]


def _places_of_all(file: Path, groups: Sequence[RowGroup]) -> list[tuple[int, int]]:
    """All rows of a file, in their order."""
    metadata = pq.read_metadata(file)
    own = ((number, group) for number, (path, group) in enumerate(groups) if path == file)
    return [(number, row) for number, group in own for row in range(metadata.row_group(group).num_rows)]


def read_manifest(model: str, dataset: str) -> dict[str, Any]:
    """The manifest of a model's samples on a data set, for what is said of them; empty if it is lost. Who counts or
    draws samples calls `require_origin` or `check`."""
    return Ledger(tables.completions_folder(model, dataset))._stored_manifest() or {}

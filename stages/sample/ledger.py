"""The ledger of samples: a folder that only ever grows, and knows what it holds.

    data/completions/base/chain/
        manifest.json                                what makes these samples what they are
        00000-00008.0000-1024.5f1c….parquet          problems 0-7, samples 0-1023, and the file's own hash

A shard is written whole or not at all and carries its hash in its name, so that a damaged one is noticed and
its samples are drawn again. What makes old shards unusable (another model, prompt, decoding or problem text)
is the manifest's fingerprint: on a mismatch the ledger names the field and stops.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stages import disk, tables
from stages.errors import LeashError

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Unit:
    """What is sampled and written as one: a slice of the problems times a range of samples."""

    first: int
    problem_ids: tuple[str, ...]
    samples: range

    @property
    def name(self) -> str:
        last = self.first + len(self.problem_ids)
        return f"{self.first:05d}-{last:05d}.{self.samples.start:05d}-{self.samples.stop:05d}"


@dataclass(frozen=True)
class Ledger:
    folder: Path

    def open(self, fingerprint: Mapping[str, str], prompts: Mapping[str, str], *, again: str) -> None:
        """Start the manifest, or check that it is of the same kind and add the problems it does not know.

        `prompts` gives a hash of what each problem asks; `again` is the command that resamples.
        """
        manifest = self._manifest()
        if manifest:
            changed = [f for f in fingerprint if manifest["fingerprint"].get(f) != fingerprint[f]]
            texts = [p for p in prompts if manifest["prompts"].get(p, prompts[p]) != prompts[p]]
            if changed or texts:
                what = ", ".join(changed) or f"the prompt of problem {texts[0]}"
                raise LeashError(
                    f"{self.folder} holds samples made with another {what}; keep them by undoing that change, "
                    f"or replace them with `{again}`."
                )
        known = {**manifest.get("prompts", {}), **prompts}
        if known != manifest.get("prompts"):
            content = {"fingerprint": dict(fingerprint), "prompts": known}
            disk.write(self.folder / MANIFEST, json.dumps(content, indent=1, sort_keys=True) + "\n")

    def clear(self) -> None:
        """Throw every sample away; the manifest goes last, so that a half-cleared ledger is still checked."""
        for shard in tables.shards(self.folder):
            shard.unlink()
        (self.folder / MANIFEST).unlink(missing_ok=True)

    def have(self) -> set[tuple[str, int]]:
        """Which (problem, sample) are on disk, in shards whose hash is right. Others are deleted, and so is what a
        killed run left unfinished."""
        for unfinished in self.folder.glob(".*.parquet"):
            unfinished.unlink()
        held: set[tuple[str, int]] = set()
        for shard in tables.shards(self.folder):
            if not intact(shard):
                shard.unlink()
                continue
            rows = pq.read_table(shard, columns=["problem_id", "sample"])
            held.update(zip(rows["problem_id"].to_pylist(), rows["sample"].to_pylist(), strict=True))
        return held

    def add(self, unit: Unit, completions: pa.Table) -> None:
        content = tables.encoded(completions, tables.COMPLETIONS)
        disk.write(self.folder / f"{unit.name}.{disk.bytes_hash(content)}.parquet", content)

    def _manifest(self) -> dict[str, dict[str, str]]:
        try:
            manifest: dict[str, dict[str, str]] = json.loads((self.folder / MANIFEST).read_text())
        except FileNotFoundError:
            return {}
        except ValueError:
            raise LeashError(f"{self.folder / MANIFEST} is damaged; restore it with `dvc checkout`.") from None
        return manifest


def intact(shard: Path) -> bool:
    return shard.stem.rpartition(".")[2] == disk.file_hash(shard)


def missing(problem_ids: Sequence[str], k: int, have: set[tuple[str, int]], rows: int) -> Iterator[Unit]:
    """Units of about `rows` samples that together are all that is wanted and not there.

    Neighbouring problems that lack the same samples share a unit, as when k was raised for all of them.
    """
    for first, together, samples in _lacking_alike(problem_ids, k, have):
        for part in _pieces(samples, rows):
            size = max(1, rows // len(part))
            for begin in range(0, len(together), size):
                yield Unit(first + begin, tuple(together[begin : begin + size]), part)


def _lacking_alike(
    problem_ids: Sequence[str], k: int, have: set[tuple[str, int]]
) -> Iterator[tuple[int, list[str], range]]:
    """Runs of neighbouring problems and a range of samples that each of them lacks."""
    runs: dict[range, list[tuple[int, list[str]]]] = {}
    for place, problem in enumerate(problem_ids):
        for gap in _gaps(s for s in range(k) if (problem, s) not in have):
            mine = runs.setdefault(gap, [])
            if mine and mine[-1][0] + len(mine[-1][1]) == place:
                mine[-1][1].append(problem)
            else:
                mine.append((place, [problem]))
    for gap, found in runs.items():
        for first, together in found:
            yield first, together, gap


def _gaps(samples: Iterable[int]) -> list[range]:
    """Consecutive numbers as ranges."""
    gaps: list[range] = []
    for sample in samples:
        if gaps and gaps[-1].stop == sample:
            gaps[-1] = range(gaps[-1].start, sample + 1)
        else:
            gaps.append(range(sample, sample + 1))
    return gaps


def _pieces(samples: range, size: int) -> Iterator[range]:
    for begin in range(samples.start, samples.stop, size):
        yield range(begin, min(begin + size, samples.stop))

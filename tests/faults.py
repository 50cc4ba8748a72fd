"""Faults done for real to `dvc repro` in a repo of its own: killed, starved of disk, damaged, doubled.

    repo = Disturbed(folder)
    repo.kill(signal.SIGKILL, stages=2, moment=0.7)    # 0.7 s into the second stage that it starts
    damage(file, "flip")
    repo.reproduced()                                  # must end well

`made` is what a run is compared by: a hash of every file that the stages made. `samples` is what must never become less.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from stages import disk, tables

REPRO = ["dvc", "repro"]
NAMESPACE = ["unshare", "--map-root-user", "--mount"]
STARTS = "Running stage '"


@dataclass(frozen=True)
class Ended:
    """How a command ended, and all that was said."""

    code: int
    said: str

    @property
    def last(self) -> str:
        """The sentence that it ended with: that of Leash, or DVC's."""
        lines = [line.strip() for line in self.said.splitlines() if line.startswith(("leash: ", "ERROR: "))]
        return lines[0] if lines else ""

    @property
    def stage(self) -> str:
        """The stage that was started last."""
        return self.said.rpartition(STARTS)[2].partition("'")[0] if STARTS in self.said else "no stage yet"


class Disturbed:
    """A repo in which something happens to `dvc repro`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self) -> subprocess.Popen[str]:
        """In a session of its own, so that all its processes can be met by a signal."""
        return subprocess.Popen(
            REPRO, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def reproduced(self) -> Ended:
        done = subprocess.run(REPRO, cwd=self.folder, capture_output=True, text=True, check=False)
        return Ended(done.returncode, done.stdout + done.stderr)

    def signalled(self, number: signal.Signals, stages: int, moment: float, *, alone: bool = False) -> Ended:
        """Send a signal to all processes of a run (or to DVC alone), so many seconds into the n-th stage that it
        starts, or after its start; it may have ended by then."""
        process = self.start()
        said = heard(process, stages)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=moment)
        with contextlib.suppress(ProcessLookupError):
            (os.kill if alone else os.killpg)(process.pid, number)
        said += process.communicate()[0]  # which returns when the last of its processes is gone
        return Ended(process.returncode, said)

    def within(self, *steps: str) -> list[Ended]:
        """Run shell commands one after the other in one mount namespace, whatever becomes of each: a disk that is
        mounted there is nobody else's and goes with it."""
        log = self.folder.with_name(f"{self.folder.name}-said")
        log.mkdir()
        script = "\n".join(f"({step}) > {log}/{i} 2>&1; echo $? > {log}/{i}.code" for i, step in enumerate(steps))
        subprocess.run([*NAMESPACE, "sh", "-c", script], cwd=self.folder, check=True)
        return [
            Ended(int((log / f"{i}.code").read_text()), (log / str(i)).read_text(errors="replace"))
            for i in range(len(steps))
        ]

    def on_small_disk(self, place: str, size: str) -> tuple[Ended, Ended]:
        """Run with a disk of this size at a folder, free it, and run again; the folder then has what was written."""
        saved, inside = self.folder.with_name(f"{self.folder.name}-saved"), shlex.quote(place)
        (self.folder / place).mkdir(parents=True, exist_ok=True)
        *_, full, _, freed, _ = self.within(
            f"cp -a {inside} {saved}; mount -t tmpfs -o size={size} tmpfs {inside}; cp -a {saved}/. {inside}",
            "dvc repro",
            f"mount -o remount,size=1g {inside}",
            "dvc repro",
            f"rm -rf {saved}; cp -a {inside} {saved}",
        )
        self._put_back(place, saved)
        return full, freed

    def on_read_only_disk(self, place: str) -> tuple[Ended, Ended]:
        """Run with a folder that can't be written, make it writable, and run again."""
        inside = shlex.quote(place)
        (self.folder / place).mkdir(parents=True, exist_ok=True)
        _, refused, _, allowed = self.within(
            f"mount --bind {inside} {inside}; mount -o remount,ro,bind {inside}",
            "dvc repro",
            f"mount -o remount,rw,bind {inside}",
            "dvc repro",
        )
        return refused, allowed

    def _put_back(self, place: str, saved: Path) -> None:
        subprocess.run(["rm", "-rf", place], cwd=self.folder, check=True)
        saved.rename(self.folder / place)

    def made(self) -> dict[str, str]:
        """A hash of every file that the stages made, DVC's own among them left out, and what a kill left behind."""
        files = (file for name in ("data", "reports") for file in (self.folder / name).rglob("*"))
        return {
            str(file.relative_to(self.folder)): hashlib.md5(file.read_bytes()).hexdigest()
            for file in files
            if file.is_file() and file.name != ".gitignore" and not file.name.startswith(disk.UNFINISHED)
        }

    def samples(self) -> set[tuple[str, str, int]]:
        """Every sample in a file that is whole: its folder, problem and number."""
        shards = (file for file in (self.folder / tables.DATA / "completions").rglob("*.parquet") if disk.intact(file))
        return {
            (str(file.relative_to(self.folder).parent).removesuffix("/.parts"), row["problem_id"], row["sample"])
            for file in shards
            for row in pq.read_table(file, columns=["problem_id", "sample"]).to_pylist()
        }


def heard(process: subprocess.Popen[str], stages: int) -> str:
    """What a run says until it has started so many stages, or ended."""
    assert process.stdout
    said = ""
    while said.count(STARTS) < stages and (line := process.stdout.readline()):
        said += line
    return said


def damage(file: Path, how: str) -> None:
    """Damage a file as disks do, whatever its permissions: a bit of it flips, its end is lost, or all of it."""
    mode, content = file.stat().st_mode, bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    damaged: Mapping[str, bytes] = {"flip": content, "truncate": content[: len(content) * 2 // 3], "empty": b""}
    file.chmod(0o600)
    file.write_bytes(damaged[how])
    file.chmod(mode)


def can_mount() -> bool:
    """Whether this machine lets a test have disks of its own."""
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0

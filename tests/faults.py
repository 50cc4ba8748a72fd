"""Faults done for real to `dvc repro` in a repo of its own: killed, starved of disk, damaged, doubled.

    repo = Disturbed(folder, os.environ)
    repo.kill(signal.SIGKILL, stages=2, moment=0.7)    # 0.7 s into the second stage that it starts
    damage(file, "flip")
    repo.reproduced()                                  # must end well

`made` is what a run is compared by: a hash of every file that the stages made. `samples` must never become fewer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from ruamel.yaml.error import YAMLError

from leash import atomic_io, tables
from tests.conftest import ROOT, yaml

REPRO = ["dvc", "repro"]
NAMESPACE = ["unshare", "--map-root-user", "--mount"]
STARTS = "Running stage '"


@dataclass(frozen=True)
class Ended:
    """How a command ended, and all that was said."""

    code: int
    said: str

    @property
    def sentence(self) -> str:
        """The sentence that it ended with: that of Leash, or DVC's; none where it ended well or was killed."""
        lines = [line.strip() for line in self.said.splitlines()]
        said = (line for line in lines if line.startswith(("leash: ", "ERROR: ")) or line.endswith("is invalid."))
        return next(said, "")

    @property
    def stage(self) -> str:
        """The stage that was started last."""
        return self.said.rpartition(STARTS)[2].partition("'")[0] if STARTS in self.said else "no stage yet"


@dataclass(frozen=True)
class Disk:
    """A folder on a disk that is too small, or, where no size is given, read-only."""

    place: str
    size: str | None = None

    @property
    def spoil(self) -> str:
        if self.size:
            return f"mkdir -p {self.place} && mount -t tmpfs -o size={self.size} tmpfs {self.place}"
        bound = f"mkdir -p {self.place} && mount --bind {self.place} {self.place}"
        return f"{bound} && mount -o remount,ro,bind {self.place}"

    @property
    def mend(self) -> str:
        return f"mount -o remount,size=1g {self.place}" if self.size else f"umount {self.place}"


class Disturbed:
    """A repo in which something happens to `dvc repro`. Where nothing does, commands have the `environment`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.environment = folder, environment

    def start(self) -> subprocess.Popen[str]:
        """In a session of its own, so that all its processes can be met by a signal."""
        self.mended()
        return subprocess.Popen(
            REPRO, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def run(self, *command: str) -> Ended:
        done = subprocess.run(
            command or REPRO, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        return Ended(done.returncode, done.stdout + done.stderr)

    def signalled(self, number: signal.Signals, stages: int, moment: float, *, alone: bool = False) -> Ended:
        """Start a run and send a signal to all its processes (or to DVC alone), `moment` seconds after it has started
        its `stages`-th stage (0: after its own start). The run may have ended by then."""
        process = self.start()
        said = heard(process, stages)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=moment)
        with contextlib.suppress(ProcessLookupError):
            (os.kill if alone else os.killpg)(process.pid, number)
        said += process.communicate()[0]  # which returns when the last of its processes is gone
        return Ended(process.returncode, said)

    def without_a_worker(self) -> Ended:
        """Kill a worker process of the first stage that has one, as a machine does that is out of memory."""
        process = self.start()
        while process.poll() is None and not (found := workers(process.pid)):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.02)
        os.kill(found[0], signal.SIGKILL)
        said = process.communicate()[0]
        return Ended(process.returncode, said)

    def mended(self) -> str:
        """DVC writes two files in place, so that a kill may leave half of them. Do what docs/troubleshooting.md says,
        and tell what it was."""
        rwlock, lock = self.folder / ".dvc" / "tmp" / "rwlock", self.folder / "dvc.lock"
        if rwlock.exists() and not is_json(rwlock.read_text()):
            rwlock.unlink()
            return "; DVC's rwlock was cut short, and removed"
        if not is_whole_lock(lock.read_text(), (ROOT / "dvc.lock").read_text()):
            shutil.copy(ROOT / "dvc.lock", lock)  # as `git checkout` does
            return "; dvc.lock was cut short, and taken from git"
        return ""

    def on_bad_disks(self, disks: Sequence[Disk]) -> list[Ended]:
        """Run on each bad disk, which is mended before the next goes bad, and at last on good ones. They are in a mount
        namespace, nobody else's: what is on them is copied out in the end."""
        log = self.folder.with_name(f"{self.folder.name}-said")
        log.mkdir()
        runs = [f"dvc repro > {log}/{i} 2>&1; echo $? > {log}/{i}.code" for i in range(len(disks) + 1)]
        met = [step for run, bad in zip(runs, disks, strict=False) for step in (bad.spoil, run, bad.mend)]
        small = [bad.place for bad in disks if bad.size]
        out = [f"mkdir -p {log}/out/{place} && cp -a {place}/. {log}/out/{place}" for place in small]
        subprocess.run([*NAMESPACE, "sh", "-c", "\n".join([*met, runs[-1], *out])], cwd=self.folder, check=True)
        shutil.copytree(log / "out", self.folder, dirs_exist_ok=True, symlinks=True)
        return [Ended(int(Path(f"{log}/{i}.code").read_text()), (log / str(i)).read_text()) for i in range(len(runs))]

    def object(self, file: str) -> Path:
        """What DVC's cache has of a file that a stage made."""
        md5 = hashlib.md5((self.folder / file).read_bytes()).hexdigest()
        return self.folder / ".dvc" / "cache" / "files" / "md5" / md5[:2] / md5[2:]

    def made(self) -> dict[str, str]:
        """A hash of every file that the stages made, DVC's own among them left out, and what a kill left behind."""
        files = (file for name in ("data", "reports") for file in (self.folder / name).rglob("*"))
        return {
            str(file.relative_to(self.folder)): hashlib.md5(file.read_bytes()).hexdigest()
            for file in files
            if file.is_file() and file.name != ".gitignore" and not file.name.startswith(atomic_io.UNFINISHED_PREFIX)
        }

    def samples(self) -> set[tuple[str, str, int]]:
        """Every sample in a file that is whole: its folder, problem and number."""
        shards = (
            file
            for file in (self.folder / tables.DATA_DIR / "completions").rglob("*.parquet")
            if atomic_io.matches_hash_in_name(file)
        )
        return {
            (str(file.relative_to(self.folder).parent).removesuffix("/.parts"), row["problem_id"], row["sample"])
            for file in shards
            for row in pq.read_table(file, columns=["problem_id", "sample"]).to_pylist()
        }


def heard(process: subprocess.Popen[str], stages: int) -> str:
    """The output of a run until it has started this many stages, or ended."""
    assert process.stdout
    said = ""
    while said.count(STARTS) < stages and (line := process.stdout.readline()):
        said += line
    return said


def is_json(text: str) -> bool:
    with contextlib.suppress(ValueError):
        json.loads(text)
        return True
    return False


def is_whole_lock(text: str, before: str) -> bool:
    """Whether a lock has all stages that it had before, and what each of them read and made."""
    try:
        stages = yaml.load(text)["stages"]
        entries = [entry for stage in stages.values() for entry in (*stage.get("deps", ()), *stage["outs"])]
    except (YAMLError, KeyError, TypeError, AttributeError):
        return False
    return set(yaml.load(before)["stages"]) <= set(stages) and all(None not in entry.values() for entry in entries)


def workers(group: int) -> list[int]:
    """The processes of a group that were forked to work: both they and their parent are of the server that forks."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended since
            _, parent, its_group, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(its_group) == group and b"multiprocessing.forkserver" in (folder / "cmdline").read_bytes():
                parents[int(folder.name)] = int(parent)
    return [pid for pid, parent in parents.items() if parent in parents]


def damage(file: Path, how: str) -> None:
    """Damage a file as disks do, whatever its permissions: a bit of it flips, its end is lost, or all of it."""
    mode, content = file.stat().st_mode, bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    damaged: Mapping[str, bytes | bytearray] = {
        "flip": content,
        "truncate": content[: len(content) * 2 // 3],
        "empty": b"",
    }
    file.chmod(0o600)
    file.write_bytes(damaged[how])
    file.chmod(mode)


def can_mount() -> bool:
    """Whether this machine lets a test have disks of its own."""
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0

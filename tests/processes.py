"""Processes of a command under test: who descends from it, and whether all of them end."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def descendants(pid: int) -> dict[int, str]:
    """The processes that descend from one, by their id, with their command lines. Linux only."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()  # after the name, which may have spaces in it
        except OSError:  # it has ended
            continue
        if fields[0] != "Z":
            parents[int(stat.parent.name)] = int(fields[1])
    found, more = dict[int, str](), {pid}
    while more := {child for child, parent in parents.items() if parent in more}:
        found |= {child: _command(child) for child in more}
    return found


@contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed if the test that uses it fails."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


class Watched:
    """Handles on processes, taken while these live: a handle stays with its process when the number is used again."""

    def __init__(self, processes: dict[int, str]) -> None:
        self._handles: dict[int, str] = {}
        for pid, command in processes.items():
            try:
                self._handles[os.pidfd_open(pid)] = f"{pid} {command}"
            except ProcessLookupError:
                continue

    def survivors(self, within_s: float) -> list[str]:
        """The processes that still run after `within_s` seconds; returns as soon as all have ended."""
        deadline = time.monotonic() + within_s
        left = dict(self._handles)
        while left and (seconds := deadline - time.monotonic()) > 0:
            for handle in select.select(list(left), [], [], seconds)[0]:
                del left[handle]
        for handle in self._handles:
            os.close(handle)
        return list(left.values())

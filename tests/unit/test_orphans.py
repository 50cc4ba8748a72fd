"""When Leash is killed with SIGKILL, none of its processes survives: neither workers nor what they started."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import Literal

import pytest

from leash import tables
from leash.grading.worker_pool import Pool
from leash.params.groups import Params
from stages.fetch import stage
from tests.conftest import ROOT, small, write_params
from tests.processes import Watched, descendants, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

GRACE_S = 60  # far more than needed: a loaded machine must not fail the test


class SleepingJob:
    """Starts a program and waits for it, as the grader `code` does."""

    def run(self, item: int, /) -> int:
        print("grading", file=sys.stderr, flush=True)
        return subprocess.run(["sleep", "600"], check=False).returncode

    def failure_result(self, item: int, status: Literal["timeout", "error"], /) -> int:
        return -1

    def time_limit(self, item: int, timeout: float, /) -> float:
        return timeout

    def weight(self, item: int, /) -> int:
        return 1


def grade_until_killed() -> None:
    with Pool(SleepingJob(), workers=1, timeout=600, memory=4096) as pool:
        list(pool.results(range(2)))


def survivors_of_a_kill(process: subprocess.Popen[str]) -> list[str]:
    """Kill one process, not its group, and return those of its descendants that do not end."""
    started = descendants(process.pid)
    assert started
    watched = Watched(started)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return watched.survivors(GRACE_S)


def test_graders_and_what_they_run_end_with_the_command() -> None:
    script = "from tests.unit.test_orphans import grade_until_killed; grade_until_killed()"
    command = [sys.executable, "-c", script]
    with running(subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)) as process:
        assert process.stderr
        assert process.stderr.readline() == "grading\n"
        assert survivors_of_a_kill(process) == []


def test_samplers_end_with_the_command(project: Params) -> None:
    stage.run(project, "chain")
    write_params(tables.DATA_DIR.parent, small(sample={"k": 1_000_000, "batch": 64}))
    parts = tables.completions_folder("base", "chain") / ".parts"
    command = [sys.executable, "-m", "stages.cli", "sample", "base", "chain"]
    with running(subprocess.Popen(command, text=True)) as process:
        # Its workers are certainly at work once the first completions are on disk.
        while process.poll() is None and not tables.shards(parts):
            try:
                process.wait(timeout=0.05)
            except subprocess.TimeoutExpired:
                continue
        assert survivors_of_a_kill(process) == []

"""`make test` fails, and does not hang, if one of its processes crashes."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT

CRASH = "import os, signal\ndef test_crash(): os.kill(os.getpid(), signal.SIGILL)\n"
FINE = "def test_fine(): pass\n"
HANG_S = 120  # a run of these files takes seconds


def test_a_crashed_test_worker_ends_the_run_with_a_failure(tmp_path: Path) -> None:
    """With these files pytest-xdist 3.8 waits forever if it replaces crashed workers."""
    [line] = re.findall(r"^\tpytest (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = vllm: none here\n")
    for number, content in enumerate([CRASH, FINE, CRASH, FINE]):
        (tmp_path / f"test_{number}.py").write_text(content)
    command = [sys.executable, "-m", "pytest", *shlex.split(line)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 1
    assert "crashed while running 'test_0.py::test_crash'" in done.stdout

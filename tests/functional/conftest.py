"""What the functional tests share: a repo to copy, and commands that must succeed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT


def shell(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's pipeline, code and weights, as git has them, in a repo of its own. Tests work in copies of it."""
    folder = tmp_path_factory.mktemp("prepared")
    files = shell(
        "git", "ls-files", "dvc.yaml", "dvc.lock", "stages", "models", "traces", ".dvc", ".dvcignore", cwd=ROOT
    )
    for name in files.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shell("git", "init", "--quiet", cwd=folder)
    shutil.copy(ROOT / "params.yaml", folder)
    # The weights in git are those of the recipe in git: a clone skips training. If this fails, the recipe was edited:
    # run `dvc repro train`, or `dvc commit train` where the edit can't change a weight.
    assert "up to date" in shell("dvc", "status", "train", cwd=folder)
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The faults that were injected, whichever worker did it, with what came of each."""
    reports = [r for some in terminalreporter.stats.values() for r in some if getattr(r, "when", None) == "call"]
    told = [text for report in reports for name, text in report.user_properties if name == "fault"]
    if told:
        terminalreporter.section(f"{len(told)} faults injected")
        for number, text in enumerate(told, 1):
            terminalreporter.write_line(f"{number:3}. {text}")

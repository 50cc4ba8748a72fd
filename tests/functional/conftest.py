"""What the functional tests share: repos to copy, before and after a run, and commands that must succeed."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, small, write_params
from tests.functional.forked_commands import Server

# The longest files. The second needs no finished run, so that its worker does not wait while the first makes one.
FIRST = ("test_faults.py", "test_sampling.py", "test_state_machine.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files are begun first, so that no worker waits for another in the end."""
    place = {name: number for number, name in enumerate(FIRST)}
    items.sort(key=lambda item: place.get(item.path.name, len(FIRST)))


_servers: list[Server] = []


@pytest.fixture(scope="session", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        _servers.append(server)
        yield server
    _servers.clear()


def run(*command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. `leash` and `dvc` start at once (`forked_commands`), in it as well, where there is a
    server: tests of vLLM have none."""
    environment = {**(_servers[0].environment if _servers else os.environ), **variables}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def shell(*command: str, cwd: Path) -> str:
    """The output of a command that must succeed."""
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refused(*command: str, cwd: Path) -> str:
    """The error output of a command that must fail."""
    done = run(*command, cwd=cwd)
    assert done.returncode != 0, done.stdout
    return done.stderr


def ran(output: str) -> list[str]:
    """The stages that `dvc repro` ran, without the data set or model they ran for, and without `resolve`, which every
    edit of params.yaml runs first."""
    return [stage for stage in dict.fromkeys(re.findall(r"Running stage '([^'@]+)", output)) if stage != "resolve"]


def asked(**changes: dict[str, Any]) -> dict[str, Any]:
    """Small parameters on one data set, which is half of the stages, with all units, few resamples and rollouts, and
    the traces of nobody, which is what the folder in git holds."""
    categorize = {"units": ["problem", "answer", "completion"], "bootstrap": 100} | changes.pop("categorize", {})
    run = {"datasets": ["make"]} | changes.pop("run", {})
    reach = {"rollouts": 32} | changes.pop("reach", {})
    raw = small(categorize=categorize, perplexity={"traces": "traces"}, reach=reach, **changes)
    raw["run"] |= run
    return raw


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's pipeline, code and weights, as git has them, in a repo of its own. Tests work in copies of it."""
    folder = tmp_path_factory.mktemp("prepared")
    parts = ("dvc.yaml", "dvc.lock", "leash", "stages", "models", "traces", ".dvc", ".dvcignore", ".gitignore")
    files = shell("git", "ls-files", *parts, cwd=ROOT)
    for name in files.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shell("git", "init", "--quiet", cwd=folder)
    shutil.copy(ROOT / "params.yaml", folder)
    shell("leash", "resolve", cwd=folder)
    # The weights in git are those of the recipe in git: a clone skips training. If this fails, the recipe was edited:
    # run `dvc repro train`, or `dvc commit train` where the edit can't change a weight.
    assert "up to date" in shell("dvc", "status", "train", cwd=folder)
    return folder


@pytest.fixture(scope="session")
def finished(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prepared repo after a run of all stages, made once for all workers: the first to want it makes it, and the
    others wait. Tests work in copies of it; the log beside it is what `dvc repro` said."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, said = shared / "finished", shared / "finished.log"
    with (shared / "finished.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(prepared, folder, symlinks=True)
            write_params(folder, asked())
            said.write_text(shell("dvc", "repro", cwd=folder))
    return folder

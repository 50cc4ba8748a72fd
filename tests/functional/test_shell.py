"""Names of params.yaml and the shell that DVC starts: no name is run as code, whatever stage runs first.

A stranger's repository can bring every file that a stage depends on, so `resolve` need not run before the others.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import small, yaml
from tests.functional.conftest import run, shell

# Each would create a file `pwned` if a shell read it as code: alone, in single quotes, or in double quotes.
NAMES = [
    "chain; touch pwned",
    "$(touch pwned)",
    "a'; touch pwned; '",
    'a"; touch pwned; "',
    "\\'; touch pwned #",
]
REFUSED = "can't have the name"


def write_hostile(repo: Path) -> None:
    """params.yaml with these names of data sets, and every file that DVC looks for before it runs their stages."""
    raw = small()
    raw["run"] |= {"models": NAMES, "datasets": NAMES}
    raw["models"] |= dict.fromkeys(NAMES, raw["models"]["base"])
    raw["datasets"] |= {name: {"family": "chain", "levels": [5]} for name in NAMES}
    with (repo / "params.yaml").open("w") as file:
        yaml.dump(raw, file)
    for name in NAMES:
        params = [f"data/params/{kind}/{name}.json" for kind in ("datasets", "models")]
        for path in (*params, f"data/problems/{name}.parquet"):
            (repo / path).parent.mkdir(parents=True, exist_ok=True)
            (repo / path).write_text("{}")
        for folder in ("inputs/datasets", "inputs/graders", "inputs/models", "completions"):
            (repo / "data" / folder / name).mkdir(parents=True, exist_ok=True)


@pytest.fixture
def repo(prepared: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(prepared, tmp_path / "repo", symlinks=True))
    write_hostile(folder)
    return folder


def run_dvc(repo: Path, *arguments: str) -> str:
    done = run("dvc", *arguments, cwd=repo)
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_a_name_that_is_shell_code_is_not_run_by_its_stage_alone(repo: Path) -> None:
    stages = ("fetch", "sample", "verify")
    output = run_dvc(repo, "repro", "--single-item", "--keep-going", *stages)
    for stage in stages:
        assert output.count(f"Running stage '{stage}@") == len(NAMES)  # its command was reached
    assert output.count(REFUSED) == len(NAMES) * len(stages)
    assert not list(repo.rglob("pwned"))


def test_nor_by_a_run_or_an_experiment(repo: Path) -> None:
    assert REFUSED in run_dvc(repo, "repro")
    shell("git", "add", ".", cwd=repo)
    shell("git", "-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "commit", "-qm", "x", cwd=repo)
    options = ("--single-item", f"fetch@{NAMES[0]}", "-S", "categorize.epsilon=0.1")
    assert REFUSED in run_dvc(repo, "exp", "run", *options)
    assert not list(repo.rglob("pwned"))

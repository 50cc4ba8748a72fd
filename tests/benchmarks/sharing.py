"""Counting again at another epsilon in a clone that has the verdicts alone, against the full run of the embedded pair.

    python tests/benchmarks/sharing.py [K]    # K: fewer samples than params.yaml says, for the impatient

A clone of the last commit runs everything and pushes the verdicts level to a directory. Another clone pulls it, changes
epsilon and runs `dvc repro --allow-missing`. Both are timed from the command to its end, DVC's own time included.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from result import tell
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent.parent
GOAL = 0.1
yaml = YAML(typ="safe", pure=True)


def run(*command: str, cwd: Path) -> float:
    """The seconds that a command takes."""
    begun = time.perf_counter()
    subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def change(repo: Path, group: str, name: str, value: float) -> None:
    params = yaml.load((repo / "params.yaml").read_text())
    params[group][name] = value
    with (repo / "params.yaml").open("w") as file:
        yaml.dump(params, file)


def full_run(repo: Path, remote: Path) -> float:
    """Make a clone with a whole run in it, whose verdicts are on the remote and whose lock is in git."""
    run("git", "clone", "--quiet", str(ROOT), str(repo), cwd=ROOT)
    if len(sys.argv) > 1:
        change(repo, "sample", "k", int(sys.argv[1]))
    seconds = run("dvc", "repro", cwd=repo)
    run("dvc", "remote", "add", "--quiet", "--default", "store", str(remote), cwd=repo)
    run("leash", "push", "verdicts", cwd=repo)
    who = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@example.org")
    run("git", *who, "commit", "--quiet", "--all", "-m", "a run", cwd=repo)
    return seconds


def recount(origin: Path, repo: Path) -> float:
    run("git", "clone", "--quiet", str(origin), str(repo), cwd=origin)
    run("leash", "pull", "verdicts", cwd=repo)
    change(repo, "categorize", "epsilon", 0.01)
    return run("dvc", "repro", "--allow-missing", cwd=repo)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        full = full_run(folder / "origin", folder / "store")
        again = recount(folder / "origin", folder / "clone")
    tell(
        "another epsilon from verdicts alone vs the full run, s",
        ours=again,
        theirs=full,
        ratio=again / full,
        goal=f"<= {GOAL:g}x",
        ok=again / full <= GOAL,
    )


if __name__ == "__main__":
    main()

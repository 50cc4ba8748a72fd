"""The sandbox for others than root: an ordinary user has the same one, and where namespaces are forbidden nothing runs.

The users and the prohibitions are real. Each test starts its command through a program that takes rights away."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.conftest import ROOT
from tests.unit.attacks import HOSTILE, programs
from tests.unit.test_code import SHIFT, SHIFTS, SMALL, needs_sandbox, stdin

NOBODY = "65534"
# Inside a user namespace, its first process may lower the limit for it. Then it goes on without rights.
FORBID_NAMESPACES = "echo 0 > /proc/sys/user/max_user_namespaces && exec"
DROP_RIGHTS = ["setpriv", "--ambient-caps=-all", "--inh-caps=-all"]
SHELL_ARGUMENTS = '"$@"'

# Each starts a command without the right to make namespaces.
FORBIDDING = {
    "an ordinary user": [
        *("unshare", "--user", "--map-user=1000", "--map-group=1000", "--keep-caps", "sh", "-c"),
        *(f"{FORBID_NAMESPACES} {' '.join(DROP_RIGHTS)} {SHELL_ARGUMENTS}", "sh"),
    ],
    "root of a container": [
        *("unshare", "--user", "--map-root-user", "sh", "-c", f"{FORBID_NAMESPACES} {SHELL_ARGUMENTS}", "sh"),
    ],
    "root without rights": ["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
}

# Those of attacks.py that ask for rights, which an ordinary user shares with the first process of the sandbox.
ATTACKS = (
    "forks once",
    "infinite loop that ignores the signal",
    "thread bomb",
    "raises its limits",
    "raises its memory",
    "goes first",
    "empty files, each of which is memory of the kernel",
    "writes outside",
    "removes what is outside",
    "reads outside through the first process",
    "reads the users",
    "writes into the driver",
    "writes at the root",
    "reads everyone's environment",
    "sockets of every kind",
    "kills its parent",
    "kills everyone",
    "becomes root",
    "a namespace of its own",
    "mounts",
    "traces the first process",
    "takes over the first process",
    "looks into the first process",
    "renames the machine",
    "changes the kernel",
)


@cache
def fault_of(*prefix: str) -> str | None:
    """Why this machine cannot start a command in this way; None if it can."""
    if shutil.which(prefix[0]) is None:
        return f"{prefix[0]} is not installed"
    done = subprocess.run(
        [*prefix, sys.executable, "-c", "import leash.errors"], capture_output=True, text=True, cwd=ROOT
    )
    return f"{prefix[0]} fails here: {done.stderr.strip()}" if done.returncode else None


def as_nobody() -> list[str]:
    """How to start a command as a user without rights. If Python or the project is in a folder that only root may enter
    (such as /root), it is mounted alone in an empty one."""
    if os.geteuid() != 0:
        return []
    needed = {Path(os.path.realpath(path)) for path in (sys.base_prefix, sys.prefix, ROOT)}
    private = {folder for path in needed for folder in path.parents if not folder.stat().st_mode & 1}
    outermost = sorted(folder for folder in private if not private & set(folder.parents))
    mounts = [each for folder in outermost for each in ("--perms", "755", "--tmpfs", str(folder))]
    for path, folder in ((path, folder) for path in sorted(needed) for folder in outermost if folder in path.parents):
        between = sorted(each for each in path.parents if folder in each.parents)
        mounts += [argument for each in between for argument in ("--perms", "755", "--dir", str(each))]
        mounts += ["--ro-bind", str(path), str(path)]
    user = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--bounding-set=-all"]
    return ["bwrap", "--dev-bind", "/", "/", *mounts, "--", *user]


def grade(prefix: list[str], lines: list[dict[str, object]]) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, "-m", "stages.cli", "grade", "--grader", "code"]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return subprocess.run(command, input=text, capture_output=True, text=True, cwd=ROOT)


def line(program: str, *gold: str, **meta: object) -> dict[str, object]:
    return {"gold": list(gold or [stdin("", "42\n")]), "text": f"```python\n{program}\n```", "meta": meta}


@pytest.fixture
def sentinel() -> Iterator[Path]:
    """A file that everyone may write to. The folders of pytest are for their owner only."""
    with TemporaryDirectory() as name:
        sentinel = Path(name, "sentinel")
        sentinel.write_text("untouched")
        sentinel.chmod(0o666)
        Path(name).chmod(0o777)
        yield sentinel


@needs_sandbox
def test_an_ordinary_user_has_the_same_sandbox(sentinel: Path) -> None:
    if fault := fault_of(*as_nobody() or ["env"]):
        pytest.skip(fault)
    right = [line("print(42)"), line(SHIFT, *SHIFTS, function="shift")]
    attacks = [programs(HOSTILE)[name] for name in ATTACKS]
    attacks = [program.replace("@SENTINEL@", str(sentinel)).replace("@CANARY@", "HOME") for program in attacks]
    done = grade(as_nobody(), right + [line(program, limits=SMALL) for program in attacks])
    assert (done.returncode, done.stderr) == (0, "")
    correct = [json.loads(each)["correct"] for each in done.stdout.splitlines()]
    assert correct[: len(right)] == [True] * len(right)
    assert [name for name, passed in zip(ATTACKS, correct[len(right) :], strict=True) if passed] == []
    assert sentinel.read_text() == "untouched"


@needs_sandbox
@pytest.mark.parametrize("who", FORBIDDING)
def test_where_namespaces_are_forbidden_nothing_runs(who: str, tmp_path: Path) -> None:
    prefix = FORBIDDING[who]
    if fault := fault_of(*prefix):
        pytest.skip(fault)
    if prefix[0] == "setpriv" and os.geteuid() != 0:
        pytest.skip("the tests do not run as root")
    ran = tmp_path / "ran"
    done = grade(prefix, [line(f"open({str(ran)!r}, 'w')\nprint(42)")])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("leash: Programs that a model wrote run in a sandbox or not at all")
    assert "user.max_user_namespaces" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not ran.exists()

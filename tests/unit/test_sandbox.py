"""The sandbox for programs: hostile ones neither pass nor get out, and where there is none, nothing runs."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from stages.errors import LeashError
from stages.params import Code
from stages.verify import graders, sandbox
from stages.verify.graders import code
from stages.verify.sandbox import inside
from tests.conftest import ROOT
from tests.unit.attacks import CALLED, HOSTILE, programs
from tests.unit.test_code import ADD, SHIFT, SHIFTS, SMALL, SUMS, needs_sandbox, stdin

HOST = "127.0.0.1"

WIN = "print(42)"


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """What a program could harm or steal, by its name in the table; afterwards, that all of it is as it was and that no
    process is left."""
    sentinel, mark, words = tmp_path / "sentinel", f"mark={uuid.uuid4()}", sandbox._words
    sentinel.write_text("untouched")
    monkeypatch.setenv("LEASH_CANARY", "secret")
    monkeypatch.setattr(sandbox, "_words", lambda limits: [*words(limits), mark])
    monkeypatch.setattr(sandbox, "PATIENCE", 1)
    monkeypatch.setattr(sandbox, "START", 2)
    with socket.create_server((HOST, 0)) as server, socket.socket(socket.AF_UNIX) as named:
        name = f"leash-{uuid.uuid4()}"
        named.bind(f"\0{name}")
        named.listen()
        port = server.getsockname()[1]
        yield {"SENTINEL": str(sentinel), "CANARY": "LEASH_CANARY", "HOST": HOST, "PORT": str(port), "NAME": name}
    assert sentinel.read_text() == "untouched"
    assert list(tmp_path.iterdir()) == [sentinel]
    assert not [pid for pid, words in commands() if mark in words]


def commands() -> Iterator[tuple[str, list[str]]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield folder.name, (folder / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue


def against(program: str, outside: dict[str, str]) -> str:
    for name, value in outside.items():
        program = program.replace(f"@{name}@", value)
    return program


@needs_sandbox
@pytest.mark.parametrize("attack", programs(HOSTILE))
def test_a_hostile_program_does_not_pass_and_does_no_harm(attack: str, outside: dict[str, str]) -> None:
    program = against(programs(HOSTILE)[attack], outside)
    tests = [stdin("", "42\n")]
    assert not code.outcome(program, tests, {"limits": SMALL}).passed


@needs_sandbox
@pytest.mark.parametrize("attack", programs(CALLED))
def test_a_hostile_function_does_not_pass_and_does_no_harm(attack: str, outside: dict[str, str]) -> None:
    assert not code.outcome(programs(CALLED)[attack], SHIFTS, {"function": "shift", "limits": SMALL}).passed


@needs_sandbox
def test_what_the_hostile_programs_would_win_is_a_pass(outside: dict[str, str]) -> None:
    assert code.outcome(WIN, [stdin("", "42\n")], {"limits": SMALL}).passed
    assert code.outcome(SHIFT, SHIFTS, {"function": "shift", "limits": SMALL}).passed


@needs_sandbox
def test_a_program_leaves_nothing_for_its_next_test() -> None:
    program = "import os\nprint(os.listdir('/tmp'))\nopen('/tmp/x', 'w').write('was here')"
    assert code.outcome(program, [stdin("", "[]"), stdin("", "[]")], {}).passed


@needs_sandbox
def test_a_program_sees_python_and_an_empty_folder_and_no_more() -> None:
    seen = sandbox.run("import os\nprint(dict(os.environ), os.listdir(), len(os.listdir('/proc/self/fd')))", "", Code())
    assert seen.endswith("[] 4\n"), "standard input, output and error, and the folder that is listed"
    assert not {"HOME", "PATH", "USER"} & set(eval(seen.partition("}")[0] + "}"))
    assert (
        sandbox.run("import os\nprint(os.path.exists('/etc'), os.path.exists('/home'))", "", Code()) == "False False\n"
    )


@needs_sandbox
def test_a_sandbox_ends_with_the_process_that_started_it() -> None:
    started = (
        "from stages.verify import sandbox\nfrom stages.params import Code\n"
        "program = 'import time\\nprint(1, flush=True)\\ntime.sleep(600)'\n"
        "with sandbox._started(sandbox._bwrap(), program, Code(), stdin='') as started:\n"
        "    next(started.chunks(started.process.stdout.fileno()))\n"
        "    print(started._first(), flush=True)\n"
        "    input()"
    )
    grader = subprocess.Popen([sys.executable, "-c", started], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    with grader:
        assert grader.stdout
        first = os.pidfd_open(int(grader.stdout.readline()))
        grader.kill()
        ended = select.poll()
        ended.register(first, select.POLLIN)
        assert ended.poll(60_000), "still running a minute later"
        os.close(first)


@pytest.mark.parametrize(
    ("program", "needed"),
    [
        ("import math\nfrom heapq import heappush as push\ndef f(x):\n    return push([], math.sqrt(x))", False),
        ("def f(n, *rest, key=len, **more):\n    return [m for m in rest if key(m) and n and more]", False),
        ("class A:\n    size = 1\n    def f(self):\n        return self.size, A, lambda q: q", False),
        ("try:\n    pass\nexcept ValueError as error:\n    print(error, __name__)", False),
        ("print(sqrt(2))", True),
        ("def f(nums: List[int]) -> int:\n    return 0", True),
        ("def f():\n    import math\ndef g():\n    return math.pi", True),
    ],
)
def test_names_are_imported_for_a_program_that_binds_them_nowhere(program: str, needed: bool) -> None:
    assert inside.needs_imports(program) is needed


@needs_sandbox
def test_the_same_program_gives_the_same_output() -> None:
    assert len({sandbox.run("print(hash('leash'), list({'a', 'b', 'c'}))", "", Code()) for _ in range(3)}) == 1


def test_without_bubblewrap_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install bubblewrap" in (code.missing() or "")
    with pytest.raises(LeashError, match="apt install bubblewrap"):
        code.grade(f"open('{tmp_path}/ran', 'w')\n{ADD}", SUMS, {})
    assert not list(tmp_path.iterdir())


def test_where_bubblewrap_makes_no_sandbox_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\necho bwrap: no namespaces for you >&2\nexit 1\n")
    bwrap.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        LeashError, match=r"makes none here \(The sandbox did not start: bwrap: no namespaces for you\)"
    ):
        code.grade(ADD, SUMS, {})


def test_a_stage_that_can_run_nothing_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than give every program the status error."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LeashError, match="bubblewrap, which makes it, is not here; install it with"):
        graders.ready(["exact", "code"])
    assert graders.ready(["exact"]) == ["exact"]

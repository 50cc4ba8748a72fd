"""The sandbox: hostile programs neither pass nor escape, and without a sandbox nothing runs."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import resource
import select
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from leash.grading.graders import code, registry
from leash.grading.sandbox import inside, sandbox, seccomp_filter
from leash.params.groups import Code
from tests.conftest import ROOT
from tests.unit.attacks import CALLED, HOSTILE, programs
from tests.unit.test_code import ADD, SHIFT, SHIFTS, SMALL, SUMS, call, needs_sandbox, stdin

HOST = "127.0.0.1"


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Things that a program could harm or steal, by their @NAME@ in attacks.py. Afterwards, check that all of them are
    unchanged and that no process is left."""
    sentinel, mark, limit_arguments = tmp_path / "sentinel", f"mark={uuid.uuid4()}", sandbox._limit_arguments
    sentinel.write_text("untouched")
    monkeypatch.setenv("LEASH_CANARY", "secret")
    monkeypatch.setattr(sandbox, "_limit_arguments", lambda limits: [*limit_arguments(limits), mark])
    monkeypatch.setattr(sandbox, "WALL_S_PER_CPU_S", 1)
    monkeypatch.setattr(sandbox, "STARTUP_ALLOWANCE_S", 2)
    with socket.create_server((HOST, 0)) as server, socket.socket(socket.AF_UNIX) as unix_socket:
        name = f"leash-{uuid.uuid4()}"
        unix_socket.bind(f"\0{name}")
        unix_socket.listen()
        port = server.getsockname()[1]
        yield {"SENTINEL": str(sentinel), "CANARY": "LEASH_CANARY", "HOST": HOST, "PORT": str(port), "NAME": name}
    assert sentinel.read_text() == "untouched"
    assert list(tmp_path.iterdir()) == [sentinel]
    for pid in marked(mark):  # the kernel may be ending it just now
        with contextlib.suppress(ProcessLookupError):
            select.select([os.pidfd_open(pid)], [], [], 10)
    assert marked(mark) == []


def marked(mark: str) -> list[int]:
    """The processes with this argument."""
    return [int(pid) for pid, arguments in command_lines() if mark in arguments]


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only CPU time matters: other work on the machine may slow the test down."""
    monkeypatch.setattr(sandbox, "STARTUP_ALLOWANCE_S", 60)


def command_lines() -> Iterator[tuple[str, list[str]]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield folder.name, (folder / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue


@needs_sandbox
@pytest.mark.parametrize("attack", programs(HOSTILE))
def test_a_hostile_program_does_not_pass_and_does_no_harm(attack: str, outside: dict[str, str]) -> None:
    program = programs(HOSTILE)[attack]
    for name, value in outside.items():
        program = program.replace(f"@{name}@", value)
    assert code.find_failure(program, [stdin("", "42\n")], {"limits": SMALL}) is not None


@needs_sandbox
@pytest.mark.parametrize("attack", programs(CALLED))
def test_a_hostile_function_does_not_pass_and_does_no_harm(attack: str, outside: dict[str, str]) -> None:
    assert code.find_failure(programs(CALLED)[attack], SHIFTS, {"function": "shift", "limits": SMALL}) is not None


@needs_sandbox
def test_the_output_that_hostile_programs_aim_for_would_pass(outside: dict[str, str]) -> None:
    assert code.find_failure("print(42)", [stdin("", "42\n")], {"limits": SMALL}) is None
    assert code.find_failure(SHIFT, SHIFTS, {"function": "shift", "limits": SMALL}) is None


@needs_sandbox
def test_a_program_leaves_nothing_for_its_next_test() -> None:
    program = (
        "import os\nprint(os.listdir('/tmp'))\n"
        "try:\n    open('/tmp/x', 'w').write('was here')\nexcept OSError:\n    print('refused')"
    )
    assert code.find_failure(program, [stdin("", "[]\nrefused"), stdin("", "[]\nrefused")], {}) is None


@needs_sandbox
@pytest.mark.parametrize("tests", [[stdin("", "42")], [*SHIFTS * 5]], ids=["program", "function"])
@pytest.mark.usefixtures("patience")
def test_a_program_that_ignores_its_signal_gets_no_more_time(tests: list[str]) -> None:
    loop = "while True:\n        pass"
    program = f"import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\ndef shift(*_):\n    {loop}\n"
    before = children_cpu_time()
    failure = code.find_failure(
        program if len(tests) > 1 else program + "shift()", tests, {"function": "shift", "limits": SMALL}
    )
    assert failure == "test 1: used its 1 s of CPU time, or was killed"
    # As the kernel counts it, so other work on the machine does not matter.
    assert children_cpu_time() - before < 1.8


def children_cpu_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@needs_sandbox
@pytest.mark.usefixtures("patience")
def test_every_call_gets_the_whole_time() -> None:
    program = (
        "import time\ndef shift(numbers, by):\n    end = time.process_time() + 0.6\n"
        "    while time.process_time() < end:\n        pass\n    return [n + by for n in numbers]"
    )
    assert code.find_failure(program, SHIFTS, {"function": "shift", "limits": SMALL}) is None


@needs_sandbox
def test_long_tests_and_results_come_through() -> None:
    numbers = list(range(50_000))
    tests = [call(f"{numbers}\n1", str([n + 1 for n in numbers])), SHIFTS[0]]
    assert code.find_failure(SHIFT, tests, {"function": "shift"}) is None


@pytest.mark.parametrize(("column", "header"), [(0, "x86_64-linux-gnu/asm/unistd_64.h"), (1, "asm-generic/unistd.h")])
def test_the_numbers_of_system_calls_match_the_kernel_headers(column: int, header: str) -> None:
    file = Path("/usr/include", header)
    if not file.exists():
        pytest.skip("the kernel's headers for programs are not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", file.read_text())
    numbers = {{"fstatat": "newfstatat"}.get(name, name): int(number) for name, number in found}
    by_argument = {name: call for name, (call, _, _) in seccomp_filter.ALLOWED_BY_ARGUMENT.items()}
    calls = seccomp_filter.ALLOWED_SYSCALLS | by_argument | {"clone": seccomp_filter.CLONE_SYSCALL}
    assert {name: call[column] for name, call in calls.items()} == {name: numbers.get(name) for name in calls}


@needs_sandbox
def test_a_program_has_what_solutions_use() -> None:
    program = (
        "import asyncio, concurrent.futures, decimal, os, random, resource, signal, sqlite3, sys, threading, time\n"
        "import numpy\n"
        "async def later():\n    await asyncio.sleep(0)\n    return await asyncio.to_thread(lambda: 1)\n"
        "deep = lambda n: n and 1 + deep(n - 1)\n"
        "sys.setrecursionlimit(10**6)\nthreading.stack_size(1 << 26)\nresult = [asyncio.run(later())]\n"
        "thread = threading.Thread(target=lambda: result.append(deep(20_000)))\nthread.start()\nthread.join()\n"
        "with concurrent.futures.ThreadPoolExecutor(2) as pool:\n    result += pool.map(abs, [-2])\n"
        "resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))\n"
        "signal.signal(signal.SIGALRM, lambda *_: result.append(3))\nsignal.setitimer(signal.ITIMER_REAL, 0.001)\n"
        "signal.pause()\nresult.append(int(numpy.linalg.det(numpy.eye(200))))\n"
        "result.append(sqlite3.connect(':memory:').execute('select 5').fetchone()[0])\n"
        "print(*result, len(os.urandom(6)), open(0).read(), time.time() > 0)"
    )
    assert sandbox.run(program, "in", Code()) == "1 20000 2 3 1 5 6 in True\n"


@needs_sandbox
def test_a_program_sees_only_python_and_an_empty_folder() -> None:
    program = "import os\nprint((dict(os.environ), os.listdir(), len(os.listdir('/proc/self/fd'))))"
    environment, files, descriptors = ast.literal_eval(sandbox.run(program, "", Code()))
    assert not {"HOME", "PATH", "USER"} & set(environment)
    assert files == []
    assert descriptors == 4, "standard input, output and error, and the folder that is listed"
    program = "import os\nprint(os.path.exists('/etc'), os.path.exists('/home'))"
    assert sandbox.run(program, "", Code()) == "False False\n"


@needs_sandbox
def test_a_sandbox_ends_with_the_process_that_started_it() -> None:
    script = (
        "from leash.grading.sandbox import sandbox\nfrom leash.params.groups import Code\n"
        "program = 'import time\\nprint(1, flush=True)\\ntime.sleep(600)'\n"
        "with sandbox._start_sandbox(sandbox._require_bwrap(), program, Code(), stdin='') as started:\n"
        "    next(started.chunks(started.process.stdout.fileno()))\n"
        "    print(started.first_pid(), flush=True)\n"
        "    input()"
    )
    grader = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    with grader:
        assert grader.stdout
        first = os.pidfd_open(int(grader.stdout.readline()))
        grader.kill()
        poll = select.poll()
        poll.register(first, select.POLLIN)
        assert poll.poll(60_000), "still running a minute later"
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
def test_the_prelude_is_imported_only_for_programs_with_unbound_names(program: str, needed: bool) -> None:
    assert inside.needs_prelude(program) is needed


@needs_sandbox
def test_the_same_program_gives_the_same_output() -> None:
    assert len({sandbox.run("print(hash('leash'), list({'a', 'b', 'c'}))", "", Code()) for _ in range(3)}) == 1


def test_without_bubblewrap_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(sandbox.SandboxUnavailableError, match="apt install bubblewrap") as error:
        code.grade(f"open('{tmp_path}/ran', 'w')\n{ADD}", SUMS, {})
    assert error.value.reason == code.missing()
    assert not list(tmp_path.iterdir())


def test_if_bubblewrap_fails_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\necho bwrap: no namespaces for you >&2\nexit 1\n")
    bwrap.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(sandbox.SandboxUnavailableError) as error:
        code.grade(ADD, SUMS, {})
    assert "bwrap: no namespaces for you" in error.value.reason


def test_a_run_without_a_sandbox_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than give every program the status error."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(registry.UnusableGraderError) as error:
        registry.require_graders(["exact", "code"])
    assert (error.value.name, error.value.reason) == ("code", code.missing())
    assert registry.require_graders(["exact"]) == ["exact"]

"""The sandbox: where programs that a model wrote are run, and the only place where they are.

    run("print(int(input()) + 1)", "41", Code())                                ->  "42\\n"
    list(calls("def double(n): return 2 * n", "double", ["3", "4"], Code()))    ->  ["6", "8"]
    run("import os; os.fork()", "", Code())                                     ->  raises BrokenProgramError

Bubblewrap gives a program namespaces of its own (processes, network, mounts, IPC), a file system with nothing but
Python (`view.py`), and an empty environment; the filter of `syscalls.py` refuses it new processes; `inside.py` drops to
a user that owns nothing and sets limits; this side reads no more than so much output and kills all of it when its time
is up. Where any of this can't be had, nothing is run.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache

from stages.errors import LeashError
from stages.params import Code
from stages.verify.sandbox import inside, syscalls, view

MB = 1 << 20
OUTPUT = 16 * MB  # no benchmark expects a tenth of it
TASKS = 32  # threads
# Seconds on the clock for one of processor time, and to start with: other work on a machine makes no program wrong.
PATIENCE, START = 3, 5
CHUNK = 1 << 16
OUT_OF_TIME = (128 + signal.SIGXCPU, 128 + signal.SIGKILL)
# Until 5.14 Linux counted all processes of a user against the limit, those outside of the sandbox too.
COUNTS_BY_NAMESPACE = (5, 14)
FIRST_UID, UIDS = 20_000, 40_000  # below 65,536, where a container's users end
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL

PROBE = """
import os
try:
    os.fork()
except PermissionError:
    print("held")
"""


class BrokenProgramError(Exception):
    """The program failed or broke a limit; says how."""


def missing() -> str | None:
    """Why no program can be run on this machine, and what to do; None where one can."""
    machine = os.uname()
    if machine.sysname != "Linux" or machine.machine not in syscalls.ARCHITECTURES:
        known = " and ".join(syscalls.ARCHITECTURES)
        return (
            "Programs that a model wrote are run in a sandbox or not at all, and there is one only for Linux on "
            f"{known}; verify on such a machine."
        )
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return (
            "Programs that a model wrote are run in a sandbox or not at all, and bubblewrap, which makes it, is not "
            "here; install it with `apt install bubblewrap` (or dnf, pacman, apk)."
        )
    return _fault(bwrap)


@lru_cache
def _fault(bwrap: str) -> str | None:
    """What a first program meets: a container, for instance, may forbid namespaces to those in it."""
    try:
        held = _run(bwrap, PROBE, "", Code()) == "held\n"
        fault = None if held else "it does not hold what is in it"
    except (LeashError, BrokenProgramError, OSError) as error:
        fault = str(error).rstrip(".")
    return fault and (
        f"Programs that a model wrote are run in a sandbox or not at all, and bubblewrap makes none here ({fault}); "
        "let it have namespaces (in Docker: `--cap-add SYS_ADMIN --security-opt seccomp=unconfined`), or verify "
        "elsewhere."
    )


def wall(limits: Code) -> float:
    """The most seconds that one test may take on the clock."""
    return float(PATIENCE * limits.seconds + START)


def run(program: str, stdin: str, limits: Code) -> str:
    """What a program writes to standard output, given this standard input; or raise BrokenProgramError."""
    return _run(_bwrap(), program, stdin, limits)


def calls(program: str, function: str, tests: Sequence[str], limits: Code) -> Iterator[str]:
    """The results of a program's function as JSON, test for test, each a call with one JSON argument a line. One
    process makes all of them, as the benchmarks do; who has seen enough closes the iterator, which ends it."""
    with _started(_bwrap(), program, limits, function=function, tests=tests) as sandbox:
        lines = sandbox.lines()
        sandbox.began = next(lines, None) == inside.READY.strip()
        if not sandbox.began:
            sandbox.end()
        for _ in tests:
            sandbox.deadline = time.monotonic() + wall(limits)
            line = next(lines, None)
            if line is None:
                sandbox.end()
                raise BrokenProgramError("ended before its last test")
            yield line.decode(errors="replace")


def _run(bwrap: str, program: str, stdin: str, limits: Code) -> str:
    with _started(bwrap, program, limits, stdin=stdin) as sandbox:
        assert sandbox.process.stdout
        output = b"".join(sandbox.chunks(sandbox.process.stdout.fileno()))
        sandbox.end()
        return output.decode(errors="replace")


def _bwrap() -> str:
    """Where bubblewrap is; the refusal, where it is not or does not hold."""
    if complaint := missing():
        raise LeashError(complaint)
    return shutil.which("bwrap") or "bwrap"


@dataclass
class _Sandbox:
    """A started one, seen from outside: bubblewrap's process, and the reading ends of its pipes."""

    process: subprocess.Popen[bytes]
    report: int
    info: int
    limits: Code
    deadline: float
    began: bool = False

    def chunks(self, descriptor: int) -> Iterator[bytes]:
        """What is written, until nobody has the other end any more."""
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        size = 0
        while waiting.poll(self._left() * 1000):
            chunk = os.read(descriptor, CHUNK)
            if not chunk:
                return
            size += len(chunk)
            if size > OUTPUT:
                raise BrokenProgramError(f"wrote more than {OUTPUT // MB} MB")
            yield chunk
        raise self._out_of_time()

    def lines(self) -> Iterator[bytes]:
        rest = b""
        for chunk in self.chunks(self.report):
            *whole, rest = (rest + chunk).split(b"\n")
            yield from whole

    def end(self) -> None:
        """Wait for the end, and raise unless it is a good one."""
        try:
            code = self.process.wait(self._left())
        except subprocess.TimeoutExpired:
            raise self._out_of_time() from None
        if not self._begun():
            raise LeashError(f"The sandbox did not start: {self._last_words() or f'exit code {code}'}.")
        if code in OUT_OF_TIME:
            raise BrokenProgramError(f"used its {self.limits.seconds} s of processor time, or was killed")
        if code:
            raise BrokenProgramError(f"ended with exit code {code}")

    def kill(self) -> None:
        """End all that is left. When the first process of a process namespace dies, so do the others before it is gone,
        and bubblewrap waits for that one."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self._first() or self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _first(self) -> int | None:
        try:
            return int(json.loads(os.read(self.info, CHUNK))["child-pid"])
        except (BlockingIOError, ValueError, KeyError):
            return None  # not yet: it dies with its parent

    def _last_words(self) -> str:
        """Standard error is bubblewrap's and that of inside.py, which takes it away before a program begins."""
        assert self.process.stderr
        said = self.process.stderr.read().decode(errors="replace").strip().splitlines()
        return said[-1].rstrip(".") if said else ""

    def _left(self) -> float:
        return max(self.deadline - time.monotonic(), 0)

    def _out_of_time(self) -> Exception:
        if not self._begun():
            return LeashError(
                f"The sandbox did not start within {wall(self.limits):.0f} s; is this machine overloaded?"
            )
        return BrokenProgramError(f"was still running after {wall(self.limits):.0f} s")

    def _begun(self) -> bool:
        """Whether inside.py came as far as the program: what fails before is the sandbox, and no fault of the program,
        which can't take back what was said before it began."""
        waiting = select.poll()
        waiting.register(self.report, select.POLLIN)
        if not self.began and waiting.poll(0):
            self.began = os.read(self.report, len(inside.READY)) == inside.READY
        return self.began


@contextmanager
def _started(
    bwrap: str,
    program: str,
    limits: Code,
    *,
    stdin: str | None = None,
    function: str = "",
    tests: Sequence[str] = (),
) -> Iterator[_Sandbox]:
    with ExitStack() as ours, ExitStack() as theirs:
        report, reported = _pipe(ours, theirs)
        info, informed = _pipe(ours, theirs)
        given = {"report": reported, "program": _sealed(theirs, program)}
        if tests:
            given["tests"] = _sealed(theirs, "\0".join(tests))
        rules = _sealed(theirs, syscalls.filter_for(os.uname().machine))
        words = [*_words(limits), f"function={function}", *(f"{name}={fd}" for name, fd in given.items())]
        process = subprocess.Popen(
            [bwrap, *view.arguments(), "--info-fd", str(informed), "--seccomp", str(rules), *view.python(), *words],
            stdin=subprocess.DEVNULL if stdin is None else _sealed(theirs, stdin),
            stdout=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[informed, rules, *given.values()],
            # Also bubblewrap's own, which a program could read in /proc/1/environ.
            env={"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
        )
        ours.enter_context(process)
        theirs.close()
        os.set_blocking(info, False)
        sandbox = _Sandbox(process, report, info, limits, time.monotonic() + wall(limits))
        ours.callback(sandbox.kill)
        yield sandbox


def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    ours.callback(os.close, reading)
    theirs.callback(os.close, writing)
    return reading, writing


def _sealed(stack: ExitStack, content: str | bytes) -> int:
    """A file in memory that can be read and never changed, whoever opens it again."""
    descriptor = os.memfd_create("leash", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content.encode(errors="replace") if isinstance(content, str) else content)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, SEALS)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _words(limits: Code) -> list[str]:
    """What inside.py is told of rights and limits. Root goes on as a user of its own for each of those who grade at the
    same time: limits on threads are by user, and root has none."""
    root = os.geteuid() == 0
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    said = {
        "uid": FIRST_UID + os.getpid() % UIDS if root else 0,
        "seconds": limits.seconds,
        "memory": limits.memory,
        "tasks": TASKS if root or release >= COUNTS_BY_NAMESPACE else 0,
        "packages": view.PACKAGES,
    }
    return [f"{name}={value}" for name, value in said.items()]

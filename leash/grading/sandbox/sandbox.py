"""The sandbox: the only place where programs that a model wrote run.

    run("print(int(input()) + 1)", "41", Code())                                        ->  "42\\n"
    list(call_function("def double(n): return 2 * n", "double", ["3", "4"], Code()))    ->  ["6", "8"]
    run("import os; os.fork()", "", Code())                                             ->  raises BrokenProgramError

Each layer does one thing:

    bubblewrap          own namespaces (processes, network, mounts, IPC) and an empty environment
    view.py             a file system with Python and an empty /tmp, nothing else, all of it read-only
    seccomp_filter.py   the few system calls that a solution needs: no processes, no sockets, no memory of the kernel
    inside.py           drops to a user that owns nothing, and sets limits on CPU time, memory, files and threads
    this file           limits the output, the time on the clock and the CPU time of each call, and kills the program

If one of these is not available, no program runs.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache

from leash.errors import LeashError
from leash.grading.sandbox import inside, seccomp_filter, view
from leash.params.groups import Code

MB = 1 << 20
MAX_OUTPUT_BYTES = 16 * MB  # more than ten times what any benchmark expects
MAX_THREADS = 32
# The clock limit is generous, because other work on the machine must not make a program wrong.
WALL_S_PER_CPU_S, STARTUP_ALLOWANCE_S = 3, 5
READ_CHUNK_BYTES = 1 << 16
CPU_CHECK_S = 0.1  # how often the CPU time of a call is read
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
TIMEOUT_EXIT_CODES = (128 + signal.SIGXCPU, 128 + signal.SIGKILL)
# Before 5.14, Linux counted the user's processes outside the sandbox against the limit on threads, too.
NAMESPACED_NPROC_KERNEL = (5, 14)
FIRST_UID, UID_COUNT = 20_000, 40_000  # below 65,536, where the user ids of a container end
MEMFD_SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
SANDBOX_ONLY = "Programs that a model wrote run in a sandbox or not at all"

PROBE_PROGRAM = """
import os
try:
    os.fork()
except PermissionError:
    print("refused")
"""


class BrokenProgramError(Exception):
    """The program failed or exceeded a limit. The message says how."""


class SandboxUnavailableError(LeashError):
    """This machine cannot run programs in a sandbox. `reason` is a sentence with the remedy."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class SandboxStartError(LeashError):
    """The sandbox failed before the program began, so the program is not to blame."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"The sandbox did not start: {reason}.")


def missing() -> str | None:
    """Say why no program can run on this machine and what to do about it; None if programs can run."""
    machine = os.uname()
    if machine.sysname != "Linux" or machine.machine not in seccomp_filter.ARCHITECTURES:
        supported = " and ".join(seccomp_filter.ARCHITECTURES)
        return f"{SANDBOX_ONLY}, and the sandbox needs Linux on {supported}; run `leash verify` on such a machine."
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return (
            f"{SANDBOX_ONLY}, and bubblewrap, which makes the sandbox, is not installed; install it with "
            "`apt install bubblewrap` (or dnf, pacman, apk)."
        )
    return _probe_failure(bwrap)


@lru_cache
def _probe_failure(bwrap: str) -> str | None:
    """Run a program to see whether the sandbox works: a container, for instance, may forbid namespaces."""
    try:
        is_refused = _run_with_bwrap(bwrap, PROBE_PROGRAM, "", Code()) == "refused\n"
        fault = None if is_refused else "a program in it can start a process"
    except SandboxStartError as error:
        fault = error.reason
    except (BrokenProgramError, OSError) as error:
        fault = str(error)
    return fault and (
        f"{SANDBOX_ONLY}, and bubblewrap does not work here ({fault}); allow it to create namespaces (in Docker: "
        "`--cap-add SYS_ADMIN --security-opt seccomp=unconfined`; elsewhere the kernel settings "
        "user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns may forbid it), or run "
        "`leash verify` on another machine."
    )


def wall_time_limit(limits: Code) -> float:
    """The seconds on the clock that one test may take."""
    return float(WALL_S_PER_CPU_S * limits.seconds + STARTUP_ALLOWANCE_S)


def run(program: str, stdin: str, limits: Code) -> str:
    """Run a program with this standard input and return its standard output, or raise BrokenProgramError."""
    return _run_with_bwrap(_require_bwrap(), program, stdin, limits)


def call_function(program: str, function: str, tests: Sequence[str], limits: Code) -> Iterator[str]:
    """Call a program's function for each test, which has one JSON argument per line, and yield the results as JSON. As
    in the benchmarks, one process makes all calls; it gets a test after the result of the one before. Close the
    iterator to end it early."""
    with _start_sandbox(_require_bwrap(), program, limits, function=function, calls=len(tests)) as sandbox:
        sandbox.wait_for_begin()
        lines = sandbox.report_lines()
        if sandbox.next_line(lines) != inside.LOADED_MESSAGE.strip():
            raise BrokenProgramError("wrote a result before its first test")
        for number in range(len(tests)):
            # The program works on a test while the caller compares the result of the one before.
            if number == 0:
                sandbox.send(tests[0])
            line = sandbox.next_line(lines)
            if number + 1 < len(tests):
                sandbox.send(tests[number + 1])
            yield line.decode(errors="replace")


def _run_with_bwrap(bwrap: str, program: str, stdin: str, limits: Code) -> str:
    with _start_sandbox(bwrap, program, limits, stdin=stdin) as sandbox:
        assert sandbox.process.stdout
        output = b"".join(sandbox.chunks(sandbox.process.stdout.fileno()))
        sandbox.wait_for_exit()
        return output.decode(errors="replace")


def _require_bwrap() -> str:
    if reason := missing():
        raise SandboxUnavailableError(reason)
    return shutil.which("bwrap") or "bwrap"


@dataclass
class _Sandbox:
    """A started sandbox: bubblewrap's process, our end of the socket `report`, and our ends of the pipes `info` and
    `tests` (for calls)."""

    process: subprocess.Popen[bytes]
    report: socket.socket
    info: int
    tests: int
    limits: Code
    deadline: float
    # For calls: the CPU clock of the program's process, and when the time of the current call is up on it.
    cpu_clock: int | None = None
    cpu_deadline: float = 0
    began: bool = False

    def start_clocks(self) -> None:
        """Give the program the time of one test from now on."""
        self.deadline = time.monotonic() + wall_time_limit(self.limits)
        self.cpu_deadline = self._cpu_time() + self.limits.seconds

    def wait_for_begin(self) -> None:
        """Wait until inside.py has reached the program. Its message tells which process to watch: the kernel adds the
        sender's number in our namespace."""
        self._wait_until_ready(self.report.fileno(), select.POLLIN)
        message, control, _, _ = self.report.recvmsg(len(inside.READY_MESSAGE), socket.CMSG_SPACE(CREDENTIALS.size))
        self.began = message == inside.READY_MESSAGE
        if not self.began:
            self.wait_for_exit()  # raises with the reason
        pid, _, _ = CREDENTIALS.unpack(control[0][2])
        self.cpu_clock = (~pid << 3) | 2  # the kernel's name for the CPU clock of all threads of a process
        self.start_clocks()

    def chunks(self, descriptor: int) -> Iterator[bytes]:
        """Yield what is written, until all writing ends are closed."""
        size = 0
        while True:
            self._wait_until_ready(descriptor, select.POLLIN)
            if not (chunk := os.read(descriptor, READ_CHUNK_BYTES)):
                return
            size += len(chunk)
            if size > MAX_OUTPUT_BYTES:
                raise BrokenProgramError(f"wrote more than {MAX_OUTPUT_BYTES // MB} MB")
            yield chunk

    def report_lines(self) -> Iterator[bytes]:
        rest = b""
        for chunk in self.chunks(self.report.fileno()):
            *complete, rest = (rest + chunk).split(b"\n")
            yield from complete

    def next_line(self, lines: Iterator[bytes]) -> bytes:
        """The next line of the report, if the program wrote it in time."""
        line = next(lines, None)
        self._check_clocks()
        if line is None:
            self.wait_for_exit()
            raise BrokenProgramError("ended before its last test")
        return line

    def send(self, test: str) -> None:
        """Send a test, whose time begins. A program that does not read it, so that the pipe is full, runs out of it."""
        self.start_clocks()
        rest = memoryview(f"{test.count(chr(10)) + 1}\n{test}\n".encode(errors="replace"))
        while rest:
            self._wait_until_ready(self.tests, select.POLLOUT)
            try:
                rest = rest[os.write(self.tests, rest) :]
            except BrokenPipeError:
                return  # the program has ended, which next_line reports

    def wait_for_exit(self) -> None:
        """Wait until the program ends, and raise unless it succeeded."""
        while True:
            try:
                code = self.process.wait(self._check_clocks())
                break
            except subprocess.TimeoutExpired:
                continue
        if not self._has_begun():
            # Standard error has only lines of bubblewrap and inside.py, which closes it before the program begins.
            assert self.process.stderr
            lines = self.process.stderr.read().decode(errors="replace").strip().splitlines()
            raise SandboxStartError(lines[-1].rstrip(".") if lines else f"exit code {code}")
        if code in TIMEOUT_EXIT_CODES:
            raise self._cpu_time_error()
        if code:
            raise BrokenProgramError(f"ended with exit code {code}")

    def kill(self) -> None:
        """Kill everything that still runs. When the first process of a process namespace dies, the kernel kills the
        others before that process is gone, and bubblewrap waits for it."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.first_pid() or self.process.pid, signal.SIGKILL)
            self.process.wait()

    def first_pid(self) -> int | None:
        """The first process of the namespace; None if bubblewrap has not started it yet: it dies with bubblewrap."""
        try:
            return int(json.loads(os.read(self.info, READ_CHUNK_BYTES))["child-pid"])
        except (BlockingIOError, ValueError, KeyError):
            return None

    def _wait_until_ready(self, descriptor: int, event: int) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        while not poll.poll(self._check_clocks() * 1000):
            pass

    def _check_clocks(self) -> float:
        """The seconds after which to look again. Raise if the program has used up its time, on the clock or of the
        CPU."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise self._timeout_error()
        if self.cpu_clock is None:  # the kernel's limit is that of the only test
            return left
        if self._cpu_time() > self.cpu_deadline:
            raise self._cpu_time_error()
        return min(left, CPU_CHECK_S)

    def _cpu_time(self) -> float:
        try:
            return 0 if self.cpu_clock is None else time.clock_gettime(self.cpu_clock)
        except OSError:  # the process has ended
            return 0

    def _cpu_time_error(self) -> BrokenProgramError:
        return BrokenProgramError(f"used its {self.limits.seconds} s of CPU time, or was killed")

    def _timeout_error(self) -> Exception:
        seconds = f"{wall_time_limit(self.limits):.0f} s"
        if not self._has_begun():
            return SandboxStartError(f"it took more than {seconds}, so this machine may be overloaded")
        return BrokenProgramError(f"was still running after {seconds}")

    def _has_begun(self) -> bool:
        """Whether inside.py has reached the program. The program cannot take back its message."""
        if not self.began:
            with suppress(BlockingIOError):
                message = self.report.recv(len(inside.READY_MESSAGE), socket.MSG_DONTWAIT)
                self.began = message == inside.READY_MESSAGE
        return self.began


@contextmanager
def _start_sandbox(
    bwrap: str, program: str, limits: Code, *, stdin: str | None = None, function: str = "", calls: int = 0
) -> Iterator[_Sandbox]:
    # `theirs` are the ends of pipes and files that only the child keeps: while the parent has the writing end of a pipe
    # open, it never sees the end of the output.
    with ExitStack() as ours, ExitStack() as theirs:
        report, report_end = socket.socketpair()
        ours.enter_context(report)
        theirs.enter_context(report_end)
        report.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        info, info_end = _open_pipe(ours, theirs)
        tests_end, tests = _open_pipe(theirs, ours)
        descriptors = {"report": report_end.fileno(), "program": _create_sealed_memfd(theirs, program)}
        if stdin is None:
            descriptors["tests"] = tests_end
        seccomp = _create_sealed_memfd(theirs, seccomp_filter.build_seccomp_filter(os.uname().machine))
        command = [bwrap, *view.bwrap_arguments(), "--info-fd", str(info_end), "--seccomp", str(seccomp)]
        # Calls share a process, so the kernel limits all of them (loading included), and _check_clocks each one.
        command += [*view.python_command(), *_limit_arguments(limits), f"function={function}"]
        command.append(f"seconds={limits.seconds * (calls + 1)}")
        process = subprocess.Popen(
            [*command, *(f"{name}={descriptor}" for name, descriptor in descriptors.items())],
            stdin=subprocess.DEVNULL if stdin is None else _create_sealed_memfd(theirs, stdin),
            stdout=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[info_end, seccomp, *descriptors.values()],
            # Bubblewrap itself gets no more either: a program could read it in /proc/1/environ.
            env={"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
        )
        ours.enter_context(process)
        theirs.close()
        os.set_blocking(info, False)
        os.set_blocking(tests, False)
        sandbox = _Sandbox(process, report, info, tests, limits, time.monotonic() + wall_time_limit(limits))
        ours.callback(sandbox.kill)
        yield sandbox


def _open_pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    reading, writing = os.pipe()
    ours.callback(os.close, reading)
    theirs.callback(os.close, writing)
    return reading, writing


def _create_sealed_memfd(stack: ExitStack, content: str | bytes) -> int:
    """Create a file in memory that nobody can change, not even by opening it again through /proc."""
    descriptor = os.memfd_create("leash", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content.encode(errors="replace") if isinstance(content, str) else content)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, MEMFD_SEALS)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _limit_arguments(limits: Code) -> list[str]:
    """The rights and limits that inside.py sets. As root, each grading process uses a user id of its own: the kernel
    counts threads per user, and does not limit root."""
    root = os.geteuid() == 0
    release = tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2])
    arguments = {
        "uid": FIRST_UID + os.getpid() % UID_COUNT if root else 0,
        "memory": limits.memory,
        "tasks": MAX_THREADS if root or release >= NAMESPACED_NPROC_KERNEL else 0,
        "packages": view.PACKAGES_DIR,
    }
    return [f"{name}={value}" for name, value in arguments.items()]

"""Run `leash` and `dvc` as real processes in milliseconds: a server imports everything once and forks for each command.

    with Server(folder) as server:
        ended = server.run(repo, "dvc", "repro")                          # its stages are forked, too
        ended = server.run(repo, "leash", "categorize", fault=Fault("kill", "leash categorize", 17))

A command has its own process group, working directory and output, and ends as it would alone. Its worker processes are
forked from it, not from a fork server, which would import torch for each command anew. A `Fault` kills a command just
before its n-th change of the file system, so a kill happens at a chosen place and not at a chosen time, or gives it a
disk that is nearly full. Reports of `Server.run` have no figures: drawing takes most of the time of a report.

With `Server.environment`, a subprocess finds these programs, too. It can't send them signals, nor show them another
mount namespace: they run in the server's. What an import reads from the environment, like `HF_HOME`, has no effect.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import multiprocessing
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import vl_convert

from tests.conftest import ROOT
from tests.faults import Ended

# What commands import when they need it. Each takes long enough to matter, and none starts a thread.
PRELOADED = (
    *(f"stages.{file.parent.name}.stage" for file in sorted((ROOT / "stages").glob("*/stage.py"))),
    "dulwich.worktree",
    "dvc.api",
    "dvc.cachemgr",
    "dvc.data_cloud",
    "dvc.repo.artifacts",
    "dvc.repo.datasets",
    "dvc.repo.open_repo",
    "dvc.repo.plots",
    "dvc.repo.reproduce",
    "dvc.repo.stage",
    "dvc_render.vega",
    "dvc_render.vega_templates",
    "flatten_dict",
    "leash.engines.torch_engine",
    "leash.grading.graders.exact",
    "leash.grading.graders.math",
    "leash.grading.working",
    "leash.importing.importer",
    "leash.importing.summary",
    "leash.scoring.torch_scorer",
    "leash.sampling.duplicate_samples",
    "pandas",
    "stages.cli",
)
CHANGES = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.link", "os.truncate"})
COMMAND_TIMEOUT_S = 900  # for a command that takes seconds: this one hangs
FAULT_VARIABLE = "LEASH_TEST_FAULT"
UNDRAWN_VARIABLE = "LEASH_TEST_UNDRAWN"
CLONE_NEWNS, CLONE_NEWUSER, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 0x1000, 0x4000, 0x40000
SHIM = """#!{python} -IS
import os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    words = [{name!r}, *sys.argv[1:]]
    environment = [key + "=" + value for key, value in os.environ.items()]
    request = "\\0".join([os.getcwd(), str(len(words)), *words, *environment]).encode("utf-8", "surrogateescape")
    socket.send_fds(server, [len(request).to_bytes(4, "big")], [0, 1, 2])
    server.sendall(request)
    code = int(server.recv(16) or b"70")
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@dataclass(frozen=True)
class Fault:
    """What happens to the first command that begins with `command`: `kill` at its n-th change of the file system, or
    `disk`: n bytes are free in `folder`."""

    kind: str
    command: str
    n: int
    folder: str = ""


class Server:
    """The server, and the programs `leash` and `dvc` that ask it, in a folder that comes first on the PATH."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._address = f"\0leash-test-{os.getpid()}-{id(self)}"  # of no file: a path may be too long

    def __enter__(self) -> Server:
        programs = self._folder / "bin"
        programs.mkdir(parents=True)
        for name in ("leash", "dvc"):
            shim = programs / name
            shim.write_text(SHIM.format(python=sys.executable, address=self._address, name=name))
            shim.chmod(0o755)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._address)
        listener.listen(64)
        command = [sys.executable, "-m", __name__, str(listener.fileno())]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[listener.fileno()])
        listener.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def environment(self) -> dict[str, str]:
        """That of this process, with the programs first on the PATH."""
        return {**os.environ, "PATH": f"{self._folder / 'bin'}:{os.environ['PATH']}"}

    def run(self, cwd: Path, *command: str, fault: Fault | None = None, **variables: str) -> Ended:
        """Run a command to its end. One that does not end is killed with all its processes, and that is a failure."""
        environment = {**self.environment, UNDRAWN_VARIABLE: "1", **variables}
        if fault:
            pending = self._folder / "fault"
            pending.write_text(json.dumps(asdict(fault)))
            environment[FAULT_VARIABLE] = str(pending)
        process = subprocess.Popen(
            [str(self._folder / "bin" / command[0]), *command[1:]],
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            said, _ = process.communicate(timeout=COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
            raise AssertionError(f"{' '.join(command)} did not end in {COMMAND_TIMEOUT_S} s:\n{said}") from None
        return Ended(process.returncode, said)


def serve(listener: socket.socket) -> None:
    """Fork a process for each request, which forks the command and answers with its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for these processes
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            code = 70
            try:
                code = _answer(connection)
            except BaseException:
                traceback.print_exc()
            with contextlib.suppress(OSError):
                connection.sendall(str(code).encode())
            os._exit(0)
        connection.close()


def _answer(connection: socket.socket) -> int:
    length, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
    request = b""
    while len(request) < int.from_bytes(length, "big"):
        request += connection.recv(1 << 20)
    folder, count, *rest = request.decode("utf-8", "surrogateescape").split("\0")
    words, environment = rest[: int(count)], rest[int(count) :]
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(dict(each.split("=", 1) for each in environment))
    os.chdir(folder)
    fault = _take_fault(words)
    with _small_disk(fault) if fault and fault.kind == "disk" else contextlib.nullcontext():
        if (command := os.fork()) == 0:
            connection.close()
            os.setsid()
            if fault and fault.kind == "kill":
                _die_at(fault.n)
            _run(words)
        return _wait(command, connection)


def _take_fault(words: list[str]) -> Fault | None:
    """The fault that this command is to have, if any. It happens once."""
    if not (pending := os.environ.get(FAULT_VARIABLE)) or not Path(pending).exists():
        return None
    fault = Fault(**json.loads(Path(pending).read_text()))
    if words[: len(fault.command.split())] != fault.command.split():
        return None
    Path(pending).unlink()
    return fault


def _wait(command: int, connection: socket.socket) -> int:
    """The exit code of a command, as subprocess has it. It is killed if nobody waits for it any more."""
    ended, gone = os.pidfd_open(command), connection.fileno()
    readable, _, _ = select.select([ended, gone], [], [])
    if ended not in readable:
        os.killpg(command, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(command, signal.SIGKILL)  # workers that a killed command leaves behind
    return code


def _run(words: list[str]) -> None:
    """Run a command in this process, and end the process."""
    sys.argv, code = list(words), 1
    if UNDRAWN_VARIABLE in os.environ:
        _leave_figures_out()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    try:
        if words[0] == "leash":
            from stages.cli import main

            main(words[1:], prog_name="leash")
        else:
            from dvc.cli import main as dvc

            code = dvc(words[1:])
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else int(bool(exit.code))
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _die_at(n: int) -> None:
    """Kill this process just before its n-th change of the file system. Python announces each to audit hooks."""
    left, me = n, os.getpid()

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event == "open":
            path, _, flags = arguments
            is_change = bool(flags & (os.O_WRONLY | os.O_RDWR)) and not str(path).startswith(("/dev", "/proc"))
        else:
            is_change = event in CHANGES
        if is_change and os.getpid() == me:
            left -= 1
            if left <= 0:
                sys.stdout.flush()
                os.kill(me, signal.SIGKILL)

    sys.addaudithook(hook)


@contextmanager
def _small_disk(fault: Fault) -> Iterator[None]:
    """A disk in place of a folder, for this process and its children, with what is in the folder and n free bytes.
    What is on the disk in the end is in the folder afterwards."""
    folder = Path(fault.folder).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()

    def call(name: str, *arguments: Any) -> None:
        if getattr(libc, name)(*arguments):
            raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")

    call("unshare", CLONE_NEWNS if user == 0 else CLONE_NEWNS | CLONE_NEWUSER)
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    real = folder.with_name(f".{folder.name}-real")
    real.mkdir(exist_ok=True)
    call("mount", bytes(folder), bytes(real), None, MS_BIND, None)
    page = os.sysconf("SC_PAGE_SIZE")
    pages = 1 + sum(1 + (-(-each.lstat().st_size // page)) for each in real.rglob("*"))
    size = f"size={pages * page + fault.n}".encode()
    call("mount", b"tmpfs", bytes(folder), b"tmpfs", 0, size)
    shutil.copytree(real, folder, symlinks=True, dirs_exist_ok=True)
    cwd = os.getcwd()
    os.chdir(cwd)  # into the folder that is mounted now, where the folder is the working directory
    try:
        yield
    finally:
        for each in real.iterdir():
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
        shutil.copytree(folder, real, symlinks=True, dirs_exist_ok=True)
        call("umount", bytes(folder))
        call("umount", bytes(real))
        real.rmdir()


def _prepare() -> None:
    """Import all that commands use, and let workers be forked from them."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for module in PRELOADED:
        import_module(module)
    from dvc.cli.parser import get_main_parser

    get_main_parser()
    from leash.grading import worker_pool
    from leash.scheduler import run

    for user in (run, worker_pool):
        user.forkserver_context = partial(multiprocessing.get_context, "fork")  # type: ignore[attr-defined]
    os.fsync = lambda fd: None  # nobody cuts the power
    _import_what_loading_imports()
    threads = [Path(f"/proc/self/task/{task}/comm").read_text().strip() for task in os.listdir("/proc/self/task")]
    # Arrow's allocator has a thread of its own, and knows of forks.
    assert not set(threads[1:]) - {"jemalloc_bg_thd"}, f"a fork of a process with threads can hang: {threads}"


def _leave_figures_out() -> None:
    from leash import atomic_io
    from leash.params.groups import Params
    from leash.report.figures import drawing
    from leash.report.report_data import Results

    drawings = drawing.build_figure_specs

    def name_figures(params: Params, results: Results, folder: Path) -> dict[str, str]:
        captions = {name: caption for name, (caption, _) in drawings(params, results).items()}
        for name in captions:
            for suffix in (".png", ".svg"):
                atomic_io.write(folder / f"{name}{suffix}", name)
        return captions

    drawing.draw_figures = name_figures
    vl_convert.javascript_bundle = lambda *_: ""  # the library that draws on the page


def _import_what_loading_imports() -> None:
    """Transformers imports most of itself when it loads the first model. A child does that, since loading leaves
    threads behind, and tells which modules these are."""
    from leash.weights import Weights, load_model

    before = set(sys.modules)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        load_model(Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float64"))
        with open(writer, "w") as told:
            told.write("\n".join(name for name in sys.modules if name not in before))
        os._exit(0)
    os.close(writer)
    with open(reader) as told:
        names = told.read().split()
    os.waitpid(child, 0)
    for name in names:
        with contextlib.suppress(ImportError):
            import_module(name)


if __name__ == "__main__":
    _prepare()
    serve(socket.socket(fileno=int(sys.argv[1])))

"""What runs inside the sandbox: it gives up every right, and then runs a program that a model wrote.

The sandbox starts this file with the words of `main`. A program is run as `__main__`, reading its test from
standard input, or as a module whose function is called with the arguments of each test, one JSON text a line; a result
is one line of JSON on the pipe `report`. No expected output is ever in here: there is nothing to find or to patch.

Only the standard library, and as little of it as will do: this is started once for every test.
"""

from __future__ import annotations

import builtins
import math
import os
import resource
import sys

TYPE_CHECKING = False  # typing's own would cost a third of Python's start
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

READY = b"ready\n"
MB = 1 << 20
FILE, STACK, OPEN_FILES = 16 * MB, 256 * MB, 64
ONLY_AST, RECURSION = 0x400, 50_000  # ast.PyCF_ONLY_AST without importing ast; the depth that LiveCodeBench grants

# LiveCodeBench and LiveBench run a program below these imports, and many a solution relies on it.
STARRED = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys json "
    "builtins typing"
)
SCOPES = ("FunctionDef", "AsyncFunctionDef", "Lambda", "ClassDef")


def main() -> None:
    """The words: uid (0: keep it), seconds, memory (MB), tasks (0: any number), report and program (file descriptors);
    packages, a folder, may be empty; for calls also tests (a file descriptor), count and function."""
    asked = dict(word.split("=", 1) for word in sys.argv[1:])
    report, program = int(asked["report"]), _read(int(asked["program"]))
    tests = _read(int(asked["tests"])).split("\0") if "tests" in asked else []
    seconds = int(asked["seconds"])
    give_up(int(asked["uid"]), seconds, max(len(tests), 1), int(asked["memory"]) * MB, int(asked["tasks"]))
    os.write(report, READY)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    sys.argv = ["program.py"]
    sys.path += filter(None, [asked["packages"]])
    sys.setrecursionlimit(RECURSION)
    # The command line's own `exit` comes with the module site, which is not loaded.
    vars(builtins).update(exit=sys.exit, quit=sys.exit)
    if tests:
        call(program, asked["function"], tests, seconds, report)
    else:
        os.close(report)
        run(program, "__main__")


def give_up(uid: int, seconds: int, tests: int, memory: int, tasks: int) -> None:
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _limit(resource.RLIMIT_CPU, seconds, (seconds + 1) * tests)
    _limit(resource.RLIMIT_AS, memory)
    _limit(resource.RLIMIT_STACK, min(STACK, memory))
    _limit(resource.RLIMIT_FSIZE, FILE)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    if tasks:
        _limit(resource.RLIMIT_NPROC, tasks)
    for none in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        _limit(none, 0)


def run(program: str, name: str) -> ModuleType:
    """A program's module after it ran. Like its benchmarks, take an exit for an end, not for a failure."""
    module = type(sys)(name)
    sys.modules[name] = module
    if needs_imports(program):
        exec(_imports(), vars(module))
    code = compile(program, "program.py", "exec", dont_inherit=True)
    try:
        exec(code, vars(module))
    except SystemExit:
        return module
    return module


def call(program: str, function: str, tests: list[str], seconds: int, report: int) -> None:
    import json

    module = run(program, "solution")
    called = getattr(module.Solution() if hasattr(module, "Solution") else module, function)
    for test in tests:
        _grant(seconds)
        result = called(*(json.loads(line) for line in test.split("\n")))
        _write(report, json.dumps(result, default=lambda value: value.item()).encode() + b"\n")


def needs_imports(program: str) -> bool:
    """Whether a program uses a name that it binds nowhere in reach. Importing all of STARRED takes longer than
    starting Python, and most programs import what they use."""
    tree = compile(program, "program.py", "exec", ONLY_AST, dont_inherit=True)
    return any(True for _ in _unbound(tree, set(dir(builtins)) | {"__name__", "__file__"}))


def _unbound(scope: Any, outer: set[str]) -> Iterator[str]:
    nodes = list(_own(scope))
    bound = outer.union(*(_bound(node) for node in nodes))
    for node in nodes:
        if type(node).__name__ == "Name" and node.id not in bound:
            yield node.id
        if type(node).__name__ in SCOPES:
            yield from _unbound(node, bound)


def _own(scope: Any) -> Iterator[Any]:
    """The nodes of a scope, those that open another one included, but not what is in there."""
    waiting = [scope]
    while waiting:
        node = waiting.pop()
        for field in node._fields:
            value = getattr(node, field, None)
            for child in value if isinstance(value, list) else [value]:
                if hasattr(child, "_fields"):
                    yield child
                    if type(child).__name__ not in SCOPES:
                        waiting.append(child)


def _bound(node: Any) -> set[str]:
    """The names that a node binds in the scope that it stands in."""
    kind = type(node).__name__
    if kind == "Name" and type(node.ctx).__name__ != "Load":
        return {node.id}
    if kind == "alias":
        return {(node.asname or node.name).split(".")[0]}
    if kind == "arg":
        return {node.arg}
    named = kind in SCOPES or kind in ("ExceptHandler", "MatchAs", "MatchStar")
    return {name} if named and (name := getattr(node, "name", None)) else set()


def _imports() -> str:
    """First every name of the modules, then the modules, so that `datetime` is the module."""
    names = STARRED.split()
    return "\n".join([f"from {name} import *" for name in names] + [f"import {name}" for name in names])


def _grant(seconds: int) -> None:
    """So many more seconds of processor time for the next call."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (min(math.ceil(used.ru_utime + used.ru_stime) + seconds, most), most))


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    """As asked, or what is left of it where the parent has less itself."""
    _, most = resource.getrlimit(kind)
    hard = soft if hard is None else hard
    if most != resource.RLIM_INFINITY:
        hard = min(hard, most)
    resource.setrlimit(kind, (min(soft, hard), hard))


def _read(descriptor: int) -> str:
    with open(descriptor, "rb") as file:
        return file.read().decode()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    main()

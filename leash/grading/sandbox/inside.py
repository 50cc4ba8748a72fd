"""The program that runs inside the sandbox: it gives up all rights, and then runs a program that a model wrote.

`sandbox.py` starts this file with the arguments that `main` lists. The program runs as `__main__` and reads its test
from standard input; or it is a module whose function is called for each test, and each result is one line of JSON on
the socket `report`. A test is its number of arguments and one line of JSON for each, on the pipe `tests`; `sandbox.py`
sends it after the result of the one before. So there is no later test to find, and no expected output.

It imports as little as possible, and only from the standard library, because it starts once for every test.
"""

from __future__ import annotations

import builtins
import os
import resource
import sys

TYPE_CHECKING = False  # importing `typing` would take a third of Python's start
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType
    from typing import Any

READY_MESSAGE, LOADED_MESSAGE = b"ready\n", b"loaded\n"
MB = 1 << 20
MAX_STACK_BYTES, MAX_OPEN_FILES = 256 * MB, 64
PIPE_BYTES = 1 << 16  # what a pipe holds
AST_ONLY_FLAG = 0x400  # ast.PyCF_ONLY_AST, without importing ast
RECURSION_LIMIT = 50_000  # as in LiveCodeBench

# LiveCodeBench and LiveBench run each program below these imports, and many solutions rely on them.
PRELUDE_MODULES = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys json "
    "builtins typing"
)
SCOPE_NODE_TYPES = ("FunctionDef", "AsyncFunctionDef", "Lambda", "ClassDef")


def main() -> None:
    """Arguments, as name=value: uid (0: keep it), seconds (of CPU time, in all), memory (MB), tasks (0: no limit),
    packages (a folder, may be empty), report and program (file descriptors); for calls also function and tests (a file
    descriptor)."""
    arguments = dict(argument.split("=", 1) for argument in sys.argv[1:])
    report, program = int(arguments["report"]), _read_descriptor(int(arguments["program"]))
    seconds, memory = int(arguments["seconds"]), int(arguments["memory"]) * MB
    drop_user_and_set_limits(int(arguments["uid"]), seconds, memory, int(arguments["tasks"]))
    # Everything before this message is the sandbox's fault, everything after it the program's.
    os.write(report, READY_MESSAGE)
    with open(os.devnull, "wb") as devnull:
        os.dup2(devnull.fileno(), 2)
    sys.argv = ["program.py"]
    sys.path += filter(None, [arguments["packages"]])
    sys.setrecursionlimit(RECURSION_LIMIT)
    # `exit` and `quit` come from the module `site`, which is not loaded here.
    vars(builtins).update(exit=sys.exit, quit=sys.exit)
    if "tests" in arguments:
        call_function(program, arguments["function"], int(arguments["tests"]), report)
    else:
        os.close(report)
        run_program(program, "__main__")


def drop_user_and_set_limits(uid: int, seconds: int, memory: int, tasks: int) -> None:
    """Drop to another user and set the limits. All are hard: the program can neither raise them nor ignore a signal
    that comes before (SIGXCPU)."""
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _set_rlimit(resource.RLIMIT_CPU, seconds)
    _set_rlimit(resource.RLIMIT_AS, memory)
    _set_rlimit(resource.RLIMIT_STACK, min(MAX_STACK_BYTES, memory))
    _set_rlimit(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    if tasks:
        _set_rlimit(resource.RLIMIT_NPROC, tasks)
    for forbidden in ("FSIZE", "CORE", "MEMLOCK", "MSGQUEUE", "SIGPENDING"):
        _set_rlimit(getattr(resource, f"RLIMIT_{forbidden}"), 0)


def run_program(program: str, name: str) -> ModuleType:
    """Run a program and return its module. As in the benchmarks, SystemExit ends it and is no failure."""
    module = type(sys)(name)
    sys.modules[name] = module
    if needs_prelude(program):
        modules = PRELUDE_MODULES.split()
        # The modules come last, so that `datetime` is the module and not the class in it.
        imports = [f"from {each} import *" for each in modules] + [f"import {each}" for each in modules]
        exec("\n".join(imports), vars(module))
    code = compile(program, "program.py", "exec", dont_inherit=True)
    try:
        exec(code, vars(module))
    except SystemExit:
        return module
    return module


def call_function(program: str, function: str, tests: int, report: int) -> None:
    import json

    module = run_program(program, "solution")
    called = getattr(module.Solution() if hasattr(module, "Solution") else module, function)
    os.write(report, LOADED_MESSAGE)
    with open(tests, "rb", PIPE_BYTES) as inputs:
        while count := inputs.readline():
            result = called(*[json.loads(inputs.readline()) for _ in range(int(count))])
            # numpy's numbers are not JSON; `item` makes them Python's.
            data = json.dumps(result, default=lambda value: value.item()).encode() + b"\n"
            while data:
                data = data[os.write(report, data) :]


def needs_prelude(program: str) -> bool:
    """Whether a program uses a name that no reachable scope binds. Most programs import what they use, and importing
    PRELUDE_MODULES takes longer than starting Python."""
    tree = compile(program, "program.py", "exec", AST_ONLY_FLAG, dont_inherit=True)
    return any(True for _ in _unbound_names(tree, set(dir(builtins)) | {"__name__", "__file__"}))


def _unbound_names(scope: Any, outer: set[str]) -> Iterator[str]:
    nodes = list(_scope_nodes(scope))
    bound = outer.union(*(_bound_names(node) for node in nodes))
    for node in nodes:
        if type(node).__name__ == "Name" and node.id not in bound:
            yield node.id
        if type(node).__name__ in SCOPE_NODE_TYPES:
            yield from _unbound_names(node, bound)


def _scope_nodes(scope: Any) -> Iterator[Any]:
    """The nodes of a scope: with those that open an inner scope, without the nodes inside that one."""
    # By hand and by `_fields`, because `ast.walk` would need the module ast.
    waiting = [scope]
    while waiting:
        node = waiting.pop()
        for field in node._fields:
            value = getattr(node, field, None)
            for child in value if isinstance(value, list) else [value]:
                if hasattr(child, "_fields"):
                    yield child
                    if type(child).__name__ not in SCOPE_NODE_TYPES:
                        waiting.append(child)


def _bound_names(node: Any) -> set[str]:
    """The names that a node binds in its scope."""
    kind = type(node).__name__
    if kind == "Name" and type(node.ctx).__name__ != "Load":
        return {node.id}
    if kind == "alias":
        return {(node.asname or node.name).split(".")[0]}
    if kind == "arg":
        return {node.arg}
    has_name = kind in SCOPE_NODE_TYPES or kind in ("ExceptHandler", "MatchAs", "MatchStar")
    return {name} if has_name and (name := getattr(node, "name", None)) else set()


def _set_rlimit(kind: int, limit: int) -> None:
    """Set a limit, soft and hard; a lower one if the parent process has a lower one."""
    _, inherited = resource.getrlimit(kind)
    if inherited != resource.RLIM_INFINITY:
        limit = min(limit, inherited)
    resource.setrlimit(kind, (limit, limit))


def _read_descriptor(descriptor: int) -> str:
    with open(descriptor, "rb") as file:
        return file.read().decode()


if __name__ == "__main__":
    main()

"""The grader `code`: right programs pass, wrong ones don't, and hostile ones neither pass nor get out."""

from __future__ import annotations

import base64
import json
import os
import pickle
import select
import socket
import subprocess
import sys
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stages.errors import LeashError
from stages.fetch import code_tests
from stages.params import Code
from stages.verify import graders, sandbox
from stages.verify.graders import code
from stages.verify.sandbox import inside
from tests.conftest import ROOT

needs_sandbox = pytest.mark.skipif(sandbox.missing() is not None, reason=str(sandbox.missing()))
SMALL = {"seconds": 1, "memory": 512}

ADD = "a, b = map(int, input().split())\nprint(a + b)"
SHIFT = "class Solution:\n    def shift(self, numbers, by):\n        return [n + by for n in numbers]"

THREADED = (
    "import threading\ndef work():\n    print(sum(map(int, input().split())))\nthreading.Thread(target=work).start()"
)


def stdin(given: str, expected: str) -> str:
    return json.dumps({"input": given, "output": expected, "kind": "stdin"})


def call(given: str, expected: str) -> str:
    return json.dumps({"input": given, "output": expected, "kind": "call"})


SUMS = [stdin("20 22\n", "42\n"), stdin("1 1\n", "2\n")]
SHIFTS = [call("[1, 2]\n3", "[4, 5]"), call("[]\n1", "[]")]


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "passed", "why"),
    [
        (ADD, True, "right"),
        ("a, b = map(int, input().split())\nprint(a * b)", False, "wrong on the first test"),
        ("print(42)", False, "right on the first test only"),
        ("import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit(1)", True, "an exit is an end"),
        ("print(sum(map(int, open('/dev/stdin').read().split())))\nexit()", True, "reads the file of its input"),
        ("print(reduce(operator.add, map(int, input().split())))", True, "the benchmarks import these names for it"),
        ("import numpy as np\nprint(np.array(input().split(), dtype=int).sum())", True, "their runners have numpy"),
        ("if __name__ == '__main__':\n    " + ADD.replace("\n", "\n    "), True, "it is the main program"),
        (THREADED, True, "a thread"),
        (ADD + "\n1 / 0", False, "fails after its output"),
        ("a, b = map(int input().split())", False, "is not Python"),
        ("", False, "is empty"),
    ],
)  # fmt: skip
def test_a_program_passes_if_its_output_is_right_for_every_input(program: str, passed: bool, why: str) -> None:
    assert code.outcome(program, SUMS, {}).passed is passed, why


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "passed", "why"),
    [
        (SHIFT, True, "right"),
        ("def shift(numbers, by):\n    return tuple(n + by for n in numbers)", True, "plain function, tuple"),
        ("import numpy\n" + SHIFT.replace("n + by", "numpy.int64(n + by)"), True, "numpy's numbers"),
        (SHIFT + "\nprint('[0]')", True, "what it prints is not its result"),
        (SHIFT.replace("n + by", "n - by"), False, "wrong"),
        (SHIFT.replace("shift", "move"), False, "another function"),
        ("def shift(numbers, by):\n    return {n + by for n in numbers}", False, "a set is no list"),
        ("def shift(numbers, by):\n    return [4, 5]", False, "right on the first test only"),
    ],
)  # fmt: skip
def test_a_function_passes_if_its_result_is_right_for_every_call(program: str, passed: bool, why: str) -> None:
    assert code.outcome(program, SHIFTS, {"function": "shift"}).passed is passed, why


@needs_sandbox
def test_an_answer_completes_the_beginning_it_was_given_or_repeats_it() -> None:
    prefix = "def shift(numbers, by):\n    moved = [n + by for n in numbers]"
    meta = {"function": "shift", "prefix": prefix}
    assert code.grade("    return moved", SHIFTS, meta) == 1
    assert code.grade(prefix + "\n    return moved", SHIFTS, meta) == 1
    assert code.grade("    return numbers", SHIFTS, meta) == 0


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("while True:\n    pass", "test 1: used its 1 s of processor time, or was killed"),
        ("print(42)", "test 2: another output than expected"),
        ("print(42 if input() == '20 22' else 1 / 0)", "test 2: ended with exit code 1"),
        ("while True:\n    print('y' * 100_000)", "test 1: wrote more than 16 MB"),
        ("#" * 100_001, "it has more than 100,000 characters"),
    ],
)
def test_the_first_test_that_fails_says_why(program: str, reason: str) -> None:
    assert code.outcome(program, SUMS, {"limits": SMALL}) == code.Outcome(False, reason)


@pytest.mark.parametrize(
    ("output", "expected", "same", "why"),
    [
        ("42", "42\n", True, "no line end"),
        ("4  2 \n\n", "4 2", True, "spaces and empty lines at the end"),
        ("4\n2", "4 2", False, "another line"),
        ("0.50", "0.5", True, "the same number"),
        ("0.3333333", "0.33333333333", True, "close enough for a number with a fraction"),
        ("0.3334", "0.33333333333", False, "not close enough"),
        ("100000000000000001", "100000000000000000", False, "whole numbers are exact"),
        ("7.0000001", "7", False, "whole numbers are exact"),
        ("yes", "Yes", False, "letters are what they are"),
        ("inf", "1.5", False, "no number"),
        ("9" * 1_000_000, "1.5", False, "too long to be a number"),
    ],
)
def test_outputs_are_compared_as_contests_do(output: str, expected: str, same: bool, why: str) -> None:
    assert code._same_text(output, expected) is same, why


HOST = "127.0.0.1"
WIN = "print(42)"

# Each prints the right answer only where its attack succeeds: to pass is to get out. In capitals with @ is what stands
# outside of the sandbox, by the names of the fixture below.
HOSTILE = r"""
## fork bomb
import os
while True:
    os.fork()
print(42)

## fork bomb that does not give up
import os
while True:
    try:
        os.fork()
    except OSError:
        pass

## forks once
import os
if os.fork() == 0:
    print(42)

## leaves a daemon
import os
os.posix_spawn('/proc/self/exe', ['python', '-c', 'while True: pass'], {})
print(42)

## starts a shell
import subprocess
subprocess.run(['/bin/sh', '-c', 'true'])
print(42)

## multiprocessing
import multiprocessing as m
p = m.get_context('fork').Process(target=print)
p.start()
print(42)

## thread bomb
import threading, time
threading.stack_size(32768)
for _ in range(5000):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print(42)

## infinite loop
while True:
    pass

## infinite loop that ignores the signal
import signal
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
while True:
    pass

## becomes another loop
import os
os.execv('/proc/self/exe', ['python', '-c', 'while True: pass'])

## sleeps
import time
time.sleep(600)
print(42)

## closes its output and sleeps
import os, time
os.close(1)
time.sleep(600)

## raises its limits
import resource as r
r.setrlimit(r.RLIMIT_CPU, (999, 999))
print(42)

## raises its memory
import resource as r
r.setrlimit(r.RLIMIT_AS, (-1, -1))
print(42)

## goes first
import os
os.nice(-10)
print(42)

## 100 GB
x = bytearray(100 << 30)
print(42)

## 100 GB bit by bit
x = []
for _ in range(1000):
    x.append(bytearray(100 << 20))
print(42)

## 100 GB mapped
import mmap
x = mmap.mmap(-1, 100 << 30)
print(42)

## memory that is a file
import os
fd = os.memfd_create('x')
print(42)

## shared memory
from multiprocessing.shared_memory import SharedMemory
SharedMemory('x', True, 1 << 30)
print(42)

## fills /tmp
for i in range(9):
    open(f'/tmp/{i}', 'wb').write(bytes(8 << 20))
print(42)

## a file too large
f = open('/tmp/x', 'wb')
for _ in range(64):
    f.write(bytes(1 << 20))
print(42)

## writes outside
open('@SENTINEL@', 'w').write('gone')
print(42)

## writes outside through a link
import os
os.symlink('@SENTINEL@', '/tmp/x')
open('/tmp/x', 'w').write('gone')
print(42)

## removes what is outside
import os
os.remove('@SENTINEL@')
print(42)

## reads outside
open('@SENTINEL@').read()
print(42)

## reads outside through the first process
open('/proc/1/root@SENTINEL@').read()
print(42)

## reads the users
open('/etc/passwd').read()
print(42)

## climbs out
import os
os.chroot('/tmp')
print(42)

## writes into Python
import os
open(os.__file__, 'a').write('#')
print(42)

## writes into the driver
open('/inside.py', 'a').write('#')
print(42)

## writes at the root
open('/x', 'w').write('#')
print(42)

## reads the environment
import os
if '@CANARY@' in os.environ:
    print(42)

## reads everyone's environment
import os
for p in os.listdir('/proc'):
    if p.isdigit():
        try:
            if b'@CANARY@' in open(f'/proc/{p}/environ', 'rb').read():
                print(42)
        except OSError:
            pass

## network
import socket
socket.create_connection(('@HOST@', @PORT@), timeout=2)
print(42)

## network without a connection
import socket
socket.socket(2, 2).sendto(b'x', ('192.0.2.1', 53))
print(42)

## a socket by name
import socket
socket.socket(1).connect('\0@NAME@')
print(42)

## kills its parent
import os
os.kill(os.getppid(), 9)
os.kill(os.getppid(), 15)
if os.getppid() != 1:
    print(42)

## kills everyone
import os
os.kill(-1, 9)
if not os.path.exists('/proc/1'):
    print(42)

## becomes root
import os
os.setuid(0)
print(42)

## a namespace of its own
import ctypes
if ctypes.CDLL(None).unshare(0x10000000) == 0:
    print(42)

## mounts
import ctypes
if ctypes.CDLL(None).mount(b'x', b'/tmp', b'tmpfs', 0, None) == 0:
    print(42)

## traces the first process
import ctypes
if ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0:
    print(42)

## renames the machine
import socket
socket.sethostname('x')
print(42)

## changes the kernel
open('/proc/sys/kernel/core_pattern', 'w').write('x')
print(42)

## endless output
while True:
    print('42')

## endless complaints
import sys
while True:
    sys.stderr.write('42' * 10_000)

## exits with 0
import sys
sys.exit(0)

## exits at once with 0
import os
os._exit(0)

## crashes
import ctypes
ctypes.string_at(0)
print(42)

## recurses
import sys
sys.setrecursionlimit(10**9)
f = lambda: f()
f()
print(42)

## patches the comparison
import sys
sys.modules['stages.verify.graders.code']._same = lambda *_: True

## prints what equals all
class Any(str):
    __eq__ = lambda *_: True
    __hash__ = str.__hash__
print(Any('1'))

## writes to every pipe
import os
for fd in range(64):
    try:
        os.write(fd, b'ready\n1\n')
    except OSError:
        pass

## changes its input
import os
os.write(os.open('/proc/self/fd/0', os.O_RDWR), b'x')
print(42)

## looks for the answer
import glob
for name in sum(map(glob.glob, ['/proc/*/fd/*', '/proc/*/cmdline', '/tmp/*', '/*']), []):
    try:
        if b'42' in open(name, 'rb').read(1 << 20):
            print(42)
    except OSError:
        pass
"""

# The function `shift`, hostile.
CALLED = r"""
## equals all
class Any:
    __eq__ = lambda *_: True
def shift(*_):
    return Any()

## a list that equals all
class Any(list):
    __eq__ = lambda *_: True
def shift(*_):
    return Any()

## patches JSON
import json
json.dumps = lambda *_, **__: 'true'
def shift(*_):
    return 0

## writes results for all tests
import os
for fd in range(3, 64):
    try:
        os.write(fd, b'true\n' * 9)
    except OSError:
        pass
def shift(*_):
    return 0

## exits
import os
def shift(*_):
    os._exit(0)

## prints the result
def shift(*_):
    print([4, 5])

## loops in the call
def shift(*_):
    while True:
        pass

## loops before the call
while True:
    pass

## sleeps
import time
def shift(*_):
    time.sleep(600)

## results without end
import os
def shift(*_):
    while True:
        for fd in range(3, 9):
            try:
                os.write(fd, b'7' * 65536)
            except OSError:
                pass

## nested too deep
import os
def shift(*_):
    for fd in range(3, 9):
        try:
            os.write(fd, b'[' * 100_000 + b'\n')
        except OSError:
            pass
"""


def programs(table: str) -> dict[str, str]:
    named = (entry.partition("\n") for entry in table.strip().removeprefix("## ").split("\n## "))
    return {name: program for name, _, program in named}


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


def test_the_pool_is_told_of_the_time_that_all_tests_may_take() -> None:
    assert code.seconds(SUMS * 10, {"limits": SMALL}) >= 20 * SMALL["seconds"]


@pytest.mark.parametrize(
    ("text", "answer", "why"),
    [
        ("So:\n```python\nprint(1)\n```\nDone.", "print(1)", "a block of Python"),
        ("```\nprint(1)\n```", "print(1)", "a block of no language"),
        ("```python\nprint(1)\n```\nor\n```python\nprint(2)\n```", "print(2)", "the last one"),
        ("```python\nprint(1)\n```\nwhich prints\n```\n1\n```", "print(1)", "Python before no language"),
        ("```cpp\nint x;\n```", None, "another language"),
        ("<think>```python\nprint(1)\n```</think>```python\nprint(2)\n```", "print(2)", "after the thinking"),
        ("<think>\n```python\nprint(1)\n```\n", None, "never stopped thinking"),
        ("```python\nprint(1)\n```\nBetter:\n```python\nprint(", None, "cut off"),
        ("```python\n\n```", None, "empty"),
        ("print(1)", None, "no block"),
    ],
)
def test_the_answer_is_the_last_block(text: str, answer: str | None, why: str) -> None:
    assert code.extract(text) == answer, why


def test_programs_that_differ_in_comments_and_spaces_are_one() -> None:
    assert code.canonical("x=1 # one\n\n\nprint( x )  ", {}) == code.canonical("x = 1\nprint(x)", {})
    assert code.canonical("x = 1", {}) != code.canonical("x = 2", {})
    assert code.canonical("x = (\n\n  ", {}) == "x = ("


@pytest.mark.parametrize(
    ("gold", "meta", "complaint"),
    [
        (SUMS, {}, None),
        (SHIFTS, {"function": "shift"}, None),
        ([], {}, "there is no test"),
        ([SUMS[0], "42"], {}, 'test 2 is not {"input": text, "output": text, "kind": …}'),
        (["{"], {}, "test 1 is not JSON"),
        (
            [json.dumps({"input": "", "output": "", "kind": "file"})],
            {},
            "test 1 is of the kind 'file', not stdin or call",
        ),
        (SHIFTS, {}, "test 1 is a call, but None is not the name of a function"),
        ([call("1\nx", "2")], {"function": "f"}, "test 1 is a call with an argument or a result that is not JSON"),
    ],
)
def test_a_gold_that_is_no_test_is_said(gold: list[str], meta: dict[str, Any], complaint: str | None) -> None:
    assert code.complaint(gold, meta) == complaint


def packed(value: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


CASES = [{"input": "1\n", "output": "2024\n", "testtype": "stdin"}]


@pytest.mark.parametrize("private", [json.dumps(CASES), packed(json.dumps(CASES))], ids=["JSON", "packed"])
def test_private_tests_are_read_packed_or_not(private: str) -> None:
    gold = code_tests.tests(json.dumps([{"input": "[1]\n2", "output": "[3]", "testtype": "functional"}]), private)
    assert [json.loads(test) for test in gold] == [
        {"input": "[1]\n2", "output": "[3]", "kind": "call"},
        {"input": "1\n", "output": "2024\n", "kind": "stdin"},
    ]
    assert code.complaint(gold, {"function": "shift"}) is None


class Harmful:
    """Unpickled by pickle.loads, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (self.folder,)


def test_a_pickle_that_is_more_than_a_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LeashError, match=r"would load posix\.mkdir"):
        code_tests.tests("[]", packed(Harmful(tmp_path / "made")))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "private", ["no JSON", packed(7), packed("no JSON")[:-8], packed('{"a": 1}'), '[{"input": ""}]']
)
def test_tests_that_cant_be_read_are_a_sentence(private: str) -> None:
    with pytest.raises(LeashError, match=r"download the file again\.$"):
        code_tests.tests("[]", private)


@pytest.mark.parametrize(
    ("metadata", "starter", "function"),
    [
        ('{"func_name": "maxSum"}', "", "maxSum"),
        ("{}", "class Solution:\n    def maxSum(self, nums: List[int]) -> int:\n        ", "maxSum"),
        ("{}", "def max_sum(nums):", "max_sum"),
        ("{}", "", None),
        ("", "", None),
    ],
)
def test_the_function_to_call_is_named_or_begun(metadata: str, starter: str, function: str | None) -> None:
    assert code_tests.function(metadata, starter) == function


def test_a_question_asks_for_a_program_or_for_the_rest_of_one() -> None:
    plain = code_tests.question({"question_content": "Add two numbers.\n", "starter_code": ""})
    begun = code_tests.question(
        {"question_content": "Add.", "starter_code": "class Solution:\n    def add(self, a, b):\n"}
    )
    assert plain.startswith("Add two numbers.\n\n")
    assert "standard input" in plain
    assert "class Solution:\n    def add(self, a, b):\n```" in begun
    assert plain.count("```python block") == begun.count("```python block") == 1


def test_livebench_gives_the_function_and_the_beginning() -> None:
    original = {"metadata": '{"func_name": "add"}', "starter_code": "class Solution:\n    def add(self, a):"}
    row = {"original_json": original, "partial_solution": "class Solution:\n    def add(self, a):\n        b = 1"}
    expected = {"function": "add", "starter": original["starter_code"], "prefix": row["partial_solution"]}
    assert code_tests.livebench_meta(row) == expected
    assert code_tests.livebench_meta({**row, "original_json": json.dumps(original)}) == expected
    assert code_tests.livebench_meta({"original_json": original, "partial_solution": None})["prefix"] == ""


def test_a_stage_that_can_run_nothing_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather than give every program the status error."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LeashError, match="bubblewrap, which makes it, is not here; install it with"):
        graders.ready(["exact", "code"])
    assert graders.ready(["exact"]) == ["exact"]

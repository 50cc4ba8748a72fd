"""The grader `code`: correct programs pass and wrong ones do not. Hostile ones are in test_sandbox.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leash.grading.graders import code
from leash.grading.sandbox import sandbox
from leash.params.groups import Code

needs_sandbox = pytest.mark.skipif(sandbox.missing() is not None, reason=str(sandbox.missing()))
SMALL = {"seconds": 1, "memory": 512}

ADD = "a, b = map(int, input().split())\nprint(a + b)"
SHIFT = "class Solution:\n    def shift(self, numbers, by):\n        return [n + by for n in numbers]"

THREADED = (
    "import threading\ndef work():\n    print(sum(map(int, input().split())))\nthreading.Thread(target=work).start()"
)


def stdin(text: str, output: str) -> str:
    return json.dumps({"input": text, "output": output, "kind": "stdin"})


def call(arguments: str, output: str) -> str:
    return json.dumps({"input": arguments, "output": output, "kind": "call"})


SUMS = [stdin("20 22\n", "42\n"), stdin("1 1\n", "2\n")]
SHIFTS = [call("[1, 2]\n3", "[4, 5]"), call("[]\n1", "[]")]


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "passed", "why"),
    [
        (ADD, True, "right"),
        ("a, b = map(int, input().split())\nprint(a * b)", False, "wrong on the first test"),
        ("print(42)", False, "right on the first test only"),
        ("import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit(1)", True, "an exit is no failure"),
        ("print(sum(map(int, open('/dev/stdin').read().split())))\nexit()", True, "reads the file of its input"),
        ("print(reduce(operator.add, map(int, input().split())))", True, "the benchmarks import these names"),
        ("import numpy as np\nprint(np.array(input().split(), dtype=int).sum())", True, "the runners have numpy"),
        ("if __name__ == '__main__':\n    " + ADD.replace("\n", "\n    "), True, "the module is __main__"),
        (THREADED, True, "starts a thread"),
        (ADD + "\n1 / 0", False, "fails after its output"),
        ("a, b = map(int input().split())", False, "is not Python"),
        ("", False, "is empty"),
    ],
)  # fmt: skip
def test_a_program_passes_if_its_output_is_right_for_every_input(program: str, passed: bool, why: str) -> None:
    assert (code.find_failure(program, SUMS, {}) is None) is passed, why


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
    assert (code.find_failure(program, SHIFTS, {"function": "shift"}) is None) is passed, why


@needs_sandbox
def test_an_answer_may_continue_or_repeat_the_given_prefix() -> None:
    prefix = "def shift(numbers, by):\n    moved = [n + by for n in numbers]"
    meta = {"function": "shift", "prefix": prefix}
    assert code.grade("    return moved", SHIFTS, meta) == 1
    assert code.grade(prefix + "\n    return moved", SHIFTS, meta) == 1
    assert code.grade("    return numbers", SHIFTS, meta) == 0


@needs_sandbox
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("while True:\n    pass", "test 1: used its 1 s of CPU time, or was killed"),
        ("print(42)", "test 2: the output is not the expected one"),
        ("print(42 if input() == '20 22' else 1 / 0)", "test 2: ended with exit code 1"),
        ("while True:\n    print('y' * 100_000)", "test 1: wrote more than 16 MB"),
        ("#" * 100_001, "it has more than 100,000 characters"),
    ],
)
def test_the_outcome_names_the_first_test_that_fails(program: str, reason: str) -> None:
    assert code.find_failure(program, SUMS, {"limits": SMALL}) == reason


@pytest.mark.parametrize(
    ("output", "expected", "same", "why"),
    [
        ("42", "42\n", True, "no line end"),
        ("4  2 \n\n", "4 2", True, "spaces and empty lines at the end"),
        ("4\n2", "4 2", False, "another line"),
        ("0.50", "0.5", True, "the same number"),
        ("0.3333333", "0.33333333333", True, "close enough for a number with a fraction"),
        ("0.3334", "0.33333333333", False, "not close enough"),
        ("0.0000019", "0.000001", False, "almost twice as much"),
        ("0.000001", "0.0000019", False, "about half as much"),
        ("0", "0.0000004", False, "nothing is not close to something"),
        ("0.000000", "0.0000004", False, "nothing is not close to something"),
        ("0.00000100000001", "0.000001", True, "close enough for a small number"),
        ("1.00000001e-06", "1e-6", True, "the same, as Python writes it"),
        ("1.9e-06", "1e-6", False, "almost twice as much, as Python writes it"),
        ("0.083333", "0.08333333333", True, "the expected number with the six decimals of %f"),
        ("0.083334", "0.08333333333", False, "another number with six decimals"),
        ("0.000002", "0.0000019", False, "too few digits to tell"),
        ("5.551115123125783e-17", "0.0", True, "the noise of floating point around zero"),
        ("0.0", "-1.1102230246251565e-16", True, "the noise of floating point around zero"),
        ("1.234567e-999", "1.5e999", False, "far apart"),
        ("1234567.4", "1234567.5", True, "relative to a large number"),
        ("1234560.5", "1234567.5", False, "relative to a large number"),
        ("100000000000000001", "100000000000000000", False, "whole numbers are exact"),
        ("7.0000001", "7", False, "whole numbers are exact"),
        ("yes", "Yes", False, "case matters"),
        ("inf", "1.5", False, "not a number"),
        ("9" * 1_000_000, "1.5", False, "too long to be a number"),
    ],
)
def test_outputs_are_compared_as_contests_do(output: str, expected: str, same: bool, why: str) -> None:
    assert code._is_same_output(output, expected) is same, why


def test_the_time_limit_grows_with_the_number_of_tests() -> None:
    added = code.seconds(SUMS * 10, {"limits": SMALL}) - code.seconds(SUMS, {"limits": SMALL})
    assert added == 18 * sandbox.wall_time_limit(Code.model_validate(SMALL))
    assert code.seconds(SUMS, {"limits": SMALL | {"seconds": 9}}) > code.seconds(SUMS, {"limits": SMALL})


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
def test_the_answer_is_the_last_python_block(text: str, answer: str | None, why: str) -> None:
    assert code.extract(text) == answer, why


def test_programs_that_differ_only_in_comments_and_spaces_are_the_same_answer() -> None:
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
        (['{"input": "", "output": "", "kind": "file"}'], {}, "test 1 is of the kind 'file', not stdin or call"),
        (SHIFTS, {}, "test 1 is a call, but None is not the name of a function"),
        ([call("1\nx", "2")], {"function": "f"}, "test 1 is a call with an argument or a result that is not JSON"),
    ],
)
def test_a_gold_that_is_not_a_test_is_reported(gold: list[str], meta: dict[str, Any], complaint: str | None) -> None:
    assert code.complaint(gold, meta) == complaint

r"""Parse the tests of LiveCodeBench and LiveBench coding, which are the golds of the grader `code`.

    {"question_id": "abc387_b", "platform": "atcoder", "contest_date": "2025-01-04T00:00:00", "starter_code": "",
     "public_test_cases": "[{\"input\": \"1\\n\", \"output\": \"2024\\n\", \"testtype\": \"stdin\"}]",
     "private_test_cases": "eJxr…", "metadata": "{}"}

    parse_tests(row["public_test_cases"], row["private_test_cases"])[0]
        ->  {"input": "1\n", "output": "2024\n", "kind": "stdin"}

A LeetCode problem has tests of the type functional, a `starter_code` with `class Solution`, and the method's name as
`func_name` in its metadata. Private tests are JSON as well or, to save space, base64 of zlib of a pickled JSON text. A
pickle can run any code when it is loaded, so one that holds more than a text is refused.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import re
import zlib
from collections.abc import Mapping
from typing import Any, NoReturn

from leash.benchmarks.benchmark import Row, RowError
from leash.errors import LeashError
from leash.formatting import truncate

TEST_KINDS = {"stdin": "stdin", "functional": "call"}
# The limit for one problem. All of LiveCodeBench, packed, is 4.5 GB for 1,055 problems.
MAX_TESTS_BYTES = 1 << 30
METHOD_PATTERN = re.compile(r"^\s+def (\w+)\(\s*self\b", re.MULTILINE)
FUNCTION_PATTERN = re.compile(r"^def (\w+)\(", re.MULTILINE)


class TestsFormatError(LeashError):
    """The tests of a problem cannot be read."""

    __test__ = False  # pytest would collect a class of this name

    def __init__(self, fault: str) -> None:
        self.fault = fault
        super().__init__(f"{fault}; download the file again.")


def golds_from_row(row: Row) -> list[str]:
    try:
        return parse_tests(str(row.get("public_test_cases") or ""), str(row.get("private_test_cases") or ""))
    except TestsFormatError as error:
        raise RowError(row.where, str(error).rstrip(".")) from None


def parse_tests(public: str, private: str) -> list[str]:
    """The golds of a problem: all its tests, the public ones first, each as JSON."""
    golds = []
    for test in [*_parse_test_list(public), *_parse_test_list(private)]:
        try:
            gold = {"input": str(test["input"]), "output": str(test["output"]), "kind": TEST_KINDS[test["testtype"]]}
        except KeyError as error:
            raise TestsFormatError(f"a test of a problem has no {error}, or an unknown type") from None
        golds.append(json.dumps(gold, ensure_ascii=False))
    return golds


def find_function_name(metadata: str, starter: str) -> str | None:
    """The function that the tests call, if any: named in the metadata, or defined in the starter code."""
    name = _parse_json_object(metadata).get("func_name")
    started = METHOD_PATTERN.search(starter) or FUNCTION_PATTERN.search(starter)
    return str(name) if name else started and started[1]


def build_question(row: Mapping[str, Any]) -> str:
    """The prompt of a LiveCodeBench problem."""
    starter = str(row.get("starter_code") or "").strip("\n")
    task = "Write a Python program that reads its input from standard input and prints the answer, and nothing else."
    if starter.strip():
        task = f"Write a Python program that completes this beginning:\n\n```python\n{starter}\n```"
    return f"{str(row['question_content']).strip()}\n\n{task}\n\nPut the whole program in one ```python block."


def livebench_meta(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the grader must know about a LiveBench problem, whose original is a LiveCodeBench problem. If the task is to
    complete a program, the grader puts the answer after `prefix`, unless the answer repeats it."""
    original = row.get("original_json") or {}
    original = _parse_json_object(original) if isinstance(original, str) else original
    starter = str(original.get("starter_code") or "")
    function = find_function_name(str(original.get("metadata") or "{}"), starter)
    return {"function": function, "starter": starter, "prefix": str(row.get("partial_solution") or "")}


def _parse_test_list(text: str) -> list[Mapping[str, Any]]:
    if not text.strip():
        return []
    try:
        tests = json.loads(text)
    except ValueError:
        tests = _unpack_tests(text)
    if not isinstance(tests, list) or not all(isinstance(test, dict) for test in tests):
        raise TestsFormatError("the tests of a problem are not a list of objects")
    return tests


def _unpack_tests(text: str) -> Any:
    try:
        inflate = zlib.decompressobj()
        packed = inflate.decompress(base64.b64decode(text, validate=True), MAX_TESTS_BYTES)
        if inflate.unconsumed_tail:
            raise TestsFormatError(f"the tests of a problem have more than {MAX_TESTS_BYTES >> 30} GB")
        return json.loads(_TextUnpickler(io.BytesIO(packed)).load())
    except (binascii.Error, zlib.error, pickle.UnpicklingError, ValueError, TypeError, EOFError, IndexError) as error:
        raise TestsFormatError(f"cannot read the tests of a problem ({error})") from None


class _TextUnpickler(pickle.Unpickler):
    """Loads only texts, numbers and lists. Everything else in a pickle needs `find_class`."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"they would load {module}.{name}, which no test needs")


def _parse_json_object(text: str) -> dict[str, Any]:
    """The object in a JSON column, which can be empty."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        raise TestsFormatError(f"the metadata of a problem is not JSON: {truncate(text, 60)!r}") from None
    return value if isinstance(value, dict) else {}

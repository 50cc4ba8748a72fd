r"""The tests of LiveCodeBench and LiveBench coding, as the golds of the grader `code`.

    {"question_id": "abc387_b", "platform": "atcoder", "contest_date": "2025-01-04T00:00:00", "starter_code": "",
     "public_test_cases": "[{\"input\": \"1\\n\", \"output\": \"2024\\n\", \"testtype\": \"stdin\"}]",
     "private_test_cases": "eJxr…", "metadata": "{}"}

    tests(row["public_test_cases"], row["private_test_cases"])[0]
        ->  {"input": "1\n", "output": "2024\n", "kind": "stdin"}

A problem of LeetCode has tests of the type functional, a `starter_code` with `class Solution` and the method's name as
`func_name` in its metadata. The private tests are JSON as well, or, to save space, base64 of zlib of a pickled text of
JSON: a pickle may run anything when it is read, so one that holds more than a text is refused.
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

from stages.errors import LeashError
from stages.fetch.benchmark import Row

KINDS = {"stdin": "stdin", "functional": "call"}
LARGEST = 1 << 30  # bytes of one problem's tests: the whole of LiveCodeBench, packed, is 4.5 GB for 1,055 problems
METHOD = re.compile(r"^\s+def (\w+)\(\s*self\b", re.MULTILINE)
FUNCTION = re.compile(r"^def (\w+)\(", re.MULTILINE)


def golds(row: Row) -> list[str]:
    """The golds of a row, or a sentence with its place."""
    try:
        return tests(str(row.get("public_test_cases") or ""), str(row.get("private_test_cases") or ""))
    except LeashError as error:
        raise LeashError(f"{row.where}: {error}") from None


def tests(public: str, private: str) -> list[str]:
    """The golds of a problem: all its tests, the public ones first, each as JSON."""
    return [json.dumps(_test(test), ensure_ascii=False) for test in [*_listed(public), *_listed(private)]]


def function(metadata: str, starter: str) -> str | None:
    """The function that is called, of those problems that ask for one: named, or the one that is begun."""
    named = _object(metadata).get("func_name")
    begun = METHOD.search(starter) or FUNCTION.search(starter)
    return str(named) if named else begun and begun[1]


def question(row: Mapping[str, Any]) -> str:
    """A problem of LiveCodeBench as it is put to a model."""
    starter = str(row.get("starter_code") or "").strip("\n")
    if starter.strip():
        task = f"Write a Python program that completes this beginning:\n\n```python\n{starter}\n```"
    else:
        task = (
            "Write a Python program that reads its input from standard input and prints the answer, and nothing else."
        )
    return f"{str(row['question_content']).strip()}\n\n{task}\n\nPut the whole program in one ```python block."


def livebench_meta(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the grader needs to know of a problem of LiveBench, whose original is one of LiveCodeBench. Where the task
    is to complete a program, the answer goes below `prefix`, unless it repeats it."""
    original = row.get("original_json") or {}
    original = _object(original) if isinstance(original, str) else original
    starter = str(original.get("starter_code") or "")
    return {
        "function": function(str(original.get("metadata") or "{}"), starter),
        "starter": starter,
        "prefix": str(row.get("partial_solution") or ""),
    }


def _listed(text: str) -> list[Mapping[str, Any]]:
    if not text.strip():
        return []
    try:
        listed = json.loads(text)
    except ValueError:
        listed = _unpacked(text)
    if not isinstance(listed, list) or not all(isinstance(test, dict) for test in listed):
        raise LeashError("The tests of a problem are not a list of objects; download the file again.")
    return listed


def _unpacked(text: str) -> Any:
    try:
        inflate = zlib.decompressobj()
        packed = inflate.decompress(base64.b64decode(text, validate=True), LARGEST)
        if inflate.unconsumed_tail:
            raise LeashError(f"The tests of a problem are more than {LARGEST >> 30} GB; leave it out.")
        return json.loads(_TextUnpickler(io.BytesIO(packed)).load())
    except (binascii.Error, zlib.error, pickle.UnpicklingError, ValueError, TypeError, EOFError, IndexError) as error:
        raise LeashError(f"The tests of a problem can't be read ({error}); download the file again.") from None


class _TextUnpickler(pickle.Unpickler):
    """Reads texts, numbers and lists. All else that a pickle can do begins with looking up a name."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"they would load {module}.{name}, which no test needs")


def _test(test: Mapping[str, Any]) -> dict[str, str]:
    try:
        return {"input": str(test["input"]), "output": str(test["output"]), "kind": KINDS[test["testtype"]]}
    except KeyError as error:
        raise LeashError(f"A test of a problem lacks {error}, or has another type; download the file again.") from None


def _object(text: str) -> dict[str, Any]:
    """A column of JSON that may be empty."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        raise LeashError(f"The metadata of a problem are not JSON: {text[:60]!r}; download the file again.") from None
    return value if isinstance(value, dict) else {}

"""The tests of LiveCodeBench and LiveBench programs: parsed, unpacked safely, and put into prompts."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest

from leash.benchmarks import code_tests
from leash.grading.graders import code


def packed(value: object) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


CASES = [{"input": "1\n", "output": "2024\n", "testtype": "stdin"}]


@pytest.mark.parametrize("private", [json.dumps(CASES), packed(json.dumps(CASES))], ids=["JSON", "packed"])
def test_private_tests_are_read_packed_or_not(private: str) -> None:
    gold = code_tests.parse_tests(json.dumps([{"input": "[1]\n2", "output": "[3]", "testtype": "functional"}]), private)
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
    with pytest.raises(code_tests.TestsFormatError, match=r"would load posix\.mkdir"):
        code_tests.parse_tests("[]", packed(Harmful(tmp_path / "made")))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "private", ["no JSON", packed(7), packed("no JSON")[:-8], packed('{"a": 1}'), '[{"input": ""}]']
)
def test_damaged_tests_are_refused_with_a_remedy(private: str) -> None:
    with pytest.raises(code_tests.TestsFormatError, match=r"download the file again\.$"):
        code_tests.parse_tests("[]", private)


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
def test_the_function_to_call_is_found(metadata: str, starter: str, function: str | None) -> None:
    assert code_tests.find_function_name(metadata, starter) == function


def test_a_question_asks_for_a_program_or_for_the_rest_of_one() -> None:
    plain = code_tests.build_question({"question_content": "Add two numbers.\n", "starter_code": ""})
    begun = code_tests.build_question(
        {"question_content": "Add.", "starter_code": "class Solution:\n    def add(self, a, b):\n"}
    )
    assert plain.startswith("Add two numbers.\n\n")
    assert "standard input" in plain
    assert "class Solution:\n    def add(self, a, b):\n```" in begun
    assert plain.count("```python block") == begun.count("```python block") == 1


def test_livebench_gives_the_function_and_the_starter_code() -> None:
    original = {"metadata": '{"func_name": "add"}', "starter_code": "class Solution:\n    def add(self, a):"}
    row = {"original_json": original, "partial_solution": "class Solution:\n    def add(self, a):\n        b = 1"}
    expected = {"function": "add", "starter": original["starter_code"], "prefix": row["partial_solution"]}
    assert code_tests.livebench_meta(row) == expected
    assert code_tests.livebench_meta({**row, "original_json": json.dumps(original)}) == expected
    assert code_tests.livebench_meta({"original_json": original, "partial_solution": None})["prefix"] == ""

r"""`code`: correct if the program passes every test of its problem (LiveCodeBench, LiveBench). It runs in the sandbox.

    gold  {"input": "2\n3 4\n", "output": "7\n", "kind": "stdin"}               standard input and output
    gold  {"input": "[1, 2]\n3", "output": "[4, 5]", "kind": "call"}            meta["function"]([1, 2], 3)
    meta  {"function": "shift" or None, "prefix": "", "limits": {"seconds": 6, "memory": 1024}}

Expected outputs stay in this process, which compares them. So a program gains nothing by exiting with 0, patching a
comparison or writing to the pipe of the results. Grading stops at the first test that fails.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from typing import Any

from leash.finish import THINK_CLOSE_TAG
from leash.grading.run_on import cut_run_on
from leash.grading.sandbox import sandbox
from leash.grading.thinking import is_unfinished, unify_tags
from leash.params.groups import Code

MAX_PROGRAM_CHARS = 100_000  # the contests allow 65,536
# For numbers with a fraction. LiveCodeBench compares exactly, contests allow 1e-6 relative or absolute. Leash allows it
# relative only: with an absolute tolerance all small numbers are equal. The exception is the noise of floats near zero.
RELATIVE_TOLERANCE, ZERO_NOISE = Decimal("1e-6"), Decimal("1e-12")
FORMAT_DECIMALS, MIN_DIGITS = 6, 4  # `%f` writes six decimals; fewer than four digits say too little
# The lengths are bounded because Decimal is slow on very long numbers.
NUMBER_PATTERN = re.compile(r"[+-]?(\d{1,40}\.?\d{0,40}|\.\d{1,40})([eE][+-]?\d{1,3})?")
CODE_FENCE = "```"
PYTHON_LANGUAGES = ("python", "python3", "py")
TEST_KINDS = ("stdin", "call")

missing = sandbox.missing


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    return float(find_failure(answer, gold, meta) is None)


def find_failure(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    """Run a program, and return which test it fails and how, or None if it passes all."""
    if len(answer) > MAX_PROGRAM_CHARS:
        return f"it has more than {MAX_PROGRAM_CHARS:,} characters"
    # Some problems give the beginning of the program. An answer continues it, or repeats it.
    prefix = meta.get("prefix") or ""
    program = answer if answer.startswith(prefix) else f"{prefix}\n{answer}"
    tests = [json.loads(text) for text in gold]
    number = 0
    try:
        # Closing the generator ends the process that makes the calls.
        with closing(_run_each_test(program, tests, meta)) as results:
            for number, test in enumerate(tests, 1):
                is_same = _is_same_json if test["kind"] == "call" else _is_same_output
                if not is_same(next(results), test["output"]):
                    return f"test {number}: the output is not the expected one"
    except sandbox.BrokenProgramError as error:
        return f"test {number}: {error}"
    return None


def seconds(gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    """The seconds on the clock that grading may take: every test may use its limit, and so may loading a module."""
    return sandbox.STARTUP_ALLOWANCE_S + (len(gold) + 1) * sandbox.wall_time_limit(_parse_limits(meta))


def extract(text: str) -> str | None:
    """Return the last Python block after the thinking; without one, the last block without a language. None if the last
    block is not closed, because then the text is cut off."""
    text = cut_run_on(text)
    tagged = unify_tags(text)
    if is_unfinished(tagged):
        return None
    reply = text[len(text) - len(tagged.rpartition(THINK_CLOSE_TAG)[2]) :]
    if (blocks := _parse_code_blocks(reply)) is None:
        return None
    python = [content for language, content in blocks if language in PYTHON_LANGUAGES]
    unnamed = [content for language, content in blocks if not language]
    return next((content for content in reversed(python or unnamed) if content.strip()), None)


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    """Return the program in Python's own formatting, without comments; if it does not parse, without blank lines."""
    if len(answer) <= MAX_PROGRAM_CHARS:
        try:
            return ast.unparse(ast.parse(answer))
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested too deeply
            pass
    return "\n".join(line.rstrip() for line in answer.splitlines() if line.strip())


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    for number, text in enumerate(gold, 1):
        if what := _test_complaint(text, meta.get("function")):
            return f"test {number} {what}"
    return None if gold else "there is no test"


def _test_complaint(text: str, function: Any) -> str | None:
    try:
        test = json.loads(text)
    except ValueError:
        return "is not JSON"
    if not isinstance(test, dict) or not all(isinstance(test.get(key), str) for key in ("input", "output")):
        return 'is not {"input": text, "output": text, "kind": …}'
    kind = test.get("kind")
    if kind not in TEST_KINDS:
        return f"is of the kind {kind!r}, not {' or '.join(TEST_KINDS)}"
    if kind == "stdin":
        return None
    if not isinstance(function, str) or not function.isidentifier():
        return f"is a call, but {function!r} is not the name of a function"
    try:
        for value in (*test["input"].split("\n"), test["output"]):
            json.loads(value)
    except ValueError:
        return "is a call with an argument or a result that is not JSON"
    return None


def _run_each_test(
    program: str, tests: Sequence[Mapping[str, str]], meta: Mapping[str, Any]
) -> Generator[str, None, None]:
    """Yield the program's output for each test, one test at a time, so that the caller can stop early."""
    limits = _parse_limits(meta)
    if all(test["kind"] == "call" for test in tests):
        yield from sandbox.call_function(program, meta["function"], [test["input"] for test in tests], limits)
        return
    for test in tests:
        yield sandbox.run(program, test["input"], limits)


def _parse_limits(meta: Mapping[str, Any]) -> Code:
    return Code.model_validate(meta.get("limits") or {})


def _parse_code_blocks(text: str) -> list[tuple[str, str]] | None:
    """Return the fenced blocks of a text as (language, content); None if the last one is not closed."""
    blocks: list[tuple[str, str]] = []
    language, lines = None, list[str]()
    for line in text.splitlines():
        is_fence = line.strip().startswith(CODE_FENCE)
        fence_language = line.strip().lstrip("`").strip().lower()
        if is_fence and language is not None and not fence_language:
            blocks.append((language, "\n".join(lines)))
            language = None
        elif is_fence:
            language, lines = fence_language, []
        else:
            lines.append(line)
    return blocks if language is None else None


def _is_same_json(result: str, expected: str) -> bool:
    # The result went through JSON, so its tuples are lists by now.
    try:
        return bool(json.loads(result) == json.loads(expected))
    except (ValueError, RecursionError):
        return False


def _is_same_output(output: str, expected: str) -> bool:
    """Compare line by line and word by word. White space around lines and words does not matter."""
    given, true = ([line.split() for line in text.strip().split("\n")] for text in (output, expected))
    same_shape = [len(words) for words in given] == [len(words) for words in true]
    return same_shape and all(all(map(_is_same_word, *lines)) for lines in zip(given, true, strict=True))


def _is_same_word(word: str, expected: str) -> bool:
    """Numbers may be written differently; one with a fraction may differ by RELATIVE_TOLERANCE, or be rounded."""
    if word == expected:
        return True
    if not NUMBER_PATTERN.fullmatch(word) or not NUMBER_PATTERN.fullmatch(expected):
        return False
    value, expected_value = Decimal(word), Decimal(expected)
    if value == expected_value or not set(".eE") & set(expected):
        return value == expected_value
    tolerance = max(RELATIVE_TOLERANCE * abs(expected_value), ZERO_NOISE)
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent <= -FORMAT_DECIMALS and len(value.as_tuple().digits) >= MIN_DIGITS:
        tolerance = max(tolerance, Decimal(1).scaleb(exponent) / 2)
    return abs(value - expected_value) <= tolerance

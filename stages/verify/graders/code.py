r"""`code`: the program passes every test of LiveCodeBench or LiveBench. It runs in the sandbox, and nowhere else.

    gold  {"input": "2\n3 4\n", "output": "7\n", "kind": "stdin"}               standard input and output
    gold  {"input": "[1, 2]\n3", "output": "[4, 5]", "kind": "call"}            meta["function"]([1, 2], 3)
    meta  {"function": "shift" or None, "prefix": "", "limits": {"seconds": 6, "memory": 1024}}

Expected outputs stay on this side, which compares: a program that exits with 0, patches a comparison or writes where
results are read gains nothing, for only the right output is right. The first test that fails ends it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from stages.params import Code
from stages.verify import sandbox

LONGEST = 100_000  # characters of a program: the contests allow 65,536
CLOSE = Decimal("1e-6")  # what contests allow in a number with a fraction, relative or absolute
NUMBER = re.compile(r"[+-]?(\d{1,40}\.?\d{0,40}|\.\d{1,40})([eE][+-]?\d{1,3})?")  # what Decimal reads without effort
FENCE = "```"
PYTHON = ("python", "python3", "py")
KINDS = ("stdin", "call")

missing = sandbox.missing  # what keeps this grader from working on this machine, for those who ask before they begin


@dataclass(frozen=True)
class Outcome:
    """Whether a program passed all tests, and if not, which test it failed and how."""

    passed: bool
    reason: str = ""


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    return float(outcome(answer, gold, meta).passed)


def outcome(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> Outcome:
    if len(answer) > LONGEST:
        return Outcome(False, f"it has more than {LONGEST:,} characters")
    tests = [json.loads(text) for text in gold]
    results = _results(_whole(answer, meta.get("prefix") or ""), tests, meta)
    number = 0
    try:
        with closing(results):
            for number, test in enumerate(tests, 1):
                if not _same(next(results), test):
                    return Outcome(False, f"test {number}: another output than expected")
    except sandbox.BrokenProgramError as error:
        return Outcome(False, f"test {number}: {error}")
    return Outcome(True)


def seconds(gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    """The most that grading may take on the clock: every test may use its time."""
    return sandbox.START + len(gold) * sandbox.wall(_limits(meta))


def extract(text: str) -> str | None:
    """The last block of Python after the thinking; without one, the last block of no language. A block that is not
    closed was cut off: then there is no answer."""
    reply = text.rpartition("</think>")[2]
    blocks = None if "<think>" in reply else _blocks(reply)
    if blocks is None:
        return None
    named = [content for language, content in blocks if language in PYTHON]
    plain = [content for language, content in blocks if not language]
    return next((content for content in reversed(named or plain) if content.strip()), None)


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    """The program as Python itself would write it, without comments; one that does not parse without blank lines."""
    if len(answer) <= LONGEST:
        try:
            return ast.unparse(ast.parse(answer))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass
    return "\n".join(line.rstrip() for line in answer.splitlines() if line.strip())


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    if not gold:
        return "there is no test"
    wrong = ((number, _wrong(text, meta.get("function"))) for number, text in enumerate(gold, 1))
    return next((f"test {number} {what}" for number, what in wrong if what), None)


def _wrong(text: str, function: Any) -> str | None:
    try:
        test = json.loads(text)
    except ValueError:
        return "is not JSON"
    if not isinstance(test, dict) or not all(isinstance(test.get(key), str) for key in ("input", "output")):
        return 'is not {"input": text, "output": text, "kind": …}'
    if test.get("kind") not in KINDS:
        return f"is of the kind {test.get('kind')!r}, not {' or '.join(KINDS)}"
    if test["kind"] == "call":
        return _wrong_call(test, function)
    return None


def _wrong_call(test: Mapping[str, str], function: Any) -> str | None:
    if not isinstance(function, str) or not function.isidentifier():
        return f"is a call, but {function!r} is not the name of a function"
    try:
        for value in (*test["input"].split("\n"), test["output"]):
            json.loads(value)
    except ValueError:
        return "is a call with an argument or a result that is not JSON"
    return None


def _results(program: str, tests: Sequence[Mapping[str, str]], meta: Mapping[str, Any]) -> Generator[str, None, None]:
    """What the program makes of each test, as it makes it."""
    limits = _limits(meta)
    if all(test["kind"] == "call" for test in tests):
        yield from sandbox.calls(program, meta["function"], [test["input"] for test in tests], limits)
        return
    for test in tests:
        yield sandbox.run(program, test["input"], limits)


def _limits(meta: Mapping[str, Any]) -> Code:
    return Code.model_validate(meta.get("limits") or {})


def _whole(answer: str, prefix: str) -> str:
    """An answer that completes a given beginning follows it, unless it repeats it."""
    return answer if not prefix or answer.startswith(prefix) else f"{prefix}\n{answer}"


def _blocks(text: str) -> list[tuple[str, str]] | None:
    """The fenced blocks of a text, (language, content) each; None where the last one is not closed."""
    blocks: list[tuple[str, str]] = []
    language, lines = None, list[str]()
    for line in text.splitlines():
        fence = line.strip().startswith(FENCE)
        said = line.strip().lstrip("`").strip().lower()
        if fence and language is not None and not said:
            blocks.append((language, "\n".join(lines)))
            language = None
        elif fence:
            language, lines = said, []
        else:
            lines.append(line)
    return blocks if language is None else None


def _same(result: str, test: Mapping[str, str]) -> bool:
    return _same_value(result, test["output"]) if test["kind"] == "call" else _same_text(result, test["output"])


def _same_value(result: str, expected: str) -> bool:
    """JSON knows no tuples, so they are lists already."""
    try:
        return bool(json.loads(result) == json.loads(expected))
    except (ValueError, RecursionError):
        return False


def _same_text(output: str, expected: str) -> bool:
    """Line for line and word for word; white space around and between them is nothing."""
    written, wanted = (text.strip().split("\n") for text in (output, expected))
    return len(written) == len(wanted) and all(map(_same_line, written, wanted))


def _same_line(line: str, expected: str) -> bool:
    words, wanted = line.split(), expected.split()
    return words == wanted or (len(words) == len(wanted) and all(map(_same_word, words, wanted)))


def _same_word(word: str, expected: str) -> bool:
    """Equal, or numbers that are: whole ones exactly, others closely."""
    if word == expected:
        return True
    if not NUMBER.fullmatch(word) or not NUMBER.fullmatch(expected):
        return False
    value, wanted = Decimal(word), Decimal(expected)
    return value == wanted or ("." in expected and abs(value - wanted) <= CLOSE * max(Decimal(1), abs(wanted)))

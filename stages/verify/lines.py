r"""`leash grade`: JSON lines in, the same lines with their grades out, in the same order and at any length.

{"gold": "0.5", "text": "so \\boxed{1/2}"}
->  {"gold": "0.5", "text": "so \\boxed{1/2}", "answer": "1/2", "correct": true, "score": 1.0, "status": "ok"}

Reading, extraction, grading and writing of a line are one worker's; this process cuts the input into lines and puts the
results in order.
"""

from __future__ import annotations

import json
import select
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import FileIO
from typing import Any, Literal

from stages.errors import LeashError
from stages.params import cores
from stages.verify import graders
from stages.verify.graders import Asked, Grade
from stages.verify.pool import Pool

CHUNK = 2**18  # bytes read at a time
AHEAD = 4096  # lines that may wait for a slow one before them,
AHEAD_BYTES = 2**26  # and what they may hold
REMEMBERED = 4096  # grades in a worker: the samples of a problem tend to stand together

Key = tuple[str, tuple[str, ...], str]


@dataclass(frozen=True)
class Line:
    number: int
    content: bytes


class Lines:
    """Grading lines, as a pool's job. A result is a line, or half a sentence on what is wrong with this one."""

    def __init__(self, grader: str) -> None:
        self._grader = grader
        self._known: dict[Key, Grade] = {}

    def done(self, line: Line) -> bytes | str:
        row = parsed(line)
        if isinstance(row, str):
            return row
        answer = graders.extract_for(self._grader)(row["text"])
        if answer is None:
            return _written(row, None, graders.unanswered(str(row.get("finish"))))
        key = _key(row, answer)
        if key not in self._known:
            self._remember(key, graders.graded(Asked("", answer, _golds(row), _meta(row), self._grader)))
        return _written(row, answer, self._known[key])

    def failed(self, line: Line, status: Literal["timeout", "error"]) -> bytes | str:
        """Remembered too: what took too long once would each time."""
        row = parsed(line)
        if isinstance(row, str):
            return row
        answer = self._answer(row) or ""
        self._remember(_key(row, answer), grade := graders.unscored(answer, status))
        return _written(row, answer, grade)

    def seconds(self, line: Line, timeout: float) -> float:
        row = parsed(line)
        return timeout if isinstance(row, str) else graders.seconds(self._grader, _golds(row), _meta(row), timeout)

    def weight(self, line: Line) -> int:
        return len(line.content)

    def _answer(self, row: dict[str, Any]) -> str | None:
        """The answer of a line that failed, which extraction may have done."""
        try:
            return graders.extract_for(self._grader)(row["text"])
        except Exception:
            return None

    def _remember(self, key: Key, grade: Grade) -> None:
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[key] = grade


class Window:
    """Lines of a file that were taken and not yet given back in order: never many."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._waiting: deque[Line] = deque()
        self._bytes = 0
        self._results: dict[int, bytes | str] = {}

    def lines(self) -> Iterator[Line | None]:
        """Lines to grade; None while enough are on the way, or none has come yet: whoever writes them may be waiting
        for what those on the way give."""
        number, rest = 0, b""
        while True:
            while self._full or (self._waiting and not self._readable):
                yield None
            chunk = self._file.read(CHUNK) or b""
            *whole, rest = (rest + chunk).split(b"\n")
            for content in whole if chunk else [rest]:
                number += 1
                if content.strip():
                    yield self._taken(Line(number, content))
            if not chunk:
                return

    def in_order(self, line: Line, result: bytes | str) -> Iterator[bytes]:
        """What can be given back now that this line is done."""
        self._results[line.number] = result
        while self._waiting and self._waiting[0].number in self._results:
            first = self._waiting.popleft()
            self._bytes -= len(first.content)
            found = self._results.pop(first.number)
            if isinstance(found, str):
                raise LeashError(f"Line {first.number} {found}; correct it and grade the lines from there.")
            yield found

    def _taken(self, line: Line) -> Line:
        self._waiting.append(line)
        self._bytes += len(line.content)
        return line

    @property
    def _full(self) -> bool:
        return len(self._waiting) >= AHEAD or self._bytes >= AHEAD_BYTES

    @property
    def _readable(self) -> bool:
        return bool(select.select([self._file], [], [], 0)[0])


def opened(name: str) -> FileIO:
    """The bytes of a file, or of standard input (-), as they come."""
    try:
        return FileIO(0, closefd=False) if name == "-" else FileIO(name)
    except OSError as error:
        said = error.strerror
        raise LeashError(f"{name} can't be read ({said}); name a file of JSON lines, or - for the input.") from None


def graded(file: FileIO, grader: str, *, timeout: float, memory: int) -> Iterator[bytes]:
    """The lines of a file with their grades."""
    graders.ready([grader])
    if graders.grade_all_of(grader):
        raise LeashError(f"The grader {grader} asks a model that costs money: it grades in `leash verify` alone.")
    window = Window(file)
    with Pool(Lines(grader), workers=cores(), timeout=timeout, memory=memory, preload=graders.heavy([grader])) as pool:
        for line, result in pool.results(window.lines()):
            yield from window.in_order(line, result)


@lru_cache(maxsize=1)
def parsed(line: Line) -> dict[str, Any] | str:
    """A line's content, or what is wrong with it as half a sentence."""
    try:
        row = json.loads(line.content)
    except (ValueError, RecursionError):
        return "is not JSON"
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        return 'has no "text" that is a string'
    gold = row.get("gold")
    if not isinstance(gold, str) and not (isinstance(gold, list) and gold and all(isinstance(g, str) for g in gold)):
        return 'has no "gold" that is a string or a list of strings'
    if not isinstance(row.get("meta") or {}, dict):
        return 'has a "meta" that is no object'
    return row


def _golds(row: dict[str, Any]) -> tuple[str, ...]:
    return (row["gold"],) if isinstance(row["gold"], str) else tuple(row["gold"])


def _meta(row: dict[str, Any]) -> dict[str, Any]:
    return row.get("meta") or {}


def _key(row: dict[str, Any], answer: str) -> Key:
    return answer, _golds(row), json.dumps(_meta(row))


def _written(row: dict[str, Any], answer: str | None, grade: Grade) -> bytes:
    added = {"answer": answer, "correct": grade["correct"], "score": grade["score"], "status": grade["status"]}
    return json.dumps({**row, **added}).encode() + b"\n"

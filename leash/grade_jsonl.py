r"""`leash grade`: read JSON lines, and write each line back with its grade, in the same order.

    {"gold": "0.5", "text": "so \\boxed{1/2}"}
->  {"gold": "0.5", "text": "so \\boxed{1/2}", "answer": "1/2", "correct": true, "score": 1.0, "status": "ok",
     "correct_strict": true, "correct_lenient": true}

Workers parse, extract, grade and encode the lines. This process splits the input into lines and restores their order,
so memory stays bounded however long the input is. Graders that cost money are refused: `leash verify` runs those.
"""

from __future__ import annotations

import json
import select
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from io import FileIO
from typing import Any, Literal, NamedTuple

from leash.errors import LeashError
from leash.grading.graders import registry
from leash.grading.graders.types import BatchOnlyGraderError, Grade, GradeRequest, no_answer_grade, unscored_grade
from leash.grading.reading import Reading, read_answer
from leash.grading.worker_pool import Pool
from leash.params.groups import available_cores

READ_CHUNK_BYTES = 2**18
# How much may wait for one slow line before it.
MAX_WAITING_LINES = 4096
MAX_WAITING_BYTES = 2**26
MAX_CACHED_GRADES = 4096  # in each worker: samples of the same problem tend to follow each other


class Line(NamedTuple):
    number: int
    content: bytes


class BadLineError(LeashError):
    """A line is not a JSON object with a gold and a text. `reason` is half a sentence."""

    def __init__(self, number: int, reason: str) -> None:
        self.number, self.reason = number, reason
        super().__init__(f"Line {number} {reason}. Correct it, and grade the lines from there on.")


class UnreadableInputError(LeashError):
    def __init__(self, name: str, reason: str | None) -> None:
        self.name, self.reason = name, reason
        super().__init__(f"Cannot read {name}: {reason}. Name a file of JSON lines, or - for standard input.")


class LineGradingJob:
    """The pool's job. Its result is the graded line, or a string that says what is wrong with the line."""

    def __init__(self, grader: str, reading: str) -> None:
        self._grader, self._reading = grader, reading
        self._grades: dict[tuple[str, tuple[str, ...], str], Grade] = {}

    def run(self, line: Line) -> bytes | str:
        row = parse_line(line)
        if isinstance(row, str):
            return row
        found = read_answer(row["text"], self._grader, str(row.get("finish")))
        if found.answer is None:
            return self._encode(row, found, no_answer_grade(str(row.get("finish"))))
        request = self._request(row, found.answer)
        grade = self._grades.get(_cache_key(request)) or self._remember(request, registry.grade_request(request))
        return self._encode(row, found, grade)

    def failure_result(self, line: Line, status: Literal["timeout", "error"]) -> bytes | str:
        row = parse_line(line)
        if isinstance(row, str):
            return row
        try:
            found = read_answer(row["text"], self._grader, str(row.get("finish")))
        except Exception:  # the extraction may be what failed
            found = Reading("")
        # A timeout is cached too: the same answer would take too long again.
        answer = found.answer or ""
        grade = self._remember(self._request(row, answer), unscored_grade(answer, status))
        return self._encode(row, found._replace(answer=answer), grade)

    def time_limit(self, line: Line, timeout: float) -> float:
        row = parse_line(line)
        if isinstance(row, str):
            return timeout
        request = self._request(row, "")
        return registry.grading_time_limit(self._grader, request.gold, request.meta, timeout)

    def weight(self, line: Line) -> int:
        return len(line.content)

    def _request(self, row: dict[str, Any], answer: str) -> GradeRequest:
        golds = (row["gold"],) if isinstance(row["gold"], str) else tuple(row["gold"])
        return GradeRequest("", answer, golds, row.get("meta") or {}, self._grader)

    def _encode(self, row: dict[str, Any], found: Reading, grade: Grade) -> bytes:
        """The line with the grade by the chosen reading, and whether it is correct by each. `grade` is that of lenient
        reading, which strict reading shares unless the answer is a candidate."""
        strict = no_answer_grade(str(row.get("finish"))) if found.is_candidate else grade
        chosen = grade if self._reading == "lenient" else strict
        added = {"answer": found.chosen(self._reading), "correct": chosen["correct"], "score": chosen["score"]}
        added |= {"status": chosen["status"]}
        both = {"correct_strict": strict["correct"], "correct_lenient": grade["correct"]}
        return json.dumps({**row, **added, **both}).encode() + b"\n"

    def _remember(self, request: GradeRequest, grade: Grade) -> Grade:
        if len(self._grades) >= MAX_CACHED_GRADES:
            self._grades.clear()
        self._grades[_cache_key(request)] = grade
        return grade


def open_input(name: str) -> FileIO:
    """Open a file, or standard input for `-`, unbuffered: a line is graded as soon as it is there."""
    try:
        # Standard input stays open when the caller closes the file.
        return FileIO(0, closefd=False) if name == "-" else FileIO(name)
    except OSError as error:
        raise UnreadableInputError(name, error.strerror) from None


def grade_lines(file: FileIO, grader: str, *, reading: str = "strict", timeout: float, memory: int) -> Iterator[bytes]:
    """Yield the lines of a file with their grades. `timeout` is in seconds per line, `memory` in MB per worker."""
    registry.require_graders([grader])
    if registry.get_grade_all(grader):
        raise BatchOnlyGraderError(grader)
    # The lines that were read and whose grades are not written yet, in order, and their size.
    waiting: deque[Line] = deque()
    waiting_bytes = 0
    results: dict[int, bytes | str] = {}

    def read_lines() -> Iterator[Line | None]:
        """Yield the lines to grade. Yield None while too many lines wait, and while lines are in work and the input has
        nothing to read: the program that writes the input may be waiting for their grades."""
        nonlocal waiting_bytes
        number, rest = 0, b""
        while True:
            while (
                len(waiting) >= MAX_WAITING_LINES
                or waiting_bytes >= MAX_WAITING_BYTES
                or (waiting and not select.select([file], [], [], 0)[0])
            ):
                yield None
            chunk = file.read(READ_CHUNK_BYTES) or b""
            *complete, rest = (rest + chunk).split(b"\n")
            for content in complete if chunk else [rest]:
                number += 1
                if content.strip():
                    waiting.append(line := Line(number, content))
                    waiting_bytes += len(content)
                    yield line
            if not chunk:
                return

    job, preload = LineGradingJob(grader, reading), registry.slow_imports([grader])
    with Pool(job, workers=available_cores(), timeout=timeout, memory=memory, preload=preload) as pool:
        for line, result in pool.results(read_lines()):
            results[line.number] = result
            while waiting and waiting[0].number in results:
                first = waiting.popleft()
                waiting_bytes -= len(first.content)
                first_result = results.pop(first.number)
                if isinstance(first_result, str):
                    raise BadLineError(first.number, first_result)
                yield first_result


# `time_limit` and `run` parse the same line one after the other.
@lru_cache(maxsize=1)
def parse_line(line: Line) -> dict[str, Any] | str:
    """Parse a line into an object with `text` and `gold`, or say what is wrong with it, as half a sentence."""
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
        return 'has a "meta" that is not an object'
    return row


def _cache_key(request: GradeRequest) -> tuple[str, tuple[str, ...], str]:
    return request.answer, request.gold, json.dumps(request.meta)

"""The distinct answers of a data set: each is graded once, however many completions give it.

Rows are all completions in the order of their shards; an answer's number is that of its first appearance, so that the
first shards have all their grades first. Four million rows take some hundred bytes for each distinct answer and little
else: texts stay in Arrow, once each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stages import tables
from stages.verify.graders import Grade, unanswered

ENCODED = pa.dictionary(pa.int32(), pa.large_string())
ASKED = ("problem_id", "answer")
STATUSES = ("ok", "timeout", "error")
NONE = -1  # in place of a number: there is no answer


class Distinct:
    """Answers by number, and their grades as they come in."""

    def __init__(self, rows: pa.Table) -> None:
        """From a table as `joined` makes it."""
        problem, answer = (_whole(rows[name]) for name in ASKED)
        self._problems, self._texts = problem.dictionary, answer.dictionary
        answered = answer.is_valid().to_numpy(zero_copy_only=False)
        codes = _indices(problem).astype(np.int64) * max(len(self._texts), 1) + _indices(answer)
        self._codes, numbers = _numbered(codes[answered])
        self.numbers: NDArray[np.int64] = np.full(len(codes), NONE, np.int64)
        self.numbers[answered] = numbers
        self._classes: list[str | None] = [None] * len(self)
        self._scores = np.full(len(self), np.nan)
        self._correct: NDArray[np.int8] = np.full(len(self), NONE, np.int8)
        self._status: NDArray[np.int8] = np.full(len(self), NONE, np.int8)
        self._graded_below = 0

    def __len__(self) -> int:
        return len(self._codes)

    def asked(self, number: int) -> tuple[str, str]:
        """The problem and the answer with this number."""
        problem, text = divmod(int(self._codes[number]), len(self._texts))
        return self._problems[problem].as_py(), self._texts[text].as_py()

    def ungraded(self) -> list[int]:
        return [int(number) for number in np.flatnonzero(self._status == NONE)]

    def add(self, number: int, grade: Grade) -> None:
        self._classes[number] = grade["answer_class"]
        self._scores[number] = np.nan if grade["score"] is None else grade["score"]
        self._correct[number] = NONE if grade["correct"] is None else grade["correct"]
        self._status[number] = STATUSES.index(grade["status"])

    def graded_below(self) -> int:
        """The number below which all have their grades."""
        while self._graded_below < len(self) and self._status[self._graded_below] != NONE:
            self._graded_below += 1
        return self._graded_below

    def grade(self, number: int) -> Grade:
        correct, score = self._correct[number], self._scores[number]
        return {
            "answer_class": self._classes[number],
            "correct": None if correct == NONE else bool(correct),
            "score": None if np.isnan(score) else float(score),
            "status": STATUSES[self._status[number]],
        }

    def verdicts(self, shard: pa.Table, begin: int) -> pa.Table:
        """The verdicts of a shard, whose first row is the one numbered `begin`."""
        numbers = self.numbers[begin : begin + shard.num_rows]
        rows = [
            {**row, **(self.grade(number) if number != NONE else without_answer(row["status"]))}
            for row, number in zip(shard.to_pylist(), numbers, strict=True)
        ]
        return tables.table(rows, tables.VERDICTS)


def without_answer(status: str) -> Grade:
    """The grade of a completion in which no answer was found."""
    if status == "error":
        return {"answer_class": None, "correct": None, "score": None, "status": "error"}
    return unanswered("length" if status == "truncated" else "stop")


def joined(parts: Sequence[pa.Table]) -> pa.Table:
    """The problems and answers of several tables, with each text once."""
    encoded = [{name: _encoded(part[name]) for name in ASKED} for part in parts]
    return pa.concat_tables([pa.table(columns) for columns in encoded]).unify_dictionaries()


def _encoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if column.type == ENCODED else column.cast(pa.large_string()).dictionary_encode()


def _whole(column: pa.ChunkedArray) -> pa.DictionaryArray:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _indices(column: pa.DictionaryArray) -> NDArray[np.int32]:
    indices: NDArray[np.int32] = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return indices


def _numbered(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct codes in the order in which they appear, and the place of each code among them."""
    distinct, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return distinct[order], places[inverse]

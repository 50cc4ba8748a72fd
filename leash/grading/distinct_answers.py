"""The distinct answers of a data set, so that each is graded once however many completions give it.

In: the rows (problem_id, answer) of all completions, in the order of their units. Out: a number for each distinct
answer, in order of first appearance, so that the first units have all their grades first; and, once grades are set,
the verdicts of a unit. Texts stay in Arrow, once each: four million rows cost about a hundred bytes for each distinct
answer and little else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from leash import tables
from leash.grading.graders.types import Grade, no_answer_grade

DICTIONARY_TYPE = pa.dictionary(pa.int32(), pa.large_string())
ANSWER_KEY_COLUMNS = ("problem_id", "answer")
GRADE_STATUSES = ("ok", "timeout", "error")
NO_ANSWER_STATUSES = ("no_answer", "truncated", "error")
GRADE_SCHEMA = pa.schema([tables.VERDICTS_SCHEMA.field(name) for name in Grade.__annotations__])
NO_VALUE = -1  # no answer, no grade yet, or neither correct nor wrong


class DistinctAnswers:
    """Answers by number, and their grades as they come in. `numbers` has the answer of every row, or NO_VALUE."""

    def __init__(self, rows: pa.Table) -> None:
        """`rows` is a table made by `concat_answers`."""
        problem, answer = (_combine_chunks(rows[name]) for name in ANSWER_KEY_COLUMNS)
        self._problems, self._texts = problem.dictionary, answer.dictionary
        # One integer per (problem, answer) pair, null without an answer, so that Arrow finds the distinct pairs without
        # touching their texts. It has 64 bits, since the product of two indices numbers all pairs.
        problem_index, text_index = (column.indices.cast(pa.int64()) for column in (problem, answer))
        pairs = pc.add(pc.multiply(problem_index, len(self._texts)), text_index).dictionary_encode()
        self._codes = pairs.dictionary  # in order of first appearance
        self.numbers: NDArray[np.int32] = pairs.indices.fill_null(NO_VALUE).to_numpy()
        self._classes: list[str | None] = [None] * len(self)
        self._scores = np.full(len(self), np.nan)
        self._correct: NDArray[np.int8] = np.full(len(self), NO_VALUE, np.int8)
        self._status: NDArray[np.int8] = np.full(len(self), NO_VALUE, np.int8)
        self._graded_below = 0

    def __len__(self) -> int:
        return len(self._codes)

    def problem_and_answer(self, number: int) -> tuple[str, str]:
        problem, text = divmod(self._codes[number].as_py(), len(self._texts))
        return self._problems[problem].as_py(), self._texts[text].as_py()

    def ungraded(self) -> list[int]:
        return [int(number) for number in np.flatnonzero(self._status == NO_VALUE)]

    def set_grade(self, number: int, grade: Grade) -> None:
        self._classes[number] = grade["answer_class"]
        self._scores[number] = np.nan if grade["score"] is None else grade["score"]
        self._correct[number] = NO_VALUE if grade["correct"] is None else grade["correct"]
        self._status[number] = GRADE_STATUSES.index(grade["status"])

    def graded_below(self) -> int:
        """The smallest number without a grade; all numbers below it have one."""
        # Numbers never lose their grade, so the search continues where it stopped.
        while self._graded_below < len(self) and self._status[self._graded_below] != NO_VALUE:
            self._graded_below += 1
        return self._graded_below

    def grade(self, number: int) -> Grade:
        correct, score = self._correct[number], self._scores[number]
        return {
            "answer_class": self._classes[number],
            "correct": None if correct == NO_VALUE else bool(correct),
            "score": None if np.isnan(score) else float(score),
            "status": GRADE_STATUSES[self._status[number]],
        }

    def verdicts(self, unit: pa.Table, begin: int, reading: str) -> pa.Table:
        """The verdicts of a unit whose first row is row `begin` of all rows. Of the working nothing is known yet.

        `unit` has the columns of verification.EXTRACTED_SCHEMA. Its status says why strict reading finds no answer, so
        an answer with a status is a candidate, which lenient reading alone finds."""
        numbers = self.numbers[begin : begin + unit.num_rows]
        answered, found = numbers != NO_VALUE, unit["status"].is_null().to_numpy()
        used, place = np.unique(numbers[answered], return_inverse=True)
        # The grades of these answers, and below them those of completions without one.
        grades = pa.Table.from_pylist(
            [dict(self.grade(number)) for number in used.tolist()] + [*map(grade_from_status, NO_ANSWER_STATUSES)],
            schema=GRADE_SCHEMA,
        )
        without = len(used) + pc.index_in(unit["status"], pa.array(NO_ANSWER_STATUSES)).fill_null(0).to_numpy()
        lenient = without.copy()
        lenient[answered] = place
        strict = np.where(found, lenient, without)
        candidates = pa.array(answered & ~found)
        answer, nothing = unit["answer"].cast(pa.string()), pa.scalar(None, pa.string())
        chosen = grades.take(pa.array(lenient if reading == "lenient" else strict))
        columns = {name: chosen[name] for name in GRADE_SCHEMA.names}
        columns |= {"problem_id": unit["problem_id"], "sample": unit["sample"]}
        columns["answer"] = answer if reading == "lenient" else pc.if_else(candidates, nothing, answer)
        columns["correct_strict"] = grades["correct"].take(pa.array(strict))
        columns["correct_lenient"] = grades["correct"].take(pa.array(lenient))
        columns["candidate"] = pc.if_else(candidates, answer, nothing)
        columns["candidate_class"] = pc.if_else(candidates, grades["answer_class"].take(pa.array(lenient)), nothing)
        columns |= {name: pa.nulls(unit.num_rows) for name in ("sound", "process", "flaw")}
        names = tables.VERDICTS_SCHEMA.names
        return pa.table({name: columns[name] for name in names}).cast(tables.VERDICTS_SCHEMA)


def grade_from_status(status: str) -> Grade:
    """The grade of a completion without an answer."""
    finishes = {"no_answer": "stop", "truncated": "length", "error": "error"}
    return no_answer_grade(finishes[status])


def concat_answers(parts: Sequence[pa.Table]) -> pa.Table:
    """Join the problems and answers of several tables, storing each text once."""

    def encode(column: pa.ChunkedArray) -> pa.ChunkedArray:
        return column if column.type == DICTIONARY_TYPE else column.cast(pa.large_string()).dictionary_encode()

    encoded = [pa.table({name: encode(part[name]) for name in ANSWER_KEY_COLUMNS}) for part in parts]
    return pa.concat_tables(encoded).unify_dictionaries()


def _combine_chunks(column: pa.ChunkedArray) -> pa.DictionaryArray:
    # Depending on the number of chunks, pyarrow returns an array or a chunked array of one chunk.
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined

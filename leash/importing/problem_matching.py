"""Match records with problems: find the problem of a record by its question text.

In:  the problems table of a data set, if it exists, and records.
Out: a problem id for each record, and new problems if the table itself was imported.

Two texts are the same if they differ only in white space. If a file recorded whole prompts, each has the question
between the same two texts. `learn_template` finds that template in the first records of a file, and only a prompt that
is exactly this template around a known question matches. It is not enough that one question occurs inside another: in
real exams, "0, 0, 0, ?" occurs in "5, 0, 0, 0, ?".
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from leash import tables
from leash.importing.raw_rows import ImportFileError
from leash.importing.record import Record, quote

MIN_TEMPLATE_QUESTIONS = 3  # fewer questions can share their surroundings by chance


class ProblemIndex:
    """The problems of a data set: those of its table, and those that records add."""

    def __init__(self, dataset: str, rows: Sequence[Mapping[str, Any]], grader: str) -> None:
        self.dataset, self.grader = dataset, grader
        self.rows: dict[str, dict[str, Any]] = {row["problem_id"]: dict(row) for row in rows}
        self.added: dict[str, None] = {}  # an ordered set
        self.other_golds: dict[str, str] = {}  # by problem id, how the file's gold differs
        self.template: tuple[str, str] | None = None
        self._ids_by_text: dict[str, str] = {}
        self._matched: dict[tuple[str, ...], str] = {}
        self.accepts_new_problems = all(json.loads(row["meta"]).get("imported") for row in rows)
        for row in rows:
            for text in _question_texts(row):
                self._ids_by_text.setdefault(text, row["problem_id"])

    def match(self, record: Record) -> str | None:
        """The problem of a record. None if the table does not have it and takes no new problems."""
        key = (record.id or "", record.question or "", *record.gold)
        if key not in self._matched:
            problem_id = self._find(record) or (self._add(record) if self.accepts_new_problems else None)
            if problem_id is None:
                return None
            if not self._has_same_gold(problem_id, record):
                ours, theirs = (quote(" or ".join(gold)) for gold in (self.rows[problem_id]["gold"], record.gold))
                self.other_golds.setdefault(problem_id, f"{problem_id} has {ours}, the file has {theirs}")
            self._matched[key] = problem_id
        return self._matched[key]

    def learn_template(self, records: Iterable[Record]) -> None:
        """Find out from some records of a file whether its questions are wrapped in a prompt template."""
        unknown = {normalize_whitespace(record.question): record for record in records if record.question}
        unknown = {text: record for text, record in unknown.items() if text not in self._ids_by_text}
        surroundings = Counter(
            (before, after)
            for text, record in unknown.items()
            for question, problem_id in self._ids_by_text.items()
            if question in text and self._has_same_gold(problem_id, record)
            for before, _, after in [text.partition(question)]
        )
        template, count = surroundings.most_common(1)[0] if surroundings else (None, 0)
        self.template = template if count >= max(MIN_TEMPLATE_QUESTIONS, len(unknown) / 2) else None

    def _find(self, record: Record) -> str | None:
        if record.question is None:
            if record.id not in self.rows:
                raise ImportFileError(record.where, f"there is no question, and no problem with the id {record.id}.")
            return record.id
        text = normalize_whitespace(record.question)
        if record.id in self.rows and text in _question_texts(self.rows[record.id]):
            return record.id
        problem_id = self._ids_by_text.get(text)
        if problem_id is None and self.template:
            before, after = self.template
            if len(text) > len(before) + len(after) and text.startswith(before) and text.endswith(after):
                problem_id = self._ids_by_text.get(text.removeprefix(before).removesuffix(after))
        # Two ids in one file are two problems, even if their questions are the same.
        return None if problem_id in self.added and record.id not in (None, problem_id) else problem_id

    def _has_same_gold(self, problem_id: str, record: Record) -> bool:
        return not record.gold or normalize_golds(record.gold) == normalize_golds(self.rows[problem_id]["gold"])

    def _add(self, record: Record) -> str:
        assert record.question is not None
        if not record.question.strip() or not record.gold:
            empty = "gold answer" if record.question.strip() else "question"
            raise ImportFileError(record.where, f"a new problem needs a {empty}; fill it in or remove the row.")
        numbered = (f"{self.dataset}-{number:05d}" for number in count(len(self.rows)))
        problem_id = record.id or next(name for name in numbered if name not in self.rows)
        if problem_id in self.rows:
            fault = f"another question has the id {problem_id}; choose the field of the id with --id."
            raise ImportFileError(record.where, fault)
        self.rows[problem_id] = tables.problem_row(
            dataset=self.dataset,
            problem_id=problem_id,
            question=record.question,
            gold=record.gold,
            grader=self.grader,
            meta={**record.meta, "question": record.question, "imported": True},
        )
        self.added[problem_id] = None
        self._ids_by_text.setdefault(normalize_whitespace(record.question), problem_id)
        return problem_id


def normalize_whitespace(text: str) -> str:
    return " ".join(text.split())


def normalize_golds(gold: Sequence[str]) -> set[str]:
    """Golds without white space and without the dollar signs around a formula, which never matter."""
    return {"".join(g.split()).strip("$") for g in gold}


def _question_texts(row: Mapping[str, Any]) -> list[str]:
    """A problem's question, without and with the instruction that params.yaml adds to it."""
    texts = (json.loads(row["meta"]).get("question"), row["question"])
    return [normalize_whitespace(text) for text in texts if isinstance(text, str)]

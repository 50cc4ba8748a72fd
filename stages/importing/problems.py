"""Which problem a record is about: the problems table, looked up by question text.

In:  the problems table of a data set, if there is one, and records.
Out: a problem id for each record; new problems where the table is itself imported.

Two texts are the same when they differ in white space alone. Where a file recorded whole prompts, the question stands
in each of them between the same two texts: that template is learnt from the file's first records, and only a prompt
that is this template around a known question matches it. That a question merely stands in another text means nothing:
of real exams, "0, 0, 0, ?" stands in "5, 0, 0, 0, ?".
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stages import tables
from stages.errors import LeashError
from stages.importing.reading.record import Record, brief

FEWEST = 3  # questions that show a template: fewer may share a frame by chance


class Problems:
    """The problems of a data set: those that are there, and those that records add."""

    def __init__(self, dataset: str, rows: Sequence[Mapping[str, Any]], grader: str) -> None:
        self.dataset, self.grader = dataset, grader
        self.rows: dict[str, dict[str, Any]] = {row["problem_id"]: dict(row) for row in rows}
        self.added: dict[str, None] = {}  # in their order
        self.other_golds: dict[str, str] = {}
        self.template: tuple[str, str] | None = None
        self._texts: dict[str, str] = {}
        self._placed: dict[tuple[str, ...], str] = {}
        metas = [json.loads(row["meta"]) for row in rows]
        self.grows = all(meta.get("imported") for meta in metas)
        for row, meta in zip(rows, metas, strict=True):
            for text in (meta.get("question"), row["question"]):
                if isinstance(text, str):
                    self._texts.setdefault(normal(text), row["problem_id"])

    def place(self, record: Record) -> str | None:
        """The problem of a record, or None where the table lacks it and was not imported."""
        key = (record.id or "", record.question or "", *record.gold)
        if key not in self._placed:
            found = self._known(record) or (self._add(record) if self.grows else None)
            if found is None:
                return None
            self._compare(found, record)
            self._placed[key] = found
        return self._placed[key]

    def _known(self, record: Record) -> str | None:
        if record.question is None:
            if record.id not in self.rows:
                raise LeashError(
                    f"{record.where} has no question, and there is no problem {record.id} to match it with."
                )
            return record.id
        text = normal(record.question)
        if record.id in self.rows and text in self._writings(self.rows[record.id]):
            return record.id
        found = self._texts.get(text) or self._inside(text)
        # Two ids in one file are two problems, though they may ask the same.
        return None if found in self.added and record.id not in (None, found) else found

    def _writings(self, row: Mapping[str, Any]) -> set[str]:
        return {normal(row["question"]), normal(str(json.loads(row["meta"]).get("question")))}

    def learn(self, records: Iterable[Record]) -> None:
        """See from some records of a file whether its questions stand in a prompt template."""
        unknown = {normal(record.question): record for record in records if record.question}
        unknown = {text: record for text, record in unknown.items() if text not in self._texts}
        around = Counter(
            (before, after)
            for text, record in unknown.items()
            for known, problem in self._texts.items()
            if known in text and self._same_gold(problem, record)
            for before, _, after in [text.partition(known)]
        )
        template, fitting = around.most_common(1)[0] if around else (None, 0)
        self.template = template if fitting >= max(FEWEST, len(unknown) / 2) else None

    def _inside(self, text: str) -> str | None:
        """The problem whose question stands in the template."""
        if self.template is None:
            return None
        before, after = self.template
        return self._texts.get(text.removeprefix(before).removesuffix(after)) if self._framed(text) else None

    def _framed(self, text: str) -> bool:
        before, after = self.template or ("", "")
        return len(text) > len(before) + len(after) and text.startswith(before) and text.endswith(after)

    def _same_gold(self, problem: str, record: Record) -> bool:
        return not record.gold or spellings(record.gold) == spellings(self.rows[problem]["gold"])

    def _add(self, record: Record) -> str:
        assert record.question is not None
        if not record.question.strip() or not record.gold:
            empty = "gold answer" if record.question.strip() else "question"
            raise LeashError(f"{record.where} has no {empty}, so it can't become a problem; fill it in or take it out.")
        problem = record.id or self._free_id()
        if problem in self.rows:
            raise LeashError(
                f"{record.where}: the id {problem} is that of another question; name another field with --id."
            )
        self.rows[problem] = tables.problem_row(
            dataset=self.dataset,
            problem_id=problem,
            question=record.question,
            gold=record.gold,
            grader=self.grader,
            meta={**record.meta, "question": record.question, "imported": True},
        )
        self.added[problem] = None
        self._texts.setdefault(normal(record.question), problem)
        return problem

    def _free_id(self) -> str:
        number = len(self.rows)
        while (problem := f"{self.dataset}-{number:05d}") in self.rows:
            number += 1
        return problem

    def _compare(self, problem: str, record: Record) -> None:
        if not self._same_gold(problem, record):
            ours = " or ".join(self.rows[problem]["gold"])
            told = f"{problem} has {brief(ours)}, the file {brief(' or '.join(record.gold))}"
            self.other_golds.setdefault(problem, told)


def normal(text: str) -> str:
    return " ".join(text.split())


def spellings(gold: Sequence[str]) -> set[str]:
    """Golds without what never matters: white space and the dollars around a formula."""
    return {"".join(g.split()).strip("$") for g in gold}

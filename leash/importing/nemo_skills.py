r"""`nemo-skills`: `output-rs*.jsonl` of NeMo-Skills. A file is one random seed, with one completion per problem.

{"id": "aime24-0", "problem": "Find the number …", "expected_answer": "204", "generation": "We have … \\boxed{204}.",
 "num_generated_tokens": 812, "predicted_answer": "204", "symbolic_correct": true}

If the harness split off the reasoning, `generation` is only what follows it, and `_full_generation` is the completion.
A count of 0 tokens means that the server did not report one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import AliasChoices, BaseModel, Field

from leash.finish import UNKNOWN
from leash.importing import record
from leash.importing.raw_rows import Row
from leash.importing.record import Count, Finish, Golds, Record, RecordedCompletion, Score, Text

FIELDS = (frozenset({"problem", "expected_answer", "generation"}),)


class NemoSkillsRow(BaseModel):
    generation: Any
    problem: Text
    expected_answer: Golds
    num_generated_tokens: Count = None
    finish_reason: Finish = UNKNOWN
    score: Score = Field(None, validation_alias=AliasChoices("symbolic_correct", "is_correct"))


def records(rows: Iterable[Row]) -> Iterator[Record]:
    for row in rows:
        fields = record.parse_row(NemoSkillsRow, row)
        whole = row.fields.get("_full_generation")
        text = record.require_text(whole if isinstance(whole, str) else fields.generation, row.where, "generation")
        tokens = fields.num_generated_tokens or None
        completion = RecordedCompletion(text, tokens, fields.finish_reason, score=fields.score)
        metadata = record.parse_run_metadata(row.fields)
        yield Record(row.where, fields.problem, fields.expected_answer, [completion], run_metadata=metadata)

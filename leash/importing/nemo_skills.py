r"""`nemo-skills`: `output-rs*.jsonl` of NeMo-Skills. A file is one random seed, with one completion per problem.

{"id": "aime24-0", "problem": "Find the number …", "expected_answer": "204", "generation": "We have … \\boxed{204}.",
 "num_generated_tokens": 812, "predicted_answer": "204", "symbolic_correct": true}

If the harness split off the reasoning, `generation` is only what follows it, and `_full_generation` is the completion.
A count of 0 tokens means that the server did not report one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from leash.importing.raw_rows import Row
from leash.importing.record import (
    UNKNOWN_FINISH,
    Record,
    RecordedCompletion,
    Text,
    extract_golds,
    parse_count,
    parse_row,
    parse_run_metadata,
    parse_score,
    require_text,
)

FIELDS = (frozenset({"problem", "expected_answer", "generation"}),)


class NemoSkillsRow(BaseModel):
    generation: Any
    problem: Text
    expected_answer: Any
    num_generated_tokens: Any = None
    finish_reason: Any = None


def records(rows: Iterable[Row]) -> Iterator[Record]:
    for row in rows:
        fields = parse_row(NemoSkillsRow, row)
        whole = row.fields.get("_full_generation")
        text = whole if isinstance(whole, str) else fields.generation
        completion = RecordedCompletion(
            require_text(text, row.where, "generation"),
            tokens=parse_count(fields.num_generated_tokens, row.where, "num_generated_tokens") or None,
            finish=fields.finish_reason if isinstance(fields.finish_reason, str) else UNKNOWN_FINISH,
            score=parse_score(row.fields.get("symbolic_correct", row.fields.get("is_correct"))),
        )
        gold = extract_golds(fields.expected_answer)
        yield Record(row.where, fields.problem, gold, [completion], run_metadata=parse_run_metadata(row.fields))

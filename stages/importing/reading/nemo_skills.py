r"""`nemo-skills`: `output-rs*.jsonl` of NeMo-Skills, a file a random seed, a completion of every problem in each.

{"id": "aime24-0", "problem": "Find the number …", "expected_answer": "204", "generation": "We have … \\boxed{204}.",
 "num_generated_tokens": 812, "predicted_answer": "204", "symbolic_correct": true}

Where reasoning was parsed out, `generation` is only what follows it and `_full_generation` is the completion. A count
of 0 tokens means that the server did not tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stages.importing.reading.record import UNKNOWN, Record, Recorded, count, golds, needed, said, score, text
from stages.importing.reading.rows import Row

FIELDS = (frozenset({"problem", "expected_answer", "generation"}),)
FULL, TOKENS = "_full_generation", "num_generated_tokens"


def records(rows: Iterable[Row]) -> Iterator[Record]:
    for row in rows:
        name = FULL if isinstance(row.fields.get(FULL), str) else "generation"
        finish = row.fields.get("finish_reason")
        completion = Recorded(
            text(needed(row, name), row.where, name),
            tokens=count(row.fields.get(TOKENS), row.where, TOKENS) or None,
            finish=finish if isinstance(finish, str) else UNKNOWN,
            score=score(row.fields.get("symbolic_correct", row.fields.get("is_correct"))),
        )
        question = text(needed(row, "problem"), row.where, "problem")
        gold = golds(needed(row, "expected_answer"))
        yield Record(row.where, question, gold, [completion], says=said(row.fields))

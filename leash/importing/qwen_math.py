r"""`qwen-math`: the output of the Qwen2.5-Math evaluation, one problem per line with all its completions.

{"idx": 0, "question": "Find the greatest …", "gt_cot": "None", "gt": "204", "solution": "…", "answer": "204",
 "code": ["To solve the problem, … \\boxed{180}"], "pred": ["180"], "report": [null], "score": [false]}

`code` holds the completions and `gt` the gold. `idx` is ignored, because two runs can number problems differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel

from leash.importing.raw_rows import Row
from leash.importing.record import Golds, Record, Text, pair_completions, parse_row, parse_run_metadata

FIELDS = (frozenset({"question", "gt", "code"}),)


class QwenMathRow(BaseModel):
    code: list[Text]
    question: Text
    gt: Golds
    score: Any = None


def records(rows: Iterable[Row]) -> Iterator[Record]:
    for row in rows:
        fields = parse_row(QwenMathRow, row)
        metadata = parse_run_metadata(row.fields, row.fields.get("_meta"))
        completions = pair_completions(fields.code, fields.score)
        yield Record(row.where, fields.question, fields.gt, completions, run_metadata=metadata)

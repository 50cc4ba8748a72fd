r"""`qwen-math`: the output of the Qwen2.5-Math evaluation, a problem a line with all its completions.

{"idx": 0, "question": "Find the greatest …", "gt_cot": "None", "gt": "204", "solution": "…", "answer": "204",
 "code": ["To solve the problem, … \\boxed{180}"], "pred": ["180"], "report": [null], "score": [false]}

`code` are the completions, `gt` the gold. `idx` is left aside: two runs may differ
in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stages.importing.reading.record import Record, Recorded, golds, items, needed, said, scores, text
from stages.importing.reading.rows import Row

FIELDS = (frozenset({"question", "gt", "code"}),)


def records(rows: Iterable[Row]) -> Iterator[Record]:
    for row in rows:
        told = items(needed(row, "code"), row.where, "code")
        right = scores(row.fields.get("score"), len(told))
        yield Record(
            row.where,
            text(needed(row, "question"), row.where, "question"),
            golds(needed(row, "gt")),
            [Recorded(text(t, row.where, "code"), score=s) for t, s in zip(told, right, strict=True)],
            says=said(row.fields, row.fields.get("_meta")),
        )

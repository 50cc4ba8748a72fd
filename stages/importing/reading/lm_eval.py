"""`lm-eval`: `samples_*.jsonl` of lm-evaluation-harness (`--log_samples`), generated answers only.

{"doc_id": 0, "doc": {"question": "Janet’s ducks lay 16 eggs …", "answer": "… #### 18"}, "target": "… #### 18",
 "arguments": {"gen_args_0": {"arg_0": "Question: Janet’s …\\nAnswer:", "arg_1": {"until": ["Question:"]}}},
 "resps": [["She eats 3 … #### 18"]], "filtered_resps": ["18"], "filter": "strict-match", "exact_match": 1.0}

`resps` are the completions as they were generated; a filter only picks the answer out of them, and a file has every
document once for each filter, so the first filter's rows count. Question: a field of `doc`, or else the prompt.
Earlier versions wrote one indented JSON list, and `arguments` as lists; both are read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from stages.errors import LeashError
from stages.importing.reading.record import Record, Recorded, golds, items, needed, said, scores, text
from stages.importing.reading.rows import Row

FIELDS = (frozenset({"doc_id", "doc", "target", "resps"}),)
QUESTIONS = ("question", "problem", "Question", "Problem", "prompt", "query", "input")


def records(rows: Iterable[Row]) -> Iterator[Record]:
    chosen: object = None
    for number, row in enumerate(rows):
        if number == 0:
            chosen = row.fields.get("filter")
        if row.fields.get("filter") == chosen:
            yield _record(row)


def _record(row: Row) -> Record:
    prompt, settings = _arguments(row.fields.get("arguments"))
    told = _responses(row)
    metrics = row.fields.get("metrics")
    metric = str(metrics[0]) if isinstance(metrics, list) and metrics else "exact_match"
    right = scores(row.fields.get(metric), len(told))
    return Record(
        row.where,
        _question(row, prompt),
        golds(_target(needed(row, "target"))),
        [Recorded(text(t, row.where, "resps"), score=s) for t, s in zip(told, right, strict=True)],
        says=said(row.fields, settings),
    )


def _question(row: Row, prompt: Any) -> str:
    doc = row.fields.get("doc")
    named = next((doc[q] for q in QUESTIONS if isinstance(doc.get(q), str)), None) if isinstance(doc, dict) else None
    return text(prompt if named is None else named, row.where, "the question of doc")


def _arguments(arguments: Any) -> tuple[Any, Any]:
    """The prompt and the settings of the first request."""
    if isinstance(arguments, dict):
        arguments = [list(a.values()) if isinstance(a, dict) else a for a in arguments.values()]
    first = arguments[0] if isinstance(arguments, list) and arguments else None
    pair = [*first, None, None] if isinstance(first, list) else [first, None]
    return pair[0], pair[1]


def _responses(row: Row) -> list[Any]:
    """`resps` without its layers: a list of requests, each a list of repeats."""
    told = []
    for request in items(needed(row, "resps"), row.where, "resps"):
        told += request if isinstance(request, list) else [request]
    if any(isinstance(one, list) for one in told):
        raise LeashError(f"{row.where}: resps holds log-likelihoods of choices, not generated text.")
    return told


def _target(target: Any) -> Any:
    """Several golds are written as the text of a Python list of texts; `[0, 1]` is an interval."""
    if isinstance(target, str) and target.startswith("["):
        try:
            several = ast.literal_eval(target)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return target
        return (
            several
            if isinstance(several, list) and several and all(isinstance(gold, str) for gold in several)
            else target
        )
    return target

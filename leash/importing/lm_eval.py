"""`lm-eval`: `samples_*.jsonl` of lm-evaluation-harness (`--log_samples`), generated answers only.

{"doc_id": 0, "doc": {"question": "Janet’s ducks lay 16 eggs …", "answer": "… #### 18"}, "target": "… #### 18",
 "arguments": {"gen_args_0": {"arg_0": "Question: Janet’s …\\nAnswer:", "arg_1": {"until": ["Question:"]}}},
 "resps": [["She eats 3 … #### 18"]], "filtered_resps": ["18"], "filter": "strict-match", "exact_match": 1.0}

`resps` holds the completions as generated. A filter only picks the answer out of them, and a file has every document
once per filter, so only the rows of the first filter count. The question is a field of `doc`, or else the prompt.
Earlier versions wrote one indented JSON list and `arguments` as lists; both are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

from leash.importing import record
from leash.importing.raw_rows import ImportFileError, Row
from leash.importing.record import Golds, Record

FIELDS = (frozenset({"doc_id", "doc", "target", "resps"}),)
QUESTION_FIELDS = ("question", "problem", "Question", "Problem", "prompt", "query", "input")


def _parse_target(target: Any) -> Any:
    """Several golds are written as the text of a Python list of texts. `[0, 1]` is not one: it is an interval."""
    golds = record.parse_literal(target)
    is_list_of_texts = isinstance(golds, list) and golds and all(isinstance(gold, str) for gold in golds)
    return golds if is_list_of_texts else target


class LmEvalRow(BaseModel):
    resps: list[Any]
    target: Annotated[Golds, BeforeValidator(_parse_target)]
    doc: Any = None
    arguments: Any = None
    metrics: Any = None


def records(rows: Iterable[Row]) -> Iterator[Record]:
    first_filter: object = None
    for number, row in enumerate(rows):
        if number == 0:
            first_filter = row.fields.get("filter")
        if row.fields.get("filter") == first_filter:
            yield _parse_record(row)


def _parse_record(row: Row) -> Record:
    fields = record.parse_row(LmEvalRow, row)
    # `resps` is a list of requests, each a list of repeats.
    responses = [r for request in fields.resps for r in (request if isinstance(request, list) else [request])]
    if any(isinstance(response, list) for response in responses):
        raise ImportFileError(row.where, "resps holds log-likelihoods of choices, not generated text.")
    # `arguments` has a prompt and settings per request; those of the first one count.
    arguments = fields.arguments
    if isinstance(arguments, dict):
        arguments = [list(a.values()) if isinstance(a, dict) else a for a in arguments.values()]
    first = arguments[0] if isinstance(arguments, list) and arguments else None
    prompt, settings, *_ = [*first, None, None] if isinstance(first, list) else [first, None]
    doc = fields.doc if isinstance(fields.doc, dict) else {}
    question = next((doc[name] for name in QUESTION_FIELDS if isinstance(doc.get(name), str)), prompt)
    metric = str(fields.metrics[0]) if isinstance(fields.metrics, list) and fields.metrics else "exact_match"
    question = record.require_text(question, row.where, "the question of doc")
    texts = [record.require_text(response, row.where, "resps") for response in responses]
    completions = record.pair_completions(texts, row.fields.get(metric))
    metadata = record.parse_run_metadata(row.fields, settings)
    return Record(row.where, question, fields.target, completions, run_metadata=metadata)

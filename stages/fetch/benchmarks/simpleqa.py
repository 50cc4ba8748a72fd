r"""SimpleQA: short questions of fact, graded by a judge. The paper uses a uniform 10% of its 4,326: 433.

    {"metadata": "{'topic': 'Science and technology', 'answer_type': 'Person', 'urls': ['https://en.wikipedia.org/…']}",
     "problem": "Who received the IEEE Frank Rosenblatt Award in 2010?", "answer": "Michio Sugeno"}

`metadata` is the text of a Python dict. Which 433 the paper drew is not known; ours are drawn by `seed`.
"""

from __future__ import annotations

import ast
from typing import Any

from stages.errors import LeashError
from stages.fetch.benchmark import Benchmark, Problem, Row, golds
from stages.params import Dataset


def problem(row: Row, _: Dataset) -> Problem:
    metadata = _metadata(row)
    return Problem(
        question=row.text("problem"),
        gold=golds(row.need("answer")),
        meta={"topic": metadata.get("topic"), "answer_type": metadata.get("answer_type")},
    )


def _metadata(row: Row) -> dict[str, Any]:
    """Literals only: nothing in the text is run."""
    text = row.get("metadata")
    try:
        found = ast.literal_eval(text) if isinstance(text, str) else text or {}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise LeashError(f"{row.where}: the column metadata is not the text of a dict; is this SimpleQA's file?")
    return found


SIMPLEQA = Benchmark(
    hub="basicv8vc/SimpleQA",
    files=("simple_qa_test_set.csv",),
    problem=problem,
    grader="judge",
    counts=(433, 4326),
    size=433,
)

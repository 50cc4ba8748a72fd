r"""SimpleQA: short factual questions, graded by a judge. The paper uses a uniform 10% of its 4,326 questions: 433.

    {"metadata": "{'topic': 'Science and technology', 'answer_type': 'Person', 'urls': ['https://en.wikipedia.org/…']}",
     "problem": "Who received the IEEE Frank Rosenblatt Award in 2010?", "answer": "Michio Sugeno"}

`metadata` is the text of a Python dict. The paper does not list its questions; ours are drawn by `seed` (default 0).
"""

from __future__ import annotations

import ast
from typing import Any

from leash.benchmarks.benchmark import Benchmark, Problem, Row, RowError, parse_golds
from leash.params.groups import Dataset


def parse_problem(row: Row, _: Dataset) -> Problem:
    text = row.get("metadata")
    try:  # read as a literal: no code in the text is run
        metadata: Any = ast.literal_eval(text) if isinstance(text, str) else text or {}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise RowError(row.where, "the column metadata is not the text of a dict; use SimpleQA's own file")
    meta = {"topic": metadata.get("topic"), "answer_type": metadata.get("answer_type")}
    return Problem(row.text("problem"), parse_golds(row.need("answer")), meta=meta)


FILES = ("simple_qa_test_set.csv",)
SIMPLEQA = Benchmark("basicv8vc/SimpleQA", FILES, parse_problem, "judge", counts=(433, 4326), size=433)

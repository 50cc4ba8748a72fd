r"""MATH500: 500 problems of the MATH test set.

    {"problem": "Convert the point $(0,3)$ in rectangular coordinates to polar coordinates. …", "solution": "We have …",
     "answer": "\\left( 3, \\frac{\\pi}{2} \\right)", "subject": "Precalculus", "level": 2,
     "unique_id": "test/precalculus/807.json"}

PRIME's cleaned copy has another order, the columns expected_answer and id, levels such as "Level 2", and 85 answers in
another form ("5" for "x=5").
"""

from __future__ import annotations

from leash.benchmarks.benchmark import Benchmark, Problem, Row, parse_golds
from leash.params.groups import Dataset


def parse_problem(row: Row, _: Dataset) -> Problem:
    level = row.label("level")
    return Problem(
        question=row.text("problem"),
        gold=parse_golds(row.need("answer", "expected_answer")),
        id=row.text("unique_id", "id"),
        meta={"level": str(row.get("level")).removeprefix("Level "), "subject": row.get("subject", "type")},
        level=None if level is None else level.removeprefix("Level "),
    )


MATH500 = Benchmark("HuggingFaceH4/MATH-500", ("test.jsonl",), parse_problem, "math", counts=(500,))

r"""MATH500: 500 problems of the MATH test set.

    {"problem": "Convert the point $(0,3)$ in rectangular coordinates to polar coordinates. …", "solution": "We have …",
     "answer": "\\left( 3, \\frac{\\pi}{2} \\right)", "subject": "Precalculus", "level": 2,
     "unique_id": "test/precalculus/807.json"}

PRIME's cleaned copy has them in another order, with expected_answer and id, "Level 2" and 85 answers written otherwise
("5" for "x=5").
"""

from __future__ import annotations

from stages.fetch.benchmark import BOXED, Benchmark, Problem, Row, golds
from stages.params import Dataset


def problem(row: Row, _: Dataset) -> Problem:
    return Problem(
        question=row.text("problem"),
        gold=golds(row.need("answer", "expected_answer")),
        id=row.text("unique_id", "id"),
        meta={"level": str(row.get("level")).removeprefix("Level "), "subject": row.get("subject", "type")},
    )


MATH500 = Benchmark(
    hub="HuggingFaceH4/MATH-500",
    files=("test.jsonl",),
    problem=problem,
    grader="math",
    counts=(500,),
    instruction=BOXED,
)

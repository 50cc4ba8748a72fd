r"""AMC 2023 (12A and 12B), the 40 problems whose answers are numbers.

    {"id": 0, "question": "Cities $A$ and $B$ are $45$ miles apart. Alicia lives in $A$ and Beth lives in $B$. …",
     "answer": 27.0, "url": "https://artofproblemsolving.com/wiki/index.php/2023_AMC_12A_Problems/Problem_1"}

Answers are floats in one copy, whole numbers in another, and texts such as "27.0" in a third.
"""

from __future__ import annotations

from stages.fetch.benchmark import BOXED, Benchmark, Problem, Row, golds
from stages.params import Dataset


def problem(row: Row, _: Dataset) -> Problem:
    return Problem(
        question=row.text("question", "problem"),
        gold=[gold.removesuffix(".0") for gold in golds(row.need("answer"))],
        id=row.text_or_none("id"),
    )


AMC23 = Benchmark(
    hub="math-ai/amc23",
    files=("test-*.parquet", "data/test-*.parquet"),
    problem=problem,
    grader="math",
    counts=(40,),
    instruction=BOXED,
)

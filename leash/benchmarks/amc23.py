r"""AMC 2023 (12A and 12B), the 40 problems whose answers are numbers.

    {"id": 0, "question": "Cities $A$ and $B$ are $45$ miles apart. Alicia lives in $A$ and Beth lives in $B$. …",
     "answer": 27.0, "url": "https://artofproblemsolving.com/wiki/index.php/2023_AMC_12A_Problems/Problem_1"}

Answers are floats in one copy, whole numbers in another, and texts such as "27.0" in a third.
"""

from __future__ import annotations

from leash.benchmarks.benchmark import Benchmark, Problem, Row, parse_golds
from leash.params.groups import Dataset


def parse_problem(row: Row, _: Dataset) -> Problem:
    gold = [gold.removesuffix(".0") for gold in parse_golds(row.need("answer"))]
    return Problem(row.text("question", "problem"), gold, row.text_or_none("id"))


AMC23 = Benchmark("math-ai/amc23", ("test-*.parquet", "data/test-*.parquet"), parse_problem, "math", counts=(40,))

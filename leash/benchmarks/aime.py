r"""AIME 2024 and 2025, both parts of each: 30 problems whose answers are whole numbers from 0 to 999.

    {"id": 60, "problem": "Every morning Aya goes for a $9$-kilometer-long walk and stops at a coffee shop …",
     "answer": "204", "url": "https://artofproblemsolving.com/wiki/index.php/2024_AIME_I_Problems/Problem_1"}

Some copies write answers with leading zeros ("025"), some without. HuggingFaceH4/aime_2024 has its rows in a split
named train; Maxwell-Jia/AIME_2024 has the same problems in columns ID, Problem, Solution, Answer; NeMo-Skills calls
the answer expected_answer.
"""

from __future__ import annotations

from leash.benchmarks.benchmark import Benchmark, Problem, Row, RowError, parse_golds
from leash.params.groups import Dataset


def parse_problem(row: Row, _: Dataset) -> Problem:
    gold = parse_golds(row.need("answer", "expected_answer"))
    if len(gold) != 1 or not gold[0].isdecimal():
        raise RowError(row.where, f"the answer of an AIME problem is a whole number, not {', '.join(gold)}; correct it")
    return Problem(question=row.text("problem", "question"), gold=[str(int(gold[0]))], id=row.text_or_none("id"))


AIME24 = Benchmark(
    "HuggingFaceH4/aime_2024", ("data/train-*.parquet", "*.parquet"), parse_problem, "math", counts=(30,)
)
AIME25 = Benchmark("math-ai/aime25", ("test.jsonl", "*.parquet"), parse_problem, "math", counts=(30,))

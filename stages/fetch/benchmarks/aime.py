r"""AIME 2024 and 2025, both parts of each: 30 problems whose answers are whole numbers from 0 to 999.

    {"id": 60, "problem": "Every morning Aya goes for a $9$-kilometer-long walk and stops at a coffee shop …",
     "answer": "204", "url": "https://artofproblemsolving.com/wiki/index.php/2024_AIME_I_Problems/Problem_1"}

Some copies write answers with leading zeros ("025"), some without. HuggingFaceH4/aime_2024 has its rows in a split
named train; Maxwell-Jia/AIME_2024 has the same problems in columns ID, Problem, Solution, Answer; NeMo-Skills calls
the answer expected_answer.
"""

from __future__ import annotations

from stages.errors import LeashError
from stages.fetch.benchmark import BOXED, Benchmark, Problem, Row, golds
from stages.params import Dataset


def problem(row: Row, _: Dataset) -> Problem:
    gold = golds(row.need("answer", "expected_answer"))
    if len(gold) != 1 or not gold[0].isdecimal():
        raise LeashError(f"{row.where}: the answer of an AIME problem is a whole number, not {', '.join(gold)}.")
    return Problem(
        question=row.text("problem", "question"),
        gold=[str(int(gold[0]))],
        id=row.text_or_none("id"),
    )


AIME24 = Benchmark(
    hub="HuggingFaceH4/aime_2024",
    files=("data/train-*.parquet", "*.parquet"),
    problem=problem,
    grader="math",
    counts=(30,),
    instruction=BOXED,
)
AIME25 = Benchmark(
    hub="math-ai/aime25",
    files=("test.jsonl", "*.parquet"),
    problem=problem,
    grader="math",
    counts=(30,),
    instruction=BOXED,
)

r"""Minerva: 272 problems of undergraduate science courses.

    {"problem": "Each of the two Magellan telescopes has a diameter of $6.5 \\mathrm{~m}$. …", "idx": 0,
     "solution": "Start with: … $s = \\boxed{1.6} cm$ …", "type": "Introduction to Astronomy (8.282J Spring 2006)"}

The first copy has no answer column: the answer is the last box of the solution. Other copies have question and answer;
one has a list of accepted answers, forty of which are those of a neighbouring part. Stray newlines follow some. Golds
are rounded to the digits they show.
"""

from __future__ import annotations

from stages.errors import LeashError
from stages.fetch.benchmark import BOXED, Benchmark, Problem, Row, golds
from stages.params import Dataset
from stages.verify.extract import extract


def problem(row: Row, _: Dataset) -> Problem:
    return Problem(
        question=row.text("problem", "question"),
        gold=golds(row.get("answer")) or [_boxed(row)],
        id=row.text_or_none("idx"),
        meta={"course": row.get("type"), "rounded": True},
    )


def _boxed(row: Row) -> str:
    solution = row.text("solution", "answer")
    found = extract(solution) if "\\boxed" in solution else None
    if not found:
        raise LeashError(f"{row.where} has no answer: neither a column of that name nor a box in its solution.")
    return found


MINERVA = Benchmark(
    hub="math-ai/minervamath",
    files=("test.jsonl", "data/train-*.parquet"),
    problem=problem,
    grader="math",
    counts=(272,),
    instruction=BOXED,
)

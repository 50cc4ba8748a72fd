r"""Minerva: 272 problems of undergraduate science courses.

    {"problem": "Each of the two Magellan telescopes has a diameter of $6.5 \\mathrm{~m}$. …", "idx": 0,
     "solution": "Start with: … $s = \\boxed{1.6} cm$ …", "type": "Introduction to Astronomy (8.282J Spring 2006)"}

The first copy has no answer column: the answer is the last box of the solution. Other copies have question and answer;
one has a list of accepted answers, forty of which belong to a neighbouring part. Some answers end in stray newlines.
Golds are rounded to the digits they show.
"""

from __future__ import annotations

from leash.benchmarks.benchmark import Benchmark, Problem, Row, RowError, parse_golds
from leash.grading.extraction import extract
from leash.params.groups import Dataset


def parse_problem(row: Row, _: Dataset) -> Problem:
    question, gold = row.text("problem", "question"), parse_golds(row.get("answer"))
    if not gold:
        solution = row.text("solution", "answer")
        answer = extract(solution) if "\\boxed" in solution else None
        if not answer:
            raise RowError(row.where, "there is no column `answer` and no \\boxed{} in the solution; add one")
        gold = [answer]
    return Problem(question, gold, row.text_or_none("idx"), {"course": row.get("type"), "rounded": True})


MINERVA = Benchmark("math-ai/minervamath", ("test.jsonl", "data/train-*.parquet"), parse_problem, "math", counts=(272,))

r"""A data set of your own: any JSONL, JSON, CSV or Parquet file with a question and an answer column.

    {"problem": "What is $2^{10}$?", "answer": "1024"}

datasets:
  mine: {path: mine.jsonl, question: problem, answer: answer, grader: math,
         prompt: "{question}\nPut your final answer in \\boxed{}."}

On the hub: `hub`, `revision` and `files`, a pattern such as "data/test-*.parquet". Images are in the column `images`.
"""

from __future__ import annotations

from stages.fetch.benchmark import Benchmark, Problem, Row, golds
from stages.fetch.images import images
from stages.fetch.source import KINDS
from stages.params import Dataset


def benchmark(dataset: Dataset) -> Benchmark:
    anything = tuple(f"*{kind}" for kind in KINDS)
    return Benchmark(dataset.hub, anything, problem, dataset.grader or "exact")


def problem(row: Row, dataset: Dataset) -> Problem:
    question = row.text(dataset.question)
    return Problem(
        question=dataset.prompt.replace("{question}", question),
        gold=golds(row.need(dataset.answer)),
        id=row.text(dataset.id) if dataset.id else None,
        meta={"question": question},
        images=images(row, dataset.images) if dataset.images else None,
    )

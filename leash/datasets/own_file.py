r"""Your own data set: any JSONL, JSON, CSV or Parquet file with a question and an answer column.

    {"problem": "What is $2^{10}$?", "answer": "1024"}

datasets:
  mine: {path: mine.jsonl, question: problem, answer: answer, grader: math,
         prompt: "{question}\nPut your final answer in \\boxed{}."}

On the hub: `hub`, `revision` and `files`, a pattern such as "data/test-*.parquet". `images` names the column of images.
"""

from __future__ import annotations

from leash.benchmarks.benchmark import Benchmark, Problem, Row, parse_golds
from leash.benchmarks.images import load_images
from leash.datasets.source import FILE_SUFFIXES
from leash.params.groups import Dataset


def build_benchmark(dataset: Dataset) -> Benchmark:
    patterns = tuple(f"*{suffix}" for suffix in FILE_SUFFIXES)
    return Benchmark(dataset.hub, patterns, parse_problem, dataset.grader or "exact")


def parse_problem(row: Row, dataset: Dataset) -> Problem:
    question = row.text(dataset.question)
    return Problem(
        question=dataset.prompt.replace("{question}", question),
        gold=parse_golds(row.need(dataset.answer)),
        id=row.text(dataset.id) if dataset.id else None,
        meta={"question": question},
        images=load_images(row, dataset.images) if dataset.images else None,
    )

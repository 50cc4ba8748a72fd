r"""LiveBench as of its release 2024-11-25, the tasks that are scored right or wrong: web_of_lies_v2 and spatial
(reasoning, 100), typos (language, 50), all of coding (128).

    {"question_id": "0daa7ca38beec4441b9d5c04d0b98912322926f0a3ac28a5097889d4ed83506f", "category": "reasoning",
     "ground_truth": "no, yes, yes", "turns": ["In this question, assume each person either always tells the truth …"],
     "task": "web_of_lies_v2", "livebench_release_date": "2024-06-24", "livebench_removal_date": "2025-04-02"}

A question belongs to a release if it came by then and was not yet removed. On the hub dates are timestamps, in the
files texts. zebra_puzzle (`tasks: [zebra_puzzle]`) asks for ***bold*** answers in its first questions and for
<solution> tags since 2024-11-25; the grader tells them apart by the question's own release.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from stages.fetch import code_tests
from stages.fetch.benchmark import Benchmark, Problem, Row, golds
from stages.params import Dataset

RELEASE = "2024-11-25"
BINARY = {
    "reasoning": ("web_of_lies_v2", "spatial"),
    "language": ("typos",),
    "coding": ("LCB_generation", "coding_completion"),
}


def problem(row: Row, dataset: Dataset) -> Problem | None:
    if not _asked_for(row, dataset):
        return None
    return coding(row) if row.get("category") == "coding" else spoken(row)


def spoken(row: Row) -> Problem:
    """A question answered in words."""
    return Problem(
        question=str(row.need("turns")[0]),
        gold=golds(row.need("ground_truth")),
        id=row.text("question_id"),
        meta={"task": row.text("task"), "release": day(row.need("livebench_release_date"))},
    )


def coding(row: Row) -> Problem:
    """A question answered by a program. Some give the beginning of it, which the answer goes on from."""
    return Problem(
        question=str(row.need("turns")[0]),
        gold=code_tests.golds(row),
        id=row.text("question_id"),
        meta={"task": row.text("task"), **code_tests.livebench_meta(row.fields)},
    )


def _asked_for(row: Row, dataset: Dataset) -> bool:
    tasks = dataset.tasks or BINARY.get(row.text("category"), ())
    release, removed = dataset.release or RELEASE, row.get("livebench_removal_date")
    there = day(row.need("livebench_release_date")) <= release
    return row.text("task") in tasks and there and (removed is None or day(removed) > release)


def day(value: Any) -> str:
    return value.strftime("%Y-%m-%d") if isinstance(value, date | datetime) else str(value)[:10]


def _benchmark(category: str, count: int, grader: str) -> Benchmark:
    files = ("data/test-*.parquet", "*/question.jsonl")
    return Benchmark(f"livebench/{category}", files, problem, grader, counts=(count,))


REASONING = _benchmark("reasoning", 100, "livebench")
LANGUAGE = _benchmark("language", 50, "livebench")
CODING = _benchmark("coding", 128, "code")

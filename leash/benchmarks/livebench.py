r"""LiveBench, release 2024-11-25, only the tasks that are scored right or wrong: web_of_lies_v2 and spatial (reasoning,
100 problems), typos (language, 50), all of coding (128).

    {"question_id": "0daa7ca38beec4441b9d5c04d0b98912322926f0a3ac28a5097889d4ed83506f", "category": "reasoning",
     "ground_truth": "no, yes, yes", "turns": ["In this question, assume each person either always tells the truth …"],
     "task": "web_of_lies_v2", "livebench_release_date": "2024-06-24", "livebench_removal_date": "2025-04-02"}

A question belongs to a release if it was added by then and not yet removed. Dates are timestamps on the hub, texts in
the files. zebra_puzzle (`tasks: [zebra_puzzle]`) asks for ***bold*** answers in its first questions and for <solution>
tags since 2024-11-25; the grader distinguishes them by the question's own release.
"""

from __future__ import annotations

from leash.benchmarks import code_tests
from leash.benchmarks.benchmark import Benchmark, Problem, Row, parse_golds
from leash.params.groups import Dataset

DEFAULT_RELEASE = "2024-11-25"
BINARY_TASKS = {
    "reasoning": ("web_of_lies_v2", "spatial"),
    "language": ("typos",),
    "coding": ("LCB_generation", "coding_completion"),
}


def parse_problem(row: Row, dataset: Dataset) -> Problem | None:
    release, removed = dataset.release or DEFAULT_RELEASE, row.get("livebench_removal_date")
    added = str(row.need("livebench_release_date"))[:10]
    if (task := row.text("task")) not in (dataset.tasks or BINARY_TASKS.get(row.text("category"), ())):
        return None
    if added > release or (removed is not None and str(removed)[:10] <= release):
        return None
    if row.get("category") == "coding":  # the answer is a program, or completes the beginning of one
        gold, meta = code_tests.golds_from_row(row), code_tests.livebench_meta(row.fields)
    else:
        gold, meta = parse_golds(row.need("ground_truth")), {"release": added}
    return Problem(str(row.need("turns")[0]), gold, row.text("question_id"), {"task": task, **meta})


def _build_benchmark(category: str, count: int, grader: str) -> Benchmark:
    files = ("data/test-*.parquet", "*/question.jsonl")
    return Benchmark(f"livebench/{category}", files, parse_problem, grader, counts=(count,))


REASONING = _build_benchmark("reasoning", 100, "livebench")
LANGUAGE = _build_benchmark("language", 50, "livebench")
CODING = _build_benchmark("coding", 128, "code")

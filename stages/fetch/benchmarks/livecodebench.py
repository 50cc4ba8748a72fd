r"""LiveCodeBench: competition problems by the date of their contest, answered by a program.

    {"question_title": "…", "question_content": "…", "platform": "atcoder", "question_id": "abc387_b",
     "contest_date": "2025-01-04T00:00:00", "starter_code": "", "difficulty": "easy",
     "public_test_cases": "[{\"input\": …, \"output\": …, \"testtype\": \"stdin\"}]", "private_test_cases": "eJx…",
     "metadata": "{\"func_name\": …}"}

The paper counts 323 problems of v5 and 131 of v6 and names no dates. Those here (from `since`, up to and not including
`until`) are the ones its AceReason baseline names: v5 from August 2024 to January 2025, v6 from February to April 2025.
They fit: of the problems since August 2024, 279 came with release 5 and 175 with release 6, of which 131 are later than
January, and 279 + 44 = 323. Only files that may hold such dates are downloaded: together they are 4.5 GB.
"""

from __future__ import annotations

from stages.fetch import code_tests
from stages.fetch.benchmark import Benchmark, Problem, Row
from stages.params import Dataset

HUB = "livecodebench/code_generation_lite"


def problem(row: Row, dataset: Dataset, since: str, until: str) -> Problem | None:
    day = str(row.need("contest_date"))[:10]
    if not (dataset.since or since) <= day < (dataset.until or until):
        return None
    content, starter = row.text("question_content"), str(row.get("starter_code") or "")
    return Problem(
        question=code_tests.question(row.fields),
        gold=code_tests.golds(row),
        id=row.text("question_id"),
        meta={
            "question": content,
            "date": day,
            "difficulty": row.get("difficulty"),
            "function": code_tests.function(str(row.get("metadata") or "{}"), starter),
            "starter": starter,
        },
    )


def v5(row: Row, dataset: Dataset) -> Problem | None:
    return problem(row, dataset, "2024-08-01", "2025-02-01")


def v6(row: Row, dataset: Dataset) -> Problem | None:
    return problem(row, dataset, "2025-02-01", "2025-05-01")


V5 = Benchmark(HUB, ("test[3-6].jsonl",), v5, "code", counts=(323,))
V6 = Benchmark(HUB, ("test6.jsonl",), v6, "code", counts=(131,))

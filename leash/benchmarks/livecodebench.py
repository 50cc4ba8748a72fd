r"""LiveCodeBench: competition problems with a program as the answer, selected by the date of their contest.

    {"question_title": "…", "question_content": "…", "platform": "atcoder", "question_id": "abc387_b",
     "contest_date": "2025-01-04T00:00:00", "starter_code": "", "difficulty": "easy",
     "public_test_cases": "[{\"input\": …, \"output\": …, \"testtype\": \"stdin\"}]", "private_test_cases": "eJx…",
     "metadata": "{\"func_name\": …}"}

The paper counts 323 problems of v5 and 131 of v6 but gives no dates. The default dates (from `since`, up to but without
`until`) are those of its AceReason baseline: v5 from August 2024 to January 2025, v6 from February to April 2025. They
fit the counts: of the problems since August 2024, 279 came with release 5 and 175 with release 6. Of these 175, 131 are
later than January, and 279 + 44 = 323. Only files that can hold such dates are downloaded; all files have 4.5 GB.
"""

from __future__ import annotations

from functools import partial

from leash.benchmarks import code_tests
from leash.benchmarks.benchmark import Benchmark, Problem, Row
from leash.params.groups import Dataset

HUB_ID = "livecodebench/code_generation_lite"


def parse_problem(row: Row, dataset: Dataset, since: str, until: str) -> Problem | None:
    day = str(row.need("contest_date"))[:10]
    if not (dataset.since or since) <= day < (dataset.until or until):
        return None
    content, starter = row.text("question_content"), str(row.get("starter_code") or "")
    function = code_tests.find_function_name(str(row.get("metadata") or "{}"), starter)
    meta = {"question": content, "date": day, "difficulty": row.get("difficulty"), "function": function}
    question, gold = code_tests.build_question(row.fields), code_tests.golds_from_row(row)
    level = row.label("difficulty")
    return Problem(question, gold, row.text("question_id"), {**meta, "starter": starter}, level=level)


parse_v5 = partial(parse_problem, since="2024-08-01", until="2025-02-01")
parse_v6 = partial(parse_problem, since="2025-02-01", until="2025-05-01")
V5 = Benchmark(HUB_ID, ("test[3-6].jsonl",), parse_v5, "code", counts=(323,))
V6 = Benchmark(HUB_ID, ("test6.jsonl",), parse_v6, "code", counts=(131,))

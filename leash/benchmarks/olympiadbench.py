r"""OlympiadBench: its open-ended English competition problems in mathematics without images.

    {"id": 1606, "subfield": "Combinatorics", "context": null, "question": "Xenia and Sergey play the following …",
     "solution": ["Sergey can determine Xenia's number in 2 but not fewer moves. …"], "final_answer": ["2"],
     "is_multiple_answer": false, "unit": null, "answer_type": "Numerical", "error": null}

GitHub has 675 rows, the hub 674 (split train). `final_answer` is a list of one text. If is_multiple_answer is true
(94 rows), that text holds several answers, and all are required, in any order. 8 rows have a unit; one (id 2592) has an
error tolerance, "1e-1".
"""

from __future__ import annotations

from leash.benchmarks.benchmark import Benchmark, Problem, Row, parse_golds
from leash.params.groups import Dataset


def parse_problem(row: Row, _: Dataset) -> Problem:
    context, question = row.get("context"), row.text("question")
    return Problem(
        question=f"{str(context).strip()}\n\n{question}" if context else question,
        gold=parse_golds(row.need("final_answer")),
        id=row.text("id"),
        meta={
            "multiple": bool(row.get("is_multiple_answer")),
            "unit": row.get("unit"),
            "error": row.get("error"),
            "answer_type": row.get("answer_type"),
            "subject": row.get("subfield"),
        },
    )


FILES = ("OlympiadBench/OE_TO_maths_en_COMP/*.parquet", "OE_TO_maths_en_COMP/*.parquet")
OLYMPIADBENCH = Benchmark("Hothan/OlympiadBench", FILES, parse_problem, "math", counts=(675, 674))

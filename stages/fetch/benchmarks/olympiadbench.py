r"""OlympiadBench: its open-ended English competition problems in mathematics without images.

    {"id": 1606, "subfield": "Combinatorics", "context": null, "question": "Xenia and Sergey play the following …",
     "solution": ["Sergey can determine Xenia's number in 2 but not fewer moves. …"], "final_answer": ["2"],
     "is_multiple_answer": false, "unit": null, "answer_type": "Numerical", "error": null}

675 rows on GitHub, 674 on the hub (split train). `final_answer` is a list of one text; where is_multiple_answer is true
(94 rows) that text holds several answers, all of which are wanted, in any order. 8 rows have a unit; one (id 2592) an
error tolerance, "1e-1".
"""

from __future__ import annotations

from stages.fetch.benchmark import BOXED, Benchmark, Problem, Row, golds
from stages.params import Dataset


def problem(row: Row, _: Dataset) -> Problem:
    context, question = row.get("context"), row.text("question")
    return Problem(
        question=f"{str(context).strip()}\n\n{question}" if context else question,
        gold=golds(row.need("final_answer")),
        id=row.text("id"),
        meta={
            "multiple": bool(row.get("is_multiple_answer")),
            "unit": row.get("unit"),
            "error": row.get("error"),
            "answer_type": row.get("answer_type"),
            "subject": row.get("subfield"),
        },
    )


OLYMPIADBENCH = Benchmark(
    hub="Hothan/OlympiadBench",
    files=("OlympiadBench/OE_TO_maths_en_COMP/*.parquet", "OE_TO_maths_en_COMP/*.parquet"),
    problem=problem,
    grader="math",
    counts=(675, 674),
    instruction=BOXED,
)

r"""MathVista, testmini: 1,000 questions about images.

    {"pid": "1", "question": "When a spring does work on an object, we cannot find the work by simply multiplying …",
     "image": "images/1.jpg", "choices": null, "unit": null, "precision": 1, "answer": "1.2",
     "question_type": "free_form", "answer_type": "float", "metadata": {"source": "SciBench", …}}

The gold of a multiple choice is the option's text, not its letter. The hub's table has the image itself
(decoded_image) and the question as the benchmark words it (query); GitHub's has neither.
"""

from __future__ import annotations

from string import ascii_uppercase

from stages.fetch.benchmark import Benchmark, Problem, Row, golds
from stages.fetch.images import images
from stages.params import Dataset

KINDS = {"integer": "a whole number", "list": "a list such as [1, 2, 3]"}


def problem(row: Row, _: Dataset) -> Problem:
    return Problem(
        question=f"{row.get('query', '_query') or worded(row)}\n\n{ask(row)}",
        gold=golds(row.need("answer")),
        id=row.text("pid"),
        meta={
            "question": row.text("question"),
            "options": row.get("choices") or [],
            "answer_type": row.get("answer_type"),
            "precision": None if row.get("precision") is None else int(row.need("precision")),
            "unit": row.get("unit"),
        },
        images=images(row, "decoded_image", "image"),
    )


def worded(row: Row) -> str:
    unit, options = row.get("unit"), row.get("choices") or []
    question = row.text("question") + (f" (Unit: {unit})" if unit else "")
    return "\n".join(
        [question, *(f"({letter}) {text}" for letter, text in zip(ascii_uppercase, options, strict=False))]
    )


def ask(row: Row) -> str:
    if row.get("choices"):
        return "Put the letter of the right option within \\boxed{}."
    places = row.get("precision")
    number = f"a number with {int(places)} decimal place{'s' * (places != 1)}" if places else "your final answer"
    return f"Put {KINDS.get(str(row.get('answer_type')), number)} within \\boxed{{}}."


MATHVISTA = Benchmark(
    hub="AI4Math/MathVista",
    files=("data/testmini-*.parquet", "testmini.json"),
    problem=problem,
    grader="choice",
    counts=(1000,),
    images=True,
)

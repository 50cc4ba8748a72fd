r"""MathVista, testmini: 1,000 questions about images.

    {"pid": "1", "question": "When a spring does work on an object, we cannot find the work by simply multiplying …",
     "image": "images/1.jpg", "choices": null, "unit": null, "precision": 1, "answer": "1.2",
     "question_type": "free_form", "answer_type": "float", "metadata": {"source": "SciBench", …}}

The gold of a multiple choice question is the option's text, not its letter. The hub's table has the image itself
(decoded_image) and the benchmark's own prompt (query); GitHub's table has neither.
"""

from __future__ import annotations

from string import ascii_uppercase

from leash.benchmarks.benchmark import Benchmark, Problem, Row, parse_golds
from leash.benchmarks.images import load_images
from leash.params.groups import Dataset

ANSWER_FORMATS = {"integer": "a whole number", "list": "a list such as [1, 2, 3]"}


def parse_problem(row: Row, _: Dataset) -> Problem:
    return Problem(
        question=f"{row.get('query', '_query') or build_question(row)}\n\n{build_instruction(row)}",
        gold=parse_golds(row.need("answer")),
        id=row.text("pid"),
        meta={
            "question": row.text("question"),
            "options": row.get("choices") or [],
            "answer_type": row.get("answer_type"),
            "precision": None if row.get("precision") is None else int(row.need("precision")),
            "unit": row.get("unit"),
        },
        images=load_images(row, "decoded_image", "image"),
    )


def build_question(row: Row) -> str:
    unit, options = row.get("unit"), row.get("choices") or []
    question = row.text("question") + (f" (Unit: {unit})" if unit else "")
    lines = (f"({letter}) {text}" for letter, text in zip(ascii_uppercase, options, strict=False))
    return "\n".join([question, *lines])


def build_instruction(row: Row) -> str:
    if row.get("choices"):
        return "Put the letter of the right option within \\boxed{}."
    places = row.get("precision")
    number = f"a number with {int(places)} decimal place{'s' * (places != 1)}" if places else "your final answer"
    return f"Put {ANSWER_FORMATS.get(str(row.get('answer_type')), number)} within \\boxed{{}}."


FILES = ("data/testmini-*.parquet", "testmini.json")
MATHVISTA = Benchmark("AI4Math/MathVista", FILES, parse_problem, "choice", counts=(1000,), images=True)

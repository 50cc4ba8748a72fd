r"""MathVision, testmini: 304 competition problems with images.

    {"id": "4", "question": "How many different digits can you find in this picture?\n<image1>", "options": [],
     "answer": "6", "solution": null, "level": 1, "subject": "counting", "image": "images/4.jpg"}

The gold of a multiple choice question is a letter. Options are texts, or only the letters if the image shows them.
`<image1>` marks the place of the image. If a question has several marks, one image shows all of them.
"""

from __future__ import annotations

from string import ascii_uppercase

from leash.benchmarks.benchmark import Benchmark, Problem, Row, parse_golds
from leash.benchmarks.images import load_images
from leash.instructions import BOXED
from leash.params.groups import Dataset

LETTER_INSTRUCTION = "Please reason step by step, and put the letter of the right option within \\boxed{}."


def parse_problem(row: Row, _: Dataset) -> Problem:
    options = [str(option) for option in row.get("options") or []]
    question = row.text("question")
    return Problem(
        question="\n".join([question, *format_options(options), "", LETTER_INSTRUCTION if options else BOXED]),
        gold=parse_golds(row.need("answer")),
        id=row.text("id"),
        meta={
            "question": question,
            "options": options,
            "answer_type": None,
            "precision": None,
            "unit": None,
            "level": row.get("level"),
            "subject": row.get("subject"),
        },
        images=load_images(row, "decoded_image", "image"),
        level=row.label("level"),
    )


def format_options(options: list[str]) -> list[str]:
    """The options with their letters; none if they are only letters, because then the image shows them."""
    if [option.strip("()") for option in options] == list(ascii_uppercase[: len(options)]):
        return []
    return [f"({letter}) {text}" for letter, text in zip(ascii_uppercase, options, strict=False)]


FILES = ("data/testmini-*.parquet", "testmini.jsonl")
MATHVISION = Benchmark("MathLLMs/MathVision", FILES, parse_problem, "choice", counts=(304,), images=True)

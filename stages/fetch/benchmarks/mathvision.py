r"""MathVision, testmini: 304 competition problems with images.

    {"id": "4", "question": "How many different digits can you find in this picture?\n<image1>", "options": [],
     "answer": "6", "solution": null, "level": 1, "subject": "counting", "image": "images/4.jpg"}

The gold of a multiple choice is a letter. Options are texts, or just the letters where they are drawn in the image.
`<image1>` marks where the image belongs; where there are more marks, one image shows all that they stand for.
"""

from __future__ import annotations

from string import ascii_uppercase

from stages.fetch.benchmark import BOXED, Benchmark, Problem, Row, golds
from stages.fetch.images import images
from stages.params import Dataset

LETTER = "Please reason step by step, and put the letter of the right option within \\boxed{}."


def problem(row: Row, _: Dataset) -> Problem:
    options = [str(option) for option in row.get("options") or []]
    question = row.text("question")
    return Problem(
        question="\n".join([question, *listed(options), "", LETTER if options else BOXED]),
        gold=golds(row.need("answer")),
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
        images=images(row, "decoded_image", "image"),
    )


def listed(options: list[str]) -> list[str]:
    """The options with their letters, unless they are just those: then they are drawn in the image."""
    if [option.strip("()") for option in options] == list(ascii_uppercase[: len(options)]):
        return []
    return [f"({letter}) {text}" for letter, text in zip(ascii_uppercase, options, strict=False)]


MATHVISION = Benchmark(
    hub="MathLLMs/MathVision",
    files=("data/testmini-*.parquet", "testmini.jsonl"),
    problem=problem,
    grader="choice",
    counts=(304,),
    images=True,
)

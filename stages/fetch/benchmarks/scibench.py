r"""SciBench: 692 problems of college textbooks in physics, chemistry and mathematics, answered by a number in a unit.

    {"problem_text": "Suppose that $10.0 \\mathrm{~mol} \\mathrm{C}_2 \\mathrm{H}_6(\\mathrm{~g})$ is confined to …",
     "answer_latex": " 50.7", "answer_number": "50.7", "unit": "$\\mathrm{atm}$ ", "source": "atkins",
     "problemid": " e1.17(a)(a)", "comment": " "}

`answer_number` is a text, four with thousands commas or a Unicode minus. A unit may carry a power of ten
("$10^{14}\\mathrm{~Hz}$"): the number alone and the number with its power are both what the problem asks for. An id
is not that of one problem: eleven stand twice.
"""

from __future__ import annotations

import re

from stages.errors import LeashError
from stages.fetch.benchmark import BOXED, Benchmark, Problem, Row
from stages.params import Dataset

POWER = re.compile(r"10\s*\^\s*(?:\{\s*(-?\d+)\s*\}|(-?\d+))")
TOLERANCE = 0.05


def problem(row: Row, dataset: Dataset) -> Problem:
    unit = " ".join(str(row.get("unit") or "").split())
    question = row.text("problem_text")
    return Problem(
        question=f"{question}\n\nThe unit of the answer is {unit}." if unit else question,
        gold=[number(row)],
        id=f"{row.text('source')}-{row.text('problemid')}",
        meta={
            "question": question,
            "unit": unit,
            "scale": scale(unit),
            "tolerance": TOLERANCE if dataset.tolerance is None else dataset.tolerance,
        },
    )


def number(row: Row) -> str:
    text = row.text("answer_number").replace(",", "").replace("\u2212", "-").removeprefix("+")
    try:
        float(text)
    except ValueError:
        raise LeashError(f"{row.where}: the answer_number {text} is not a number; correct it.") from None
    return text


def scale(unit: str) -> float:
    r"""The power of ten that a unit begins with: 1e14 for "$10^{14}\mathrm{~Hz}$", 1 for "$\mathrm{m}^2$"."""
    found = POWER.match(unit.lstrip("$ ").removeprefix("\\mathrm{"))
    return float(f"1e{found[1] or found[2]}") if found else 1.0


SCIBENCH = Benchmark(
    hub="xw27/scibench",
    files=("*.json",),
    problem=problem,
    grader="numeric",
    counts=(692,),
    instruction=BOXED,
)

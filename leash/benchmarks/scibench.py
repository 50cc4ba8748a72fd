r"""SciBench: 692 problems of college textbooks in physics, chemistry and mathematics, answered with a number.

    {"problem_text": "Suppose that $10.0 \\mathrm{~mol} \\mathrm{C}_2 \\mathrm{H}_6(\\mathrm{~g})$ is confined to …",
     "answer_latex": " 50.7", "answer_number": "50.7", "unit": "$\\mathrm{atm}$ ", "source": "atkins",
     "problemid": " e1.17(a)(a)", "comment": " "}

`answer_number` is a text; four have thousands commas or a Unicode minus. A unit can contain a power of ten
("$10^{14}\\mathrm{~Hz}$"); then the number alone and the number times the power are both correct. Ids are not unique:
eleven occur twice.
"""

from __future__ import annotations

import re

from leash.benchmarks.benchmark import Benchmark, Problem, Row, RowError
from leash.params.groups import Dataset

POWER_OF_TEN = re.compile(r"10\s*\^\s*(?:\{\s*(-?\d+)\s*\}|(-?\d+))")
DEFAULT_TOLERANCE = 0.05


def parse_problem(row: Row, dataset: Dataset) -> Problem:
    unit = " ".join(str(row.get("unit") or "").split())
    question = row.text("problem_text")
    gold = row.text("answer_number").replace(",", "").replace("\u2212", "-").removeprefix("+")
    try:
        float(gold)
    except ValueError:
        raise RowError(row.where, f"the answer_number {gold} is not a number; correct it") from None
    tolerance = DEFAULT_TOLERANCE if dataset.tolerance is None else dataset.tolerance
    return Problem(
        question=f"{question}\n\nThe unit of the answer is {unit}." if unit else question,
        gold=[gold],
        id=f"{row.text('source')}-{row.text('problemid')}",
        meta={"question": question, "unit": unit, "scale": parse_unit_scale(unit), "tolerance": tolerance},
    )


def parse_unit_scale(unit: str) -> float:
    r"""The power of ten that a unit begins with: 1e14 for "$10^{14}\mathrm{~Hz}$", 1 for "$\mathrm{m}^2$"."""
    power = POWER_OF_TEN.match(unit.lstrip("$ ").removeprefix("\\mathrm{"))
    return float(f"1e{power[1] or power[2]}") if power else 1.0


SCIBENCH = Benchmark("xw27/scibench", ("*.json",), parse_problem, "numeric", counts=(692,))

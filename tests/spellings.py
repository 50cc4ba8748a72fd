"""Tables of right and wrong answers by kind, labelled by hand, in fixtures/grading: `spellings.jsonl`, which our reader
was written against, and `weak_places.jsonl`, pairs aimed at its weak places that were labelled before it was run.

A case has a gold and either an `answer` or a whole `text` from which the answer is extracted, and says whether it is
`right`. Its grader is `math` unless it names another. `known_miss` says why a right one is not accepted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leash.grading.graders import registry

FIXTURES = Path(__file__).parent / "fixtures" / "grading"
SPELLINGS, WEAK_PLACES = FIXTURES / "spellings.jsonl", FIXTURES / "weak_places.jsonl"

Case = dict[str, Any]


def load_cases(table: Path = SPELLINGS) -> list[Case]:
    return [json.loads(line) for line in table.read_text().splitlines()]


def show(case: Case) -> str:
    return f"{case['kind']}: {case['gold']} <- {case.get('answer', case.get('text'))}"


def is_accepted(case: Case) -> bool:
    """Whether strict reading holds the case right."""
    grader = case.get("grader", "math")
    answer = case["answer"] if "answer" in case else registry.get_extractor(grader)(case["text"])
    if answer is None:
        return False
    return registry.load_grader(grader).grade(answer, [case["gold"]], case.get("meta", {})) >= 1

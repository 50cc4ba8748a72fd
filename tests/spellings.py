"""The table of spellings (fixtures/grading/spellings.jsonl): right and wrong answers by kind, labelled by hand.

A case has a gold and either an `answer` or a whole `text` from which the answer is extracted, and says whether it is
`right`. Its grader is `math` unless it names another. `known_miss` says why a right one is not accepted.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leash.grading.graders import registry

TABLE = Path(__file__).parent / "fixtures" / "grading" / "spellings.jsonl"

Case = dict[str, Any]


def load_cases() -> list[Case]:
    return [json.loads(line) for line in TABLE.read_text().splitlines()]


def is_accepted(case: Case) -> bool:
    """Whether strict reading holds the case right."""
    grader = case.get("grader", "math")
    answer = case["answer"] if "answer" in case else registry.get_extractor(grader)(case["text"])
    if answer is None:
        return False
    return registry.load_grader(grader).grade(answer, [case["gold"]], case.get("meta", {})) >= 1

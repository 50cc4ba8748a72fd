r"""Strict reading on our tables of right and wrong answers, by kind, beside math-verify on the same cases.

    python tests/benchmarks/spelling_cases.py

Of each kind it prints the share of the right cases that is accepted, and the number of wrong ones that is. The tables
are tests/fixtures/grading/spellings.jsonl, and weak_places.jsonl beside it, whose pairs are aimed at weak places.
math-verify reads golds and bare answers between dollar signs, which suits it best (with boxes it accepts 2% less).
Cases of the graders `numeric` and `choice` are not its business and are left out of its figures. Goals: at least 97% of
the right spellings and no wrong one; at most 8% of the right pairs held wrong and 1% of the wrong ones held right.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from result import tell

sys.path.append(str(Path(__file__).parent.parent.parent))

Case = dict[str, Any]


class Counts(NamedTuple):
    """How many cases there are, and how many are accepted, by (kind, whether they are right)."""

    total: Counter[tuple[str, bool]]
    accepted: Counter[tuple[str, bool]]

    def share(self, *, right: bool) -> float:
        cases, hits = (sum(n for (_, sort), n in counter.items() if sort == right) for counter in self)
        return hits / cases

    def show(self, kind: str, *, right: bool) -> str:
        return f"{self.accepted[kind, right]}/{self.total[kind, right]}" if self.total[kind, right] else "-"


def main() -> None:
    from tests.spellings import SPELLINGS, WEAK_PLACES

    ours, theirs, met = [], [], []
    for table, min_right, max_wrong in ((SPELLINGS, 0.97, 0), (WEAK_PLACES, 0.92, 0.01)):
        our_counts, their_counts = compare(table)
        ours.append(our_counts.share(right=True))
        theirs.append(their_counts.share(right=True))
        met.append(ours[-1] >= min_right and our_counts.share(right=False) <= max_wrong)
    goal = "right spellings 97%, none wrong; right pairs at weak places 92%, at most 1% of the wrong ones"
    name = "strict reading: right cases of the weaker table"
    tell(name, ours=min(ours), theirs=min(theirs), ratio=min(ours) / min(theirs), goal=goal, ok=all(met))


def compare(table: Path) -> tuple[Counts, Counts]:
    """Print a table's counts by kind, and return ours and math-verify's."""
    from tests.spellings import is_accepted, load_cases

    cases = load_cases(table)
    compared = [case for case in cases if case.get("grader", "math") == "math"]
    ours, theirs = count(cases, is_accepted), count(compared, is_accepted_by_math_verify)
    print(f"{table.stem:<36}{'right cases: ours':>20}{'math-verify':>14}{'wrong cases: ours':>20}{'math-verify':>14}")
    for kind in dict.fromkeys(case["kind"] for case in cases):
        cells = [counts.show(kind, right=right) for right in (True, False) for counts in (ours, theirs)]
        print(f"{kind:<36}{cells[0]:>20}{cells[1]:>14}{cells[2]:>20}{cells[3]:>14}")
    shares = [
        f"{counts.share(right=True):.1%} of the right, {counts.share(right=False):.1%} of the wrong"
        for counts in (ours, theirs)
    ]
    print(f"accepted: ours {shares[0]}; math-verify {shares[1]}\n")
    return ours, theirs


def count(cases: list[Case], accept: Callable[[Case], bool]) -> Counts:
    total = Counter((case["kind"], case["right"]) for case in cases)
    return Counts(total, Counter((case["kind"], case["right"]) for case in cases if accept(case)))


def is_accepted_by_math_verify(case: Case) -> bool:
    from math_verify import parse, verify

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    text = case["text"] if "text" in case else f"${case['answer']}$"
    return bool(verify(parse(f"${case['gold']}$"), parse(text)))


if __name__ == "__main__":
    main()

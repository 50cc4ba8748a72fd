r"""Strict reading on our table of spellings, by kind, beside math-verify on the same cases.

    python tests/benchmarks/spelling_cases.py

Of the right cases of each kind it prints the share that is accepted, and of the wrong ones the number that is. The
table is tests/fixtures/grading/spellings.jsonl. math-verify reads golds and bare answers between dollar signs, which
suits it best (with boxes it accepts 2% less). Cases of the graders `numeric` and `choice` are not its business and are
left out of its figures. Goal: at least 97% of the right cases, and no wrong one.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from pathlib import Path

from result import tell

sys.path.append(str(Path(__file__).parent.parent.parent))

GOAL = 0.97


def main() -> None:
    from tests.spellings import is_accepted, load_cases

    cases = load_cases()
    counted = Counter((case["kind"], case["right"]) for case in cases)
    ours = Counter((case["kind"], case["right"]) for case in cases if is_accepted(case))
    compared = [case for case in cases if case.get("grader", "math") == "math"]
    there = Counter((case["kind"], case["right"]) for case in compared)
    theirs = Counter((case["kind"], case["right"]) for case in compared if is_accepted_by_math_verify(case))
    print(f"{'kind':<24}{'right cases: ours':>20}{'math-verify':>14}{'wrong cases: ours':>20}{'math-verify':>14}")
    for kind in dict.fromkeys(case["kind"] for case in cases):
        cells = [
            f"{accepted[kind, right]}/{total[kind, right]}" if total[kind, right] else "-"
            for right in (True, False)
            for accepted, total in ((ours, counted), (theirs, there))
        ]
        print(f"{kind:<24}{cells[0]:>20}{cells[1]:>14}{cells[2]:>20}{cells[3]:>14}")
    share, their_share = (
        sum(n for (_, right), n in accepted.items() if right) / sum(n for (_, right), n in total.items() if right)
        for accepted, total in ((ours, counted), (theirs, there))
    )
    false, their_false = (sum(n for (_, right), n in accepted.items() if not right) for accepted in (ours, theirs))
    print(
        f"all: ours {share:.1%} of the right and {false} wrong; math-verify {their_share:.1%} and {their_false} wrong"
    )
    ok = share >= GOAL and false == 0
    goal = f"at least {GOAL:.0%} of the right cases, no wrong one"
    tell("strict reading: spellings", ours=share, theirs=their_share, ratio=share / their_share, goal=goal, ok=ok)


def is_accepted_by_math_verify(case: dict[str, str]) -> bool:
    from math_verify import parse, verify

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    text = case["text"] if "text" in case else f"${case['answer']}$"
    return bool(verify(parse(f"${case['gold']}$"), parse(text)))


if __name__ == "__main__":
    main()

r"""Readings of real completions: agreement with recorded scores, and hits on golds of other problems.

    LEASH_COMPLETIONS=folder LEASH_BENCHMARKS=folder python tests/benchmarks/reading_agreement.py [--out verdicts.jsonl]

For each file, data set and model it prints how many verdicts agree with the recorded score, and how many of 2,000
mismatched pairs are held right: a text with the gold of another problem of the same data set, whose gold is different.
Such a hit is not always a fault: a wrong answer may be the right one elsewhere. `--out` writes all verdicts, so that
two versions of Leash can be compared with `diff`. Run an earlier version with PYTHONPATH. Goal: the verdicts agree in
at least 90%, and at most 2% of the pairs are hits.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from result import leave, tell

from leash.grading.extraction import extract
from leash.grading.graders import math
from leash.statistics import seeds

sys.path.append(str(Path(__file__).parent.parent.parent))

PAIRS = 2000  # in each group
AGREEMENT_GOAL, HITS_GOAL = 0.90, 0.02

Read = Callable[[str], str | None]
READINGS: dict[str, Read] = {"strict": cache(extract)}  # the answer that a text gives, in each reading


def main() -> None:
    from tests.unit.test_agreement import REAL, scored_completions

    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    out: Path | None = parser.parse_args().out
    if not (REAL.completions / "llama3b_k50_step400.jsonl.gz").is_file() or not REAL.benchmarks.is_dir():
        leave("set LEASH_COMPLETIONS and LEASH_BENCHMARKS")
    groups: dict[tuple[str, str], list[Any]] = {}
    for scored in scored_completions(REAL):
        groups.setdefault((scored.dataset, scored.role), []).append(scored)
    verdicts: list[dict[str, Any]] = []
    agreed, hits = dict.fromkeys(READINGS, 0), dict.fromkeys(READINGS, 0)
    print(f"{'data set':<16}{'model':<8}{'reading':<9}{'completions':>12}{'agree':>9}{'mismatched hits':>17}")
    for (dataset, role), group in groups.items():
        pairs = draw_mismatched(dataset, role, group)
        for reading, read in READINGS.items():
            own = [(scored, is_right(read, scored.text, scored.gold, scored.meta)) for scored in group]
            other = [(scored, gold, is_right(read, scored.text, gold, scored.meta)) for scored, gold in pairs]
            agree, hit = sum(right == scored.score for scored, right in own), sum(right for *_, right in other)
            agreed[reading] += agree
            hits[reading] += hit
            print(
                f"{dataset:<16}{role:<8}{reading:<9}{len(group):>12,}{agree / len(group):>9.2%}{hit:>17,}", flush=True
            )
            about = {"dataset": dataset, "role": role, "reading": reading}
            verdicts += [
                {
                    **about,
                    "gold": gold,
                    "answer": read(scored.text),
                    "right": right,
                    "score": score,
                    "tail": scored.text[-200:],
                }
                for scored, gold, right, score in [
                    *((scored, scored.gold, right, scored.score) for scored, right in own),
                    *((scored, gold, right, None) for scored, gold, right in other),
                ]
            ]
    if out:
        out.write_text("".join(json.dumps(verdict, ensure_ascii=False) + "\n" for verdict in verdicts))
    share, rate = agreed["strict"] / sum(map(len, groups.values())), hits["strict"] / (PAIRS * len(groups))
    goal = f"at least {AGREEMENT_GOAL:.0%} agree, at most {HITS_GOAL:.0%} mismatched hits"
    ok = share >= AGREEMENT_GOAL and rate <= HITS_GOAL
    tell("strict reading: agreement, mismatched hits", ours=share, theirs=rate, ratio=share, goal=goal, ok=ok)


def draw_mismatched(dataset: str, role: str, group: list[Any]) -> list[tuple[Any, str]]:
    """Draw completions, each with the gold of another problem."""
    golds = sorted({scored.gold for scored in group})
    rng = seeds.stream("benchmark", "mismatched", dataset, role)
    pairs: list[tuple[Any, str]] = []
    while len(pairs) < PAIRS:
        scored, gold = group[int(rng.integers(len(group)))], golds[int(rng.integers(len(golds)))]
        if not is_same_gold(scored.gold, gold):
            pairs.append((scored, gold))
    return pairs


@cache
def is_same_gold(first: str, second: str) -> bool:
    return first == second or math.grade(first, [second], {}) >= 1 or math.grade(second, [first], {}) >= 1


def is_right(read: Read, text: str, gold: str, meta: Mapping[str, Any]) -> bool:
    answer = read(text)
    return answer is not None and math.grade(answer, [gold], meta) >= 1


if __name__ == "__main__":
    main()

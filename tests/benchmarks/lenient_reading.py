r"""Lenient reading on real completions: its extra hits, what it recovers without the format, and its false positives.

    LEASH_COMPLETIONS=folder LEASH_BENCHMARKS=folder python tests/benchmarks/lenient_reading.py [--list FILE]

Two kinds of text of the files that tests/unit/test_agreement.py reads:

- *as written*: lenient reading adds the hits of texts in which strict reading finds no answer. It does the same on the
  file of Reasoning Gym, where the base model often leaves the answer tags out;
- *unmarked*: the same texts without boxes and answer tags, as a model would write that never learned the format. If a
  text thinks, its thinking becomes the reply and the marked answer behind it is dropped, so that there is something to
  find. The strict answer of the text as written is then the truth: `recovered` is the share of its hits that lenient
  reading finds, and `false` counts the hits of texts whose marked answer is wrong.

False positives: 2,000 pairs of a text and the gold of another problem of the same data set whose gold differs. For
unmarked texts, also the guess floor by data set: the share of wrong candidates that equal another problem's gold. Goal:
at least 95% of the hits of unmarked texts are hits of the marked answer, and no more false positives than the floor.
`--list` writes every extra hit of both kinds of text, to be looked at by hand, and every hit that is missed.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from result import leave, tell

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from leash.datasets.reasoning_gym import generate_problems
from leash.grading.extraction import extract
from leash.grading.graders import gym, math
from leash.grading.lenient import find_candidate
from leash.params.groups import Dataset
from leash.statistics import seeds
from tests.unit import test_agreement as agreement

PAIRS, GOAL, SHOWN_CHARS = 2000, 0.95, 200
GYM = "reasoning_gym_qwen3b_base_vs_rl_k3.jsonl"
BOX = re.compile(r"\\boxed\s*\{((?:[^{}]|\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})*)\}")
TAG = re.compile(r"</?answer>")


class Read(NamedTuple):
    """A completion with its gold, and the answers that both readings find in a text made of it."""

    group: tuple[str, str]
    gold: str
    meta: tuple[tuple[str, Any], ...]
    text: str
    marked: str | None  # the strict answer of the text as written
    strict: str | None
    candidate: str | None


def main() -> None:
    if not os.environ.get("LEASH_COMPLETIONS") or not os.environ.get("LEASH_BENCHMARKS"):
        leave("Set LEASH_COMPLETIONS and LEASH_BENCHMARKS to the folders of the real files.")
    path = sys.argv[sys.argv.index("--list") + 1] if "--list" in sys.argv else os.devnull
    written, unmarked = read_all(lambda text: text), read_all(unmark)
    with open(path, "w") as file:
        report_gym(file)
        hits, extra = report_written(written, file)
        right, false = report_unmarked(unmarked, file)
    print("\nfalse positives on mismatched pairs")
    for name, reads in (("as written", written), ("unmarked", unmarked)):
        report_mismatched(name, reads)
    share = right / max(right + false, 1)
    print(f"\nas written: {hits} strict hits, {extra} more by lenient reading")
    tell("lenient: hits of unmarked texts that are right", ours=share, theirs=GOAL, ratio=share / GOAL,
         goal=f"at least {GOAL}", ok=share >= GOAL)  # fmt: skip


def read_all(change: Callable[[str], str]) -> list[Read]:
    reads = []
    for scored in agreement.scored_completions(agreement.REAL):
        text = change(scored.text)
        strict, meta = extract(text), tuple(sorted(scored.meta.items()))
        candidate = find_candidate(text, "math") if strict is None else None
        group = scored.dataset, scored.role
        reads.append(Read(group, scored.gold, meta, text, extract(scored.text), strict, candidate))
    return reads


def unmark(text: str) -> str:
    """Write the answer of a text without its box or tags. Of a text that thinks, keep the thinking."""
    thinking, closed, _ = text.rpartition("</think>")
    plain = thinking if closed and len(thinking) > len(text) / 2 else text
    return TAG.sub("", BOX.sub(r"\1", plain.replace("<think>", ""))).strip()


@cache
def is_right(answer: str | None, gold: str, meta: tuple[tuple[str, Any], ...]) -> bool:
    return answer is not None and math.grade(answer, [gold], dict(meta)) >= 1


def report_written(reads: Sequence[Read], file: TextIO) -> tuple[int, int]:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for read in reads:
        strict, lenient = (is_right(answer, read.gold, read.meta) for answer in (read.strict, read.candidate))
        counts[read.group].update(texts=1, strict=strict, none=read.strict is None,
                                  candidates=read.candidate is not None, extra=lenient)  # fmt: skip
        if lenient:
            show(file, "extra hit", read)
    print_counts("as written", counts, ("texts", "strict", "none", "candidates", "extra"))
    return sum(c["strict"] for c in counts.values()), sum(c["extra"] for c in counts.values())


def report_gym(file: TextIO) -> None:
    """Count the hits of both readings by task and model on the file of Reasoning Gym, by its own scorers."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    problems: dict[str, list[dict[str, Any]]] = {}
    for row in agreement.rows(agreement.REAL.completions / GYM):
        task, role, config = row["_dataset"], row["_role"], row["_config"]
        key = json.dumps([task, config])
        if key not in problems:
            problems[key] = list(generate_problems(task, Dataset(family="reasoning_gym", task=task, **config)))
        meta = json.loads(problems[key][row["_idx"]]["meta"])
        gold = row["expected_answer"]
        for completion in row["completions"]:
            text = completion["full_model_response"] or ""
            strict = gym.extract(text)
            candidate = find_candidate(text, "gym") if strict is None else None
            right = [answer is not None and gym.grade(answer, [gold], meta) >= 1 for answer in (strict, candidate)]
            counts[task, role].update(texts=1, strict=right[0], none=strict is None,
                                      candidates=candidate is not None, extra=right[1])  # fmt: skip
            if right[1]:
                show(file, "extra hit", Read((task, role), gold, (), text, strict, strict, candidate))
    print_counts("as written, gym", counts, ("texts", "strict", "none", "candidates", "extra"))


def report_unmarked(reads: Sequence[Read], file: TextIO) -> tuple[int, int]:
    """Count among texts that have a marked answer, but none that strict reading finds once it is unmarked."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for read in reads:
        if read.marked is None or read.strict is not None:
            continue
        truth, lenient = is_right(read.marked, read.gold, read.meta), is_right(read.candidate, read.gold, read.meta)
        counts[read.group].update(texts=1, candidates=read.candidate is not None, marked=truth,
                                  recovered=truth and lenient, false=lenient and not truth)  # fmt: skip
        if truth or lenient:
            show(file, "missed hit" if not lenient else "recovered hit" if truth else "false hit", read)
    print_counts("unmarked", counts, ("texts", "candidates", "marked", "recovered", "false"))
    return sum(c["recovered"] for c in counts.values()), sum(c["false"] for c in counts.values())


def report_mismatched(name: str, reads: Sequence[Read]) -> None:
    rng = seeds.stream("benchmark", "lenient", name)
    golds: dict[str, list[str]] = defaultdict(list)
    for read in reads:
        golds[read.group[0]].append(read.gold)
    # Texts without a marked answer are few as written: all that unmarked texts add are candidates.
    pool = [read for read in reads if name == "as written" or read.candidate is not None]
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for index in rng.permutation(len(pool))[:PAIRS]:
        read = pool[index]
        others = [gold for gold in sorted(set(golds[read.group[0]])) if not is_right(gold, read.gold, read.meta)]
        gold = others[int(rng.integers(len(others)))]
        answer = read.strict if read.strict is not None else read.candidate
        counts[read.group].update(pairs=1, strict=is_right(read.strict, gold, read.meta),
                                  lenient=is_right(answer, gold, read.meta))  # fmt: skip
    print_counts(name, counts, ("pairs", "strict", "lenient"))
    total = sum((Counter(c) for c in counts.values()), Counter())
    print(f"{name}: {total['strict']} strict and {total['lenient']} lenient of {total['pairs']} pairs", flush=True)
    if name == "unmarked":
        pairs: Counter[str] = Counter()
        for (dataset, _), count in counts.items():
            pairs[dataset] += count["pairs"]
        report_floor(pool, pairs)


def report_floor(pool: Sequence[Read], pairs: Counter[str]) -> None:
    """The chance that a wrong candidate equals the gold of another problem, drawn at random from its data set."""
    expected = 0.0
    for dataset, count in sorted(pairs.items()):
        reads = [read for read in pool if read.group[0] == dataset]
        golds = sorted({read.gold for read in reads})
        wrong = Counter(r.candidate for r in reads if not is_right(r.candidate, r.gold, r.meta))
        meta = reads[0].meta
        equal = sum(n * sum(is_right(candidate, gold, meta) for gold in golds) for candidate, n in wrong.items())
        share = equal / max(wrong.total() * len(golds), 1)
        expected += count * share
        print(f"  floor on {dataset}: {share:.5f} ({wrong.total()} wrong candidates, {len(golds)} golds)", flush=True)
    print(f"  the floor expects {expected:.1f} hits of {pairs.total()} pairs")


def print_counts(name: str, counts: dict[tuple[str, str], Counter[str]], columns: Sequence[str]) -> None:
    print(f"\n{name:<24}" + "".join(f"{column:>12}" for column in columns))
    for group, count in sorted(counts.items()):
        print(f"{' '.join(group):<24}" + "".join(f"{count[column]:>12}" for column in columns))


def show(file: TextIO, kind: str, read: Read) -> None:
    file.write(f"--- {kind}: {' '.join(read.group)}, gold {read.gold!r}, candidate {read.candidate!r}, "
               f"marked {read.marked!r}\n{read.text[-SHOWN_CHARS:]!r}\n")  # fmt: skip


if __name__ == "__main__":
    main()

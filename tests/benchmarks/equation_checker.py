r"""The equation checker on real completions: which equations it calls false, what it misses, what it costs.

    LEASH_COMPLETIONS=folder python tests/benchmarks/equation_checker.py [--list] [--all]

300 completions of the real files (drawn by a seed, right and wrong ones), or all with --all. --list prints every
equation that is called false with the text around it, to be looked at by hand: at least 98% must be false. What it
misses: one number of each of up to 300 true equations is changed, and the share that is then called false is the
result. Most of the rest is left alone on purpose: words of doubt are near, or the change is within rounding.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from result import leave, tell

from leash.grading.process.checkers import check_working
from leash.grading.process.equations import find_flaws, read_equations
from leash.grading.process.planting import change_number, number_spans
from leash.grading.run_on import cut_run_on
from leash.statistics import seeds

COMPLETIONS, CORRUPTED, GOAL = 300, 300, 0.85
FILES = {
    "qwen": "qwen25_3b_instruct_vs_rlft_greedy.jsonl.gz",
    "llama": "llama3b_k50_step400.jsonl.gz",
    "gym": "reasoning_gym_qwen3b_base_vs_rl_k3.jsonl.gz",
}
Completion = tuple[str, str, str]  # file, question, text


def main() -> None:
    completions = list(read_completions())
    if "--all" not in sys.argv:
        rng = seeds.stream("benchmark", "equations")
        completions = [completions[i] for i in sorted(rng.choice(len(completions), COMPLETIONS, replace=False))]
    processes: Counter[tuple[str, str]] = Counter()
    flaws = 0
    began = time.perf_counter()
    for file, question, text in completions:
        problem = {"question": question, "grader": "math", "meta": {}}
        processes[file, check_working(problem, text, None).process] += 1
    cost = (time.perf_counter() - began) / len(completions)
    for number, (file, question, text) in enumerate(completions):
        for flaw in find_flaws(text, question):
            flaws += 1
            if "--list" in sys.argv:
                around = " ".join(text[max(flaw.begin - 90, 0) : flaw.end + 90].split())
                print(f"{file} {number}\t{' '.join(flaw.text.split())}\t{around}")
    for (file, process), count in sorted(processes.items()):
        print(f"{file:6} {process:10} {count}")
    print(f"{len(completions)} completions, {flaws} equations called false, {1e6 * cost:.0f} µs per completion")
    share = share_detected(completions)
    tell(
        "equation checker: corrupted equations called false",
        ours=share,
        theirs=1.0,
        ratio=share,
        goal=f"at least {GOAL:g}",
        ok=share >= GOAL,
    )


def read_completions() -> Iterator[Completion]:
    folder = os.environ.get("LEASH_COMPLETIONS", "")
    if not folder:
        leave("Set LEASH_COMPLETIONS to the folder with the real completions.")
    for file, name in FILES.items():
        with gzip.open(Path(folder) / name, "rt") as lines:
            for row in map(json.loads, lines):
                texts = row["code"] if "code" in row else [c["full_model_response"] for c in row["completions"]]
                yield from ((file, row["question"], cut_run_on(text)) for text in texts if text)


def share_detected(completions: list[Completion]) -> float:
    """Change one number in each of some true equations and return the share that is called false."""
    rng = seeds.stream("benchmark", "corrupted equations")
    detected = tried = 0
    for index in rng.permutation(len(completions)):
        text = completions[index][2]
        equations = [equation for equation in read_equations(text) if equation.true]
        if not equations or find_flaws(text, ""):
            continue
        equation = equations[rng.integers(len(equations))]
        spans = [*number_spans(text, equation)]
        begin, end = spans[rng.integers(len(spans))]
        corrupted = text[:begin] + change_number(text[begin:end], rng) + text[end:]
        tried += 1
        detected += bool(find_flaws(corrupted, ""))
        if tried == CORRUPTED:
            break
    print(f"{detected} of {tried} corrupted equations were called false")
    return detected / max(tried, 1)


if __name__ == "__main__":
    main()

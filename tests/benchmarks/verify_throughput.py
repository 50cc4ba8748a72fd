r"""The verify stage against a plain loop of math_verify.parse and verify: completions a second, with the same verdicts.

    LEASH_COMPLETIONS=folder python tests/benchmarks/verify_throughput.py

1,024 samples a problem repeat their answers as real ones do: they are drawn from the 50 samples a problem that a
Llama-3B gave on AIME24 and AMC23 (llama3b_k50_step400.jsonl.gz in that folder). Without the folder, texts and answers
are made up with about as many repeats. Each text ends with its answer in a box, so that both sides read the same. Ours
is the whole stage, from files to files; the loop has the texts in memory and reads each gold once. The loop is given
only some of the completions, since its time does not depend on how many there are. Goal: at least 30 times the speed.

    python tests/benchmarks/verify_throughput.py --older ../leash-of-then

compares the stage with that of an older checkout of Leash instead, by the processor time of all its processes: the two
take turns, so that other load on the machine touches both. Goal: at least 0.7 of the older throughput.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import numpy as np
from result import tell

import leash
from leash import tables
from leash.params import groups, loading
from leash.statistics import seeds
from stages.verify import stage

ROOT = Path(leash.__file__).parent.parent  # of the checkout that runs, which may be an older one than this file
RECORDED = "llama3b_k50_step400.jsonl.gz"
SAMPLES, SHARD, TURNS, GOAL = 1024, 2048, 3, 30.0
OLDER_TURNS, OLDER_GOAL = 5, 0.7
LOOPED = 600  # completions that the plain loop is given in each turn
Problems = list[tuple[str, list[str]]]  # a gold, and the texts of its samples


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--older", type=Path, help="an older checkout of Leash")
    parser.add_argument("--alone", action="store_true", help="only print the processor time of the stage in seconds")
    arguments = parser.parse_args()
    if arguments.alone:
        with project(repeated()) as settings:
            print(processor_seconds_of_stage(settings))
    elif arguments.older:
        compare_with_older(arguments.older.resolve())
    else:
        compare("verify: 1,024 samples a problem, as they repeat", repeated(), GOAL)


def compare_with_older(older: Path) -> None:
    """Run the stages of both checkouts by turns, each in a process of its own."""
    count = sum(len(texts) for _, texts in repeated())
    throughput: dict[Path, list[float]] = {ROOT: [], older: []}
    for turn in range(OLDER_TURNS):
        for checkout in (ROOT, older) if turn % 2 else (older, ROOT):
            command = [sys.executable, __file__, "--alone"]
            environment = os.environ | {"PYTHONPATH": str(checkout)}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            throughput[checkout].append(count / float(done.stdout.split()[-1]))
        print(f"ours {throughput[ROOT][-1]:,.0f}/s, older {throughput[older][-1]:,.0f}/s", flush=True)
    ours, theirs = (statistics.median(throughput[checkout]) for checkout in (ROOT, older))
    tell("verify: throughput beside an older checkout", ours=ours, theirs=theirs, ratio=ours / theirs,
         goal=f"at least {OLDER_GOAL:g}", ok=ours / theirs >= OLDER_GOAL)  # fmt: skip


def compare(name: str, problems: Problems, goal: float) -> None:
    """Measure both by turns, check that their verdicts are the same, and tell."""
    gold_and_text = [(gold, text) for gold, texts in problems for text in texts]
    few = gold_and_text[:: max(len(gold_and_text) // LOOPED, 1)]
    ours, theirs = [], []
    with project(problems) as settings:
        for _ in range(TURNS):
            ours.append(len(gold_and_text) / seconds_of_stage(settings))
            began = time.perf_counter()
            looped = plain_loop(few)
            theirs.append(len(few) / (time.perf_counter() - began))
            print(f"ours {ours[-1]:,.0f}/s, plain loop {theirs[-1]:,.0f}/s", flush=True)
        verdicts = correct()[:: max(len(gold_and_text) // LOOPED, 1)]
    differing = [pair for pair, mine, its in zip(few, verdicts, looped, strict=True) if mine is not its]
    for gold, text in differing[:20]:
        print(f"the verdicts on {text[-60:]!r} differ; the gold is {gold}")
    fast, slow = statistics.median(ours), statistics.median(theirs)
    ok = fast / slow >= goal and not differing
    tell(name, ours=fast, theirs=slow, ratio=fast / slow, goal=f"at least {goal:g}, same verdicts", ok=ok)


def repeated() -> Problems:
    rng = seeds.stream("benchmark", "verify")
    return [(gold, [texts[i] for i in rng.integers(0, len(texts), SAMPLES)]) for gold, texts in recorded()]


def recorded() -> Problems:
    folder = os.environ.get("LEASH_COMPLETIONS")
    if not folder:
        return made_up()
    with gzip.open(Path(folder) / RECORDED, "rt") as file:
        rows = [json.loads(line) for line in file]
    return [(row["expected_answer"], [_boxed(c) for c in row["completions"]]) for row in rows]


def made_up() -> Problems:
    """40 problems of 50 samples that give some 20 different answers."""
    rng = seeds.stream("benchmark", "made up")
    filler = "We add the terms one by one and look at what is left over. " * 30
    return [
        (str(number), [f"{filler}\\boxed{{{number + int(n)}}}" for n in np.minimum(rng.geometric(0.08, 50) - 1, 99)])
        for number in range(100, 140)
    ]


def _boxed(completion: dict[str, Any]) -> str:
    answer = completion["model_answer"]
    return f"{completion['full_model_response']}\n" + (f"\\boxed{{{answer}}}" if answer else "")


def plain_loop(few: Sequence[tuple[str, str]]) -> list[bool]:
    from math_verify import parse
    from math_verify import verify as equal

    golds = {gold: parse(f"\\boxed{{{gold}}}") for gold, _ in few}
    return [bool(equal(golds[gold], parse(text))) for gold, text in few]


@contextmanager
def project(problems: Problems) -> Iterator[groups.Params]:
    """A folder with the problems and completions, as the working directory."""
    settings = loading.load(ROOT / "params.yaml")
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            write(problems)
            yield settings
        finally:
            os.chdir(before)


def write(problems: Problems) -> None:
    about = {"dataset": "chain", "question": "?", "grader": "math", "images": None, "meta": "{}"}
    rows = [{**about, "problem_id": _name(i), "gold": [gold]} for i, (gold, _) in enumerate(problems)]
    tables.write(
        tables.problems_path("chain"), tables.table_from_rows(rows, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA
    )
    completion = {"tokens": 1, "finish": "stop", "logprob": None}
    samples = [
        {**completion, "problem_id": _name(i), "sample": sample, "text": text}
        for i, (_, texts) in enumerate(problems)
        for sample, text in enumerate(texts)
    ]
    for number, begin in enumerate(range(0, len(samples), SHARD)):
        shard = tables.table_from_rows(samples[begin : begin + SHARD], tables.COMPLETIONS_SCHEMA)
        place = tables.completions_folder("base", "chain") / f"{number:04}.parquet"
        tables.write(place, shard, tables.COMPLETIONS_SCHEMA)


def _name(number: int) -> str:
    return f"p{number:06}"


def seconds_of_stage(settings: groups.Params) -> float:
    for shard in tables.shards(tables.verdicts_folder("base", "chain")):
        shard.unlink()
    began = time.perf_counter()
    stage.run(settings, "base", "chain")
    return time.perf_counter() - began


def processor_seconds_of_stage(settings: groups.Params) -> float:
    """Processor time of this process and of all that it starts, with the import of the graders' libraries."""
    before = sum(os.times()[:4])
    seconds_of_stage(settings)
    # The times of the fork server's workers count once it has ended.
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
    return sum(os.times()[:4]) - before


def correct() -> list[bool]:
    """The verdicts in the order of problems and samples."""
    shards = tables.shards(tables.verdicts_folder("base", "chain"))
    return [row["correct"] is True for s in shards for row in tables.read(s, tables.VERDICTS_SCHEMA, "").to_pylist()]


if __name__ == "__main__":
    main()

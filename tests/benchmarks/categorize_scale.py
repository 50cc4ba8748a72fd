"""From 50 million verdicts to support tables, curves and metrics: time and memory against a bare count and pandas.

    python tests/benchmarks/categorize_scale.py [--rows 50003968] [--turns 3] [--no-pandas]

Writes the verdicts of two models on 3,052 problems, 8,192 samples each (and a tenth of that), as `leash verify` does:
in files of about a million rows with a manifest. Then, by turns and each in a process of its own:
  bare    DuckDB's `select problem_id, count(*), count(*) filter (where correct) … group by all`, for each model and
          data set
  ours    support tables of problems and of answers with all their columns, P, E, S, O and ratios, pass@k curves
  pandas  the same pass over the verdicts, data set by data set; of what follows, one category a problem, the ratios and
          the pass@k curves, and nothing else
Goals: ours in at most twice the time of bare and under 2 GiB; pandas takes at least 8 times as long; ten times the
rows take at most ten times as long. What the stage does besides (intervals and tests of every group, maj@k) depends on
the number of problems, not of rows, and is shown on a line of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from result import tell

from leash import tables, verdict_files
from leash.counting import hit_counts as categorize
from leash.counting import metrics
from leash.params import loading
from leash.statistics.seeds import stream
from stages.categorize import stage as stage_module
from stages.categorize.reachability import add_support_columns

# Problems of each data set, as many as those of the paper have, and Reasoning Gym's.
MATH = {"aime24": 30, "aime25": 30, "amc23": 40, "math500": 500, "minerva": 272, "olympiad": 675}
OTHER = {"simpleqa": 433, "reasoning": 100, "coding": 128, "language": 50, "scibench": 692, "gym": 102}
SIZES = {**MATH, **OTHER}
MODELS = ("base", "rlvr")
ROWS, TENTH = 2 * 3052 * 8192, 10
GIB = 2**30


def main() -> None:
    asked = arguments()
    if asked.only:
        print(json.dumps(measured(asked.only)))
        return
    k = round(asked.rows / len(MODELS) / sum(SIZES.values()))
    with tempfile.TemporaryDirectory() as place:
        folders = {"whole": Path(place) / "whole", "tenth": Path(place) / "tenth"}
        for folder, samples in zip(folders.values(), (k, max(k // TENTH, 1)), strict=True):
            rows, files = written(folder, samples)
            print(f"{rows:,} verdicts in {files:,} files, k = {samples}", flush=True)
        compare(folders, asked.turns, asked.pandas)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS, help="how many verdicts")
    parser.add_argument("--turns", type=int, default=3, help="how often each is measured; the median counts")
    parser.add_argument("--no-pandas", dest="pandas", action="store_false", help="leave out the slow one")
    parser.add_argument("--only", choices=WAYS, help=argparse.SUPPRESS)
    return parser.parse_args()


def compare(folders: dict[str, Path], turns: int, with_pandas: bool) -> None:
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(turns):
        for name, way, folder in (
            ("bare", "bare", "whole"),
            ("ours", "ours", "whole"),
            ("ours on a tenth", "ours", "tenth"),
        ):
            found.setdefault(name, []).append(in_a_child(way, folders[folder]))
    found["the whole stage"] = [in_a_child("stage", folders["whole"])]
    if with_pandas:
        found["pandas"] = [in_a_child("pandas", folders["whole"])]
    seconds = {name: statistics.median(run["seconds"] for run in runs) for name, runs in found.items()}
    memory = {name: max(run["memory"] for run in runs) / GIB for name, runs in found.items()}
    for name in found:
        each = ", ".join(f"{run['seconds']:.1f}" for run in found[name])
        print(f"{name:<18}{seconds[name]:>8.1f} s  {memory[name]:>6.2f} GiB  ({each})", flush=True)
    judged(seconds, memory["ours"])


def judged(seconds: dict[str, float], memory: float) -> None:
    """Say whether every goal is met, with the first of them as the ratio."""
    ratio = seconds["ours"] / seconds["bare"]
    growth = seconds["ours"] / seconds["ours on a tenth"]
    against_pandas = seconds["pandas"] / seconds["ours"] if "pandas" in seconds else None
    print(f"ours against bare {ratio:.2f}; ten times the rows take {growth:.1f} times as long; {memory:.2f} GiB")
    if against_pandas is not None:
        print(f"pandas takes {against_pandas:.1f} times as long")
    ok = ratio <= 2 and growth <= TENTH and memory < 2 and (against_pandas is None or against_pandas >= 8)
    tell(
        "categorize against a bare count (s)",
        ours=seconds["ours"],
        theirs=seconds["bare"],
        ratio=ratio,
        goal="at most 2, under 2 GiB, pandas 8 times slower, linear",
        ok=ok,
    )


def in_a_child(way: str, folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--only", way], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(way: str) -> dict[str, float]:
    """Seconds, without starting Python, and the most memory that this process ever had. (Not getrusage's: that begins
    with the parent's.)"""
    began = time.perf_counter()
    WAYS[way]()
    seconds = time.perf_counter() - began
    [peak] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return {"seconds": seconds, "memory": int(peak.split()[1]) * 1024}


def bare() -> None:
    import duckdb

    counted = "problem_id, count(*), count(*) filter (where correct)"
    folders = [tables.verdicts_folder(model, dataset) for model in MODELS for dataset in SIZES]
    parts = [f"select '{folder}', {counted} from '{folder}/*.parquet' group by all" for folder in folders]
    duckdb.execute(" union all ".join(parts)).fetchall()


def ours() -> None:
    settings = loading.load()
    wanted = categorize.pair_plan(settings)
    with categorize.open_tallies(settings, [wanted]) as connection:
        support = stage_module.problem_support(connection, settings, wanted)
        answers = stage_module.support_by_unit(connection, settings, "answer")
    for rows, unit in ((support, "problem"), (answers, "answer")):
        tables.write(tables.support_path("rlvr", unit), add_support_columns(rows, []), tables.SUPPORT_SCHEMA)
        metrics.compute_metrics(rows)
    metrics.compute_pass_at_k(support)


def stage() -> None:
    assert stage_module.run(loading.load()) == []


def through_pandas() -> None:
    import pandas as pd
    from scipy.special import gammaln

    settings = loading.load()
    counts = []
    for model in MODELS:
        for dataset in SIZES:
            k = settings.k(model, dataset)
            verdicts = pd.concat(map(pd.read_parquet, tables.verdict_files(model, dataset)))
            verdicts = verdicts[verdicts["sample"] < k]
            verdicts = verdicts.assign(late=verdicts["sample"] >= k // 8)
            keys = ["problem_id", "late", "answer_class", "correct"]
            tallies = verdicts.groupby(keys, dropna=False)["sample"].agg(["size", "min", "max"]).reset_index()
            hits = tallies["size"].where(tallies["correct"], 0)
            grouped = tallies.assign(hits=hits).groupby("problem_id")[["size", "hits"]].sum()
            counts.append(grouped.assign(model=model, dataset=dataset).reset_index())
    table = pd.concat(counts).pivot(index=["dataset", "problem_id"], columns="model")
    n, c = (table[name].to_numpy(dtype=float) for name in ("size", "hits"))
    base, rlvr = (c > 0).T
    P, E, S = (base & rlvr).sum(), (~base & rlvr).sum(), (base & ~rlvr).sum()  # noqa: N806 the paper's letters
    assert P / (P + S) + E / (P + E) + (E - S) / (P + E + S) is not None
    for k in (2**i for i in range(int(n.min()).bit_length())):
        few = n - c < k
        left = np.where(few, k, n - c)
        log = gammaln(left + 1) - gammaln(left - k + 1) - gammaln(n + 1) + gammaln(n - k + 1)
        np.where(few, 1.0, 1 - np.exp(log)).mean(axis=0)


WAYS: dict[str, Callable[[], None]] = {"bare": bare, "ours": ours, "stage": stage, "pandas": through_pandas}


def written(folder: Path, k: int) -> tuple[int, int]:
    """Parameters, problems and verdicts of a run with k samples a problem; return how many rows and files."""
    folder.mkdir()
    (folder / "params.yaml").write_text(json.dumps(parameters(k)))
    back = Path.cwd()
    os.chdir(folder)
    files = 0
    for dataset, size in SIZES.items():
        about = {"dataset": dataset, "question": "?", "gold": ["0"], "grader": "exact", "images": None, "meta": "{}"}
        problems = [{**about, "problem_id": f"{dataset}-{i:04d}"} for i in range(size)]
        tables.write(
            tables.problems_path(dataset),
            tables.table_from_rows(problems, tables.PROBLEMS_SCHEMA),
            tables.PROBLEMS_SCHEMA,
        )
        for model in MODELS:
            files += write_verdicts(model, dataset, size, k)
    os.chdir(back)
    return len(MODELS) * sum(SIZES.values()) * k, files


def parameters(k: int) -> dict[str, Any]:
    domains = {name: "math" if name in MATH else "non-math" for name in SIZES}
    return {
        "run": {"models": list(MODELS), "datasets": list(SIZES), "pairs": ["rlvr"]},
        "models": {model: {"engine": "import"} for model in MODELS},
        "pairs": {"rlvr": {"base": "base", "rlvr": "rlvr"}},
        "datasets": {name: {"imported": True, "domain": domain} for name, domain in domains.items()},
        "sample": {"k": k, "max_tokens": 32768},
    }


def write_verdicts(model: str, dataset: str, size: int, k: int) -> int:
    """The verdicts of a model on a data set, in the order of problems and samples; return how many files."""
    drawn = stream("scale", model, dataset)
    rows = [verdicts(drawn, f"{dataset}-{i:04d}", i, k) for i in range(size)]
    whole = pa.concat_tables(rows).combine_chunks()

    def row_groups(begin: int) -> Iterator[pa.Table]:
        file = whole.slice(begin, verdict_files.MAX_FILE_ROWS)
        for first in range(0, file.num_rows, verdict_files.ROW_GROUP_ROWS):
            yield file.slice(first, verdict_files.ROW_GROUP_ROWS)

    files = map(row_groups, range(0, whole.num_rows, verdict_files.MAX_FILE_ROWS))
    return len(verdict_files.write_files(tables.verdicts_folder(model, dataset), files, "made up", []))


def verdicts(drawn: np.random.Generator, problem: str, number: int, k: int) -> pa.Table:
    """One problem's: its mass is anywhere between 0 and 1 and often at either end, and its wrong answers are a few
    frequent ones among tens to thousands of rare ones."""
    mass = drawn.beta(0.6, 0.6) if drawn.random() < 0.8 else 0.0
    wide = min(int(np.exp(drawn.normal(4, 1.2))) + 2, 3000)
    shares = np.arange(1, wide + 1) ** -1.5
    right = drawn.random(k) < mass
    wrong = drawn.choice(wide, size=k, p=shares / shares.sum()) + 1 + number % 100
    spelled = pa.array([str(i * 7 - 300) for i in range(wide + 101)])
    answers = spelled.take(pa.array(np.where(right, 0, wrong)))
    nothing = pa.nulls(k, pa.string())
    # A tenth of the answers are candidates, which lenient reading alone finds, and a fifth of the working is wrong: so
    # no control counts the same hits as the run.
    candidate, unsound = drawn.random(k) < 0.1, drawn.random(k) < 0.2
    found, strict = answers, right & ~candidate
    answers = pa.array(answers.to_numpy(zero_copy_only=False), pa.string(), mask=candidate)
    return pa.table(
        {
            "problem_id": pa.array([problem]).take(pa.array(np.zeros(k, dtype=np.int32))),
            "sample": np.arange(k, dtype=np.int32),
            "answer": answers,
            "answer_class": answers,
            "correct": strict,
            "score": strict.astype(float),
            "status": pa.array(["ok", "no_answer"]).take(pa.array(candidate.astype(np.int32))),
            "correct_strict": strict,
            "correct_lenient": right,
            "candidate": pa.array(found.to_numpy(zero_copy_only=False), pa.string(), mask=~candidate),
            "candidate_class": pa.array(found.to_numpy(zero_copy_only=False), pa.string(), mask=~candidate),
            "sound": pa.array(~unsound, mask=~right),
            "process": pa.array(np.where(unsound, "unsound", "sound"), mask=~right),
            "flaw": nothing,
        },
        schema=tables.VERDICTS_SCHEMA,
    )


if __name__ == "__main__":
    main()

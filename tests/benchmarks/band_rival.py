"""The band over k beside that of passk-inference, on the real counts of its source distribution.

    pip download --no-binary :all: --no-deps passk-inference==0.3.1 && tar xf passk_inference-0.3.1.tar.gz
    pip install passk-inference==0.3.1
    python tests/benchmarks/band_rival.py passk_inference-0.3.1/examples/deepscaler32k

Reads base.jsonl and rl.jsonl there: 1,060 problems, 128 samples of each model. By turns, in one process:
  theirs  `passk_inference.compare_files`: both curves, a simultaneous band at k = 1 to 128, the first-loss set
  ours    the same: the files, `difference_band`, the first-loss set
  whole   all that `leash compare` computes: every key of docs/compare.md
Goals: the first-loss sets agree up to Monte Carlo error (each is computed with several seeds: the ends of ours are
within two of the range of theirs), the bands differ by at most 0.002 at every k, and ours takes at most the time of
theirs. The whole has no goal.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from result import leave, tell

from leash.statistics.analysis import analyze_counts
from leash.statistics.band import difference_band
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.counts import Counts

PUBLISHED = (11, 61)
SEEDS = range(5)


def read_pair(folder: Path) -> Counts:
    rows = [
        {row["id"]: row for row in map(json.loads, (folder / name).read_text().splitlines())}
        for name in ("base.jsonl", "rl.jsonl")
    ]
    names = sorted(rows[0])
    columns: dict[str, Any] = {
        f"{what}_{role}": np.array([found[name][what] for name in names])
        for role, found in zip(("base", "rlvr"), rows, strict=True)
        for what in ("n", "c")
    }
    size = len(names)
    ended = np.full(size, "k", dtype=object)
    return Counts(
        np.full(size, "all", dtype=object),
        np.array(names, dtype=object),
        **columns,
        ended_base=ended,
        ended_rlvr=ended,
        k=columns["n_base"],
        epsilon=np.zeros(size),
    )


def main() -> None:
    if len(sys.argv) < 2 or not importlib.util.find_spec("passk_inference"):
        leave("give the folder of its examples, and install passk-inference (see the docstring)")
    import passk_inference

    folder = Path(sys.argv[1])
    times: dict[str, list[float]] = {"theirs": [], "ours": [], "whole": []}
    their_sets, our_sets, distances = [], [], []
    for seed in SEEDS:
        settings = AnalysisSettings(seed=seed)
        start = time.perf_counter()
        theirs = passk_inference.compare_files(str(folder / "base.jsonl"), str(folder / "rl.jsonl"), seed=seed)
        times["theirs"].append(time.perf_counter() - start)
        start = time.perf_counter()
        counts = read_pair(folder)
        band = difference_band(counts.samples("base"), counts.samples("rlvr"), counts.k, settings)
        our_sets.append(band.first(-1) or (0, 0))
        times["ours"].append(time.perf_counter() - start)
        start = time.perf_counter()
        analysis = analyze_counts(read_pair(folder), settings)
        times["whole"].append(time.perf_counter() - start)
        assert tuple(analysis["first_loss"]) == our_sets[-1]
        their_sets.append(tuple(theirs["first_loss_interval"]))
        ends = (("lower", band.low), ("upper", band.high))
        distances.append(max(np.abs(theirs[end] - mine).max() for end, mine in ends))
    print(f"first loss, published {PUBLISHED}; theirs by seed {their_sets}; ours {our_sets}")
    print(f"largest distance of the bands' ends at any k: {max(distances):.4f}")
    seconds = {name: statistics.median(found) for name, found in times.items()}
    print("median seconds: " + ", ".join(f"{name} {value:.2f}" for name, value in seconds.items()))
    near = all(
        min(theirs[end] for theirs in their_sets) - 2 <= mine[end] <= max(theirs[end] for theirs in their_sets) + 2
        for mine in our_sets
        for end in (0, 1)
    )
    tell(
        "band_rival",
        ours=seconds["ours"],
        theirs=seconds["theirs"],
        ratio=seconds["ours"] / seconds["theirs"],
        goal="first-loss sets agree; bands within 0.002; time <= 1",
        ok=near and max(distances) <= 0.002 and seconds["ours"] <= seconds["theirs"],
    )


if __name__ == "__main__":
    main()

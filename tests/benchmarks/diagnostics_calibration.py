"""How often are the diagnostics wrong? Nulls and planted effects from the real embedded models and their run.

    python tests/benchmarks/diagnostics_calibration.py [--trials 200] [--only style]

Needs the embedded run: `dvc repro` first. Each part is a module of tests/benchmarks/diagnostics/, which says what it
measures. Every rate has a goal, which is met if the rate is within three Monte Carlo standard errors of it. A row that
misses its goal ends with MISSED.
"""

from __future__ import annotations

import argparse
import time

from diagnostics import completions, entropy, luck, style
from goals import Goals
from result import tell

PARTS = {
    "style": style.measure,
    "entropy": entropy.measure,
    "luck": luck.measure,
    "completions": completions.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part, instead of all")
    arguments = parser.parse_args()
    goals, start = Goals(), time.perf_counter()
    for name in arguments.only or PARTS:
        PARTS[name](arguments.trials, goals)
    print(f"\n{len(goals.missed)} goals missed, {time.perf_counter() - start:.0f} s")
    for missed in goals.missed:
        print(f"    {missed}")
    worst, before = (max(rates, default=float("nan")) for rates in (goals.null_rates, goals.null_rates_before))
    tell(
        "worst rate of a false diagnosis",
        ours=worst,
        theirs=before,
        ratio=worst / before,
        goal="a finding where there is none: at most 0.05; every goal above",
        ok=not goals.missed,
    )


if __name__ == "__main__":
    main()

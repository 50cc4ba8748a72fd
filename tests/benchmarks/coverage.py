"""Do the intervals hold what they promise, and do the tests keep still where nothing happened? A simulation with known
truth.

    python tests/benchmarks/coverage.py [--trials 1000]

Problems are drawn from a population whose masses are known, samples from the masses. Checked:
- the 95% intervals over problems of SRR, NDR, SDS, NSCR (at epsilon = 0 and above), pass@k, its paired differences,
  avg@n and the crossing cover the population's own value in 93% to 97% of the trials; beside them the usual bootstrap,
  which draws problems with replacement, and the intervals over problems and samples, which are meant to be wider;
- the tilt's intervals cover the factor that all odds grew by;
- of a base against itself, the tested categories call fewer than 5% of the problems E or S;
- ten planted expansions among 500 problems are all found.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from result import tell

from leash.statistics.aggregate_columns import model_contributions
from leash.statistics.analysis import analyze_counts
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.counts import ROLES, Counts
from leash.statistics.crossing import crossing_k
from leash.statistics.problem_group import ProblemGroup, compute_aggregates
from leash.statistics.ratios import RATIO_NAMES, compute_ratios
from leash.statistics.sharpening_test import fit_tilt

Reals = NDArray[np.float64]
PROBLEMS, K, EPSILON, LEVEL = 300, 128, 0.05, 0.95
KS = (1, 2, 4, 8, 16, 32, 64, 128)
LOW, HIGH = 0.93, 0.97


def population(drawn: np.random.Generator, size: int) -> tuple[Reals, Reals]:
    """Masses of problems under a base and under a model that is sharper, lost some problems and found a few."""
    base = np.where(drawn.random(size) < 0.15, 0, drawn.beta(0.35, 1.5, size))
    odds = base / (1 - base) * np.exp(drawn.normal(1.0, 0.7, size))
    rlvr = np.where((base < 0.03) & (drawn.random(size) < 0.5), 0, odds / (1 + odds))
    return base, np.where((base == 0) & (drawn.random(size) < 0.2), drawn.beta(0.5, 8, size), rlvr)


def counted(drawn: np.random.Generator, base: Reals, rlvr: Reals, n: int, epsilon: float = 0.0) -> Counts:
    size = len(base)
    names = np.array([f"p{i}" for i in range(size)], dtype=object)
    full, ended, all_n = np.full(size, "d", dtype=object), np.full(size, "k", dtype=object), np.full(size, n)
    hits = drawn.binomial(n, base), drawn.binomial(n, rlvr)
    return Counts(full, names, all_n, hits[0], all_n, hits[1], ended, ended, all_n, np.full(size, epsilon))


def truths(drawn: np.random.Generator) -> dict[str, float]:
    """What every aggregate is in the population."""
    base, rlvr = population(drawn, 2_000_000)
    found: dict[str, float] = {}
    masses = dict(zip(ROLES, (base, rlvr), strict=True))
    curves = {role: np.array([(1 - (1 - p) ** k).mean() for k in KS]) for role, p in masses.items()}
    for i, k in enumerate(KS):
        found |= {f"pass@{k} {role}": curves[role][i] for role in ROLES}
        found[f"difference at {k}"] = curves["rlvr"][i] - curves["base"][i]
    found |= {f"avg {role}": p.mean() for role, p in masses.items()}
    found["crossing"] = float(crossing_k(KS, curves["rlvr"], curves["base"]))
    for label, least in (("epsilon 0", 0), (f"epsilon {EPSILON}", int(EPSILON * K))):
        b, r = (_above(p, least) for p in (base, rlvr))
        whole = compute_ratios((b * r).mean(), ((1 - b) * r).mean(), (b * (1 - r)).mean())
        found |= {f"{name} {label}": float(whole[name]) for name in RATIO_NAMES}
    return found


def _above(p: Reals, least: int) -> Reals:
    """The chance of more than `least` hits in K, from a fine table."""
    from scipy import stats

    grid = np.linspace(0, 1, 200_001)
    return np.interp(p, grid, stats.binom.sf(least, K, grid))


def said(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same aggregates, by the names of the truths."""
    found: dict[str, Any] = {}
    for k in KS:
        found |= {f"pass@{k} {role}": values["pass_at_k"][role][k] for role in ROLES}
        found[f"difference at {k}"] = values["difference"][k]
    found |= {f"avg {role}": values["avg_at_n"][role] for role in ROLES}
    for label, name in ((f"epsilon {EPSILON}", "chosen"), ("epsilon 0", "any")):
        found |= {f"{ratio} {label}": values[name][ratio] for ratio in RATIO_NAMES}
    return found


def with_replacement(group: ProblemGroup, drawn: np.random.Generator) -> dict[str, tuple[float, float]]:
    """The usual bootstrap's intervals of the same aggregates."""
    size = len(group.counts)
    columns = group.layout.of_pair(*(model_contributions(group.models[role], group.spec) for role in ROLES))
    times = drawn.multinomial(size, np.full(size, 1 / size), size=group.settings.resamples)
    draws = said(compute_aggregates(times @ columns, np.full(len(times), float(size)), group))
    tail = (1 - LEVEL) / 2
    return {name: tuple(np.nanquantile(values, [tail, 1 - tail])) for name, values in draws.items()}


def coverage(trials: int) -> dict[str, Reals]:
    """For every aggregate, how often its interval covers the truth: ours over problems, ours over problems and samples,
    the usual one."""
    drawn = np.random.default_rng(11)
    truth = truths(drawn)
    held = {name: np.zeros(3) for name in truth}
    for trial in range(trials):
        counts = counted(drawn, *population(drawn, PROBLEMS), K, EPSILON)
        group = ProblemGroup(counts, AnalysisSettings(confidence=LEVEL, resamples=600, seed=trial))
        ours = said(group.values) | {"crossing": group.values["crossing"]}
        usual = with_replacement(group, drawn)
        for name, one in ours.items():
            other = usual.get(name, (np.nan, np.nan))
            pairs = ((one["low"], one["high"]), (one["low_samples"], one["high_samples"]), other)
            held[name] += [low <= truth[name] <= high for low, high in pairs]
    return {name: times / trials for name, times in held.items()}


def tilt_coverage(trials: int, factor: float = 2.0) -> tuple[float, float]:
    drawn = np.random.default_rng(12)
    held = np.zeros(2)
    for _ in range(trials):
        base, _ = population(drawn, PROBLEMS)
        odds = factor * base / (1 - base)
        counts = counted(drawn, base, odds / (1 + odds), K)
        found = fit_tilt(counts.n_base, counts.c_base, counts.n_rlvr, counts.c_rlvr, LEVEL)
        assert found is not None
        held += [low <= factor <= high for _, low, high in (found.pooled, found.conditional)]
    return float(held[0] / trials), float(held[1] / trials)


def false_calls(trials: int) -> tuple[float, float]:
    """Of a base against itself: the share of problems that are called E or S by any hit, and by the tests."""
    drawn = np.random.default_rng(13)
    called = np.zeros(2)
    for _ in range(trials):
        base = drawn.beta(0.15, 2, 500)
        found = analyze_counts(counted(drawn, base, base, 1024), AnalysisSettings(resamples=10))
        called += [found["categories"]["E"] + found["categories"]["S"], found["tested"]["E"] + found["tested"]["S"]]
    return float(called[0] / trials / 500), float(called[1] / trials / 500)


def planted(trials: int) -> int:
    """The fewest of ten planted expansions (mass 0 before, 5% after) that are found among 500 problems."""
    drawn = np.random.default_rng(14)
    fewest = 10
    for _ in range(trials):
        base = drawn.beta(0.15, 2, 500)
        base[:10] = 0
        rlvr = base.copy()
        rlvr[:10] = 0.05
        found = analyze_counts(counted(drawn, base, rlvr, 1024), AnalysisSettings(resamples=10))
        fewest = min(fewest, found["tested"]["E"])
    return fewest


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1000)
    trials = parser.parse_args().trials
    found = coverage(trials)
    print(f"{'cover of 95% intervals, ' + str(trials) + ' trials':<36}{'problems':>10}{'+ samples':>11}{'usual':>9}")
    for name, (ours, wider, usual) in found.items():
        print(f"{name:<36}{ours:>10.3f}{wider:>11.3f}{usual:>9.3f}", flush=True)
    pooled, conditional = tilt_coverage(trials)
    print(f"tilt, Mantel–Haenszel {pooled:.3f}, conditional {conditional:.3f}", flush=True)
    plain, tested = false_calls(max(trials // 40, 1))
    fewest = planted(max(trials // 40, 1))
    print(f"base against itself: {plain:.2%} of problems called E or S by any hit, {tested:.3%} tested")
    print(f"of 10 planted expansions at least {fewest} found")
    covers = [*(ours for ours, _, _ in found.values()), pooled, conditional]
    worst = max(covers, key=lambda cover: abs(cover - LEVEL))
    others = [theirs for name, (_, _, theirs) in found.items() if name != "crossing"]  # not computed for it
    usual = max(others, key=lambda cover: abs(cover - LEVEL))
    ok = all(LOW <= cover <= HIGH for cover in covers) and tested < 0.05 and fewest == 10
    goal = "95% intervals cover 93% to 97%"
    tell("coverage farthest from 95%", ours=worst, theirs=usual, ratio=worst / usual, goal=goal, ok=ok)


if __name__ == "__main__":
    main()

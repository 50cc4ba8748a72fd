"""Completions that were seen, and all completions: how far off are SRR and NDR, and do their intervals cover?

Populations of correct completions with known masses under two models: those of the embedded run, each as often as its
weight says, and a made one. Problems are drawn with replacement, and k samples of each model show some of their
completions. The truth is the ratio over all completions of all problems of the population.

Also the embedded run itself: the weighted SRR at epsilon 1e-3 from its first 64 to 1,024 samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
from goals import Goals

from leash.statistics.array_types import FloatArray
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.completions import inclusion_probability, is_stable, weigh_completions
from leash.statistics.ratios import compute_ratios
from leash.statistics.seeds import stream

DATA = Path(__file__).parents[3] / "data"
EPSILONS, KS, SHOWN = (1e-4, 1e-3, 1e-2, 1e-1), (64, 256, 1024), ("SRR", "NDR", "NSCR")
SETTINGS = AnalysisSettings(resamples=400)
LOW, HIGH, MAX_BIAS = 0.90, 0.98, 0.03
# The masses of a problem's correct completions under the base and under the trained model.
Problem = tuple[FloatArray, FloatArray]


def measure(trials: int, goals: Goals) -> None:
    print("Bias of SRR, NDR and NSCR among completions seen, and weighted; how often a number is shown; its coverage")
    head = f"{'population':>10} {'k':>5} {'epsilon':>8} {'ratio':>5} {'truth':>6}"
    print(f"{head} {'seen':>7} {'weighted':>9} {'shown':>6} {'covered':>8}")
    embedded = embedded_problems()
    populations = {name: replicated(problems) for name, problems in embedded.items()}
    populations["made"] = made_problems()
    for name, problems in populations.items():
        for k in KS:
            measure_population(name, problems, k, trials, goals)
    print("The embedded run, epsilon 1e-3, by its first samples: SRR of those seen, and weighted")
    for k in (64, 128, 256, 512, 1024):
        plain, weighted = embedded_srr(k)
        mark = goals.check(f"weighted SRR of the embedded run at k = {k}", [weighted], 0.36, 0.39)
        print(f"{k:16} {plain:.3f} {weighted:.3f}{mark}")


def measure_population(name: str, problems: Sequence[Problem], k: int, trials: int, goals: Goals) -> None:
    found: dict[float, list[list[tuple[float, float, float]]]] = {e: [] for e in EPSILONS if is_stable(k, e)}
    for trial in range(trials):
        rng = stream("diagnostics", "completions", name, k, trial)
        seen = [see(problems[i], k, rng) for i in rng.integers(0, len(problems), len(problems))]
        cluster = np.repeat(np.arange(len(seen)), [len(base) for base, _ in seen])
        base, rlvr = (np.concatenate([problem[role] for problem in seen]) for role in (0, 1))
        samples = np.full(len(base), float(k))
        inclusion = inclusion_probability(samples, samples, base, rlvr)
        for epsilon, results in found.items():
            truth, plain = (true_ratios(masses, epsilon) for masses in (problems, seen))
            weighed = weigh_completions(base, rlvr, inclusion, cluster, epsilon, SETTINGS)
            row = []
            for ratio in SHOWN:
                estimate, true = weighed[ratio], truth[ratio]
                shown = estimate.low is not None
                covered = float(estimate.low <= true <= estimate.high) if shown else np.nan
                row.append((plain[ratio] - true, estimate.value - true if shown else np.nan, covered))
            results.append(row)
    for epsilon, results in found.items():
        values = np.array(results)
        for i, ratio in enumerate(SHOWN):
            plain, weighted, covered = values[:, i].T
            shown = ~np.isnan(covered)
            report = f"{name:>10} {k:5} {epsilon:8g} {ratio:>5} {true_ratios(problems, epsilon)[ratio]:6.3f}"
            report += f" {np.nanmean(plain):+7.3f}"
            # A number that is rarely shown is shown where it is far off: such a row has no goal.
            if shown.mean() < 0.9:
                print(f"{report} {'–':>9} {shown.mean():6.0%} {'–':>8}")
                continue
            # Near 0 or 1 the pseudo-completions make intervals wider: they may cover more.
            high = HIGH if 0.1 < true_ratios(problems, epsilon)[ratio] < 0.9 or ratio == "NSCR" else 1.0
            mark = goals.check(f"coverage of {ratio}, {name}, k = {k}, {epsilon:g}", covered[shown], LOW, high)
            if abs(weighted[shown].mean()) > MAX_BIAS:
                goals.missed.append(f"bias of {ratio}, {name}, k = {k}, {epsilon:g}: {weighted[shown].mean():+.3f}")
                mark = "  MISSED"
            print(f"{report} {weighted[shown].mean():+9.3f} {shown.mean():6.0%} {covered[shown].mean():8.1%}{mark}")


def see(problem: Problem, k: int, rng: np.random.Generator) -> Problem:
    """The completions that k samples of each model show."""
    hits = sum(rng.multinomial(k, np.append(masses, max(1 - masses.sum(), 0.0)))[:-1] for masses in problem)
    return problem[0][hits > 0], problem[1][hits > 0]


def true_ratios(problems: Sequence[Problem], epsilon: float) -> dict[str, float]:
    base, rlvr = (np.concatenate([problem[role] for problem in problems]) > epsilon for role in (0, 1))
    ratios = compute_ratios((base & rlvr).sum(), (~base & rlvr).sum(), (base & ~rlvr).sum())
    return {name: float(value) for name, value in ratios.items()}


def load_embedded() -> dict[str, FloatArray]:
    """The exact masses of the embedded pair's correct completions, with problem and first sample."""
    parts = [
        f"select '{dataset}' as dataset, base.problem_id, exp(-base.nll) as base, exp(-rlvr.nll) as rlvr, "
        f"least(base.first, rlvr.first) as first from '{DATA}/mass/base/{dataset}.parquet' as base "
        f"inner join '{DATA}/mass/rlvr/{dataset}.parquet' as rlvr using (problem_id, completion)"
        for dataset in ("chain", "make")
    ]
    with duckdb.connect() as connection:
        rows = connection.execute(f"select * from ({' union all '.join(parts)}) where first is not null order by all")
        return {name: np.asarray(column) for name, column in rows.fetchnumpy().items()}


def embedded_problems() -> dict[str, list[Problem]]:
    rows = load_embedded()
    found: dict[str, list[Problem]] = {"chain": [], "make": [], "all": []}
    names = np.array([f"{a} {b}" for a, b in zip(rows["dataset"], rows["problem_id"], strict=True)])
    for name in np.unique(names):
        mask = names == name
        for group in (name.split()[0], "all"):
            found[group].append((rows["base"][mask].astype(float), rows["rlvr"][mask].astype(float)))
    return found


def replicated(problems: Sequence[Problem], k: int = 1024) -> list[Problem]:
    """Each completion as often as its weight says, above a mass of 1e-5: about what an endless run would show."""
    copies = []
    rng = stream("diagnostics", "completions", "replicated", len(problems))
    for base, rlvr in problems:
        samples = np.full(len(base), float(k))
        weight = 1 / inclusion_probability(samples, samples, base, rlvr)
        times = np.floor(weight + rng.random(len(weight))).astype(int) * (np.maximum(base, rlvr) > 1e-5)
        masses = [np.repeat(mass, times) for mass in (base, rlvr)]
        copies.append((masses[0] / max(masses[0].sum(), 1.0), masses[1] / max(masses[1].sum(), 1.0)))
    return [problem for problem in copies if len(problem[0])]


def made_problems(problems: int = 60, completions: int = 800) -> list[Problem]:
    """Masses by Zipf's law, sharpened and disturbed by training: some completions are as good as lost."""
    rng = stream("diagnostics", "completions", "made")
    made = []
    for _ in range(problems):
        base = np.arange(1, completions + 1) ** -rng.uniform(1.0, 1.6)
        rlvr = base**1.2 * np.exp(rng.normal(0, 1.5, completions))
        solved = rng.beta(0.5, 1.0, 2)
        made.append((base / base.sum() * solved[0], rlvr / rlvr.sum() * solved[1]))
    return made


def embedded_srr(k: int, epsilon: float = 1e-3) -> tuple[float, float]:
    rows = load_embedded()
    mask = rows["first"] < k
    base, rlvr = (rows[name][mask].astype(float) for name in ("base", "rlvr"))
    samples = np.full(len(base), float(k))
    inclusion = inclusion_probability(samples, samples, base, rlvr)
    weighed = weigh_completions(base, rlvr, inclusion, np.arange(len(base)), epsilon, SETTINGS)
    return true_ratios([(base, rlvr)], epsilon)["SRR"], weighed["SRR"].value

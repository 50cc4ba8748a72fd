"""Completions that were seen, and all completions: how far off are SRR and NDR, and do their intervals cover?

Populations of correct completions with known masses under two models: those of the embedded run, each as often as its
weight says, a made one, and small ones: some completions that are always seen, and some of only the base (S) or only
the trained model (E) with a mass just above epsilon, most of which are missed. Problems are drawn with replacement, and
k samples of each model show some of their completions. The truth is the ratio over all completions of all problems of
the population.

Every row has goals, however rarely its number is shown: the coverage among the trials that show it, and the share of
all trials that show an interval without the truth.

Also the embedded run itself: the weighted SRR at epsilon 1e-3 from its first 64 to 1,024 samples, within 0.36 to 0.39.
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
LOW, MAX_WRONG, MAX_BIAS = 0.90, 0.10, 0.05
# Small populations: completions of P (always seen), of S and of E just above epsilon, k and epsilon.
SMALL = (
    *((15, 10, 0, k, epsilon) for k, epsilon in ((64, 1e-3), (256, 1e-3), (1024, 1e-3), (1024, 1e-4))),
    *((p, s, 0, k, epsilon) for p, s in ((20, 10), (30, 20), (60, 40)) for k, epsilon in ((64, 1e-3), (1024, 1e-4))),
    # Where a few completions more or fewer decide whether a ratio is shown.
    *((p, s, 0, 64, 1e-3) for p, s in ((64, 60), (66, 10), (65, 500))),
    *((p, s, 0, 1024, 1e-4) for p, s in ((41, 40), (41, 5))),
    *((p, s, 0, 256, 1e-3) for p, s in ((18, 20), (18, 5), (18, 200))),
    *((p, s, 0, 1024, 1e-3) for p, s in ((8, 4), (9, 1))),
    *((p, s, 0, 1024, 1e-2) for p, s in ((8, 2), (10, 1))),
    (30, 10, 20, 256, 1e-3),
    (100, 50, 150, 1024, 1e-4),
)
# The masses of a problem's correct completions under the base and under the trained model.
Problem = tuple[FloatArray, FloatArray]


def measure(trials: int, goals: Goals) -> None:
    print(
        "Bias of SRR, NDR and NSCR among completions seen, and weighted; how often a number is shown; its coverage if"
    )
    print("it is shown; the share of all trials that show a wrong one")
    head = f"{'population':>10} {'k':>5} {'epsilon':>8} {'ratio':>5} {'truth':>6}"
    print(f"{head} {'seen':>7} {'weighted':>9} {'shown':>6} {'covered':>8} {'wrong':>6}")
    embedded = embedded_problems()
    populations = {name: replicated(problems) for name, problems in embedded.items()}
    populations["made"] = made_problems()
    for name, problems in populations.items():
        for k in KS:
            measure_population(name, problems, k, EPSILONS, trials, goals)
    for p, lost, new, k, epsilon in SMALL:
        measure_population(f"{p}+{lost}+{new}", small_problems(p, lost, new, epsilon), k, (epsilon,), trials, goals)
    print("The embedded run, epsilon 1e-3, by its first samples: SRR of those seen, and weighted")
    for k in (64, 128, 256, 512, 1024):
        plain, weighted = embedded_srr(k)
        mark = goals.check_value(f"weighted SRR of the embedded run at k = {k}", weighted, 0.36, 0.39)
        print(f"{k:16} {plain:.3f} {weighted:.3f}{mark}")


def measure_population(
    name: str, problems: Sequence[Problem], k: int, epsilons: Sequence[float], trials: int, goals: Goals
) -> None:
    found: dict[float, list[list[tuple[float, float, float]]]] = {e: [] for e in epsilons if is_stable(k, e)}
    truths = {epsilon: true_ratios(problems, epsilon) for epsilon in found}
    for trial in range(trials):
        rng = stream("diagnostics", "completions", name, k, trial)
        seen = [see(problems[i], k, rng) for i in rng.integers(0, len(problems), len(problems))]
        cluster = np.repeat(np.arange(len(seen)), [len(base) for base, _ in seen])
        base, rlvr = (np.concatenate([problem[role] for problem in seen]) for role in (0, 1))
        samples = np.full(len(base), float(k))
        inclusion = inclusion_probability(samples, samples, base, rlvr)
        for epsilon, results in found.items():
            plain = true_ratios(seen, epsilon)
            weighed = weigh_completions(base, rlvr, inclusion, cluster, k, epsilon, SETTINGS)
            row = []
            for ratio in SHOWN:
                estimate, true = weighed[ratio], truths[epsilon][ratio]
                shown = estimate.low is not None
                covered = float(estimate.low <= true <= estimate.high) if shown else np.nan
                row.append((plain[ratio] - true, estimate.value - true if shown else np.nan, covered))
            results.append(row)
    for epsilon, results in found.items():
        for i, ratio in enumerate(SHOWN):
            if not np.isnan(truths[epsilon][ratio]):
                setting = f"{name:>10} {k:5} {epsilon:8g} {ratio:>5} {truths[epsilon][ratio]:6.3f}"
                report_ratio(setting, np.array(results)[:, i], goals)


def report_ratio(setting: str, values: FloatArray, goals: Goals) -> None:
    """Print and check a row: errors among those seen, errors of the weighted ratio and whether its interval covers, NaN
    where it is not shown."""
    plain, weighted, covered = values.T
    shown = ~np.isnan(covered)
    mark = goals.check(f"shown and wrong, {setting}", covered == 0, 0, MAX_WRONG)
    if not shown.any():
        print(f"{setting} {np.nanmean(plain):+7.3f} {'–':>9} {0:6.0%} {'–':>8} {0:6.1%}{mark}")
        return
    mark += goals.check(f"coverage if shown, {setting}", covered[shown], LOW, 1)
    # The bias of a number that is rarely shown is that of a few trials: intervals must cover it, it has no other goal.
    if shown.mean() > 0.5:
        mark += goals.check_value(f"bias, {setting}", float(weighted[shown].mean()), -MAX_BIAS, MAX_BIAS)
    print(
        f"{setting} {np.nanmean(plain):+7.3f} {weighted[shown].mean():+9.3f} {shown.mean():6.0%} "
        f"{covered[shown].mean():8.1%} {(covered == 0).mean():6.1%}{mark}",
        flush=True,
    )


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


def small_problems(p: int, lost: int, new: int, epsilon: float, problems: int = 20) -> list[Problem]:
    """Completions dealt out to a few problems: p of a mass of 0.05 under both models, and `lost` and `new` ones of 1.2
    epsilon under one of them."""
    base = np.array([0.05] * p + [1.2 * epsilon] * lost + [0.0] * new)
    rlvr = np.array([0.05] * p + [0.0] * lost + [1.2 * epsilon] * new)
    return [(base[i::problems], rlvr[i::problems]) for i in range(problems)]


def embedded_srr(k: int, epsilon: float = 1e-3) -> tuple[float, float]:
    rows = load_embedded()
    mask = rows["first"] < k
    base, rlvr = (rows[name][mask].astype(float) for name in ("base", "rlvr"))
    samples = np.full(len(base), float(k))
    inclusion = inclusion_probability(samples, samples, base, rlvr)
    weighed = weigh_completions(base, rlvr, inclusion, np.arange(len(base)), k, epsilon, SETTINGS)
    return true_ratios([(base, rlvr)], epsilon)["SRR"], weighed["SRR"].value

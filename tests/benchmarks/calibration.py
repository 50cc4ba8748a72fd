"""How often is what Leash states wrong? Simulated pairs with known masses, through the functions of leash.statistics.

    python tests/benchmarks/calibration.py [--trials 500] [--only clusters]

1. Null pairs: both models have the same masses. How often does a pair reach more or fewer problems, are its gains or
   losses more than noise, and does one of four checkpoints of a base reach more or fewer?
2. Null pairs with unequal numbers of samples, or with a k below the number of samples.
3. Tested categories: the false discovery rate if most problems sharpened, and the share of tested E and S that are
   wrong by the true masses at epsilon > 0, for fixed budgets and for early stops.
4. The coverage of the 95% intervals of SRR, NDR, NSCR and the difference of pass@k. The estimand is the population's
   value at the same number of samples.
5. The coverage of the band over k, at all k at once, and of the first-loss set that follows from it.
6. Power: how often a real loss is called one, now and by the rule before.
7. Equivalence: how often a loss of exactly the margin is called smaller than the margin.
8. Clusters: problems that come and go together, as many as go, with and without a column `cluster`; and a loss of
   exactly the margin, cluster by cluster.
9. Deconvolved P, E, S and O: the error of the counted and of the deconvolved numbers, by the true masses of the
   population, and the coverage of the intervals.
10. Support at epsilon = auto: how often a three-valued call is wrong, for all k samples and for a stop at the seventh
   hit; and among the problems that are open, how many the posterior expects above epsilon, and how many are.
11. Beyond the samples: the coverage of the fitted interval of pass@8k, also where the fitted model is wrong (no goal),
   and of the identified range, which needs no model.

Every rate has a goal. It is missed if the rate's one-sided 99% confidence bound is beyond it: an exact binomial bound
for a rate of trials, 2.33 Monte Carlo standard errors for a mean of other numbers (goals.py). So of all rates that are
exactly at their limit, one in a hundred misses it. A row that misses its goal ends with MISSED. `verify_short_path`
checks that the functions called here give what `analyze_counts` gives.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from goals import Goals
from result import tell

from leash.statistics.analysis import analyze_counts, to_jsonable
from leash.statistics.array_types import BoolArray, FloatArray, IntArray, ObjectArray
from leash.statistics.band import band_ks, difference_band
from leash.statistics.bootstrap_weights import AnalysisSettings, BootstrapWeights
from leash.statistics.categories import (
    CategoryShares,
    categorize_problems,
    category_letters,
    classify_counts,
    classify_masses,
)
from leash.statistics.counts import ROLES, Counts
from leash.statistics.decision import correct_for_several, is_beyond_noise
from leash.statistics.extrapolation import fit_mass_distribution, pass_at_k_intervals
from leash.statistics.identified import identified_pass_at_k
from leash.statistics.joint_masses import deconvolve
from leash.statistics.luck import luck_p_values
from leash.statistics.net_change import net_change_tests
from leash.statistics.pass_at_k import pass_at_k_columns
from leash.statistics.problem_group import ProblemGroup, describe_categories, difference_interval
from leash.statistics.ratios import compute_ratios
from leash.statistics.seeds import stream
from leash.statistics.support import detectable_mass, hits_to_prove, min_hits_above
from leash.statistics.sure_support import call_support
from leash.statistics.testing import benjamini_hochberg, fisher_p_values, mcnemar_p_value

SETTINGS = AnalysisSettings()
CONFIDENCE, ALPHA = SETTINGS.confidence, 1 - SETTINGS.confidence
SIZES = (30, 120, 500)
CHECKPOINTS = 4
LOW, HIGH = 0.93, 0.97
POPULATION = 1_000_000
Masses = Callable[[np.random.Generator, int, int], FloatArray]


def _log_uniform(rng: np.random.Generator, size: int, low: float, high: float) -> FloatArray:
    return np.asarray(np.exp(rng.uniform(np.log(low), np.log(high), size)))


def _with_zeros(zeros: float, a: float, b: float) -> Masses:
    """Masses from Beta(a, b), of which a share is 0."""
    return lambda rng, size, k: np.where(rng.random(size) < zeros, 0.0, rng.beta(a, b, size))


MIXTURES: dict[str, Masses] = {
    "AIME-like": _with_zeros(0.3, 0.4, 2),
    "MATH-like": _with_zeros(0.03, 1.2, 0.35),
    "embedded-like": _with_zeros(0.1, 0.35, 2.5),
    "heavy tail": lambda rng, size, k: _log_uniform(rng, size, 1e-5, 1),
    "all near 1/k": lambda rng, size, k: _log_uniform(rng, size, 0.3 / k, 3 / k),
}


def multiply_odds(masses: FloatArray, factor: float) -> FloatArray:
    return np.asarray(factor * masses / (1 - masses + factor * masses))


def sharpen(masses: FloatArray, power: float) -> FloatArray:
    """p^power, renormalised over right and wrong: likely answers become likelier, unlikely ones rarer."""
    return np.asarray(masses**power / (masses**power + (1 - masses) ** power))


def lose(rng: np.random.Generator, masses: FloatArray, share: float) -> FloatArray:
    """The masses, of which a share becomes 0."""
    return np.where(rng.random(len(masses)) < share, 0.0, masses)


@lru_cache(maxsize=64)
def _constant(size: int, value: Any) -> ObjectArray:
    return np.full(size, value, dtype=object)


def make_counts(
    n: tuple[int, int], hits: tuple[IntArray, IntArray], k: int | None = None, epsilon: float = 0.0
) -> Counts:
    """Counts of a fixed budget: n samples of the base, and of the other model, for every problem."""
    size = len(hits[0])
    columns: dict[str, Any] = {f"n_{role}": np.full(size, n[i]) for i, role in enumerate(ROLES)}
    columns |= {f"c_{role}": hits[i] for i, role in enumerate(ROLES)}
    columns |= {f"ended_{role}": _constant(size, "k") for role in ROLES}
    names = np.array([str(i) for i in range(size)], dtype=object)
    k_column = np.full(size, min(n) if k is None else k)
    return Counts(_constant(size, "d"), names, **columns, k=k_column, epsilon=np.full(size, epsilon))


def draw_pair(
    rng: np.random.Generator, masses: tuple[FloatArray, FloatArray], n: tuple[int, int], **rest: Any
) -> Counts:
    hits = rng.binomial(n[0], masses[0]), rng.binomial(n[1], masses[1])
    return make_counts(n, hits, **rest)


def draw_stopped_pair(
    rng: np.random.Generator, masses: tuple[FloatArray, FloatArray], k: int, stop_after: int, epsilon: float = 0.0
) -> Counts:
    """Counts of an adaptive budget: sampling stops at the h-th hit or at k."""
    columns: dict[str, Any] = {}
    for role, mass in zip(ROLES, masses, strict=True):
        # The places of the first h hits. A mass of 0 has its first hit far beyond k.
        places = rng.geometric(np.maximum(mass, 1e-12), (stop_after, len(mass))).cumsum(axis=0)
        stopped = places[-1] <= k
        columns[f"n_{role}"] = np.where(stopped, places[-1], k)
        columns[f"c_{role}"] = (places <= k).sum(axis=0)
        columns[f"ended_{role}"] = np.where(stopped, "hit", "k").astype(object)
    size = len(masses[0])
    names = np.array([str(i) for i in range(size)], dtype=object)
    return Counts(_constant(size, "d"), names, **columns, k=np.full(size, k), epsilon=np.full(size, epsilon))


@lru_cache(maxsize=8)
def problem_weights(problems: int, cluster_size: int = 1) -> BootstrapWeights:
    """The weights of the bootstrap over problems, or over clusters of this size: Leash draws the same ones at every
    call."""
    return SETTINGS.drawn(problems, np.arange(problems) // cluster_size if cluster_size > 1 else None)


def analyze_quickly(counts: Counts, with_noise: bool = True, cluster_size: int = 1) -> dict[str, Any]:
    """The parts of `analyze_counts` behind a decision. The interval is computed only if the test rejects: otherwise it
    has no influence."""
    shares, weights = classify_counts(counts), problem_weights(len(counts), cluster_size)
    analysis: dict[str, Any] = {
        **net_change_tests(shares, SETTINGS.margin, weights.cluster),
        "categories": dict(zip("PESO", shares.columns.sum(axis=0).round().astype(int).tolist(), strict=True)),
        "problems": len(counts),
        "uncategorized": 0,
        "confidence": CONFIDENCE,
        "NSCR": {"value": None, "low": None, "high": None},
        "noise": luck_p_values(counts) if with_noise else {"gains_p": None, "losses_p": None},
    }
    if analysis["test"]["p_value"] < ALPHA:
        analysis["NSCR"] = describe_categories(shares, weights, CONFIDENCE)["NSCR"]
    analysis = to_jsonable(analysis)
    correct_for_several([analysis])
    return analysis


def is_changed(analysis: dict[str, Any]) -> bool:
    return analysis["decision"] in ("more", "fewer")


def verify_short_path() -> None:
    """`analyze_quickly`, `difference_intervals` and `describe_categories` give what `analyze_counts` gives."""
    base = {size: MIXTURES["embedded-like"](stream("calibration", "path", size), size, 64) for size in (30, 120)}
    rng = stream("calibration", "path")
    tables = [draw_pair(rng, (base[size], lose(rng, base[size], 0.3)), (64, 64)) for size in (30, 120)]
    tables += [draw_pair(rng, (base[120], base[120]), n, k=k) for n, k in (((256, 64), 64), ((64, 64), 16))]
    twelve = (np.arange(120) // 12).astype(str).astype(object)
    tables += [dataclasses.replace(counts, cluster=twelve) for counts in tables if len(counts) == 120]
    decisions = set()
    for counts in tables:
        size = 1 if counts.cluster is None else 12
        full, quick = analyze_counts(counts, SETTINGS), analyze_quickly(counts, cluster_size=size)
        assert full["decision"] == quick["decision"], (full["decision"], quick["decision"])
        for group in ("test", "equivalence", "noise"):
            assert full[group] == quick[group], (full[group], quick[group])
        shown = describe_categories(classify_counts(counts), problem_weights(len(counts), size), CONFIDENCE)
        intervals = [(full[name], shown[name]) for name in ("SRR", "NDR", "NSCR")]
        ks = [k for k in (1, 8, 32, 64) if k <= min(counts.n_base[0], counts.n_rlvr[0])]
        ends = [dict(zip(("low", "high"), both, strict=True)) for both in difference_intervals(counts, ks, size)]
        intervals += [(full["difference"][k], found) for k, found in zip(ks, ends, strict=True)]
        for expected, found in intervals:
            assert np.allclose([expected["low"], expected["high"]], [found["low"], found["high"]], atol=1e-8)
        tested = categorize_problems(counts, CONFIDENCE).count_tested(np.ones(len(counts), dtype=bool))
        assert full["tested"] == tested
        decisions.add(full["decision"])
    assert len(decisions) > 1, decisions


def measure_null_pairs(trials: int, goals: Goals) -> None:
    header = f"{'both models have the same masses':<32}{'more/fewer':>11}{'gains':>8}{'losses':>8}"
    print(f"\n{header}{'equivalent':>12}{'one of 4':>10}  goals 5%, 2.5%, 2.5%, -, 5%; {trials} trials")
    for name, mixture in MIXTURES.items():
        for problems in SIZES:
            for k in (64, 256, 1024):
                rng = stream("calibration", "null", name, problems, k)
                changed, gains, losses, equivalent, one_of = (np.zeros(trials) for _ in range(5))
                for trial in range(trials):
                    masses = mixture(rng, problems, k)
                    base = rng.binomial(k, masses)
                    pairs = [make_counts((k, k), (base, rng.binomial(k, masses))) for _ in range(CHECKPOINTS)]
                    analyses = [analyze_quickly(pair, with_noise=not i) for i, pair in enumerate(pairs)]
                    gains[trial], losses[trial] = (
                        bool(is_beyond_noise(analyses[0], which)) for which in ("gains", "losses")
                    )
                    changed[trial] = np.mean([is_changed(analysis) for analysis in analyses])
                    equivalent[trial] = np.mean([analysis["decision"] == "equivalent" for analysis in analyses])
                    correct_for_several(analyses)
                    one_of[trial] = any(is_changed(analysis) for analysis in analyses)
                row = f"{name}, {problems} problems, k = {k}"
                mark = goals.check_null(f"{row}, more/fewer", changed)
                mark += goals.check(f"{row}, gains beyond noise", gains, 0, ALPHA / 2)
                mark += goals.check(f"{row}, losses beyond noise", losses, 0, ALPHA / 2)
                mark += goals.check_null(f"{row}, one of {CHECKPOINTS}", one_of)
                print(
                    f"{name:<15}{problems:>4}{k:>6}{'':<7}{changed.mean():>11.1%}{gains.mean():>8.1%}"
                    f"{losses.mean():>8.1%}{equivalent.mean():>12.1%}{one_of.mean():>10.1%}{mark}",
                    flush=True,
                )


def reaches_other_number(counts: Counts) -> bool:
    """The rule before: McNemar on the hits of each model's own samples, however many there are."""
    gained = int(((counts.c_base == 0) & (counts.c_rlvr > 0)).sum())
    lost = int(((counts.c_base > 0) & (counts.c_rlvr == 0)).sum())
    return mcnemar_p_value(gained, lost) < ALPHA


def measure_unequal_samples(trials: int, goals: Goals) -> None:
    header = f"{'same masses, unequal samples':<58}{'more/fewer':>11}{'before':>9}{'gains':>8}{'losses':>8}"
    print(f"\n{header}  goals 5%, -, 2.5%, 2.5%; {trials} trials")
    designs = [((1024, 64), 64, problems) for problems in SIZES] + [((128, 128), 16, 120)]
    for n, k, problems in designs:
        for name, mixture in MIXTURES.items():
            rng = stream("calibration", "unequal", name, *n, k, problems)
            changed, before, gains, losses = (np.zeros(trials) for _ in range(4))
            for trial in range(trials):
                masses = mixture(rng, problems, k)
                counts = draw_pair(rng, (masses, masses), n, k=k)
                analysis = analyze_quickly(counts)
                changed[trial], before[trial] = is_changed(analysis), reaches_other_number(counts)
                gains[trial], losses[trial] = (bool(is_beyond_noise(analysis, x)) for x in ("gains", "losses"))
            row = f"{name}, {problems} problems, {n[0]:,} and {n[1]:,} samples, k = {k}"
            mark = goals.check_null(row, changed)
            mark += goals.check(f"{row}, gains beyond noise", gains, 0, ALPHA / 2)
            mark += goals.check(f"{row}, losses beyond noise", losses, 0, ALPHA / 2)
            rates = f"{changed.mean():>11.1%}{before.mean():>9.1%}{gains.mean():>8.1%}{losses.mean():>8.1%}"
            print(f"{row:<58}{rates}{mark}", flush=True)
            goals.null_rates_before.append(float(before.mean()))


def draw_sharpened(rng: np.random.Generator, problems: int, k: int) -> tuple[tuple[FloatArray, FloatArray], BoolArray]:
    """Masses of which 70% grow (odds × e) and the others, a few in k, stay as they are; and which those are."""
    unchanged = rng.random(problems) < 0.3
    base = np.where(unchanged, _log_uniform(rng, problems, 0.5 / k, 8 / k), rng.beta(2, 3, problems))
    return (base, np.where(unchanged, base, multiply_odds(base, np.e))), unchanged


def false_share(tested: ObjectArray, false_e: BoolArray, false_s: BoolArray) -> tuple[int, int]:
    """How many problems are tested E or S, and how many of these are wrong."""
    wrong = ((tested == "E") & false_e) | ((tested == "S") & false_s)
    return int(np.isin(tested, ("E", "S")).sum()), int(wrong.sum())


def tested_before(counts: Counts) -> ObjectArray:
    """The rule before: Fisher's test, corrected over all problems, also those that cannot be E or S."""
    looks = category_letters(counts)
    p_values = fisher_p_values(counts.n_base, counts.c_base, counts.n_rlvr, counts.c_rlvr)
    significant = benjamini_hochberg(p_values, _constant(len(counts), "")) < ALPHA
    looks[~significant] = None
    return looks


def measure_sharpened(trials: int, goals: Goals) -> None:
    """Nothing lost or gained: a tested E or S is false on an unchanged problem, as is a tested S on a grown one."""
    print(f"\n{'70% sharpened, nothing lost or gained':<46}{'false run':>10}{'FDR':>8}{'FDR before':>12}  goal FDR 5%")
    for problems, runs in ((500, trials // 2), (3000, trials // 10)):
        for k in (1024, 128):
            for stop_after in (None, 3, 7) if problems == 500 else (None,):
                rng = stream("calibration", "sharpened", problems, k, stop_after or 0)
                rates = np.zeros(runs)
                before = np.full(runs, np.nan)
                for run in range(runs):
                    masses, unchanged = draw_sharpened(rng, problems, k)
                    if stop_after is None:
                        counts = draw_pair(rng, masses, (k, k))
                        called, wrong = false_share(tested_before(counts), unchanged, np.ones(problems, dtype=bool))
                        before[run] = wrong / max(called, 1)
                    else:
                        counts = draw_stopped_pair(rng, masses, k, stop_after)
                    tested = categorize_problems(counts, CONFIDENCE).tested
                    called, wrong = false_share(tested, unchanged, np.ones(problems, dtype=bool))
                    rates[run] = wrong / max(called, 1)
                budget = "fixed" if stop_after is None else f"stop_after {stop_after}"
                row = f"{problems:,} problems, k = {k:,}, {budget}"
                mark = goals.check(f"{row}, FDR of tested E and S", rates, 0, ALPHA)
                old = "" if stop_after else f"{before.mean():.1%}"
                print(
                    f"{row:<46}{(rates > 0).mean():>10.1%}{rates.mean():>8.1%}{old:>12}  {runs} runs{mark}", flush=True
                )


def measure_crossings(trials: int, goals: Goals) -> None:
    """Sharpening p^1.3 moves masses across epsilon, and some problems are lost: are tested E and S right by the true
    masses?"""
    k, problems, runs = 1024, 500, max(trials // 6, 2)
    header = f"{'p^1.3, 500 problems, k = 1,024':<58}{'tested E, S':>12}{'wrong':>8}{'FDR':>8}{'before':>9}"
    print(f"\n{header}  goal FDR 5%; {runs} runs; `tested` and `wrong` count problems of all runs")
    for name, lost in (("AIME-like", 0.0), ("embedded-like", 0.0), ("embedded-like", 0.1)):
        for epsilon in (detectable_mass(k, CONFIDENCE), 0.003, 0.01, 0.1):
            enough = min_hits_above(epsilon, k)
            # Fewer hits than `enough` are refused by the check of params. The last one is a stop that still proves E.
            stops = [h for h in (3, 7, int(np.ceil(1.35 * epsilon * k)) + 10) if h >= enough]
            for stop_after in (None, *stops):
                rng = stream("calibration", "crossing", name, str(lost), str(epsilon), stop_after or 0)
                totals, before, rates = np.zeros(2, dtype=int), np.zeros(2, dtype=int), []
                for _ in range(runs):
                    base = MIXTURES[name](rng, problems, k)
                    masses = base, lose(rng, sharpen(base, 1.3), lost)
                    not_e = ~((masses[0] <= epsilon) & (masses[1] > epsilon))
                    not_s = ~((masses[0] > epsilon) & (masses[1] <= epsilon))
                    if stop_after is None:
                        counts = draw_pair(rng, masses, (k, k), epsilon=epsilon)
                        before += false_share(tested_before(counts), not_e, not_s)
                    else:
                        counts = draw_stopped_pair(rng, masses, k, stop_after, epsilon)
                    called, wrong = false_share(categorize_problems(counts, CONFIDENCE).tested, not_e, not_s)
                    totals += (called, wrong)
                    rates.append(wrong / max(called, 1))
                budget = "fixed" if stop_after is None else f"stop_after {stop_after}"
                row = f"{name}, {lost:.0%} lost, epsilon = {epsilon:.4g}, {budget}"
                mark = goals.check(f"{row}, FDR of tested E and S", rates, 0, ALPHA)
                old = "" if stop_after else f"{before[1] / max(before[0], 1):.1%}"
                print(f"{row:<58}{totals[0]:>12,}{totals[1]:>8,}{np.mean(rates):>8.1%}{old:>9}{mark}", flush=True)


def difference_intervals(counts: Counts, ks: Sequence[int], cluster_size: int = 1) -> list[tuple[float, float]]:
    """`difference_interval` at each k, without the other columns of a ProblemGroup, which take far longer."""
    reach = np.minimum(counts.n_base, counts.n_rlvr)
    columns = np.concatenate([pass_at_k_columns(counts.samples(role), reach, ks) for role in ROLES], axis=1)
    group = SimpleNamespace(
        settings=SETTINGS,
        spec=SimpleNamespace(budgets=tuple(ks)),
        columns=columns,
        layout=SimpleNamespace(pair={"pass_base": slice(0, len(ks)), "pass_rlvr": slice(len(ks), None)}),
        weights=problem_weights(len(counts), cluster_size),
    )
    return [difference_interval(cast(ProblemGroup, group), k) for k in ks]


def draw_changed(rng: np.random.Generator, name: str, size: int) -> tuple[FloatArray, FloatArray]:
    """The masses of a pair of one of the populations of `measure_coverage`."""
    if name == "null":
        base = MIXTURES["embedded-like"](rng, size, 1)
        return base, base
    base = MIXTURES[name](rng, size, 1)
    return base, lose(rng, sharpen(base, 1.3), 0.1)


def population_values(name: str, n: int, ks: Sequence[int]) -> dict[str, float]:
    """The value of every aggregate in a large population."""
    base, rlvr = draw_changed(stream("calibration", "population", name), name, POPULATION)
    reach = {k: [-np.expm1(k * np.log1p(-np.minimum(p, 1 - 1e-16))) for p in (base, rlvr)] for k in {*ks, n}}
    b, r = reach[n]
    ratios = compute_ratios((b * r).mean(), ((1 - b) * r).mean(), (b * (1 - r)).mean())
    values = {ratio: float(ratios[ratio]) for ratio in ("SRR", "NDR", "NSCR")}
    return values | {f"diff@{k}": float((reach[k][1] - reach[k][0]).mean()) for k in ks}


def measure_coverage(trials: int, goals: Goals) -> None:
    n, ks = 128, (1, 8, 32, 128)
    names = ("SRR", "NDR", "NSCR", *(f"diff@{k}" for k in ks))
    header = "".join(f"{name:>9}" for name in names)
    print(
        f"\n{'coverage of 95% intervals, n = 128':<36}{header}  goal 93-97% at 120, at least 93% at 30; {trials} trials"
    )
    for problems, high in ((30, 1.0), (120, HIGH)):
        for name in ("null", "embedded-like", "AIME-like", "MATH-like"):
            truth = population_values(name, n, ks)
            rng = stream("calibration", "coverage", name, problems)
            covered = {label: np.zeros(trials) for label in names}
            for trial in range(trials):
                counts = draw_pair(rng, draw_changed(rng, name, problems), (n, n))
                shown = describe_categories(classify_counts(counts), problem_weights(problems), CONFIDENCE)
                ends = {label: (shown[label]["low"], shown[label]["high"]) for label in names[:3]}
                ends |= dict(zip(names[3:], difference_intervals(counts, ks), strict=True))
                for label, (lower, upper) in ends.items():
                    covered[label][trial] = lower <= truth[label] <= upper
            row = f"{name}, {problems} problems"
            marks = [goals.check(f"{row}, {label}", covered[label], LOW, high) for label in names]
            shares = "".join(
                f"{covered[label].mean():>8.1%}{'!' if mark else ' '}" for label, mark in zip(names, marks, strict=True)
            )
            print(f"{row:<36}{shares}{'  MISSED (!)' if any(marks) else ''}", flush=True)


BAND_CHANGES: dict[str, Callable[[np.random.Generator, FloatArray], FloatArray]] = {
    "nothing changed": lambda rng, base: base,
    "p^1.3, 10% lost": lambda rng, base: lose(rng, sharpen(base, 1.3), 0.1),
    "p^1.3": lambda rng, base: sharpen(base, 1.3),
}


def measure_band(trials: int, goals: Goals) -> None:
    """Does the band hold the population's difference at every k at once, and the first-loss set its first loss?"""
    n = 128
    ks = band_ks(n)
    print(
        f"\n{'band over all k at once, n = 128':<58}{'covered':>9}{'first loss':>12}  goal 93% or more; {trials} trials"
    )
    for change, changed in BAND_CHANGES.items():
        for name, mixture in list(MIXTURES.items())[:4]:
            rng = stream("calibration", "band population", name, change)
            base = mixture(rng, POPULATION // 4, n)
            missed = [np.log1p(-np.minimum(masses, 1 - 1e-16)) for masses in (base, changed(rng, base))]
            truth = np.array([(np.exp(k * missed[0]) - np.exp(k * missed[1])).mean() for k in ks])
            # Up to rounding and the luck of the population, models that never differ have no first loss.
            losing = truth < -1e-9
            first_loss = int(ks[losing.argmax()]) if losing.any() else None
            for problems in SIZES:
                rng = stream("calibration", "band", name, change, problems)
                covered, in_set = np.zeros(trials), np.zeros(trials)
                for trial in range(trials):
                    base = mixture(rng, problems, n)
                    counts = draw_pair(rng, (base, changed(rng, base)), (n, n))
                    band = difference_band(counts.samples("base"), counts.samples("rlvr"), counts.k, SETTINGS)
                    covered[trial] = ((band.low <= truth + 1e-9) & (truth - 1e-9 <= band.high)).all()
                    in_set[trial] = is_in_set(first_loss, band.first(-1))
                row = f"{name}, {change}, {problems} problems"
                mark = goals.check(f"{row}, band", covered, LOW, 1) + goals.check(f"{row}, first loss", in_set, LOW, 1)
                print(f"{row:<58}{covered.mean():>9.1%}{in_set.mean():>12.1%}{mark}", flush=True)


def is_in_set(first: int | None, ends: tuple[int, int | None] | None) -> bool:
    """Whether the first k, or that there is none, agrees with a confidence set."""
    if ends is None or first is None:
        return first is None and (ends is None or ends[1] is None)
    return ends[0] <= first and (ends[1] is None or first <= ends[1])


def decided_before(shares: CategoryShares, corners: FloatArray) -> int:
    """The rule before: McNemar's test rejects, and the interval of NSCR with half a pseudo-problem in each category
    excludes 0. 1 for more, -1 for fewer, 0 otherwise."""
    sums = shares.columns.sum(axis=0)
    if mcnemar_p_value(int(sums[1]), int(sums[2])) >= ALPHA:
        return 0
    drawn = problem_weights(len(shares.P)).problems @ shares.columns + corners
    low, high = np.quantile(compute_ratios(*drawn.T[:3])["NSCR"], [ALPHA / 2, 1 - ALPHA / 2])
    return int(low > 0) - int(high < 0)


def measure_power(trials: int, goals: Goals) -> None:
    k = 256
    corners = stream("calibration", "corners before").standard_gamma(0.5, (SETTINGS.resamples, 4))
    print(f"\n{'right word at k = 256':<44}{'now':>8}{'before':>9}  goal: now >= before; {trials} trials")
    for name in ("embedded-like", "AIME-like"):
        for share in (0.1, 0.2):
            for problems in SIZES:
                rng = stream("calibration", "power", name, str(share), problems)
                now, before = np.zeros(trials), np.zeros(trials)
                for trial in range(trials):
                    base = MIXTURES[name](rng, problems, k)
                    counts = draw_pair(rng, (base, lose(rng, base, share)), (k, k))
                    now[trial] = analyze_quickly(counts, with_noise=False)["decision"] == "fewer"
                    before[trial] = decided_before(classify_counts(counts), corners) < 0
                row = f"{name}, {share:.0%} lost, {problems} problems"
                mark = goals.check(f"power, {row}, now less before", now - before, 0, 1)
                print(f"{row:<44}{now.mean():>8.1%}{before.mean():>9.1%}{mark}", flush=True)


def measure_equivalence(trials: int, goals: Goals) -> None:
    k, margin = 64, SETTINGS.margin
    print(f"\n{f'net loss of {margin:.0%}, the margin, k = {k}':<58}{'equivalent':>11}  goal 5%; {trials} trials")
    for name in ("MATH-like", "embedded-like"):
        masses = MIXTURES[name](stream("calibration", "reach", name), POPULATION, k)
        share = margin / float((1 - (1 - masses) ** k).mean())
        for n in ((k, k), (1024, k)):
            for problems in SIZES:
                rng = stream("calibration", "equivalence", name, n[0], problems)
                equivalent = np.zeros(trials)
                for trial in range(trials):
                    base = MIXTURES[name](rng, problems, k)
                    counts = draw_pair(rng, (base, lose(rng, base, share)), n, k=k)
                    equivalent[trial] = analyze_quickly(counts, with_noise=False)["decision"] == "equivalent"
                row = f"{name}, {problems:,} problems, {n[0]:,} and {n[1]:,} samples"
                mark = goals.check(f"{row}, a loss of the margin is equivalent", equivalent, 0, ALPHA)
                print(f"{row:<58}{equivalent.mean():>11.1%}{mark}", flush=True)


def draw_with_clusters(
    rng: np.random.Generator, problems: int, size: int, come: float, go: float, n: int
) -> tuple[Counts, FloatArray]:
    """A pair where whole clusters come (the base has no mass on them) or go, with its masses."""
    masses = np.tile(MIXTURES["embedded-like"](rng, problems, n), (2, 1))
    fate = np.repeat(rng.random(problems // size), size)
    masses[0, fate < come] = 0.0
    masses[1, fate >= 1 - go] = 0.0
    return draw_pair(rng, (masses[0], masses[1]), (n, n)), masses


def measure_clusters(trials: int, goals: Goals) -> None:
    n, ks = 128, (1, 8, 128)
    names = ("SRR", "NDR", "NSCR", *(f"diff@{k}" for k in ks))
    header = "".join(f"{name:>9}" for name in names)
    print(f"\n{'whole clusters come and go, n = 128':<44}{'more/fewer':>11}{'no column':>10}{header}", end="")
    print(f"  goals 5%, -, at least 93%; {trials} trials")
    for problems, size, come, go in (
        *((120, size, 0.1, 0.1) for size in (1, 2, 4, 12)),
        *((120, size, 0.0, 0.1) for size in (2, 4, 12)),
        (480, 12, 0.1, 0.1),
    ):
        rng = stream("calibration", "clusters", problems, size, str(come))
        _, masses = draw_with_clusters(rng, POPULATION, 1, come, go, n)
        reach = {k: -np.expm1(k * np.log1p(-np.minimum(masses, 1 - 1e-16))) for k in ks}
        b, r = reach[n]
        ratios = compute_ratios((b * r).mean(), ((1 - b) * r).mean(), (b * (1 - r)).mean())
        truth = {name: float(ratios[name]) for name in names[:3]}
        truth |= {f"diff@{k}": float((reach[k][1] - reach[k][0]).mean()) for k in ks}
        changed, without = np.zeros(trials), np.zeros(trials)
        covered = {label: np.zeros(trials) for label in names}
        for trial in range(trials):
            counts, _ = draw_with_clusters(rng, problems, size, come, go, n)
            changed[trial] = is_changed(analyze_quickly(counts, with_noise=False, cluster_size=size))
            without[trial] = is_changed(analyze_quickly(counts, with_noise=False))
            shown = describe_categories(classify_counts(counts), problem_weights(problems, size), CONFIDENCE)
            ends = {label: (shown[label]["low"], shown[label]["high"]) for label in names[:3]}
            ends |= dict(zip(names[3:], difference_intervals(counts, ks, size), strict=True))
            for label, (lower, upper) in ends.items():
                covered[label][trial] = lower <= truth[label] <= upper
        row = f"{problems} problems by {size}, {come:.0%} come, {go:.0%} go"
        mark = goals.check_null(row, changed) if come == go else ""
        # At small k no goal: a rare lost cluster is often not among the data, as a rare lost problem among 30.
        marks = [goals.check(f"{row}, {label}", covered[label], LOW, 1) for label in ("SRR", "NDR", "NSCR", "diff@128")]
        shares = "".join(f"{covered[label].mean():>8.1%} " for label in names)
        print(f"{row:<44}{changed.mean():>11.1%}{without.mean():>10.1%}{shares}{mark or max(marks)}", flush=True)
    for problems, size in ((500, 2), (600, 4), (1200, 12), (3000, 12)):
        rng = stream("calibration", "clusters", "equivalence", problems, size)
        equivalent = np.zeros(trials)
        masses = MIXTURES["embedded-like"](rng, POPULATION, n)
        share = SETTINGS.margin / float((1 - (1 - masses) ** n).mean())
        for trial in range(trials):
            counts, _ = draw_with_clusters(rng, problems, size, 0.0, share, n)
            equivalent[trial] = analyze_quickly(counts, False, size)["decision"] == "equivalent"
        row = f"{problems:,} problems by {size}, net loss of the margin"
        mark = goals.check(f"{row} is equivalent", equivalent, 0, ALPHA)
        print(f"{row:<44}{equivalent.mean():>11.1%} equivalent{mark}", flush=True)


def categories_of(base: FloatArray, rlvr: FloatArray, epsilon: float) -> FloatArray:
    """The shares of P, E, S and O of these masses or shares of hits."""
    return np.asarray(classify_masses(base, rlvr, epsilon).columns.mean(axis=0))


def covers(interval: dict[str, float] | None, truth: float) -> bool:
    """Whether an interval that is rounded contains the truth. A truth of 0/0 needs none."""
    return interval is None or np.isnan(truth) or interval["low"] - 1e-3 <= truth <= interval["high"] + 1e-3


def measure_deconvolved(trials: int, goals: Goals) -> None:
    """Errors are root mean squares in problems of 100, over P, E, S and O and all epsilons that are identified."""
    epsilons = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
    header = f"{'masses, deconvolved':<46}{'counted':>8}{'deconv.':>8}{'E+S counted':>13}{'deconv.':>8}{'true':>6}"
    print(f"\n{header}{'P':>8}{'E':>7}{'S':>7}{'O':>7}{'NSCR':>7}  goal: cover at least 93%; {trials} trials")
    for change in ("null", "lost"):
        for name, mixture in MIXTURES.items():
            for problems in (120, 500):
                for k in (64, 256):

                    def draw(rng: np.random.Generator, size: int) -> tuple[FloatArray, FloatArray]:
                        base = mixture(rng, size, k)  # noqa: B023 called at once
                        return base, base if change == "null" else lose(rng, sharpen(base, 1.3), 0.1)  # noqa: B023

                    population = draw(stream("calibration", "masses", name, change, k), POPULATION)
                    truths = {epsilon: categories_of(*population, epsilon) for epsilon in epsilons}
                    rng = stream("calibration", "deconvolved", name, change, problems, k)
                    errors, changed, covered = [], [], []
                    for _ in range(trials):
                        counts = draw_pair(rng, draw(rng, problems), (k, k))
                        weights = problem_weights(problems)
                        for row in deconvolve(counts, SETTINGS, weights, epsilons)["deconvolved"]:
                            if row["P"] is None:
                                continue
                            truth = truths[row["epsilon"]]
                            counted = categories_of(counts.c_base / k, counts.c_rlvr / k, row["epsilon"])
                            found = np.array([row[x]["value"] for x in "PESO"]) / problems
                            errors.append([counted - truth, found - truth])
                            changed.append([x[1] + x[2] for x in (counted, found, truth)])
                            true = dict(zip("PESO", truth * problems, strict=True))
                            true["NSCR"] = float(compute_ratios(*truth[:3])["NSCR"])
                            covered.append([covers(row[x], true[x]) for x in true])
                    row_name = f"{name}, {change}, {problems} problems, k = {k}"
                    error = 100 * np.sqrt((np.array(errors) ** 2).mean(axis=(0, 2)))
                    shares = 100 * np.mean(changed, axis=0)
                    # A trial's epsilons are not independent: one value per trial.
                    per_trial = np.array(covered, dtype=float).reshape(trials, -1, 5).mean(axis=1)
                    marks = [
                        goals.check(f"{row_name}, deconvolved {x}", per_trial[:, i], LOW, 1)
                        for i, x in enumerate((*"PESO", "NSCR"))
                    ]
                    print(
                        f"{row_name:<46}{error[0]:>8.2f}{error[1]:>8.2f}{shares[0]:>13.1f}{shares[1]:>8.1f}"
                        f"{shares[2]:>6.1f} " + "".join(f"{x:>7.1%}" for x in per_trial.mean(axis=0)) + "".join(marks),
                        flush=True,
                    )


def measure_support_calls(trials: int, goals: Goals) -> None:
    problems = 300
    header = f"{'wrong':>8}{'wrong, stopped':>16}{'open':>8}{'samples':>9}{'expected above':>16}{'above':>9}"
    print(f"\n{f'calls of support, {problems} problems, ε = auto':<44}{header}  goals 5%, the same, -, -, equal")
    for name in ("AIME-like", "MATH-like", "embedded-like"):
        for k in (64, 1024):
            rng, epsilon = stream("calibration", "calls", name, k), detectable_mass(k, CONFIDENCE)
            stop, at = hits_to_prove(epsilon, k, CONFIDENCE), np.full(problems, epsilon)
            wrong, wrong_stopped, undecided, drawn, expected, true = (np.zeros(trials) for _ in range(6))
            for trial in range(trials):
                masses = MIXTURES[name](rng, problems, k)
                fixed = draw_pair(rng, (masses, masses), (k, k)).samples("base")
                stopped = draw_stopped_pair(rng, (masses, masses), k, stop).samples("base")
                calls, above = call_support(fixed, at, CONFIDENCE), masses > epsilon
                wrong[trial] = np.mean(((calls == "above") & ~above) | ((calls == "below") & above))
                early = call_support(stopped, at, CONFIDENCE)
                wrong_stopped[trial] = np.mean(((early == "above") & ~above) | ((early == "below") & above))
                is_open = calls == "open"
                chance = fit_mass_distribution(fixed.n, fixed.c).prob_above(fixed.n, fixed.c, epsilon)
                undecided[trial], drawn[trial] = is_open.mean(), stopped.n.mean()
                expected[trial], true[trial] = chance[is_open].sum(), above[is_open].sum()
            row = f"{name}, k = {k}"
            mark = goals.check(f"{row}, wrong calls", wrong, 0, ALPHA)
            mark += goals.check(f"{row}, wrong calls after a stop", wrong_stopped, 0, ALPHA)
            # In problems: within a tenth of the open ones, up to Monte Carlo error.
            slack = 0.1 * float(undecided.mean()) * problems
            mark += goals.check(f"{row}, expected less true", expected - true, -slack, slack)
            print(
                f"{row:<44}{wrong.mean():>8.2%}{wrong_stopped.mean():>16.2%}{undecided.mean():>8.1%}{drawn.mean():>9.0f}"
                f"{expected.sum():>16.0f}{true.sum():>9.0f}{mark}",
                flush=True,
            )


def draw_logit_normal(rng: np.random.Generator, size: int, k: int) -> FloatArray:
    """Masses with a tail of small ones that a zero-inflated beta distribution takes for zeros."""
    return np.asarray(1 / (1 + np.exp(-rng.normal(-4, 2.5, size))))


def measure_extrapolation(trials: int, goals: Goals) -> None:
    k, at = 64, 512
    header = f"{'fitted':>9}{'width':>8}{'possible':>10}{'width':>8}"
    print(f"\n{f'coverage of pass@{at} from {k} samples':<44}{header}  goals 90% (-), 95%; {trials} trials")
    mixtures = {name: MIXTURES[name] for name in ("AIME-like", "MATH-like", "embedded-like")}
    mixtures["logit-normal"] = draw_logit_normal
    for name, mixture in mixtures.items():
        population = mixture(stream("calibration", "beyond", name), POPULATION, k)
        truth = float((1 - (1 - population) ** at).mean())
        for problems in (30, 120):
            rng = stream("calibration", "extrapolation", name, problems)
            covered, possible, width, range_width = (np.zeros(trials) for _ in range(4))
            for trial in range(trials):
                masses = mixture(rng, problems, k)
                samples = draw_pair(rng, (masses, masses), (k, k)).samples("base")
                fitted = fit_mass_distribution(samples.n, samples.c)
                weights = problem_weights(problems)
                found = pass_at_k_intervals(fitted, samples.n, samples.c, [at], weights, CONFIDENCE)[at]
                covered[trial], width[trial] = found["low"] <= truth <= found["high"], found["high"] - found["low"]
                ends = identified_pass_at_k(samples, samples.n, [at], CONFIDENCE)[at]
                possible[trial], range_width[trial] = ends["low"] <= truth <= ends["high"], ends["high"] - ends["low"]
            row = f"{name}, {problems} problems"
            mark = goals.check(f"{row}, possible range", possible, CONFIDENCE, 1)
            if name != "logit-normal":
                mark += goals.check(f"{row}, fitted interval", covered, 0.9, 1)
            print(
                f"{row:<44}{covered.mean():>9.1%}{width.mean():>8.3f}{possible.mean():>10.1%}{range_width.mean():>8.3f}"
                f"{mark}",
                flush=True,
            )


def main() -> None:
    # The parts, each with its number of trials as a multiple of --trials.
    parts: dict[str, tuple[Callable[[int, Goals], None], float]] = {
        "null": (measure_null_pairs, 1),
        "unequal": (measure_unequal_samples, 1),
        "sharpened": (measure_sharpened, 1),
        "crossings": (measure_crossings, 1),
        "coverage": (measure_coverage, 3),
        "band": (measure_band, 1),
        "power": (measure_power, 1),
        "equivalence": (measure_equivalence, 2),
        "clusters": (measure_clusters, 2),
        "deconvolved": (measure_deconvolved, 0.1),
        "calls": (measure_support_calls, 0.2),
        "extrapolation": (measure_extrapolation, 0.5),
    }
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--only", choices=parts, action="append", help="this part, instead of all")
    arguments = parser.parse_args()
    goals, start = Goals(), time.perf_counter()
    verify_short_path()
    for name in arguments.only or parts:
        measure, times = parts[name]
        measure(max(int(times * arguments.trials), 1), goals)
    print(f"\n{len(goals.missed)} goals missed, {time.perf_counter() - start:.0f} s")
    for missed in goals.missed:
        print(f"    {missed}")
    worst, before = (max(rates, default=float("nan")) for rates in (goals.null_rates, goals.null_rates_before))
    goal = "a change where there is none: at most 0.05; every goal above"
    tell(
        "worst rate of a false more/fewer",
        ours=worst,
        theirs=before,
        ratio=worst / before,
        goal=goal,
        ok=not goals.missed,
    )


if __name__ == "__main__":
    main()

"""Everything about a group of problems of one pair, from counts alone.

    analyze_counts(counts, AnalysisSettings())["NSCR"]  ->  {"value": -0.157, "low": -0.227, "high": -0.098, ...}

The result is plain data, ready for JSON: null where a value is unknown, never NaN, and nine digits of every number
(rounding.py). Every estimate is {value, low, high, low_samples, high_samples}: the interval over problems, and that
over problems and samples (null if sampling stopped early: see bootstrap_weights.py). docs/compare.md documents the
keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_weights import AnalysisSettings, bootstrap_interval
from leash.statistics.categories import (
    categorize_problems,
    classify_counts,
    classify_support,
    has_more_than_k,
    support_probability,
)
from leash.statistics.clusters import describe_clusters
from leash.statistics.counts import Counts
from leash.statistics.decision import correct_for_several
from leash.statistics.extrapolation import MassDistribution, fit_mass_distribution, pass_at_k_intervals
from leash.statistics.identified import identified_categories, identified_pass_at_k
from leash.statistics.joint_masses import deconvolve
from leash.statistics.luck import luck_p_values
from leash.statistics.net_change import net_change_tests
from leash.statistics.noise import split_half_categories
from leash.statistics.pass_at_k import hit_probability
from leash.statistics.problem_group import JsonDict, ProblemGroup
from leash.statistics.ratios import RATIO_NAMES
from leash.statistics.rounding import round_digits
from leash.statistics.sharpening_test import fit_tilt
from leash.statistics.support import detectable_mass, hits_above
from leash.statistics.sure_support import call_both, count_sure, posterior_counts
from leash.statistics.testing import benjamini_hochberg

EPSILON_GRID = (0.0, *(digit * 10.0**power for power in range(-4, 0) for digit in (1, 2, 5)), 0.75, 0.9, 1.0)

COPIED_AGGREGATES = (
    *("pass_at_k", "difference", "avg_at_n", "g_pass_at_k", "cover_at_tau"),
    *("consolidation", "efficiency_gap", "crossing", "expected"),
)


def analyze_counts(
    counts: Counts, settings: AnalysisSettings, tested: Mapping[str, int] | None = None, *, deconvolved: bool = True
) -> JsonDict:
    """The analysis of these problems, by the documented keys.

    `tested` counts the tested categories of a part of a pair's problems, whose tests are corrected together with those
    of the rest (see categorize_problems). Without `deconvolved`, that key and `mass_map`, the slowest, are None.
    """
    counts = with_k_and_epsilon(counts, settings)
    group = ProblemGroup(counts, settings)
    if tested is None:
        tested = categorize_problems(counts, settings.confidence).count_tested(np.ones(len(counts), dtype=bool))
    fits = {role: fit_mass_distribution(model.n, model.c) for role, model in group.models.items()}
    categories = category_counts(group, "chosen")
    more_than_k = bool(has_more_than_k(counts).any())
    shares, cluster = classify_counts(counts), group.weights.cluster
    distribution: JsonDict = {"deconvolved": None, "mass_map": None}
    if deconvolved:
        distribution = deconvolve(counts, settings, group.weights, distinct_epsilons(int(counts.k.max())))
    analysis = {
        "problems": len(counts),
        "uncategorized": int((~shares.known).sum()),
        "clusters": describe_clusters(cluster, shares.columns[:, 1] - shares.columns[:, 2]),
        "k": value_or_range(counts.k),
        "epsilon": value_or_range(counts.epsilon),
        "confidence": settings.confidence,
        "resamples": settings.resamples,
        "counting": "expected" if more_than_k else "observed",
        "categories": categories,
        **{name: group.values["chosen"][name] for name in RATIO_NAMES},
        "any_hit": {"categories": category_counts(group, "any"), **group.values["any"]},
        "tested": dict(tested),
        "sure": count_sure(call_both(counts, settings.confidence)),
        "posterior": posterior_counts(counts, fits, shares.known),
        # The bounds behind the possible ranges take problems for independent.
        "identified": identified_categories(counts, settings.confidence) if cluster is None else None,
        **net_change_tests(shares, settings.margin, cluster),
        "noise": luck_p_values(counts),
        "noise_floor": estimate_noise_floor(group),
        **{name: group.values[name] for name in COPIED_AGGREGATES},
        "band": group.band.by_k(),
        "first_loss": group.band.first(-1),
        "first_gain": group.band.first(1),
        # The paper's plain hit rate of the first k samples: unknown if there are more, since counts hide their order.
        "first_k": None if more_than_k else {"k": value_or_range(counts.k), **group.values["first"]},
        "by_epsilon": categories_by_epsilon(group),
        **distribution,
        "tilt": summarize_tilt(group),
        "extrapolation": extrapolate_pass_at_k(group, fits),
    }
    result = dict(to_jsonable(analysis))
    test = result["test"]
    # Exact McNemar needs whole numbers of gained and lost problems, and independent problems.
    result["mcnemar"] = {x: result["categories"][x] for x in "ES"} | {
        "p_value": test["p_value"] if test["name"] == "McNemar" else None
    }
    result["decision_k"] = result["k"]
    correct_for_several([result])
    return result


def with_k_and_epsilon(counts: Counts, settings: AnalysisSettings) -> Counts:
    """The counts with the k and epsilon of the settings, if they give any."""
    k = counts.k if settings.k is None else np.full(len(counts), settings.k)
    epsilon = counts.epsilon
    if settings.epsilon == "auto":
        epsilon = np.array([detectable_mass(int(x), settings.confidence) for x in k])
    elif settings.epsilon is not None:
        epsilon = np.full(len(counts), float(settings.epsilon))
    return dataclasses.replace(counts, k=k, epsilon=epsilon)


def value_or_range(values: FloatArray | IntArray) -> Any:
    """The common value, or [smallest, largest]."""
    least, most = values.min().item(), values.max().item()
    return least if least == most else [least, most]


def category_counts(group: ProblemGroup, name: str) -> JsonDict:
    """P, E, S and O: whole numbers, or expected ones if there are more samples than k."""
    counted = group.sums[group.layout.pair[name]]
    whole = not has_more_than_k(group.counts).any()
    return {letter: round(x) if whole else x for letter, x in zip("PESO", counted.tolist(), strict=True)}


def estimate_noise_floor(group: ProblemGroup) -> JsonDict:
    """P, E, S, O and the ratios of each model against itself at half the samples, and of the pair at as many.
    All values are None if no problem has two samples."""
    counts = group.counts
    available = [np.where(m.early, counts.k, np.minimum(m.n, counts.k)) for m in group.models.values()]
    half = np.where(classify_counts(counts).known, np.minimum(*available) // 2, 0)
    floors = {role: split_half_categories(model, half, counts.epsilon) for role, model in group.models.items()}
    hits = hits_above(counts.epsilon, half)
    pair = classify_support(
        *(np.where(half > 0, hit_probability(model, half, hits), np.nan) for model in group.models.values())
    )
    described = {name: group.describe(shares) for name, shares in (*floors.items(), ("pair", pair))}
    if not half.any():
        described = {name: values | dict.fromkeys("PESO") for name, values in described.items()}
    return {"k": value_or_range(half[half > 0]) if half.any() else None, **described}


def distinct_epsilons(k: int) -> list[float]:
    """The epsilons of the grid that k samples tell from 0. With k = 1 a share is 0 or 1: every epsilon below 1 gives
    what 0 gives."""
    return [epsilon for epsilon in EPSILON_GRID if epsilon == 0 or (k > 1 and epsilon * k >= 1)]


def categories_by_epsilon(group: ProblemGroup) -> list[JsonDict]:
    """P, E, S, O and the ratios at every epsilon of the grid; None at an epsilon that an early stop leaves open."""
    known = classify_counts(group.counts).known
    rows: list[JsonDict] = []
    for epsilon in distinct_epsilons(int(group.counts.k.max())):
        shares = classify_counts(group.counts, np.full(len(group.counts), epsilon))
        is_open = bool((known & ~shares.known).any())
        values = dict.fromkeys((*"PESO", *RATIO_NAMES)) if is_open else group.describe(shares)
        rows.append({"epsilon": epsilon, **values})
    return rows


def summarize_tilt(group: ProblemGroup) -> JsonDict:
    """The common odds ratio, how well it fits, and the problems that depart from it. `odds_ratio` is None, and the only
    key, if there is no fit: after an early stop, with one sample per problem, or if no finite factor fits."""
    counts, confidence = group.counts, group.settings.confidence
    # The tests condition on numbers of samples that were fixed before sampling. With one sample per problem, one factor
    # fits every table exactly.
    stopped_early = any(model.early.any() for model in group.models.values())
    if stopped_early or max(counts.n_base.max(), counts.n_rlvr.max()) < 2:
        return {"odds_ratio": None}
    fit = fit_tilt(counts.n_base, counts.c_base, counts.n_rlvr, counts.c_rlvr, confidence)
    if fit is None:
        return {"odds_ratio": None}
    q_values = benjamini_hochberg(fit.p_values, np.full(len(fit.p_values), "all", dtype=object))
    departing = q_values < 1 - confidence
    fitted = counts.where(fit.kept)
    drawn = [group.weights.problems[:, fit.kept] @ part for part in fit.parts]
    low, high = bootstrap_interval(np.asarray(fit.pooled[0]), drawn[0] / drawn[1], confidence)
    names = ("value", "low", "high")
    statistic, p_value = fit.breslow_day
    return {
        "odds_ratio": dict(zip(names, fit.pooled, strict=True))
        | {"low_problems": float(low), "high_problems": float(high)},
        "conditional": dict(zip(names, fit.conditional, strict=True)),
        "problems": len(fitted),
        "homogeneity": {
            "statistic": statistic,
            "df": len(fitted) - 1,
            "p_value": p_value,
            # Cochran's rule: at most a fifth of the tables may expect few hits or misses in a cell.
            "valid": fit.expects_few <= 0.2,
            "sparse": fit.expects_few,
        },
        "residual": {"z": fit.residual[0], "p_value": fit.residual[1]},
        "explained": fit.explained,
        "above": _problem_keys(fitted.where(departing & fit.above)),
        "below": _problem_keys(fitted.where(departing & ~fit.above)),
    }


def _problem_keys(counts: Counts) -> list[JsonDict]:
    rows = zip(counts.dataset.tolist(), counts.problem_id.tolist(), strict=True)
    return [{"dataset": dataset, "problem_id": problem} for dataset, problem in rows]


def extrapolate_pass_at_k(group: ProblemGroup, fits: Mapping[str, MassDistribution]) -> JsonDict | None:
    """pass@k beyond k for each model: by the fitted masses if their check holds, and the range over all masses that fit
    the counts. None if k is below 8: the check fits the first eighth of the samples, which is then empty."""
    counts, settings = group.counts, group.settings
    most = int(counts.k.max())
    if most < 8:
        return None
    ks = (2 * most, 4 * most, 8 * most)
    extrapolated: JsonDict = {}
    for role, model in group.models.items():
        check = check_extrapolation(group, role)
        holds = check is not None and check["holds"]
        independent = group.weights.cluster is None
        possible = identified_pass_at_k(model, counts.k, ks, settings.confidence) if independent else None
        extrapolated[role] = {
            "check": check,
            "masses": dataclasses.asdict(fits[role]) if holds else None,
            "pass_at_k": pass_at_k_intervals(fits[role], model.n, model.c, ks, group.weights, settings.confidence)
            if holds
            else None,
            "identified": possible or None,
        }
    return extrapolated


def check_extrapolation(group: ProblemGroup, role: str) -> JsonDict | None:
    """Do the masses fitted to the first eighth of the samples predict pass@k of all of them? None if the first samples
    are unknown."""
    counts = group.counts
    n, c = (getattr(counts, f"{name}_{role}_first") for name in ("n", "c"))
    if n is None or not n.any():
        return None
    predicted = float(fit_mass_distribution(n, c).pass_at(counts.k).mean())
    seen = support_probability(group.models[role], counts.k, np.zeros(len(counts)))
    solved = group.weights.quarters[:, :2].sum(axis=1)
    observed = group.estimate(seen.mean(), (group.weights.problems @ seen + solved) / group.weights.size)
    holds = bool(observed["low"] <= predicted <= observed["high"])
    return {"at": value_or_range(counts.k), "predicted": predicted, "observed": observed, "holds": holds}


def to_jsonable(value: Any) -> Any:
    """The value as JSON can hold it: NaN and infinity become None, other numbers have nine digits."""
    if isinstance(value, Mapping):
        return {name: to_jsonable(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_jsonable(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, float):
        return value
    return round_digits(value) if np.isfinite(value) else None

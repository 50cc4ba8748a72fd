"""analysis: all that a group of problems of one pair says, from counts alone.

    analysis(counts, Settings())["NSCR"]  ->  {"value": -0.157, "low": -0.227, "high": -0.098, ...}

The result is plain data, ready for JSON: null where there is nothing to say, never NaN. Every estimate is {value, low,
high, low_samples, high_samples}: the interval over problems, and that over problems and samples (null where sampling
stopped early: see statistics/resampling.py). The keys are documented in docs/compare.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stages.categorize.aggregates import Group, Plain, sampled
from stages.categorize.counts import ROLES, Counts
from stages.categorize.statistics import benjamini_hochberg, curtailed, extrapolation
from stages.categorize.statistics.arrays import Ints, Objects, Reals, Truths, absent
from stages.categorize.statistics.chances import chance
from stages.categorize.statistics.columns import hits_above, support
from stages.categorize.statistics.noise import against_itself
from stages.categorize.statistics.ratios import RATIOS, Sorted, ratios, sort
from stages.categorize.statistics.resampling import Settings, interval
from stages.categorize.statistics.testing import corrected, mcnemar, tested
from stages.categorize.statistics.tilt import FEW, Tilt, tilt
from stages.params import detectable

EPSILONS = (0.0, *(digit * 10.0**power for power in range(-4, 0) for digit in (1, 2, 5)), 0.75, 0.9, 1.0)

AS_THEY_ARE = (
    "pass_at_k",
    "difference",
    "avg_at_n",
    "g_pass_at_k",
    "cover_at_tau",
    "consolidation",
    "efficiency_gap",
    "crossing",
    "expected",
)


def analysis(counts: Counts, settings: Settings) -> Plain:
    """Everything there is to say of these problems, by the documented keys."""
    counts = at(counts, settings)
    group = Group(counts, settings)
    whole = group.values["chosen"]
    found = {
        **about(group),
        "categories": categories(group, "chosen"),
        **{name: whole[name] for name in RATIOS},
        "any_hit": {"categories": categories(group, "any"), **group.values["any"]},
        "tested": tested_counts(counts, settings),
        "mcnemar": came_and_went(group),
        "noise_floor": noise_floor(group),
        **{name: group.values[name] for name in AS_THEY_ARE},
        "first_k": first_k(group),
        "by_epsilon": by_epsilon(group),
        "tilt": tilted(group),
        "extrapolation": extrapolated(group),
    }
    return dict(plain(found))


def at(counts: Counts, settings: Settings) -> Counts:
    """The counts with the k and the epsilon that are asked for."""
    k = counts.k if settings.k is None else np.full(len(counts), settings.k)
    epsilon = counts.epsilon
    if settings.epsilon == "auto":
        epsilon = np.array([detectable(int(x), settings.confidence) for x in k])
    elif settings.epsilon is not None:
        epsilon = np.full(len(counts), float(settings.epsilon))
    return dataclasses.replace(counts, k=k, epsilon=epsilon)


def about(group: Group) -> Plain:
    """What was compared, and what could not be."""
    counts = group.counts
    chosen = reading(counts)
    return {
        "problems": len(counts),
        "uncategorized": int((~chosen.known).sum()),
        "k": one(counts.k),
        "epsilon": one(counts.epsilon),
        "confidence": group.settings.confidence,
        "resamples": group.settings.resamples,
        "counting": "expected" if bool(more_than_k(counts).any()) else "observed",
    }


def one(values: Reals | Ints) -> Any:
    """The one value, or the least and the most of several."""
    least, most = values.min().item(), values.max().item()
    return least if least == most else [least, most]


def more_than_k(counts: Counts) -> Truths:
    """Problems with more than k samples of a model, so that counts alone don't tell how many hits the first k had."""
    return np.asarray((counts.n_base > counts.k) | (counts.n_rlvr > counts.k))


def reading(counts: Counts, epsilon: Reals | None = None) -> Sorted:
    """P, E, S and O at the counts' own epsilon or at another."""
    chosen = counts.epsilon if epsilon is None else epsilon
    return sort(*(support(sampled(counts, role), counts.k, chosen) for role in ROLES))


def categories(group: Group, name: str) -> Plain:
    counted = group.sums[group.layout.pair[name]]
    whole = not more_than_k(group.counts).any()
    return {letter: round(x) if whole else x for letter, x in zip("PESO", counted.tolist(), strict=True)}


@dataclass(frozen=True)
class Verdicts:
    """The categories of problems and their tests. E and S are tested where both models drew all of their samples."""

    category: Objects
    tested: Objects
    p_values: Reals
    q_values: Reals
    masses: dict[str, Reals]
    bounds: dict[str, tuple[Reals, Reals]]


def verdicts(counts: Counts, settings: Settings) -> Verdicts:
    """Each problem's category, tested category, p- and q-values, and the exact intervals of its masses. The problems
    given are one family of tests."""
    fixed = (counts.ended_base == "k") & (counts.ended_rlvr == "k")
    family = np.full(len(counts), "all", dtype=object)
    four = (counts.n_base, counts.c_base, counts.n_rlvr, counts.c_rlvr)
    p_values, q_values = corrected(*four, fixed=fixed, families=family)
    models = {role: sampled(counts, role) for role in ROLES}
    bounds = {role: curtailed(m.n, m.c, m.ended == "hit", settings.confidence) for role, m in models.items()}
    surely = np.logical_and(*(bounds[role][0] > counts.epsilon for role in ROLES))
    category = _letters(counts)
    return Verdicts(
        category=category,
        tested=tested(category, q_values, surely, 1 - settings.confidence),
        p_values=p_values,
        q_values=q_values,
        masses={role: model.mass for role, model in models.items()},
        bounds=bounds,
    )


def _letters(counts: Counts) -> Objects:
    """Categories of problems; of one with more than k samples, that of all of them (Fisher's test is of all, too)."""
    k = np.where(more_than_k(counts), np.maximum(counts.n_base, counts.n_rlvr), counts.k)
    return reading(dataclasses.replace(counts, k=k)).letters


def tested_counts(counts: Counts, settings: Settings) -> Plain:
    """How many problems have each tested category; `untested`: E or S where a model stopped early."""
    found = verdicts(counts, settings)
    counted: Plain = {name: int((found.tested == name).sum()) for name in ("P", "E", "S", "O", "undetermined")}
    untested = absent(found.tested) & ~absent(found.category)
    return {**counted, "untested": int(untested.sum())}


def came_and_went(group: Group) -> Plain:
    """McNemar's exact test of E against S; of whole problems, so at all their samples where there are more than k."""
    letters = _letters(group.counts)
    came, went = int((letters == "E").sum()), int((letters == "S").sum())
    return {"E": came, "S": went, "p_value": mcnemar(came, went)}


def noise_floor(group: Group) -> Plain:
    """P, E, S, O and the ratios of each model against itself at half the samples, and of the pair at as many; `excess`:
    the pair's ratios less the base's floor. All of it is null if no problem has two samples."""
    counts = group.counts
    most = [np.where(m.early, counts.k, np.minimum(m.n, counts.k)) for m in group.models.values()]
    half = np.where(reading(counts).known, np.minimum(*most) // 2, 0)
    floors = {role: against_itself(model, half, counts.epsilon) for role, model in group.models.items()}
    hits = hits_above(counts.epsilon, half)
    pair = sort(*(np.where(half > 0, chance(model, half, hits), np.nan) for model in group.models.values()))
    described = {role: group.described(floor) for role, floor in (*floors.items(), ("pair", pair))}
    if not half.any():
        described = {which: found | dict.fromkeys("PESO") for which, found in described.items()}
    return {
        "k": one(half[half > 0]) if half.any() else None,
        **described,
        "excess": _excess(group, pair, floors["base"]),
    }


def _excess(group: Group, pair: Sorted, floor: Sorted) -> Plain:
    sums = [ratios(*x.columns.sum(axis=0)[:3]) for x in (pair, floor)]
    drawn = [ratios(*(group.weights.problems @ x.columns + group.weights.halves).T[:3]) for x in (pair, floor)]
    return {name: group.estimate(sums[0][name] - sums[1][name], drawn[0][name] - drawn[1][name]) for name in RATIOS}


def first_k(group: Group) -> Plain | None:
    """The paper's plain hit rate of the first k samples; None where there are more, in an order that counts hide."""
    if more_than_k(group.counts).any():
        return None
    return {"k": one(group.counts.k), **group.values["first"]}


def by_epsilon(group: Group) -> list[Plain]:
    """P, E, S, O and the ratios at every epsilon of a grid; at those that k samples can tell from 0. At k = 1 a share
    is 0 or 1, so that every epsilon below 1 gives what 0 gives."""
    most = int(group.counts.k.max())
    told = [e for e in EPSILONS if e == 0 or (most > 1 and e * most >= 1)]
    return [{"epsilon": e, **_at_epsilon(group, e)} for e in told]


def _at_epsilon(group: Group, epsilon: float) -> Plain:
    """Nothing at an epsilon for which an early stop came too early."""
    found = reading(group.counts, np.full(len(group.counts), epsilon))
    if bool((reading(group.counts).known & ~found.known).any()):
        return dict.fromkeys((*"PESO", *RATIOS))
    return group.described(found)


def tilted(group: Group) -> Plain:
    """The common odds ratio and its fit; `says` is the line for people."""
    counts, settings = group.counts, group.settings
    if any(model.early.any() for model in group.models.values()):
        return {"odds_ratio": None, "says": "The tilt test needs numbers of samples that were fixed before."}
    if max(counts.n_base.max(), counts.n_rlvr.max()) < 2:  # one factor fits any such table exactly
        return {"odds_ratio": None, "says": "The tilt test needs two samples per problem or more."}
    found = tilt(counts.n_base, counts.c_base, counts.n_rlvr, counts.c_rlvr, settings.confidence)
    if found is None:
        return {"odds_ratio": None, "says": "No finite factor on the odds fits: a model has no hits, or no misses."}
    departing = np.zeros(len(counts), dtype=bool)
    q_values = benjamini_hochberg(found.p_values, np.full(len(found.p_values), "all", dtype=object))
    departing[found.kept] = q_values < 1 - settings.confidence
    above = np.zeros(len(counts), dtype=bool)
    above[found.kept] = found.above
    result = _tilt_numbers(group, found) | {
        "above": _named(counts, departing & above),
        "below": _named(counts, departing & ~above),
    }
    return {**result, "says": _tilt_sentence(result)}


def _tilt_numbers(group: Group, found: Tilt) -> Plain:
    drawn = [group.weights.problems[:, found.kept] @ part for part in found.parts]
    low, high = interval(np.asarray(found.pooled[0]), drawn[0] / drawn[1], group.settings.confidence)
    names = ("value", "low", "high")
    statistic, p_value = found.breslow_day
    return {
        "odds_ratio": dict(zip(names, found.pooled, strict=True))
        | {"low_problems": float(low), "high_problems": float(high)},
        "conditional": dict(zip(names, found.conditional, strict=True)),
        "problems": int(found.kept.sum()),
        "homogeneity": {
            "statistic": statistic,
            "df": int(found.kept.sum()) - 1,
            "p_value": p_value,
            "valid": found.expects_few <= 0.2,
            "sparse": found.expects_few,
        },
        "residual": {"z": found.residual[0], "p_value": found.residual[1]},
        "explained": found.explained,
    }


def _named(counts: Counts, which: Truths) -> list[Plain]:
    rows = zip(counts.dataset[which].tolist(), counts.problem_id[which].tolist(), strict=True)
    return [{"dataset": dataset, "problem_id": problem} for dataset, problem in rows]


def _tilt_sentence(found: Plain) -> str:
    odds, above, below = found["odds_ratio"], len(found["above"]), len(found["below"])
    factor = f"odds × {odds['value']:.3g} ({odds['low_problems']:.3g} to {odds['high_problems']:.3g})"
    if np.isnan(found["explained"]):
        sentence = f"There is no more change than noise for one uniform sharpening ({factor}) to explain"
    else:
        sentence = f"One uniform sharpening ({factor}) explains {found['explained']:.0%} of the change"
    depart = f"; {above + below} of {found['problems']} problems depart from it, {above} above and {below} below."
    few = found["homogeneity"]["sparse"]
    caveat = f" Breslow and Day's test is not valid: {few:.0%} of the problems expect fewer than {FEW:.0f} in a cell."
    return sentence + depart + ("" if found["homogeneity"]["valid"] else caveat)


def extrapolated(group: Group) -> Plain | None:
    """pass@k beyond k for each model, with the check that goes with it; None if the first samples are not known, or if
    k is below 8 and the first eighth is empty: a fit to no data would be checked."""
    counts = group.counts
    first = (counts.n_base_first, counts.n_rlvr_first)
    if any(n is None or not n.any() for n in first):
        return None
    return {role: _extrapolated(group, role) for role in ROLES}


def _extrapolated(group: Group, role: str) -> Plain:
    counts, model = group.counts, group.models[role]
    early = extrapolation.fit(getattr(counts, f"n_{role}_first"), getattr(counts, f"c_{role}_first"))
    seen = support(model, counts.k, np.zeros(len(counts)))
    predicted = float(early.pass_at(counts.k).mean())
    observed = group.estimate(seen.mean(), group.weights.problems @ seen / group.weights.problems.sum(axis=1))
    holds = bool(observed["low"] <= predicted <= observed["high"])
    masses = extrapolation.fit(model.n, model.c)
    most = int(counts.k.max())
    return {
        "check": {"at": one(counts.k), "predicted": predicted, "observed": observed, "holds": holds},
        "masses": dataclasses.asdict(masses) if holds else None,
        "pass_at_k": {k: float(masses.pass_at(k)) for k in (2 * most, 4 * most, 8 * most)} if holds else None,
    }


def plain(value: Any) -> Any:
    """The same as JSON can hold it: numbers that are none are null."""
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value

"""The aggregates of a group of problems of one pair, with their intervals.

ProblemGroup(counts, AnalysisSettings()).values["pass_at_k"]["base"][64]
    ->  {"value": 0.58, "low": 0.56, "high": 0.60, "low_samples": 0.55, "high_samples": 0.61}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from leash.statistics.aggregate_columns import (
    COVER_TAUS,
    G_PASS_KS,
    G_PASS_TAUS,
    ColumnLayout,
    ContributionSpec,
    model_contributions,
)
from leash.statistics.array_types import FloatArray, IntArray, is_none
from leash.statistics.band import difference_band
from leash.statistics.bootstrap_weights import (
    MAX_HIT_RESAMPLES,
    AnalysisSettings,
    BootstrapWeights,
    bootstrap_interval,
    resample_hits,
)
from leash.statistics.categories import CategoryShares
from leash.statistics.clusters import design_effect
from leash.statistics.counts import ROLES, Counts
from leash.statistics.crossing import crossing_k
from leash.statistics.intervals import wilson_interval
from leash.statistics.paired import paired_t, tango_interval
from leash.statistics.pass_at_k import SampleCounts
from leash.statistics.ratios import RATIO_NAMES, compute_ratios

# The k at which the literature measures the sampling-efficiency gap.
EFFICIENCY_GAP_K = 256
# With fewer problems, the bootstrap with pseudo-problems covers better than Tango's interval (docs/statistics.md).
MIN_TANGO_PROBLEMS = 60
JsonDict = dict[str, Any]


class ProblemGroup:
    """A group of problems: the sums of its contributions, those of all resamples, and the aggregates (`values`)."""

    def __init__(self, counts: Counts, settings: AnalysisSettings) -> None:
        self.counts, self.settings = counts, settings
        self.models = {role: counts.samples(role) for role in ROLES}
        # The largest k of each problem's pass@k: its own k, or more if both models have more samples.
        reach = np.maximum(counts.k, np.minimum(counts.n_base, counts.n_rlvr))
        self.spec = ContributionSpec(counts.k, counts.epsilon, reach, budget_grid(reach))
        self.layout = ColumnLayout(self.spec.budgets, self.spec.widths)
        cluster = settings.clusters_of(counts)
        self.weights = settings.drawn(len(counts), cluster)
        own = [model_contributions(self.models[role], self.spec) for role in ROLES]
        columns = self.layout.of_pair(own[0], own[1])
        self.columns, self.sums = columns, columns.sum(axis=0)
        chosen = columns[:, self.layout.pair["chosen"]]
        self.design_effect = design_effect(chosen[:, 1] - chosen[:, 2], cluster)
        self.drawn = resample_sums(columns, self.weights, self.layout, self.design_effect)
        self.drawn_again = self._resample_samples()
        self.band = difference_band(self.models["base"], self.models["rlvr"], reach, settings, self.weights.cluster)
        self.values: JsonDict = estimate_aggregates(self)

    def _resample_samples(self) -> FloatArray | None:
        """The sums of all resamples with every problem's hits drawn again, too; None if sampling stopped early, since
        n is then not fixed."""
        if any(model.early.any() for model in self.models.values()):
            return None
        sets = min(MAX_HIT_RESAMPLES, self.settings.resamples)
        base, rlvr = (self._resampled_contributions(role, sets) for role in ROLES)
        again = np.empty_like(self.drawn)
        for i in range(sets):
            columns = self.layout.of_pair(base[0][base[1][i]], rlvr[0][rlvr[1][i]])
            weights = self.weights.rows(slice(i, None, sets))
            again[i::sets] = resample_sums(columns, weights, self.layout, self.design_effect)
        # Redrawn hits are fewer on average (a single hit is often lost, none is gained): subtract that shift.
        return np.asarray(np.maximum(again - again.mean(axis=0) + self.drawn.mean(axis=0), 0))

    def _resampled_contributions(self, role: str, sets: int) -> tuple[FloatArray, IntArray]:
        """The columns of every distinct count in any draw, and for each draw and problem the row of its count. Draws
        repeat counts, so this computes each hypergeometric once."""
        n, c, ended = (getattr(self.counts, f"{name}_{role}") for name in ("n", "c", "ended"))
        setting = np.stack([n, self.spec.k, self.spec.epsilon, self.spec.reach, is_none(ended)])
        _, first, kind = np.unique(setting, axis=1, return_index=True, return_inverse=True)
        hits = resample_hits(n, c, role, sets, self.settings.seed)
        keys, places = np.unique(kind.ravel() * (n.max() + 1) + hits, return_inverse=True)
        rows, row_hits = first[keys // (n.max() + 1)], keys % (n.max() + 1)
        columns = model_contributions(SampleCounts(n[rows], row_hits, ended[rows]), self.spec.rows(rows))
        return columns, places.reshape(hits.shape)

    def describe(self, shares: CategoryShares) -> JsonDict:
        return describe_categories(shares, self.weights, self.settings.confidence)

    def estimate(self, value: Any, draws: FloatArray, again: FloatArray | None = None) -> JsonDict:
        return estimate(value, draws, self.settings.confidence, again)


def estimate(value: Any, draws: FloatArray, confidence: float, again: FloatArray | None = None) -> JsonDict:
    """A value with its interval over problems and, from the draws `again`, that over problems and samples."""
    low, high = bootstrap_interval(np.asarray(value), draws, confidence)
    result = {"value": float(value), "low": float(low), "high": float(high), "low_samples": None, "high_samples": None}
    if again is not None:
        low, high = bootstrap_interval(np.asarray(value), again, confidence)
        result |= {"low_samples": float(low), "high_samples": float(high)}
    return result


def describe_categories(shares: CategoryShares, weights: BootstrapWeights, confidence: float) -> JsonDict:
    """P, E, S, O, and the ratios with their intervals over problems."""
    columns = shares.columns
    sums = columns.sum(axis=0)
    drawn = weights.problems @ columns + weights.category_weights(columns[:, 1] - columns[:, 2])
    values, draws = compute_ratios(*sums[:3]), compute_ratios(*drawn.T[:3])
    ratios = {name: estimate(values[name], draws[name], confidence) for name in RATIO_NAMES}
    ratios |= wilson_ratios(columns, ratios, weights, confidence)
    return {**dict(zip("PESO", sums.tolist(), strict=True)), **ratios}


def wilson_ratios(
    columns: FloatArray, ratios: Mapping[str, JsonDict], weights: BootstrapWeights, confidence: float
) -> JsonDict:
    """SRR and NDR with Wilson's intervals, if every problem is in one category and problems are independent; otherwise
    nothing."""
    if weights.cluster is not None or not np.isin(columns, (0, 1)).all():
        return {}
    preserved, gained, lost, _ = columns.sum(axis=0).tolist()
    replaced: JsonDict = {}
    for name, count, total in (("SRR", preserved, preserved + lost), ("NDR", gained, preserved + gained)):
        if total:
            low, high = wilson_interval(total, count, confidence)
            replaced[name] = {**ratios[name], "low": low, "high": high}
    return replaced


def budget_grid(reaches: IntArray) -> tuple[int, ...]:
    """Powers of two up to the largest of these numbers, and that number itself."""
    most = int(reaches.max(initial=1))
    return tuple(sorted({2**i for i in range(most.bit_length())} | {most}))


def resample_sums(columns: FloatArray, drawn: BootstrapWeights, layout: ColumnLayout, effect: float) -> FloatArray:
    """The columns' sums under random weights of the problems: a row per resample. `effect` is the design effect of
    clusters, by which pseudo-problems in P, E, S and O weigh more."""
    corners = drawn.quarters @ layout.corners
    corners[:, layout.categories] = effect * drawn.categories @ layout.corners[:, layout.categories]
    # For few rows, threads of a linear algebra library wait for each other longer than they work: no `@`.
    few = len(drawn.problems) < 32
    summed = np.einsum("ri,ij->rj", drawn.problems, columns) if few else drawn.problems @ columns
    return np.asarray(summed + corners)


def estimate_aggregates(group: ProblemGroup) -> JsonDict:
    size = np.array(float(len(group.counts)))
    values = compute_aggregates(group.sums, size, group)
    draws = compute_aggregates(group.drawn, group.weights.size, group)
    again = None if group.drawn_again is None else compute_aggregates(group.drawn_again, group.weights.size, group)
    estimates = dict(_estimate_nested(group, values, draws, again))
    estimates["crossing"] = estimate_crossing(group, values, draws)
    for name in ("chosen", "any"):
        categories = group.columns[:, group.layout.pair[name]]
        estimates[name] |= wilson_ratios(categories, estimates[name], group.weights, group.settings.confidence)
    for k, difference in estimates["difference"].items():
        low, high = difference_interval(group, k)
        difference |= {"low": low, "high": high}
    estimates["efficiency_gap"]["k"] = efficiency_gap_k(group.spec.budgets)
    return estimates


def _estimate_nested(group: ProblemGroup, values: Any, draws: Any, again: Any) -> Any:
    if isinstance(values, Mapping):
        return {
            name: _estimate_nested(group, values[name], draws[name], None if again is None else again[name])
            for name in values
        }
    return group.estimate(values, draws, again)


def compute_aggregates(sums: FloatArray, size: FloatArray, group: ProblemGroup) -> JsonDict:
    """The aggregates of the columns' sums: one value for the problems as they are, or one per resample."""
    layout, ks = group.layout, group.spec.budgets
    share = {name: sums[..., place] / size[..., None] for name, place in layout.pair.items()}
    curves = {role: dict(zip(ks, np.moveaxis(share[f"pass_{role}"], -1, 0), strict=True)) for role in ROLES}
    expected = np.moveaxis(sums[..., layout.pair["expected"]].reshape(*sums.shape[:-1], len(ks), 4), -2, 0)
    # The pseudo-problems of a resample weigh something, too: P, E, S and O are shares of all problems and of these.
    expected = expected / expected.sum(axis=-1, keepdims=True) * len(group.counts)

    def g_pass(role: str) -> dict[int, dict[float, FloatArray]]:
        apart = share[f"stable_{role}"].reshape(*sums.shape[:-1], len(G_PASS_KS), len(G_PASS_TAUS))
        return {k: {tau: apart[..., i, j] for j, tau in enumerate(G_PASS_TAUS)} for i, k in enumerate(G_PASS_KS)}

    return {
        "chosen": _ratios_from_counts(share["chosen"]),
        "any": _ratios_from_counts(share["any"]),
        "pass_at_k": curves,
        "difference": {k: curves["rlvr"][k] - curves["base"][k] for k in ks},
        "avg_at_n": {role: share[f"mass_{role}"][..., 0] for role in ROLES},
        "g_pass_at_k": {role: g_pass(role) for role in ROLES},
        "cover_at_tau": {
            role: dict(zip(COVER_TAUS, np.moveaxis(share[f"cover_{role}"], -1, 0), strict=True)) for role in ROLES
        },
        "consolidation": share["kept"][..., 0],
        "efficiency_gap": curves["base"][efficiency_gap_k(ks)] - curves["rlvr"][1],
        "first": {role: share[f"any_{role}"][..., 0] for role in ROLES},
        "expected": {
            k: {**{name: at_k[..., i] for i, name in enumerate("PESO")}, **_ratios_from_counts(at_k)}
            for k, at_k in zip(ks, expected, strict=True)
        },
    }


def difference_interval(group: ProblemGroup, k: int) -> tuple[float, float]:
    """The interval over problems of the difference of pass@k, trained minus base; NaN if a problem lacks samples.

    At the k of all samples every problem differs by 1, 0 or -1: Tango's interval or, for few problems, the bootstrap
    with pseudo-problems. Below, Student's t with pseudo-problems as large as the largest difference, and at least as a
    typical problem lost as a whole: at a k where nearly all are solved no problem of these may differ. With clusters,
    the bootstrap and Student's t are over clusters; Tango's interval assumes independent problems.
    """
    confidence, at = group.settings.confidence, group.spec.budgets.index(k)
    base, rlvr = (group.columns[:, group.layout.pair[f"pass_{role}"]][:, at] for role in ROLES)
    differences = rlvr - base
    if np.isnan(differences).any():
        return np.nan, np.nan
    if not np.isin(differences, (-1, 0, 1)).all():
        typical = float(np.sqrt(max((base**2).mean(), (rlvr**2).mean())))
        low, high = paired_t(differences, group.weights.cluster, typical).interval(confidence)
        return max(float(low), -1.0), min(float(high), 1.0)
    if len(differences) >= MIN_TANGO_PROBLEMS and group.weights.cluster is None:
        gained, lost = int((differences > 0).sum()), int((differences < 0).sum())
        return tango_interval(gained, lost, len(differences), confidence)
    weights = group.weights
    categories = weights.category_weights(differences)
    drawn = weights.problems @ differences + categories @ np.array([0.0, 1.0, -1.0, 0.0])
    size = weights.problems.sum(axis=1) + categories.sum(axis=1)
    ends = bootstrap_interval(np.asarray(differences.mean()), drawn / size, confidence)
    return float(ends[0]), float(ends[1])


def efficiency_gap_k(ks: Sequence[int]) -> int:
    return max(k for k in ks if k <= EFFICIENCY_GAP_K)


def _ratios_from_counts(categories: FloatArray) -> dict[str, FloatArray]:
    return compute_ratios(*np.moveaxis(categories, -1, 0)[:3])


def estimate_crossing(group: ProblemGroup, values: JsonDict, draws: JsonDict) -> JsonDict:
    """The k at which one model's pass@k overtakes the other's. By default that is the base, which usually trails at
    first. Its interval follows from the band over k; a bound of None lies beyond the samples. `share` is how many of
    the resamples cross."""
    known = [k for k in group.spec.budgets if all(np.isfinite(values["pass_at_k"][role][k]) for role in ROLES)]
    ks = known or [1]

    def crossing(aggregates: JsonDict, ahead: str, behind: str) -> FloatArray:
        curve = {role: np.stack([aggregates["pass_at_k"][role][k] for k in ks], -1) for role in ROLES}
        return crossing_k(ks, curve[ahead], curve[behind])

    trained_overtakes = bool(np.isfinite(crossing(values, "base", "rlvr")))
    ahead, behind = ("base", "rlvr") if trained_overtakes else ("rlvr", "base")
    value = float(crossing(values, ahead, behind))
    low: int | None = None
    high: int | None = None
    if np.isfinite(value):
        low, high = group.band.crossing(1 if trained_overtakes else -1)
        # The value is interpolated between powers of two, the band is not.
        low, high = min(low, math.floor(value)), None if high is None else max(high, math.ceil(value))
    share = float(np.isfinite(crossing(draws, ahead, behind)).mean())
    return {"value": value, "low": low, "high": high, "by": behind, "share": share}

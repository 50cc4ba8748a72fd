"""A group of problems of one pair: what each adds to every aggregate, the sums, and the sums of all resamples.

Group(counts, Settings()).values["pass_at_k"]["base"][64]  ->  {"value": 0.58, "low": 0.56, "high": 0.60, ...}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stages.categorize.counts import ROLES, Counts
from stages.categorize.statistics.arrays import Ints, Reals, absent
from stages.categorize.statistics.chances import Sampled
from stages.categorize.statistics.columns import COVERS, STABLE_KS, STABLE_SHARES, Asked, Layout, of_model
from stages.categorize.statistics.curves import overtakes
from stages.categorize.statistics.ratios import RATIOS, Sorted, ratios
from stages.categorize.statistics.resampling import SAMPLINGS, Settings, Weights, hits_anew, interval

GAP_K = 256  # what the sampling-efficiency gap is usually measured at
Plain = dict[str, Any]


def sampled(counts: Counts, role: str) -> Sampled:
    return Sampled(*(getattr(counts, f"{name}_{role}") for name in ("n", "c", "ended")))


class Group:
    """One group of problems: its columns, their sums, and the sums of all resamples."""

    def __init__(self, counts: Counts, settings: Settings) -> None:
        self.counts, self.settings = counts, settings
        self.models = {role: sampled(counts, role) for role in ROLES}
        self.asked = Asked(counts.k, counts.epsilon, reach(counts), budgets(reach(counts)))
        self.layout = Layout(self.asked.budgets, self.asked.widths)
        self.weights = settings.drawn(len(counts))
        own = [of_model(self.models[role], self.asked) for role in ROLES]
        columns = self.layout.of_pair(own[0], own[1])
        self.sums = columns.sum(axis=0)
        self.drawn = over_problems(columns, self.weights, self.layout)
        self.drawn_again = self._over_samples()
        self.values: Plain = estimates(self)

    def _over_samples(self) -> Reals | None:
        """Sums with every problem's hits drawn anew, too; None where a rule stopped the sampling."""
        if any(model.early.any() for model in self.models.values()):
            return None
        sets = min(SAMPLINGS, self.settings.resamples)
        base, rlvr = (self._drawn_anew(role, sets) for role in ROLES)
        again = np.empty_like(self.drawn)
        for i in range(sets):
            columns = self.layout.of_pair(base[0][base[1][i]], rlvr[0][rlvr[1][i]])
            again[i::sets] = over_problems(columns, self.weights.rows(slice(i, None, sets)), self.layout)
        shifted = again - again.mean(axis=0) + self.drawn.mean(axis=0)
        return np.asarray(np.maximum(shifted, 0))

    def _drawn_anew(self, role: str, sets: int) -> tuple[Reals, Ints]:
        """The columns of every count that some draw has, and for each draw and problem which of them is its."""
        n, c, ended = (getattr(self.counts, f"{name}_{role}") for name in ("n", "c", "ended"))
        alike = np.stack([n, self.asked.k, self.asked.epsilon, self.asked.reach, absent(ended)])
        _, first, kind = np.unique(alike, axis=1, return_index=True, return_inverse=True)
        hits = hits_anew(n, c, role, sets, self.settings.seed)
        keys, places = np.unique(kind.ravel() * (n.max() + 1) + hits, return_inverse=True)
        of, found = first[keys // (n.max() + 1)], keys % (n.max() + 1)
        return of_model(Sampled(n[of], found, ended[of]), self.asked.rows(of)), places.reshape(hits.shape)

    def described(self, of: Sorted) -> Plain:
        """P, E, S, O of some reading, and its ratios with their intervals over problems."""
        columns = of.columns
        drawn = self.weights.problems @ columns + self.weights.halves
        found = dict(zip("PESO", columns.sum(axis=0).tolist(), strict=True))
        values, draws = ratios(*columns.sum(axis=0)[:3]), ratios(*drawn.T[:3])
        return {**found, **{name: self.estimate(values[name], draws[name]) for name in RATIOS}}

    def estimate(self, value: Any, draws: Reals, again: Reals | None = None) -> Plain:
        low, high = interval(np.asarray(value), draws, self.settings.confidence)
        found = {"value": float(value), "low": float(low), "high": float(high)}
        if again is not None:
            low, high = interval(np.asarray(value), again, self.settings.confidence)
        missing = again is None
        return {
            **found,
            "low_samples": None if missing else float(low),
            "high_samples": None if missing else float(high),
        }


def reach(counts: Counts) -> Ints:
    """The most samples of a problem that both models' curves may be asked for: its k, or more if both have more."""
    return np.maximum(counts.k, np.minimum(counts.n_base, counts.n_rlvr))


def budgets(reaches: Ints) -> tuple[int, ...]:
    """Powers of two up to the most samples of any problem, and that number itself."""
    most = int(reaches.max(initial=1))
    return tuple(sorted({2**i for i in range(most.bit_length())} | {most}))


def over_problems(columns: Reals, drawn: Weights, layout: Layout) -> Reals:
    """The columns' sums under random weights of the problems: a row a resample."""
    corners = drawn.quarters @ layout.corners
    corners[:, layout.categories] = drawn.halves @ layout.corners[:, layout.categories]
    # Not `@`: for a few rows, threads of a linear algebra library wait for each other longer than they work.
    few = len(drawn.problems) < 32
    summed = np.einsum("ri,ij->rj", drawn.problems, columns) if few else drawn.problems @ columns
    return np.asarray(summed + corners)


def estimates(group: Group) -> Plain:
    """Every aggregate of the columns, each with its intervals."""
    size = np.array(float(len(group.counts)))
    values = aggregates(group.sums, size, group)
    draws = aggregates(group.drawn, group.weights.size, group)
    again = None if group.drawn_again is None else aggregates(group.drawn_again, group.weights.size, group)
    found = dict(_zipped(group, values, draws, again))
    found["crossing"] = crossing(group, values, draws, again)
    found["efficiency_gap"]["k"] = gap_k(group.asked.budgets)
    return found


def _zipped(group: Group, values: Any, draws: Any, again: Any) -> Any:
    if isinstance(values, Mapping):
        return {
            name: _zipped(group, values[name], draws[name], None if again is None else again[name]) for name in values
        }
    return group.estimate(values, draws, again)


def aggregates(sums: Reals, size: Reals, group: Group) -> Plain:
    """Aggregates from the columns' sums: of the problems as they are, or a value a resample."""
    layout, ks = group.layout, group.asked.budgets
    share = {name: sums[..., place] / size[..., None] for name, place in layout.pair.items()}
    curves = {role: dict(zip(ks, np.moveaxis(share[f"pass_{role}"], -1, 0), strict=True)) for role in ROLES}
    expected = np.moveaxis(share["expected"].reshape(*sums.shape[:-1], len(ks), 4), -2, 0) * len(group.counts)
    return {
        "chosen": _ratios(share["chosen"]),
        "any": _ratios(share["any"]),
        "pass_at_k": curves,
        "difference": {k: curves["rlvr"][k] - curves["base"][k] for k in ks},
        "avg_at_n": {role: share[f"mass_{role}"][..., 0] for role in ROLES},
        "g_pass_at_k": {role: _stable(share[f"stable_{role}"]) for role in ROLES},
        "cover_at_tau": {role: _covers(share[f"cover_{role}"]) for role in ROLES},
        "consolidation": share["kept"][..., 0],
        "efficiency_gap": curves["base"][gap_k(ks)] - curves["rlvr"][1],
        "first": {role: share[f"any_{role}"][..., 0] for role in ROLES},
        "expected": {k: _counted(at_k) for k, at_k in zip(ks, expected, strict=True)},
    }


def gap_k(ks: Sequence[int]) -> int:
    return max(k for k in ks if k <= GAP_K)


def _ratios(counted: Reals) -> dict[str, Reals]:
    return ratios(counted[..., 0], counted[..., 1], counted[..., 2])


def _counted(counted: Reals) -> dict[str, Reals]:
    return {**{name: counted[..., i] for i, name in enumerate("PESO")}, **_ratios(counted)}


def _covers(shares: Reals) -> dict[float, Reals]:
    return dict(zip(COVERS, np.moveaxis(shares, -1, 0), strict=True))


def _stable(shares: Reals) -> dict[int, dict[float, Reals]]:
    apart = shares.reshape(*shares.shape[:-1], len(STABLE_KS), len(STABLE_SHARES))
    return {k: {tau: apart[..., i, j] for j, tau in enumerate(STABLE_SHARES)} for i, k in enumerate(STABLE_KS)}


def crossing(group: Group, values: Plain, draws: Plain, again: Plain | None) -> Plain:
    """The k at which one model's pass@k overtakes the other's: by default the base's, which trails at first.
    A bound of null is beyond the samples; `share` of the resamples cross."""
    ks = _estimable(group, values)
    stacked = [{role: np.stack([x["pass_at_k"][role][k] for k in ks], -1) for role in ROLES} for x in (values, draws)]
    late, first = ("rlvr", "base") if _overtaken(ks, stacked[0], "base", "rlvr") else ("base", "rlvr")
    value, drawn = (overtakes(ks, x[first], x[late]) for x in stacked)
    found = {"value": float(value), "by": late, "share": float(np.isfinite(drawn).mean())}
    found |= _bounds(drawn, group.settings.confidence, "")
    if again is None:
        return {**found, "low_samples": None, "high_samples": None}
    curve = {role: np.stack([again["pass_at_k"][role][k] for k in ks], -1) for role in ROLES}
    return found | _bounds(overtakes(ks, curve[first], curve[late]), group.settings.confidence, "_samples")


def _estimable(group: Group, values: Plain) -> list[int]:
    known = [k for k in group.asked.budgets if all(np.isfinite(values["pass_at_k"][role][k]) for role in ROLES)]
    return known or [1]


def _overtaken(ks: Sequence[int], curve: Mapping[str, Reals], ahead: str, behind: str) -> bool:
    return bool(np.isfinite(overtakes(ks, curve[ahead], curve[behind])))


def _bounds(drawn: Reals, confidence: float, suffix: str) -> Plain:
    """Quantiles of crossings, with those before the first sample at 1 and those beyond the last at infinity."""
    tail = (1 - confidence) / 2
    ordered = np.where(np.isnan(drawn), 1.0, drawn)
    low, high = np.quantile(ordered, [tail, 1 - tail], method="inverted_cdf")
    return {f"low{suffix}": float(low), f"high{suffix}": float(high)}

"""What each problem adds to every aggregate: a row per problem, a column per quantity.

Every aggregate is a function of the columns' sums, so a resample of problems costs one product of its weights with
these columns, for any number of aggregates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.categories import classify_support, support_probability
from leash.statistics.pass_at_k import SampleCounts, hypergeometric_pmf, pass_at_k_columns

G_PASS_KS = (4, 8, 16)
G_PASS_TAUS = (0.25, 0.5, 0.75, 1.0)
COVER_TAUS = tuple(i / 20 for i in range(1, 21))


@dataclass(frozen=True)
class ContributionSpec:
    """What to compute for some problems: support at k and epsilon, and pass@k at these budgets."""

    k: IntArray
    epsilon: FloatArray
    reach: IntArray  # the largest budget of each problem
    budgets: tuple[int, ...]

    def rows(self, which: IntArray) -> ContributionSpec:
        return ContributionSpec(self.k[which], self.epsilon[which], self.reach[which], self.budgets)

    @property
    def widths(self) -> dict[str, int]:
        """The number of columns of each quantity of one model."""
        several = {"pass": len(self.budgets), "stable": len(G_PASS_KS) * len(G_PASS_TAUS), "cover": len(COVER_TAUS)}
        return {"support": 1, "any": 1, "mass": 1, **several}


def g_pass_at_k(samples: SampleCounts, k: int) -> FloatArray:
    """G-Pass@k, a column for each τ: the probability that at least τk of k samples are hits."""
    # The small constant keeps 0.75 * 4 from being rounded up to 4.
    min_hits = [int(np.ceil(tau * k - 1e-9)) for tau in G_PASS_TAUS]
    enough = (k <= samples.n) & ~samples.early
    columns = np.full((len(samples.n), len(min_hits)), np.nan)
    pmf = np.stack([hypergeometric_pmf(j, k, samples.n[enough], samples.c[enough]) for j in range(k + 1)], axis=-1)
    for column, least in enumerate(min_hits):
        columns[enough, column] = pmf[:, least:].sum(axis=1)
    return columns


def model_contributions(samples: SampleCounts, spec: ContributionSpec) -> FloatArray:
    """The columns of one model, in the order of `ContributionSpec.widths`."""
    mass = samples.mass[:, None]
    parts = [
        support_probability(samples, spec.k, spec.epsilon)[:, None],
        support_probability(samples, spec.k, np.zeros(len(samples.n)))[:, None],
        np.where(samples.early[:, None], np.nan, mass),
        pass_at_k_columns(samples, spec.reach, spec.budgets),
        *(g_pass_at_k(samples, k) for k in G_PASS_KS),
        np.where(np.isnan(mass), np.nan, mass >= np.array(COVER_TAUS) - 1e-12),
    ]
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class ColumnLayout:
    """Which columns of a pair hold each quantity."""

    budgets: tuple[int, ...]
    widths: dict[str, int]

    @cached_property
    def model(self) -> dict[str, slice]:
        return _column_slices(self.widths)

    @cached_property
    def pair(self) -> dict[str, slice]:
        own = {f"{name}_{role}": width for role in ("base", "rlvr") for name, width in self.widths.items()}
        return _column_slices({**own, "kept": 1, "chosen": 4, "any": 4, "expected": 4 * len(self.budgets)})

    @property
    def categories(self) -> slice:
        """The columns that are categories: P, E, S, O of each kind, one after the other."""
        return slice(self.pair["chosen"].start, self.pair["expected"].stop)

    def of_pair(self, base: FloatArray, rlvr: FloatArray) -> FloatArray:
        """The columns of a pair from those of its models. A problem without a category is 0 in all of P, E, S, O."""
        at = self.model
        kept = base[:, at["any"]] * rlvr[:, at["pass"]][:, :1]
        chosen = classify_support(base[:, at["support"]][:, 0], rlvr[:, at["support"]][:, 0]).columns
        hit = classify_support(base[:, at["any"]][:, 0], rlvr[:, at["any"]][:, 0]).columns
        # Not `.columns`: a budget beyond a problem's samples must stay NaN, so that the whole expectation is unknown.
        shares = classify_support(base[:, at["pass"]], rlvr[:, at["pass"]])
        expected = np.stack([shares.P, shares.E, shares.S, shares.O], axis=-1)
        return np.concatenate([base, rlvr, kept, chosen, hit, expected.reshape(len(base), -1)], axis=1)

    @cached_property
    def corners(self) -> FloatArray:
        """The columns of four pseudo-problems: solved always by both models, by the second, by the base, by none."""
        row = np.ones(sum(self.widths.values()))
        return self.of_pair(np.outer([1, 0, 1, 0], row), np.outer([1, 1, 0, 0], row))


def _column_slices(widths: dict[str, int]) -> dict[str, slice]:
    ends = np.cumsum(list(widths.values())).tolist()
    return {name: slice(end - width, end) for (name, width), end in zip(widths.items(), ends, strict=True)}

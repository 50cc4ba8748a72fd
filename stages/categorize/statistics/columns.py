"""What each problem adds to every aggregate: a row a problem, a column a quantity.

Every aggregate is a function of the columns' sums, so that a resample of problems is one product of its weights with
these columns, whatever the number of aggregates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stages.categorize.statistics.arrays import Ints, Reals, absent
from stages.categorize.statistics.chances import Sampled, chance, exactly
from stages.categorize.statistics.ratios import sort

STABLE_KS = (4, 8, 16)  # of G-Pass@k
STABLE_SHARES = (0.25, 0.5, 0.75, 1.0)
COVERS = tuple(i / 20 for i in range(1, 21))


@dataclass(frozen=True)
class Asked:
    """What is asked of the samples of some problems: support at k and epsilon, pass@k at these budgets."""

    k: Ints
    epsilon: Reals
    reach: Ints  # the most samples that may be asked of each problem
    budgets: tuple[int, ...]

    def rows(self, which: Ints) -> Asked:
        return Asked(self.k[which], self.epsilon[which], self.reach[which], self.budgets)

    @property
    def widths(self) -> dict[str, int]:
        """The columns of one model, by name."""
        stable = len(STABLE_KS) * len(STABLE_SHARES)
        return {"support": 1, "any": 1, "mass": 1, "pass": len(self.budgets), "stable": stable, "cover": len(COVERS)}


def support(of: Sampled, k: Ints, epsilon: Reals) -> Reals:
    """1 where the mass of the first k samples exceeds epsilon, 0 where it does not. Where there are more than k, and
    so no telling which were the first, the chance that it does. NaN where samples are missing, and where an early stop
    leaves open whether epsilon would have been exceeded."""
    k, epsilon = np.broadcast_to(k, of.n.shape), np.broadcast_to(epsilon, of.n.shape)
    all_seen = (of.ended == "k") & (of.n <= k) & (of.n > 0)
    out_of = np.where(all_seen, of.n, np.maximum(k, 1))
    value = np.where(all_seen, (of.c / out_of > epsilon).astype(float), np.nan)
    value[of.early & (of.n <= k) & (of.c / out_of > epsilon)] = 1.0
    more = ~absent(of.ended) & (of.n > k)
    value[more] = chance(Sampled(of.n[more], of.c[more], of.ended[more]), k[more], hits_above(epsilon[more], k[more]))
    return value


def hits_above(epsilon: Reals, k: Ints) -> Ints:
    """The fewest hits in k that are more than this share, in the arithmetic of support.sql."""
    near = np.maximum(np.floor(epsilon * k), 1).astype(np.int64)[:, None] + np.arange(3)
    enough = near / np.maximum(k, 1)[:, None] > epsilon[:, None]
    return np.asarray(np.where(enough, near, k.max(initial=0) + 1).min(axis=1))


def stable(of: Sampled, k: int) -> Reals:
    """G-Pass@k, a column for each share τ: the chance that at least τk of k samples are hits."""
    wanted = [int(np.ceil(share * k - 1e-9)) for share in STABLE_SHARES]
    fits = (k <= of.n) & ~of.early
    found = np.full((len(of.n), len(wanted)), np.nan)
    n, c = of.n[fits], of.c[fits]
    chances = np.stack([exactly(j, k, n, c) for j in range(k + 1)], axis=-1)
    for column, least in enumerate(wanted):
        found[fits, column] = chances[:, least:].sum(axis=1)
    return found


def of_model(of: Sampled, asked: Asked) -> Reals:
    """The columns of one model, in the order of `Asked.widths`."""
    budgets = np.array(asked.budgets)
    curve = chance(Sampled(of.n[:, None], of.c[:, None], of.ended[:, None]), budgets)
    curve[budgets > asked.reach[:, None]] = np.nan
    mass = of.mass[:, None]
    parts = [
        support(of, asked.k, asked.epsilon)[:, None],
        support(of, asked.k, np.zeros(len(of.n)))[:, None],
        np.where(of.early[:, None], np.nan, mass),
        curve,
        *(stable(of, k) for k in STABLE_KS),
        np.where(np.isnan(mass), np.nan, mass >= np.array(COVERS) - 1e-12),
    ]
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class Layout:
    """Where each quantity of a pair stands among its columns."""

    budgets: tuple[int, ...]
    widths: dict[str, int]

    @cached_property
    def model(self) -> dict[str, slice]:
        return _slices(self.widths)

    @cached_property
    def pair(self) -> dict[str, slice]:
        own = {f"{name}_{role}": width for role in ("base", "rlvr") for name, width in self.widths.items()}
        return _slices({**own, "kept": 1, "chosen": 4, "any": 4, "expected": 4 * len(self.budgets)})

    @property
    def categories(self) -> slice:
        """The columns that are categories: P, E, S, O, and again."""
        return slice(self.pair["chosen"].start, self.pair["expected"].stop)

    def of_pair(self, base: Reals, rlvr: Reals) -> Reals:
        """The columns of a pair from those of its models. What can't be categorized is in no category."""
        at = self.model
        kept = base[:, at["any"]] * rlvr[:, at["pass"]][:, :1]
        chosen = sort(base[:, at["support"]][:, 0], rlvr[:, at["support"]][:, 0]).columns
        hit = sort(base[:, at["any"]][:, 0], rlvr[:, at["any"]][:, 0]).columns
        p, b = rlvr[:, at["pass"]], base[:, at["pass"]]
        expected = np.stack([b * p, (1 - b) * p, b * (1 - p), (1 - b) * (1 - p)], axis=-1)
        return np.concatenate([base, rlvr, kept, chosen, hit, expected.reshape(len(b), -1)], axis=1)

    @cached_property
    def corners(self) -> Reals:
        """The columns of four made-up problems: always solved by both, by the second only, the base only, by none."""
        width = sum(self.widths.values())
        ones = np.ones((1, width))
        return self.of_pair(
            np.concatenate([ones, 0 * ones, ones, 0 * ones]), np.concatenate([ones, ones, 0 * ones, 0 * ones])
        )


def _slices(widths: dict[str, int]) -> dict[str, slice]:
    ends = np.cumsum(list(widths.values())).tolist()
    return {name: slice(end - width, end) for (name, width), end in zip(widths.items(), ends, strict=True)}

"""The category of every problem: P, E, S or O, and the tested category.

    P  both models support the problem      E  only the second model does
    S  only the base does                   O  neither does

This module is the only place that decides a category. `leash categorize` writes it to data/support, `leash compare`
computes it from a file of counts, and the report's tables count it. The page's script repeats the rule for its sliders;
tests/functional/test_page_numbers.py compares the two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leash.statistics.array_types import BoolArray, FloatArray, IntArray, ObjectArray, is_none
from leash.statistics.change_tests import change_p_values
from leash.statistics.counts import ROLES, Counts
from leash.statistics.intervals import curtailed_interval, one_sided_bounds
from leash.statistics.pass_at_k import SampleCounts, hit_probability
from leash.statistics.support import hits_above
from leash.statistics.testing import benjamini_hochberg


@dataclass(frozen=True)
class CategoryShares:
    """How much of each problem is in P, E, S and O: 0 or 1 if its first k samples are known, a probability if only
    their number and hits among more samples are, NaN if neither is."""

    P: FloatArray
    E: FloatArray
    S: FloatArray
    O: FloatArray  # noqa: E741 the paper's letter

    @property
    def known(self) -> BoolArray:
        return ~np.isnan(self.P)

    @property
    def letters(self) -> ObjectArray:
        """The category of each problem that is entirely in one; None for the others."""
        letters = np.full(self.P.shape, None, dtype=object)
        for name in "PESO":
            letters[getattr(self, name) == 1] = name
        return letters

    @property
    def columns(self) -> FloatArray:
        """A row per problem, with 0 where nothing is known."""
        return np.nan_to_num(np.stack([self.P, self.E, self.S, self.O], axis=-1))


def classify_support(base: FloatArray, rlvr: FloatArray) -> CategoryShares:
    """P, E, S, O from each model's support (0 or 1), or from its probability: the two models are sampled
    independently."""
    return CategoryShares(base * rlvr, (1 - base) * rlvr, base * (1 - rlvr), (1 - base) * (1 - rlvr))


def support_probability(samples: SampleCounts, k: IntArray, epsilon: FloatArray) -> FloatArray:
    """1 if the share of hits in the first k samples exceeds epsilon, 0 if it does not.

    With more than k samples, counts do not show which came first: the probability that k of them exceed epsilon. NaN if
    samples are missing, or if an early stop leaves open whether epsilon would have been exceeded.
    """
    k, epsilon = np.broadcast_to(k, samples.n.shape), np.broadcast_to(epsilon, samples.n.shape)
    complete = (samples.ended == "k") & (samples.n <= k) & (samples.n > 0)
    # Unscored samples are not in n. After an early stop the rest of the k samples can only add hits.
    out_of = np.where(complete, samples.n, np.maximum(k, 1))
    exceeds = samples.c / out_of > epsilon
    support = np.where(complete, exceeds.astype(float), np.nan)
    support[samples.early & (samples.n <= k) & exceeds] = 1.0
    more = ~is_none(samples.ended) & (samples.n > k)
    support[more] = hit_probability(samples.rows(more), k[more], hits_above(epsilon[more], k[more]))
    return support


def has_more_than_k(counts: Counts) -> BoolArray:
    return np.asarray((counts.n_base > counts.k) | (counts.n_rlvr > counts.k))


def classify_counts(counts: Counts, epsilon: FloatArray | None = None) -> CategoryShares:
    """P, E, S and O at k and at the counts' own epsilon, or at another."""
    chosen = counts.epsilon if epsilon is None else epsilon
    return classify_support(*(support_probability(counts.samples(role), counts.k, chosen) for role in ROLES))


def classify_masses(mass_base: FloatArray, mass_rlvr: FloatArray, epsilon: FloatArray | float) -> CategoryShares:
    """P, E, S and O of completions, whose exact masses are known: nothing is estimated."""
    return classify_support((mass_base > epsilon).astype(float), (mass_rlvr > epsilon).astype(float))


def category_letters(counts: Counts, epsilon: FloatArray | None = None) -> ObjectArray:
    """The category of each problem. With more than k samples it is that of all of them, if both models have as many;
    None if one has more, since more samples find more."""
    letters = _letters_of_all_samples(counts, epsilon)
    letters[has_more_than_k(counts) & (counts.n_base != counts.n_rlvr)] = None
    return letters


def _letters_of_all_samples(counts: Counts, epsilon: FloatArray | None = None) -> ObjectArray:
    k = np.where(has_more_than_k(counts), np.maximum(counts.n_base, counts.n_rlvr), counts.k)
    return classify_counts(dataclasses.replace(counts, k=k), epsilon).letters


@dataclass(frozen=True)
class ProblemCategories:
    """What is known about each problem: its categories, the test of a change, and both masses with exact intervals.
    The p-value is NaN for problems that do not look changed."""

    category: ObjectArray
    tested: ObjectArray
    p_values: FloatArray
    q_values: FloatArray
    masses: dict[str, FloatArray]
    bounds: dict[str, tuple[FloatArray, FloatArray]]

    def count_tested(self, mask: BoolArray) -> dict[str, int]:
        """How many of these problems have each tested category."""
        return {name: int((self.tested[mask] == name).sum()) for name in ("P", "E", "S", "O", "undetermined")}


def categorize_problems(counts: Counts, confidence: float, family: ObjectArray | None = None) -> ProblemCategories:
    """The category and tested category of each problem.

    The tests of one `family` (default: all these problems) are corrected together. The family is always the pair, also
    where a data set or a domain is shown alone: then a problem has one q-value and one tested category in the whole
    report, and the counts of data sets add up to that of the pair.
    """
    models = {role: counts.samples(role) for role in ROLES}
    looks = _letters_of_all_samples(counts)
    changed = (looks == "E") | (looks == "S")
    p_values = change_p_values(counts, looks)
    # Every problem with a category is in the family, but only those that look changed can be called (Focused BH).
    q_values = benjamini_hochberg(p_values, np.full(len(counts), "", dtype=object) if family is None else family)
    bounds = {role: curtailed_interval(m.n, m.c, m.ended == "hit", confidence) for role, m in models.items()}
    one_sided = [one_sided_bounds(m.n, m.c, m.ended == "hit", confidence) for m in models.values()]
    return ProblemCategories(
        category=category_letters(counts),
        tested=tested_categories(looks, q_values, one_sided, counts.epsilon, 1 - confidence),
        p_values=np.where(changed, p_values, np.nan),
        q_values=np.where(changed, q_values, np.nan),
        masses={role: model.mass for role, model in models.items()},
        bounds=bounds,
    )


def tested_categories(
    looks: ObjectArray,
    q_values: FloatArray,
    bounds: Sequence[tuple[FloatArray, FloatArray]],
    epsilon: FloatArray,
    alpha: float,
) -> ObjectArray:
    """The category that is proven: E and S if their test rejects, P if both masses surely exceed epsilon, O if surely
    neither does. Otherwise "undetermined", as every O at epsilon = 0: no number of misses proves that a mass is 0. None
    if there is no category."""
    above = np.all([low > epsilon for low, _ in bounds], axis=0)
    below = np.all([high <= epsilon for _, high in bounds], axis=0)
    tested = np.full(looks.shape, "undetermined", dtype=object)
    significant = ((looks == "E") | (looks == "S")) & (q_values < alpha)
    tested[significant] = looks[significant]
    tested[(looks == "P") & above] = "P"
    tested[(looks == "O") & below] = "O"
    tested[is_none(looks)] = None
    return tested

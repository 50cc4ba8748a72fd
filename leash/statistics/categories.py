"""The category of every problem: P, E, S or O, and the tested category.

    P  both models support the problem      E  only the second model does
    S  only the base does                   O  neither does

This module is the only place that decides a category. `leash categorize` writes it to data/support, `leash compare`
computes it from a file of counts, and the report's tables count it. The page's script repeats the rule for its sliders;
tests/functional/test_page_numbers.py compares the two.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from leash.statistics.arrays import BoolArray, FloatArray, IntArray, ObjectArray, is_none
from leash.statistics.counts import ROLES, Counts
from leash.statistics.intervals import curtailed_interval
from leash.statistics.pass_at_k import SampleCounts, hit_probability
from leash.statistics.support import hits_above
from leash.statistics.testing import benjamini_hochberg, fisher_p_values


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
    """The category of each problem. With more than k samples it is the category of all of them, as Fisher's test is."""
    k = np.where(has_more_than_k(counts), np.maximum(counts.n_base, counts.n_rlvr), counts.k)
    return classify_counts(dataclasses.replace(counts, k=k), epsilon).letters


@dataclass(frozen=True)
class ProblemCategories:
    """What is known about each problem: its categories, Fisher's test, and both masses with exact intervals."""

    category: ObjectArray
    tested: ObjectArray
    p_values: FloatArray
    q_values: FloatArray
    masses: dict[str, FloatArray]
    bounds: dict[str, tuple[FloatArray, FloatArray]]

    def count_tested(self, mask: BoolArray) -> dict[str, int]:
        """How many of these problems have each tested category. `untested`: E or S after an early stop."""
        tested, category = self.tested[mask], self.category[mask]
        counted = {name: int((tested == name).sum()) for name in ("P", "E", "S", "O", "undetermined")}
        return {**counted, "untested": int((is_none(tested) & ~is_none(category)).sum())}


def categorize_problems(counts: Counts, confidence: float, family: ObjectArray | None = None) -> ProblemCategories:
    """The category and tested category of each problem.

    The tests of one `family` (default: all these problems) are corrected together. The family is always the pair, also
    where a data set or a domain is shown alone: then a problem has one q-value and one tested category in the whole
    report, and the counts of data sets add up to that of the pair.
    """
    models = {role: counts.samples(role) for role in ROLES}
    # Fisher's test is for numbers of samples that were fixed before sampling: not for early stops.
    fixed = (counts.ended_base == "k") & (counts.ended_rlvr == "k")
    p_values = np.full(len(counts), np.nan)
    p_values[fixed] = fisher_p_values(
        counts.n_base[fixed], counts.c_base[fixed], counts.n_rlvr[fixed], counts.c_rlvr[fixed]
    )
    q_values = benjamini_hochberg(p_values, np.full(len(counts), "", dtype=object) if family is None else family)
    bounds = {role: curtailed_interval(m.n, m.c, m.ended == "hit", confidence) for role, m in models.items()}
    both_above = np.logical_and(*(bounds[role][0] > counts.epsilon for role in ROLES))
    category = category_letters(counts)
    return ProblemCategories(
        category=category,
        tested=tested_categories(category, q_values, both_above, 1 - confidence),
        p_values=p_values,
        q_values=q_values,
        masses={role: model.mass for role, model in models.items()},
        bounds=bounds,
    )


def tested_categories(category: ObjectArray, q_values: FloatArray, both_above: BoolArray, alpha: float) -> ObjectArray:
    """E and S if Fisher's test finds a difference, P if both intervals lie above epsilon, O as it is; otherwise
    "undetermined". None if there is no category, or if E or S was not tested."""
    tested = np.full(category.shape, "undetermined", dtype=object)
    changed = (category == "E") | (category == "S")
    significant = changed & (q_values < alpha)
    tested[significant] = category[significant]
    tested[changed & np.isnan(q_values)] = None
    tested[(category == "P") & both_above] = "P"
    tested[category == "O"] = "O"
    tested[is_none(category)] = None
    return tested

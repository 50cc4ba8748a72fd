"""Which single problems changed sides of epsilon? Exact p-values and a family that keeps its promise.

A problem looks gained (E) or lost (S) by its counts. Its p-value is for "it did not":

    epsilon = 0   both masses are equal. Fisher's exact test; after an early stop, whose number of samples is random,
                  a test that is exact for every stopping rule (`stopped_p_values`).
    epsilon > 0   one of the two masses is on the other side of epsilon than it looks: the larger of two exact
                  one-sided binomial p-values, for fixed numbers of samples and for early stops.

Only E and S can be called, but all problems of the pair are in the family: problems outside E and S have p = 1
(Focused BH, Katsevich, Sabatti & Bogomolov). Correcting with the p-values of preserved problems would be wrong: after
RLVR most of these differ, which makes the threshold for the few lost ones lenient.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from leash.statistics.array_types import FloatArray, IntArray, ObjectArray
from leash.statistics.counts import ROLES, Counts
from leash.statistics.pass_at_k import SampleCounts
from leash.statistics.testing import fisher_p_values

# Steps of the search for the least favourable mass; each shrinks the bracket to two thirds.
SEARCH_STEPS = 60


def change_p_values(counts: Counts, looks: ObjectArray) -> FloatArray:
    """The p-value of each problem that looks like E or S, 1 for the others, NaN if there is no category."""
    p_values = np.where([letter is None for letter in looks], np.nan, 1.0)
    models = {role: counts.samples(role) for role in ROLES}
    any_hit = counts.epsilon == 0
    fixed = (counts.ended_base == "k") & (counts.ended_rlvr == "k")
    for letter, (has, lacks) in {"E": ("rlvr", "base"), "S": ("base", "rlvr")}.items():
        chosen = looks == letter
        crossing = chosen & ~any_hit
        p_values[crossing] = np.maximum(
            prob_as_many(models[has].rows(crossing), counts.epsilon[crossing]),
            prob_as_few(models[lacks].rows(crossing), counts.epsilon[crossing]),
        )
        stopped = chosen & any_hit & ~fixed
        p_values[stopped] = stopped_p_values(models[has].rows(stopped), models[lacks].rows(stopped))
        exact = chosen & any_hit & fixed
        table = counts.where(exact)
        p_values[exact] = fisher_p_values(table.n_base, table.c_base, table.n_rlvr, table.c_rlvr)
    return p_values


def prob_as_many(samples: SampleCounts, mass: FloatArray) -> FloatArray:
    """The probability of an ending with at least this much evidence for a large mass, if the mass is this. Tails of
    early stops are binomial, too: see `curtailed_interval`."""
    return np.asarray(stats.binom.sf(samples.c - 1, samples.n, mass))


def prob_as_few(samples: SampleCounts, mass: FloatArray) -> FloatArray:
    """The probability of an ending with at least this much evidence for a small mass, if the mass is this."""
    n, c = samples.free
    return np.asarray(stats.binom.cdf(c, n, mass))


def stopped_p_values(has: SampleCounts, lacks: SampleCounts) -> FloatArray:
    """The two-sided p-value of equal masses, for any stopping rule of `sample.stop_after`.

    If both masses were m, the two tail probabilities A(m) and B(m) would be independent p-values, so that their product
    x has the p-value x (1 - ln x). The least favourable m gives the p-value; doubling it makes it two-sided. A and B
    are log-concave in m, so their product has one maximum, found by a ternary search over log m.
    """
    low, high = np.full(len(has.n), np.log(1e-12)), np.full(len(has.n), np.log1p(-1e-12))
    few_n, few_c = lacks.free

    def log_product(log_mass: FloatArray) -> FloatArray:
        mass = np.exp(log_mass)
        # As few hits as c are as many misses as n - c.
        return log_prob_as_many(has.n, has.c, mass) + log_prob_as_many(few_n, few_n - few_c, 1 - mass)

    for _ in range(SEARCH_STEPS):
        first, second = low + (high - low) / 3, high - (high - low) / 3
        rising = log_product(first) < log_product(second)
        low, high = np.where(rising, first, low), np.where(rising, high, second)
    x = log_product((low + high) / 2)
    return np.asarray(np.minimum(2 * np.exp(x) * (1 - x), 1.0))


def log_prob_as_many(n: IntArray, c: IntArray, mass: FloatArray) -> FloatArray:
    """The log-probability of at least c hits in n. Where the tail is smaller than a double, its first term times a
    geometric series, which is a close upper bound far beyond the mean."""
    with np.errstate(divide="ignore"):
        exact = stats.binom.logsf(c - 1, n, mass)
        ratio = np.minimum((n - c) * mass / ((c + 1) * (1 - mass)), 0.999)
        return np.asarray(np.where(np.isneginf(exact), stats.binom.logpmf(c, n, mass) - np.log1p(-ratio), exact))

"""How sure is a category? Two answers beside the plug-in rule c/k > epsilon, which is a best guess.

For one problem: three-valued support. A mass is surely `above` epsilon, surely `below` (at most epsilon), or `open`, by
the exact one-sided bounds at the confidence, for fixed budgets and for early stops. At epsilon = 0 one hit proves a
mass above 0, and nothing proves a mass of 0: then a model without a hit is always `open`.

For the number of problems: posterior counts. The mass distribution that is fitted to all problems
(extrapolation.py) gives every problem a probability of exceeding epsilon; their sums are the expected P, E, S and O.
The two models are treated as independent given their counts: a problem that is hard for one model says nothing about
the other beyond its own hits. So E and S are somewhat too high if the two models solve the same problems.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from leash.statistics.array_types import BoolArray, FloatArray, ObjectArray, is_none
from leash.statistics.categories import classify_support
from leash.statistics.counts import ROLES, Counts
from leash.statistics.extrapolation import MassDistribution
from leash.statistics.intervals import one_sided_bounds
from leash.statistics.pass_at_k import SampleCounts

# The calls of base and trained model behind each sure category.
SURE_CALLS = {"P": ("above", "above"), "E": ("below", "above"), "S": ("above", "below"), "O": ("below", "below")}


def call_support(samples: SampleCounts, epsilon: FloatArray, confidence: float) -> ObjectArray:
    """`above`, `below` or `open` for each problem; None if samples are missing."""
    low, high = one_sided_bounds(samples.n, samples.c, samples.ended == "hit", confidence)
    calls = np.full(samples.n.shape, "open", dtype=object)
    calls[low > epsilon] = "above"
    calls[high <= epsilon] = "below"
    calls[is_none(samples.ended) | (samples.n == 0)] = None
    return calls


def call_both(counts: Counts, confidence: float) -> dict[str, ObjectArray]:
    return {role: call_support(counts.samples(role), counts.epsilon, confidence) for role in ROLES}


def count_sure(calls: Mapping[str, ObjectArray]) -> dict[str, int]:
    """How many problems are surely P, E, S or O, and how many are open: some call of theirs is. Problems with missing
    samples are not counted."""
    base, rlvr = (calls[role] for role in ROLES)
    counted = {
        name: int(((base == of_base) & (rlvr == of_rlvr)).sum()) for name, (of_base, of_rlvr) in SURE_CALLS.items()
    }
    return {**counted, "open": int((~is_none(base) & ~is_none(rlvr)).sum()) - sum(counted.values())}


def posterior_counts(counts: Counts, fits: Mapping[str, MassDistribution], known: BoolArray) -> dict[str, float]:
    """The expected P, E, S and O of the true masses, over the problems that are `known`."""
    models = {role: counts.samples(role) for role in ROLES}
    above = (fits[role].prob_above(model.n, model.c, counts.epsilon) for role, model in models.items())
    shares = classify_support(*above)
    return dict(zip("PESO", shares.columns[known].sum(axis=0).tolist(), strict=True))

"""Could the losses, or the gains, be luck alone? An exact test, without a bootstrap.

If training changed nothing on a problem, its hits are spread over the samples of both models at random: given their
total, the base's share is hypergeometric. So the chance that this problem looks lost is known, and the number of
problems that look lost is a sum of independent coin flips with known chances (a Poisson-binomial variable). The p-value
is the chance of at least as many.

    luck_p_values(counts)  ->  {"gains_p": 1.0, "losses_p": 1e-53}

The null hypothesis is that no problem changed. Rejecting it shows that some losses are real, not which, nor that there
are more losses than gains (decision.py). Not defined after an early stop, where the number of samples is not fixed.
"""

from __future__ import annotations

import numpy as np

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.counts import ROLES, Counts
from leash.statistics.pass_at_k import hypergeometric_pmf
from leash.statistics.support import hits_above


def luck_p_values(counts: Counts) -> dict[str, float | None]:
    """The one-sided p-values of the observed gains and losses, at all samples of both models."""
    if any(counts.samples(role).early.any() for role in ROLES):
        return {"gains_p": None, "losses_p": None}
    counts = counts.where((counts.ended_base == "k") & (counts.ended_rlvr == "k"))
    n_base, n_rlvr, total = counts.n_base, counts.n_rlvr, counts.c_base + counts.c_rlvr
    need_base, need_rlvr = hits_above(counts.epsilon, n_base), hits_above(counts.epsilon, n_rlvr)
    lost = (counts.c_base >= need_base) & (counts.c_rlvr < need_rlvr)
    gained = (counts.c_base < need_base) & (counts.c_rlvr >= need_rlvr)
    lost_chance = _one_sided_chance(total, n_base, n_rlvr, need_base, need_rlvr)
    gained_chance = _one_sided_chance(total, n_rlvr, n_base, need_rlvr, need_base)
    return {
        "gains_p": poisson_binomial_tail(gained_chance, int(gained.sum())),
        "losses_p": poisson_binomial_tail(lost_chance, int(lost.sum())),
    }


def _one_sided_chance(
    total: IntArray, n_with: IntArray, n_without: IntArray, need_with: IntArray, need_without: IntArray
) -> FloatArray:
    """The chance that `total` hits, spread at random over all samples, leave the model `without` below its threshold
    and give the model `with` enough: a sum over the few hits that `without` may have."""
    chance = np.zeros(len(total))
    for few in range(int(need_without.max(initial=0))):
        possible = (few < need_without) & (total - few >= need_with)
        pmf = hypergeometric_pmf(few, n_without, n_with + n_without, total)
        chance += np.where(possible, pmf, 0.0)
    return np.minimum(chance, 1.0)


def poisson_binomial_tail(chances: FloatArray, at_least: int) -> float:
    """The probability that at least this many of independent events happen, each with its own chance.

    Adds one event after the other and lumps everything from `at_least` on together, so a tail of 1e-50 is as exact as
    one of 0.1. All terms are positive: nothing cancels.
    """
    if at_least <= 0:
        return 1.0
    fewer, tail = np.zeros(at_least), 0.0
    fewer[0] = 1.0
    for chance in chances[chances > 0].tolist():
        tail += fewer[-1] * chance
        fewer[1:] = fewer[1:] * (1 - chance) + fewer[:-1] * chance
        fewer[0] *= 1 - chance
    return float(min(tail, 1.0))

"""P, E and S of all correct completions, from those that were seen: each is weighted by its chance of having been seen.

A completion's mass under both models is exact, but only completions that a model wrote are known. One that is likely
under both models is seen sooner than one that is likely under one, so among those seen P is too frequent, the more so
the fewer samples there are. n samples of each model show a completion with probability

    inclusion = 1 - (1 - q_base)^n_base (1 - q_rlvr)^n_rlvr

where q is its probability as it was sampled (at the temperature and top_p of the run). Counting it 1/inclusion times
makes each count unbiased (Horvitz and Thompson). Its category is by the same probabilities: then whatever is above
epsilon has a least chance of being seen. With other masses it has none. (A completion outside of both models' top_p is
never written, however likely it is without top_p. Here it is in neither support.)

    weigh_completions(sampled_base, sampled_rlvr, inclusion, cluster, 1024, 1e-3, settings)  ->  {"P": 302.2, "SRR": …}

Intervals are over problems (or clusters of them) and include the luck of what was seen: the weighted counts vary with
it. Not estimated: O. Completions in neither support have no least mass, so most of them can't be seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_weights import AnalysisSettings, Estimate, bootstrap_interval, t_correction
from leash.statistics.categories import classify_masses
from leash.statistics.ratios import RATIO_NAMES, compute_ratios

# A completion with a mass of epsilon in one model must have at least this chance of being seen: no weight exceeds 20.
MIN_INCLUSION = 0.05
# A ratio is shown if at least MIN_COMMON common completions of its denominator were seen, and enough that one more of
# the rarest, which weighs 1 / inclusion, would not weigh more than a MIN_RARE-th of them.
MIN_COMMON = 10
MIN_RARE = 4
# A completion with at least this chance of being seen is common. Only those decide what is shown.
COMMON_INCLUSION = 0.5
# The lowest and the highest value of each ratio.
RATIO_RANGES = {"SRR": (0.0, 1.0), "NDR": (0.0, 1.0), "SDS": (0.0, 1.0), "NSCR": (-1.0, 1.0)}


def inclusion_probability(
    n_base: FloatArray, n_rlvr: FloatArray, sampled_base: FloatArray, sampled_rlvr: FloatArray
) -> FloatArray:
    """The chance that a completion is among n_base samples of the base and n_rlvr of the trained model. NaN if a number
    of samples is unknown (NaN), as after an early stop."""
    with np.errstate(divide="ignore", invalid="ignore"):
        missed = sum(
            np.where(n > 0, n * np.log1p(-np.minimum(q, 1.0)), 0.0 * n)
            for n, q in ((n_base, sampled_base), (n_rlvr, sampled_rlvr))
        )
    return np.asarray(-np.expm1(missed))


def least_inclusion(k: int, epsilon: float) -> float:
    """The chance that k samples of one model show a completion with a probability of epsilon."""
    return float(-np.expm1(k * np.log1p(-epsilon)))


def is_stable(k: int, epsilon: float) -> bool:
    """Whether k samples of a model show a completion with a mass of epsilon often enough to count for all like it."""
    return least_inclusion(k, epsilon) >= MIN_INCLUSION


def effective_number(weights: FloatArray) -> float:
    """How many equal weights have as much variance (Kish)."""
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def weigh_completions(
    mass_base: FloatArray,
    mass_rlvr: FloatArray,
    inclusion: FloatArray,
    cluster: IntArray,
    k: int,
    epsilon: float,
    settings: AnalysisSettings,
) -> dict[str, Any]:
    """P, E and S of all completions above epsilon, each ratio with its interval, the number of completions `seen` above
    epsilon in a model, and the `effective` number of them. Masses are as sampled. `cluster` numbers the problems of the
    completions, or the clusters of problems; k is the least number of samples of a model.

    P, E, S and the ratios are None if an inclusion is unknown, or if k samples show completions at epsilon too rarely;
    a ratio also if its denominator has too few completions. Neither depends on whether a rare completion was seen: a
    rule that hides a ratio because of a large weight would show it just where what has large weights was missed.
    """
    shares = classify_masses(mass_base, mass_rlvr, epsilon)
    letters = np.stack([shares.P, shares.E, shares.S], axis=-1)
    above = letters.any(axis=1)
    found: dict[str, Any] = {"seen": int(above.sum()), "effective": None, **dict.fromkeys("PES")}
    found |= {name: Estimate() for name in RATIO_NAMES}
    if np.isnan(mass_base + mass_rlvr).any():
        found["seen"] = None
    if np.isnan(inclusion).any() or not is_stable(k, epsilon):
        return found
    weights = 1 / inclusion[above]
    columns = letters[above] * weights[:, None]
    found["effective"] = effective_number(weights)
    found |= dict(zip("PES", columns.sum(axis=0).tolist(), strict=True))
    least = least_inclusion(k, epsilon)
    in_denominator = {"SRR": [0, 2], "NDR": [0, 1], "NSCR": [0, 1, 2]}
    common = letters[above & (inclusion >= COMMON_INCLUSION)].sum(axis=0)
    needed = max(MIN_COMMON, MIN_RARE / least)
    enough = {name: bool(common[which].sum() >= needed) for name, which in in_denominator.items()}
    enough["SDS"] = enough["SRR"] and enough["NDR"]
    # A completion in both supports may be shown by either model.
    pseudo = 1 / np.array([1 - (1 - least) ** 2, least, least])
    return found | estimate_ratios(columns, cluster[above], pseudo, enough, settings)


def estimate_ratios(
    columns: FloatArray, cluster: IntArray, pseudo: FloatArray, enough: dict[str, bool], settings: AnalysisSettings
) -> dict[str, Estimate]:
    """The ratios of the weighted P, E and S, with intervals over clusters of problems.

    A pseudo-completion in each category keeps a share of 0 from being certain. It has the largest weight that a
    completion of its category can have (`pseudo`): one that was not seen may be such a one. Student's t is over as many
    clusters as would count equally: a few problems may have most of the completions. The interval also includes the one
    without pseudo-completions: where nearly all completions are in one category, these pull towards the others.
    """
    sums = columns.sum(axis=0)
    values = compute_ratios(*sums)
    _, index = np.unique(cluster, return_inverse=True)
    by_cluster = np.zeros((int(index.max(initial=-1)) + 1, 3))
    np.add.at(by_cluster, index, columns)
    independent = effective_number(by_cluster.sum(axis=1))
    estimates: dict[str, Estimate] = {}
    weights = settings.drawn(len(by_cluster))
    drawn = weights.problems @ by_cluster
    with_pseudo, without = (compute_ratios(*(drawn + added).T) for added in (weights.categories[:, :3] * pseudo, 0.0))
    for name in RATIO_NAMES:
        value = float(values[name])
        if not enough[name] or np.isnan(value):
            estimates[name] = Estimate()
        elif independent < 2:
            estimates[name] = Estimate(value)
        else:
            spread = t_correction(independent, settings.confidence)
            draws = np.stack([with_pseudo[name], without[name]], axis=1)
            widened = np.clip(value + (draws - value) * spread, *RATIO_RANGES[name])
            low, high = bootstrap_interval(np.asarray(value), widened, settings.confidence)
            estimates[name] = Estimate(value, float(low.min()), float(high.max()))
    return estimates

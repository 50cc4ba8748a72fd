"""P, E and S of all correct completions, from those that were seen: each is weighted by its chance of having been seen.

A completion's mass under both models is exact, but only completions that a model wrote are known. One that is likely
under both models is seen sooner than one that is likely under one, so among those seen P is too frequent, the more so
the fewer samples there are. n samples of each model show a completion with probability

    inclusion = 1 - (1 - q_base)^n_base (1 - q_rlvr)^n_rlvr

where q is its probability as it was sampled (at the temperature and top_p of the run). Counting it 1/inclusion times
makes each count unbiased (Horvitz and Thompson). Its category is by its mass under the models themselves, as in the
paper.

    weigh_completions(mass_base, mass_rlvr, inclusion, cluster, 1e-3, settings)  ->  {"P": 302.2, "E": …, "SRR": …}

Intervals are over problems (or clusters of them) and include the luck of what was seen: the weighted counts vary with
it. Not estimated: O. Completions in neither support have no least mass, so most of them can't be seen. With top_p below
1, completions outside of both models' top_p are never written, and are in no count.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_weights import AnalysisSettings, Estimate, estimate_from_draws, t_correction
from leash.statistics.categories import classify_masses
from leash.statistics.ratios import RATIO_NAMES, compute_ratios

# A completion with a mass of epsilon in one model must have at least this chance of being seen: no weight exceeds 20.
MIN_INCLUSION = 0.05
# A ratio is shown if its denominator has at least this many completions, counted as equally weighted ones.
MIN_EFFECTIVE = 10
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


def is_stable(k: int, epsilon: float) -> bool:
    """Whether k samples of a model show a completion with a mass of epsilon often enough to count for all like it."""
    return bool(-np.expm1(k * np.log1p(-epsilon)) >= MIN_INCLUSION)


def effective_number(weights: FloatArray) -> float:
    """How many equal weights have as much variance (Kish)."""
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def weigh_completions(
    mass_base: FloatArray,
    mass_rlvr: FloatArray,
    inclusion: FloatArray,
    cluster: IntArray,
    epsilon: float,
    settings: AnalysisSettings,
) -> dict[str, Any]:
    """P, E and S of all completions above epsilon, each ratio with its interval, the number of completions `seen` above
    epsilon in a model, and the `effective` number of them. `cluster` numbers the
    problems of the completions, or the clusters of problems.

    P, E, S and the ratios are None if an inclusion is unknown, or so small that its weight exceeds 1 / MIN_INCLUSION; a
    ratio also if its denominator has too few completions.
    """
    shares = classify_masses(mass_base, mass_rlvr, epsilon)
    letters = np.stack([shares.P, shares.E, shares.S], axis=-1)
    above = letters.any(axis=1)
    found: dict[str, Any] = {"seen": int(above.sum()), "effective": None, **dict.fromkeys("PES")}
    found |= {name: Estimate() for name in RATIO_NAMES}
    # Log-probabilities are rounded: allow for it at the limit.
    if np.isnan(inclusion).any() or (inclusion[above] < MIN_INCLUSION * (1 - 1e-9)).any():
        return found
    weights = 1 / inclusion[above]
    columns = letters[above] * weights[:, None]
    found["effective"] = effective_number(weights)
    found |= dict(zip("PES", columns.sum(axis=0).tolist(), strict=True))
    in_denominator = {"SRR": [0, 2], "NDR": [0, 1], "NSCR": [0, 1, 2]}
    enough = {
        name: effective_number(columns[:, which].sum(axis=1)) >= MIN_EFFECTIVE for name, which in in_denominator.items()
    }
    enough["SDS"] = enough["SRR"] and enough["NDR"]
    return found | estimate_ratios(columns, cluster[above], enough, settings)


def estimate_ratios(
    columns: FloatArray, cluster: IntArray, enough: dict[str, bool], settings: AnalysisSettings
) -> dict[str, Estimate]:
    """The ratios of the weighted P, E and S, with intervals over clusters of problems.

    A pseudo-completion in each category keeps a share of 0 from being certain. Student's t is over as many clusters as
    would count equally: a few problems may have most of the completions.
    """
    sums = columns.sum(axis=0)
    values = compute_ratios(*sums)
    _, index = np.unique(cluster, return_inverse=True)
    by_cluster = np.zeros((int(index.max(initial=-1)) + 1, 3))
    np.add.at(by_cluster, index, columns)
    independent = effective_number(by_cluster.sum(axis=1))
    estimates: dict[str, Estimate] = {}
    weights = settings.drawn(len(by_cluster))
    draws = compute_ratios(*(weights.problems @ by_cluster + weights.categories[:, :3]).T)
    for name in RATIO_NAMES:
        value = float(values[name])
        if not enough[name] or np.isnan(value):
            estimates[name] = Estimate()
        elif independent < 2:
            estimates[name] = Estimate(value)
        else:
            spread = t_correction(independent, settings.confidence)
            widened = np.clip(value + (draws[name] - value) * spread, *RATIO_RANGES[name])
            estimates[name] = estimate_from_draws(value, widened, settings.confidence)
    return estimates

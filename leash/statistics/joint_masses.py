"""The joint distribution of (base mass, trained mass) over problems, freed of sampling noise.

    deconvolve(counts, settings, weights, [0.05])["deconvolved"][0]["S"]  ->  {"value": 14.2, "low": 8.1, "high": 21.0}

A problem with 1 hit in 64 may have a mass of .005 or of .05, so counting c/n > epsilon also counts luck. Here every
problem has a pair of masses from an unknown distribution over a grid of cells. EM finds the distribution with the
largest likelihood (nonparametric maximum likelihood). P, E, S and O at epsilon are
the weights of its four quadrants, times the number of problems. Bands are from the bootstrap over problems.

- In a cell the mass is uniform, so the likelihood of (n, c) is a difference of incomplete beta functions: exact for any
  n, also if the grid is coarser than what n samples resolve. There are atoms at 0 and at 1.
- The likelihood p^c (1-p)^(n-c) does not depend on when sampling stopped, so adaptive budgets need nothing else.
- Every epsilon that is reported is an edge between cells.
- Below the mass that k misses rule out, counts cannot tell small masses from 0: those values are None.

Single cells of such a fit are rough (the likelihood has flat directions), sums over quadrants are not. `mass_map`,
which shows cells, is the mean over all resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from leash.statistics.array_types import FloatArray, IntArray, is_none
from leash.statistics.bootstrap_weights import AnalysisSettings, BootstrapWeights, bootstrap_interval
from leash.statistics.categories import classify_counts
from leash.statistics.counts import ROLES, Counts
from leash.statistics.ratios import compute_ratios
from leash.statistics.support import detectable_mass

# Edges between cells, beside the epsilons that are reported.
INNER_EDGES = (
    *(0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35),
    *(0.5, 0.65, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999),
)
# Edges whose odds differ by less cost time and tell nothing, unless both are wanted.
MIN_ODDS_RATIO = 1.25
# Counts whose likelihoods agree to one part in this are fitted as one. Most large counts lie well inside a cell.
LIKELIHOOD_LEVELS = 50
# EM stops when no distribution at all can have a log-likelihood higher by this, in units of the whole data.
MAX_LIKELIHOOD_GAP = 0.05
MAX_EM_STEPS = 2000
# Resamples to fit, and how many if there are more distinct counts than these.
MAX_RESAMPLES, MAX_RESAMPLES_OF_MANY, MANY_COUNTS = 200, 100, 500
# Cycles of accelerated EM for each resample: three steps each, together as good as about 300 plain steps.
RESAMPLE_CYCLES = 15
# A resample starts from the fit of the problems as they are, mixed with this share of equal weights: EM cannot revive a
# cell that the fit has emptied.
EQUAL_SHARE = 0.5
MAX_LOG_LEAP = 30.0
# Floats of one temporary array: resamples are fitted in batches of this size.
MAX_BATCH_FLOATS = 4_000_000
# Digits of reported numbers of problems and shares. Further ones would depend on the kind of CPU.
COUNT_DIGITS, SHARE_DIGITS = 4, 6
JsonDict = dict[str, Any]


@dataclass(frozen=True)
class JointFit:
    """Distributions over pairs of cells: `weights[i, r, j]` is that of base cell i and trained cell j in fit r; they
    sum to 1 for each r. `gap` bounds by how much another distribution's log-likelihood can be higher, per problem."""

    weights: FloatArray
    gap: FloatArray
    log_likelihood: FloatArray


@dataclass(frozen=True)
class JointLikelihood:
    """The likelihoods of the distinct pairs of counts, by cell of each model, and how often each pair occurs: a column
    of `repeats` per fit."""

    base: FloatArray
    rlvr: FloatArray
    repeats: FloatArray

    def columns(self, which: slice) -> JointLikelihood:
        return JointLikelihood(self.base, self.rlvr, self.repeats[:, which])

    def uniform(self) -> FloatArray:
        shape = self.base.shape[1], self.repeats.shape[1], self.rlvr.shape[1]
        return np.full(shape, 1 / (shape[0] * shape[2]))


def cell_edges(least: float, wanted: Sequence[float] = ()) -> FloatArray:
    """The edges of cells from 0 to 1: fractions of `least` (1/k), the `wanted` ones, and others not too close."""
    edges = [least / 4, least / 2, least, *wanted]
    for edge in (1 - least, *INNER_EDGES):
        odds = edge / (1 - edge) if edge < 1 else 0.0
        ratios = [odds * (1 - other) / other for other in edges]
        if edge > least and all(max(ratio, 1 / ratio) >= MIN_ODDS_RATIO for ratio in ratios if ratio):
            edges.append(edge)
    return np.array([0.0, *sorted(set(edges)), 1.0])


def cell_likelihoods(n: IntArray, c: IntArray, edges: FloatArray) -> FloatArray:
    """The likelihood of c hits in n samples for a mass of 0, one that is uniform in each cell, and one of 1; a row per
    count, scaled to a maximum of 1."""
    below = special.betainc(c[:, None] + 1.0, n[:, None] - c[:, None] + 1.0, edges)
    # The integral of p^c (1-p)^(n-c) over all masses is 1/(n+1) for c = 0 and for c = n.
    none, every = (np.where(c == at, n + 1.0, 0.0)[:, None] for at in (0, n))
    cells = np.concatenate([none, np.diff(below, axis=1) / np.diff(edges), every], axis=1)
    return np.asarray(cells / cells.max(axis=1, keepdims=True))


def joint_likelihood(counts: Counts, edges: FloatArray, weights: FloatArray) -> JointLikelihood:
    """The likelihoods of these problems; `weights` has a row per fit and a column per problem."""
    likelihoods, places = zip(*(_distinct_likelihoods(counts, role, edges) for role in ROLES), strict=True)
    pairs, place = np.unique(np.stack(places), axis=1, return_inverse=True)
    repeats = np.zeros((pairs.shape[1], len(weights)))
    np.add.at(repeats, place.ravel(), weights.T)
    return JointLikelihood(likelihoods[0][pairs[0]], likelihoods[1][pairs[1]], repeats)


def _distinct_likelihoods(counts: Counts, role: str, edges: FloatArray) -> tuple[FloatArray, IntArray]:
    """The likelihoods of one model's counts, a row for each that differs, and the row of each problem."""
    columns = np.stack([getattr(counts, f"{name}_{role}") for name in ("n", "c")])
    (n, c), place = np.unique(columns, axis=1, return_inverse=True)
    rows = cell_likelihoods(n, c, edges)
    levels = np.round(rows * LIKELIHOOD_LEVELS)
    _, first, level = np.unique(levels, axis=0, return_index=True, return_inverse=True)
    return rows[first], np.asarray(level.ravel()[place.ravel()])


def em_step(likelihood: JointLikelihood, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """One EM step multiplies the weights by these gradients; and the log-likelihoods before it. The gradient of a cell
    is the mean over problems of its likelihood relative to the mixture's: at the maximum none is above 1."""
    cells, fits, _ = weights.shape
    rows, repeats = len(likelihood.base), likelihood.repeats
    of_base = (likelihood.base @ weights.reshape(cells, -1)).reshape(rows, fits, -1)
    mixture = np.einsum("urj,uj->ur", of_base, likelihood.rlvr)
    scaled = (repeats / repeats.sum(axis=0) / mixture)[:, :, None] * likelihood.rlvr[:, None, :]
    gradient = (likelihood.base.T @ scaled.reshape(rows, -1)).reshape(weights.shape)
    return gradient, (repeats * np.log(mixture)).sum(axis=0)


def fit_joint(likelihood: JointLikelihood, max_gap: float = MAX_LIKELIHOOD_GAP) -> JointFit:
    """The nonparametric maximum likelihood fit of each column of repeats, by EM from equal weights, until its
    log-likelihood is provably within `max_gap` of the maximum, or for MAX_EM_STEPS."""
    weights = likelihood.uniform()
    size = likelihood.repeats.sum(axis=0)
    for _ in range(MAX_EM_STEPS):
        gradient, log_likelihood = em_step(likelihood, weights)
        # The log-likelihood is concave: no distribution gains more than the steepest gradient promises.
        gap = gradient.max(axis=(0, 2)) - 1
        if (gap * size <= max_gap).all():
            break
        weights = weights * gradient
    return JointFit(weights, gap, log_likelihood)


def fit_resamples(likelihood: JointLikelihood, start: FloatArray, cycles: int = RESAMPLE_CYCLES) -> FloatArray:
    """The weights of each column's fit by accelerated EM (SQUAREM on log weights): two steps, a leap along them, and a
    step to settle. A fixed number of cycles without branches gives every machine the same digits."""
    weights = np.repeat(start, likelihood.repeats.shape[1], axis=1)
    for cycle in range(cycles):
        first, _ = em_step(likelihood, weights)
        stepped = weights * first
        second, _ = em_step(likelihood, stepped)
        speed = np.log(np.maximum(first, 1e-30))
        change = np.log(np.maximum(second, 1e-30)) - speed
        size, bend = ((stepped * x * x).sum(axis=(0, 2)) for x in (speed, change))
        length = np.clip(np.sqrt(size / np.maximum(bend, 1e-300)), 1, 2.0 ** min(cycle, 6))[:, None]
        leap = np.clip(length * (2 * speed + length * change), -MAX_LOG_LEAP, MAX_LOG_LEAP)
        leapt = weights * np.exp(leap)
        leapt /= leapt.sum(axis=(0, 2))[:, None]
        weights = leapt * em_step(likelihood, leapt)[0]
    return weights


def quadrants(weights: FloatArray, edges: FloatArray, epsilon: float) -> FloatArray:
    """The shares of P, E, S and O at an epsilon that is an edge; a row per fit."""
    # The atom at 0 is below every epsilon, the atom at 1 above.
    above = np.concatenate([[False], edges[:-1] >= epsilon, [True]])
    base, rlvr = weights[above].sum(axis=0), weights[~above].sum(axis=0)
    columns = [
        part[:, mask].sum(axis=1) for part, mask in ((base, above), (rlvr, above), (base, ~above), (rlvr, ~above))
    ]
    return np.stack(columns, axis=-1)


def deconvolve(
    counts: Counts, settings: AnalysisSettings, weights: BootstrapWeights, epsilons: Sequence[float]
) -> JsonDict:
    """`deconvolved`: P, E, S, O (expected numbers of problems) and NSCR of the true masses, with intervals over
    problems, at each epsilon and at those of the counts; None where these samples do not identify them. `mass_map`: the
    share of problems by base mass (rows) and trained mass (columns) between its edges; None without problems."""
    epsilons = sorted({*epsilons, *counts.epsilon.tolist()})
    sampled = ~(is_none(counts.ended_base) | is_none(counts.ended_rlvr)) & (counts.n_base > 0) & (counts.n_rlvr > 0)
    unknown: JsonDict = dict.fromkeys((*"PESO", "NSCR"))
    if not sampled.any():
        return {"deconvolved": [{"epsilon": x, **unknown} for x in epsilons], "mass_map": None}
    shares = classify_counts(counts).columns
    # With clusters the pseudo-problems weigh as much as in the other intervals.
    weights = replace(weights, categories=weights.category_weights(shares[:, 1] - shares[:, 2]))
    counts, drawn = counts.where(sampled), weights.problems[:, sampled]
    reach = samples_behind(counts)
    least = detectable_mass(reach, settings.confidence)
    identified = [x for x in epsilons if least <= x <= 1 - least]
    edges = cell_edges(1 / max(reach, 2), identified)
    likelihood = joint_likelihood(counts, edges, np.concatenate([np.ones((1, len(counts))), drawn[:MAX_RESAMPLES]]))
    fitted, resampled = fit_with_resamples(likelihood)
    weights = weights.rows(slice(0, resampled.shape[1]))
    rows = []
    for epsilon in epsilons:
        values = unknown
        if epsilon in identified:
            at_epsilon, draws = (quadrants(x, edges, epsilon) for x in (fitted, resampled))
            values = estimate_categories(at_epsilon[0] * len(counts), draws, weights, drawn, settings.confidence)
        rows.append({"epsilon": epsilon, **values})
    return {"deconvolved": rows, "mass_map": mass_map(resampled, edges, 1 / max(reach, 2))}


def samples_behind(counts: Counts) -> int:
    """The number of samples that decides which masses can be told from 0: the smallest over problems and models. After
    an early stop it is k, since a problem without hits would have had as many."""
    return min(int(np.where(m.early, counts.k, m.n).min()) for m in (counts.samples(role) for role in ROLES))


def fit_with_resamples(likelihood: JointLikelihood) -> tuple[FloatArray, FloatArray]:
    """The weights of the first column's fit, and those of the other columns' fits."""
    fitted = fit_joint(likelihood.columns(slice(0, 1))).weights
    start = (1 - EQUAL_SHARE) * fitted + EQUAL_SHARE * likelihood.columns(slice(0, 1)).uniform()
    rows, fits = likelihood.repeats.shape
    end = min(fits, 1 + (MAX_RESAMPLES if rows <= MANY_COUNTS else MAX_RESAMPLES_OF_MANY))
    batch = max(1, MAX_BATCH_FLOATS // (rows * likelihood.rlvr.shape[1]))
    batches = [likelihood.columns(slice(at, min(at + batch, end))) for at in range(1, end, batch)]
    return fitted, np.concatenate([fit_resamples(part, start) for part in batches], axis=1)


def estimate_categories(
    numbers: FloatArray, draws: FloatArray, weights: BootstrapWeights, drawn: FloatArray, confidence: float
) -> JsonDict:
    """P, E, S, O and NSCR with their intervals, from the numbers of the fit and the shares of the resamples.

    The bootstrap is taken without and with a pseudo-problem in each category, and the wider end of the two is kept:
    without, no category that is empty in the fit could have a problem; with, none could be empty. NSCR is None if less
    than half a problem is outside O.
    """
    problems, size = numbers.sum(), drawn[: len(draws)].sum(axis=1, keepdims=True)
    with_pseudo = draws * size + weights.categories
    both = np.concatenate([draws, with_pseudo / with_pseudo.sum(axis=1, keepdims=True)], axis=1) * problems
    low, high = (x.reshape(2, 4) for x in bootstrap_interval(np.tile(numbers, 2), both, confidence))
    ends = zip(numbers, low.min(axis=0), high.max(axis=0), strict=True)
    result: JsonDict = {name: _rounded(*three, COUNT_DIGITS) for name, three in zip("PESO", ends, strict=True)}
    if numbers[:3].sum() < 0.5:
        return {**result, "NSCR": None}
    net = compute_ratios(*numbers[:3])["NSCR"]
    ends_of_net = bootstrap_interval(np.asarray(net), compute_ratios(*with_pseudo.T[:3])["NSCR"], confidence)
    return {**result, "NSCR": _rounded(net, *ends_of_net, SHARE_DIGITS)}


def _rounded(value: Any, low: Any, high: Any, digits: int) -> JsonDict:
    return {name: round(float(x), digits) for name, x in (("value", value), ("low", low), ("high", high))}


def mass_map(resampled: FloatArray, edges: FloatArray, least: float) -> JsonDict:
    """The mean of the resamples' weights, with all masses below `least` in one bin, and all above 1 - least in another:
    single cells in there are not identified."""
    kept = edges[(edges >= least) & (edges <= 1 - least * (1 - 1e-9))]
    # Each cell by its lower edge; the atoms belong to the first and the last bin.
    place = np.searchsorted(kept, [0.0, *edges[:-1], 1.0], side="right")
    bins = np.zeros((len(kept) + 1, len(place)))
    bins[place, np.arange(len(place))] = 1
    shares = bins @ resampled.mean(axis=1) @ bins.T
    return {"edges": [0.0, *kept.tolist(), 1.0], "weight": np.round(shares, SHARE_DIGITS).tolist()}

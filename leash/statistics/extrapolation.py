"""pass@k beyond the drawn samples, by a zero-inflated beta-binomial: a share of problems is never solved, the masses of
the others follow a beta distribution.

Such a model is easily wrong in the tail that matters: problems with small masses look like problems that are never
solved. So `analysis.py` checks it (fitted to the first eighth of the samples, does it predict pass@k of all of them?)
and shows beside it what can be said without a model (identified.py). A check that holds is no proof: with few problems
nearly every model passes it. The intervals here are those of the model; they do not cover its being wrong.

The fit maximises the likelihood by Newton's method with exact derivatives, for many sets of problem weights at once. It
ends where a step is below 1e-12, so the result does not depend on the machine beyond its last digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_weights import BootstrapWeights, bootstrap_interval

# The parameters are (never, log a, log b).
STARTS = ((0.1, -1.0, 0.0), (0.5, 0.0, 1.0), (0.01, -1.5, -1.0))
LOWER = np.array([2.0**-30, -7.0, -7.0])
UPPER = np.array([1 - 2.0**-20, 7.0, 12.0])
MAX_STEPS = 100
MAX_STEP = 1.0
CONVERGED_STEP = 1e-12
# A refit costs more than a resample of a mean, and quantiles at 95% need no more.
MAX_REFITS = 200
MAX_REFIT_COUNTS = 250
# The log-likelihood, its gradient and its Hessian, a row for each set of weights.
Derivatives = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class MassDistribution:
    """A distribution of masses: a share `never` of the problems has mass 0, the others Beta(a, b)."""

    never: float
    a: float
    b: float

    @property
    def parameters(self) -> FloatArray:
        return np.array([self.never, np.log(self.a), np.log(self.b)])

    def pass_at(self, k: ArrayLike) -> FloatArray:
        return pass_at_k_of(self.parameters, k)

    def prob_above(self, n: IntArray, c: IntArray, mass: ArrayLike) -> FloatArray:
        """The posterior probability that a problem with c hits in n samples has more than this mass."""
        survivors = special.betaincc(self.a + c, self.b + n - c, np.minimum(mass, 1.0))
        missed = np.exp(special.betaln(self.a, self.b + n) - special.betaln(self.a, self.b))
        sometimes = (1 - self.never) * missed / (self.never + (1 - self.never) * missed)
        return np.asarray(np.where(c > 0, 1.0, sometimes) * survivors)


def pass_at_k_of(x: FloatArray, k: ArrayLike) -> FloatArray:
    """pass@k of parameters in the last axis."""
    never, a, b = x[..., 0], np.exp(x[..., 1]), np.exp(x[..., 2])
    missed = np.exp(special.betaln(a, b + np.asarray(k, dtype=float)) - special.betaln(a, b))
    return np.asarray((1 - never) * (1 - missed))


def fit_mass_distribution(n: IntArray, c: IntArray) -> MassDistribution:
    """The maximum-likelihood masses behind these counts. The likelihood does not depend on when sampling stopped."""
    counts, repeats, _ = _distinct_counts(n, c)
    found, likelihood = maximize_likelihood(counts, np.tile(repeats, (len(STARTS), 1)), np.array(STARTS))
    never, log_a, log_b = found[int(np.argmax(likelihood))]
    return MassDistribution(float(never), float(np.exp(log_a)), float(np.exp(log_b)))


def pass_at_k_intervals(
    fitted: MassDistribution, n: IntArray, c: IntArray, ks: Sequence[int], weights: BootstrapWeights, confidence: float
) -> dict[int, dict[str, float]]:
    """pass@k of the masses that were fitted to these counts, at every k, with its interval over problems: the fit under
    random weights. As in the other intervals, pseudo-problems (here one that is always and one that is never solved, of
    half a problem each) keep the interval from vanishing if all problems are alike."""
    most = int(n.max())
    counts, _, place = _distinct_counts(np.append(n, [most, most]), np.append(c, [most, 0]))
    corners = weights.quarters.reshape(-1, 2, 2).sum(axis=2)
    drawn = np.hstack([weights.problems, corners])[:MAX_REFITS]
    # The weight of a distinct count is that of all problems that have it.
    order = np.argsort(place, kind="stable")
    summed = np.add.reduceat(drawn[:, order], np.searchsorted(place[order], np.arange(counts.shape[1])), axis=1)
    refits = refit(fitted.parameters, counts, summed)
    found = {}
    for k in ks:
        value = fitted.pass_at(k)
        low, high = bootstrap_interval(value, pass_at_k_of(refits, k), confidence)
        found[k] = {"value": float(value), "low": float(low), "high": float(high)}
    return found


def refit(fitted: FloatArray, counts: IntArray, weights: FloatArray) -> FloatArray:
    """The maximum under each row of weights. With many distinct counts it is one Newton step from the fit: then there
    are so many problems that further steps hardly move an end of the interval, but would take seconds."""
    start = np.tile(fitted, (len(weights), 1))
    if counts.shape[1] > MAX_REFIT_COUNTS:
        _, gradient, hessian = _unpack(weights @ _log_likelihood_terms(counts, fitted[None])[:, 0].T)
        return np.clip(start + _newton_step(start, gradient, hessian), LOWER, UPPER)
    # From 0 the way to a larger share is long if the fitted masses allow no miss.
    start[:, 0] = np.clip(start[:, 0], 0.01, 0.99)
    return maximize_likelihood(counts, weights, start)[0]


def _distinct_counts(n: IntArray, c: IntArray) -> tuple[IntArray, FloatArray, IntArray]:
    """The distinct (n, c) as columns, how many problems have each, and which of them each problem has."""
    counts, place, repeats = np.unique(np.stack([n, c]), axis=1, return_inverse=True, return_counts=True)
    return counts, repeats.astype(float), place.ravel()


def maximize_likelihood(counts: IntArray, weights: FloatArray, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The parameters that maximise the weighted log-likelihood, and that maximum: a row per row of weights and start.

    Newton's method in a box. A parameter at its bound stays there while the likelihood falls inwards. Directions in
    which the likelihood is not concave are climbed as if it were. A step that does not climb is shortened.
    """
    x, todo = np.clip(start, LOWER, UPPER), np.arange(len(start))
    value, gradient, hessian = _log_likelihood(counts, weights, x)
    length = np.ones(len(x))
    for _ in range(MAX_STEPS):
        step = _newton_step(x[todo], gradient[todo], hessian[todo]) * length[todo, None]
        proposed = np.clip(x[todo] + step, LOWER, UPPER)
        moved = np.abs(proposed - x[todo]).max(axis=1)
        new_value, new_gradient, new_hessian = _log_likelihood(counts, weights[todo], proposed)
        # Near the maximum the likelihood differs by less than it is rounded.
        climbs = new_value >= value[todo] - 1e-13 * np.abs(value[todo])
        rows = todo[climbs]
        x[rows], value[rows] = proposed[climbs], new_value[climbs]
        gradient[rows], hessian[rows] = new_gradient[climbs], new_hessian[climbs]
        length[todo] = np.where(climbs, np.minimum(4 * length[todo], 1), length[todo] / 4)
        todo = todo[moved > CONVERGED_STEP]
        if not len(todo):
            break
    return x, value


def _newton_step(x: FloatArray, gradient: FloatArray, hessian: FloatArray) -> FloatArray:
    fixed = ((x <= LOWER) & (gradient <= 0)) | ((x >= UPPER) & (gradient >= 0))
    gradient = np.where(fixed, 0.0, gradient)
    hessian = np.where(fixed[:, :, None] | fixed[:, None, :], 0.0, hessian)
    hessian -= fixed[:, :, None] * np.eye(3)
    curvature, directions = np.linalg.eigh(hessian)
    slope = np.einsum("rij,ri->rj", directions, gradient)
    floor = 1e-9 * np.maximum(np.abs(curvature).max(axis=1, keepdims=True), 1.0)
    step = np.einsum("rij,rj->ri", directions, slope / np.maximum(np.abs(curvature), floor))
    return np.asarray(step / np.maximum(1.0, np.abs(step).max(axis=1, keepdims=True) / MAX_STEP))


def _log_likelihood(counts: IntArray, weights: FloatArray, x: FloatArray) -> Derivatives:
    """The weighted log-likelihood at each row of x, with its gradient and Hessian."""
    return _unpack(np.einsum("ri,tri->rt", weights, _log_likelihood_terms(counts, x)))


def _unpack(sums: FloatArray) -> Derivatives:
    hessian = sums[:, [4, 5, 6, 5, 7, 8, 6, 8, 9]].reshape(-1, 3, 3)
    return sums[:, 0], sums[:, 1:4], hessian


def _log_likelihood_terms(counts: IntArray, x: FloatArray) -> FloatArray:
    """For each row of x and each count: the log-likelihood, its 3 first and its 6 second derivatives."""
    n, c = counts.astype(float)
    never, a, b = x[:, :1], np.exp(x[:, 1:2]), np.exp(x[:, 2:])
    # n has few distinct values.
    sizes, place = np.unique(n, return_inverse=True)

    def of_beta(function: Callable[[FloatArray], FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray]:
        total = (function(a + b + sizes) - function(a + b))[:, place]
        return function(a + c) - function(a), function(b + n - c) - function(b), total

    log_a, log_b, log_total = of_beta(special.gammaln)
    psi_a, psi_b, psi_total = of_beta(special.psi)
    tri_a, tri_b, tri_total = of_beta(lambda at: np.asarray(special.zeta(2.0, at)))
    # f is the log-likelihood of a problem that is sometimes solved.
    f = log_a + log_b - log_total
    f_a, f_b = a * (psi_a - psi_total), b * (psi_b - psi_total)
    f_aa, f_bb = f_a + a * a * (tri_a - tri_total), f_b + b * b * (tri_b - tri_total)
    f_ab = -a * b * tri_total
    # A problem without a hit is never solved, or solved sometimes and missed.
    none, e = c == 0, np.exp(f)
    both = np.where(none, never + (1 - never) * e, 1.0)
    value = np.where(none, np.log(both), np.log1p(-never) + f)
    by_never = np.where(none, (1 - e) / both, -1 / (1 - never))
    by_f = np.where(none, (1 - never) * e / both, 1.0)
    mixed, bend = np.where(none, -e / both**2, 0.0), by_f * (1 - by_f)
    first = [by_never, by_f * f_a, by_f * f_b]
    with_never = [-(by_never**2), mixed * f_a, mixed * f_b]
    of_beta_only = [by_f * f_aa + bend * f_a**2, by_f * f_ab + bend * f_a * f_b, by_f * f_bb + bend * f_b**2]
    return np.stack([value, *first, *with_never, *of_beta_only])

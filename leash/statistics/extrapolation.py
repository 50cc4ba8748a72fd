"""pass@k beyond the drawn samples, by a zero-inflated beta-binomial: a share of problems is never solved, the masses of
the others follow a beta distribution.

Such a model is easily wrong in the tail that matters. So `analysis.py` checks it: fitted to the first eighth of the
samples, does it predict pass@k of all of them?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from leash.statistics.array_types import FloatArray, IntArray

OPTIMIZER_STARTS = ((-2.0, -1.0, 0.0), (0.0, 0.0, 1.0))
OPTIMIZER_BOUNDS = ((-12.0, 12.0), (-7.0, 7.0), (-7.0, 12.0))


@dataclass(frozen=True)
class MassDistribution:
    """A distribution of masses: a share `never` of the problems has mass 0, the others Beta(a, b)."""

    never: float
    a: float
    b: float

    def pass_at(self, k: ArrayLike) -> FloatArray:
        k = np.asarray(k, dtype=float)
        missed = np.exp(special.betaln(self.a, self.b + k) - special.betaln(self.a, self.b))
        return np.asarray((1 - self.never) * (1 - missed))


def fit_mass_distribution(n: IntArray, c: IntArray) -> MassDistribution:
    """The maximum-likelihood masses behind these counts. The likelihood does not depend on when sampling stopped."""
    (n, c), repeats = np.unique(np.stack([n, c]), axis=1, return_counts=True)

    def loss(x: FloatArray) -> float:
        a, b = np.exp(x[1:])
        some = special.log_expit(-x[0]) + special.betaln(a + c, b + n - c) - special.betaln(a, b)
        return -float(repeats @ np.where(c > 0, some, np.logaddexp(special.log_expit(x[0]), some)))

    fits = [optimize.minimize(loss, start, method="L-BFGS-B", bounds=OPTIMIZER_BOUNDS) for start in OPTIMIZER_STARTS]
    never, a, b = min(fits, key=lambda fit: float(fit.fun)).x
    return MassDistribution(float(special.expit(never)), float(np.exp(a)), float(np.exp(b)))

"""pass@k beyond the samples at hand, by a zero-inflated beta-binomial: a share of problems is never solved, the masses
of the others follow a beta distribution.

Such a model is easily wrong in the tail that matters, so it comes with its own check: fitted on the first eighth of
the samples, what would it have predicted for all of them?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from stages.categorize.statistics.arrays import Ints, Reals

STARTS = ((-2.0, -1.0, 0.0), (0.0, 0.0, 1.0))
BOUNDS = ((-12.0, 12.0), (-7.0, 7.0), (-7.0, 12.0))


@dataclass(frozen=True)
class Masses:
    """A distribution of masses: `never` of the problems have none, the others Beta(a, b)."""

    never: float
    a: float
    b: float

    def pass_at(self, k: ArrayLike) -> Reals:
        k = np.asarray(k, dtype=float)
        missed = np.exp(special.betaln(self.a, self.b + k) - special.betaln(self.a, self.b))
        return np.asarray((1 - self.never) * (1 - missed))


def fit(n: Ints, c: Ints) -> Masses:
    """The most likely masses behind these counts. When sampling stopped does not matter to the likelihood."""
    (n, c), repeats = np.unique(np.stack([n, c]), axis=1, return_counts=True)

    def loss(x: Reals) -> float:
        a, b = np.exp(x[1:])
        some = special.log_expit(-x[0]) + special.betaln(a + c, b + n - c) - special.betaln(a, b)
        return -float(repeats @ np.where(c > 0, some, np.logaddexp(special.log_expit(x[0]), some)))

    found = min((optimize.minimize(loss, start, method="L-BFGS-B", bounds=BOUNDS) for start in STARTS), key=_loss)
    return Masses(float(special.expit(found.x[0])), float(np.exp(found.x[1])), float(np.exp(found.x[2])))


def _loss(result: optimize.OptimizeResult) -> float:
    return float(result.fun)

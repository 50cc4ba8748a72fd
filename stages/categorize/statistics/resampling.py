"""Bootstrap over problems, and over problems and samples.

Over problems: every problem gets a random weight (exponential: the Bayesian bootstrap, which differs from drawing
problems with replacement by nothing that matters), and four made-up problems, one in each of P, E, S and O, together
weigh as much as Jeffreys' prior. They are felt only where counts are near 0 or near all: there, drawing from what was
seen would give an interval of no width, as if 0 expansions in 30 problems proved that there are none. With them the
intervals of SRR and NDR are Jeffreys'. Since the hits were themselves drawn, these intervals hold the luck of sampling.

Over problems and samples: each problem's hits are drawn anew too, binomially at its c/n. That counts the luck of
sampling a second time: it is the wider interval of what another run on other problems would give. A problem without
a hit never gains one this way and one with a single hit loses it in a third of the draws; what that shifts on average
is taken out again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from stages.categorize.statistics.arrays import Ints, Reals
from stages.params import Params
from stages.seeds import stream

SAMPLINGS = 200  # sets of hits drawn anew; more would hardly move a quantile, since each meets other weights


@dataclass(frozen=True)
class Settings:
    """How sure an interval is, the resamples it is made of, and their seed. `k` and `epsilon`, where given, go before
    those of the counts."""

    k: int | None = None
    epsilon: float | Literal["auto"] | None = None
    confidence: float = 0.95
    resamples: int = 1000
    seed: int = 0

    @classmethod
    def of(cls, params: Params) -> Settings:
        """Those of a run, whose tables have the k and the epsilon."""
        chosen = params.categorize
        return cls(confidence=chosen.confidence, resamples=chosen.bootstrap, seed=chosen.seed)

    def drawn(self, problems: int) -> Weights:
        """Weights of so many problems, the same ones whoever asks."""
        return weights(problems, self.resamples, self.seed)


@dataclass(frozen=True)
class Estimate:
    """A number and its interval; None where there is nothing to say."""

    value: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def sign(self) -> int:
        """1 or -1 where the interval is above or below 0, else 0."""
        if self.low is None or self.high is None:
            return 0
        return int(self.low > 0) - int(self.high < 0)

    def columns(self, name: str) -> dict[str, float | None]:
        """As a table has it: X, X_low and X_high."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


@dataclass(frozen=True)
class Weights:
    """Random weights, a row a resample: of the problems, and of the made-up problems in P, E, S and O."""

    problems: Reals
    halves: Reals  # for the shares of four categories: Jeffreys' prior of a multinomial
    quarters: Reals  # for shares of one model, which two of the four hold: again a half each way

    @property
    def size(self) -> Reals:
        """How many problems each resample weighs."""
        return np.asarray(self.problems.sum(axis=1) + self.quarters.sum(axis=1))

    def rows(self, which: slice) -> Weights:
        return Weights(self.problems[which], self.halves[which], self.quarters[which])


def weights(problems: int, resamples: int, seed: int) -> Weights:
    drawn = stream("categorize", seed, "problems")
    return Weights(
        drawn.standard_exponential((resamples, problems)),
        drawn.standard_gamma(0.5, (resamples, 4)),
        drawn.standard_gamma(0.25, (resamples, 4)),
    )


def hits_anew(n: Ints, c: Ints, role: str, sets: int, seed: int) -> Ints:
    """Other hits that the same problems might have had: a row a set."""
    share = np.divide(c, n, out=np.zeros(n.shape), where=n > 0)
    return stream("categorize", seed, "samples", role).binomial(n, share, size=(sets, len(n)))


def interval(value: Reals, draws: Reals, confidence: float) -> tuple[Reals, Reals]:
    """The middle of the draws, widened to hold the value itself."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
    return np.minimum(low, value), np.maximum(high, value)


def estimated(value: float, draws: Reals, confidence: float) -> Estimate:
    """A number with the interval that its draws give."""
    low, high = interval(np.asarray(value), draws, confidence)
    return Estimate(value, float(low), float(high))


def spread(problems: int, confidence: float) -> float:
    """How much wider Student's interval of a mean is than the middle of its draws, were these normal."""
    tail = (1 - confidence) / 2
    too_few = stats.t.isf(tail, problems - 1) / stats.norm.isf(tail)
    return float(too_few * math.sqrt((problems + 1) / (problems - 1)))

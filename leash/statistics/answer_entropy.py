"""The entropy of a problem's answers from how often each was sampled: pure functions, no I/O.

    estimate_answer_entropies(problem=[0, 0], hits=[1, 2], classes=[2, 1], problems=1)

In: for each problem, how many answer classes occurred once, twice, and so on. In the example, the first problem has two
classes with one sample and one class with two. Out, in nats, an array per estimator with a number per problem:

    plug_in        -sum f ln f over the shares f of the samples: the paper's. Too low if samples miss answers, and never
                   more than ln n.
    miller_madow   plug-in + (classes - 1) / 2n: half a sample for each class that was seen.
    adjusted       Chao and Jost's (2013), adjusted for coverage: what n samples can show of the entropy is unbiased,
                   the rest is extrapolated from how many classes occurred once and twice.
    unseen         Good and Turing's mass of unseen answers: the share of the samples whose class no other sample has.

Chao and Shen's estimator (2003) is here to be compared: `chao_shen`. tests/benchmarks/diagnostics/entropy.py measures
all of them. Chao and Jost's has the smaller mean error in most settings, not in all, and converges faster: with half of
the mass in one answer and half in 1,000 rare ones, its error at 1,024 samples is +.01 nats, Chao and Shen's +.43.

Where much of the mass is unseen, no estimator finds the entropy: the samples do not say how many answers share that
mass. Chao and Jost's can then err both ways, so it is no bound, and the change between two models may have the wrong
sign. `identified_direction` says when a sign can be trusted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, xlogy

from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_weights import Estimate

# Above this share of unseen answers, the samples do not identify an answer entropy.
MAX_UNSEEN = 0.2
# With less, a direction must still hold if this many times more answers share the unseen mass than Chao and Jost's
# estimator takes: its logarithm times the unseen mass is what the entropy would gain.
MORE_ANSWERS = 1000
LOG_STEP = 0.25
CHUNK_PROBLEMS = 4096


class AnswerEntropies(NamedTuple):
    """One number per problem; NaN for a problem without samples."""

    plug_in: FloatArray
    miller_madow: FloatArray
    adjusted: FloatArray
    unseen: FloatArray


def estimate_answer_entropies(problem: IntArray, hits: IntArray, classes: IntArray, problems: int) -> AnswerEntropies:
    """All estimates. Row i says that the problem with index `problem[i]` has `classes[i]` classes of `hits[i]`."""

    def total(values: Any) -> FloatArray:
        return np.asarray(np.bincount(problem, values, problems), dtype=float)

    with np.errstate(invalid="ignore", divide="ignore"):  # 0/0 of problems without samples is NaN
        samples = total(hits * classes)
        share = hits / samples[problem]
        plug_in = np.where(samples > 0, total(-classes * xlogy(share, share)), np.nan)
        once, twice = total(classes * (hits == 1)), total(classes * (hits == 2))
        return AnswerEntropies(
            plug_in=plug_in,
            miller_madow=plug_in + (total(classes) - 1) / (2 * samples),
            adjusted=_seen_part(problem, share * classes, hits, samples) + _unseen_part(samples, once, twice),
            unseen=once / samples,
        )


def _seen_part(problem: IntArray, share: FloatArray, hits: IntArray, samples: FloatArray) -> FloatArray:
    """The entropy is the sum over k from 1 of (1/k) sum p (1 - p)^k. This estimates its first n - 1 terms, unbiased."""
    values = share * (digamma(samples)[problem] - digamma(hits))
    return np.asarray(np.bincount(problem, values, len(samples)), dtype=float)


def _unseen_part(samples: FloatArray, once: FloatArray, twice: FloatArray) -> FloatArray:
    """The rest, if classes that occurred once have the mean mass a = 2 twice / ((n - 1) once + 2 twice)."""
    mass = np.where(
        twice > 0, 2 * twice / ((samples - 1) * once + 2 * twice), 2 / ((samples - 1) * np.maximum(once - 1, 0) + 2)
    )
    return np.where(once > 0, once / samples * _tail_sum(samples, mass), np.where(samples > 0, 0.0, np.nan))


def _tail_sum(samples: FloatArray, mass: FloatArray) -> FloatArray:
    """The sum over j from 0 of (1 - a)^(j + 1) / (n + j).

    Chao and Jost write it as a difference of logarithms, which loses all digits where a n is large. This is
    (1 - a)/n times the integral of e^-t / (1 - (1 - a) e^(-t/n)) over t from 0, by the trapezoidal rule on the scale of
    ln t, where it converges exponentially: these nodes give all digits for a n from 1e-6 on, which a million samples
    have.
    """
    t = np.exp(np.arange(-50.0, 4.0, LOG_STEP))
    found = np.empty(samples.shape)
    for begin in range(0, len(samples), CHUNK_PROBLEMS):  # a row per problem, a column per node
        part = slice(begin, begin + CHUNK_PROBLEMS)
        n, a = samples[part, None], mass[part, None]
        found[part] = (LOG_STEP * t * np.exp(-t) / (a * np.exp(-t / n) - np.expm1(-t / n))).sum(axis=1)
    return (1 - mass) / samples * found


def is_mostly_unseen(unseen: Sequence[float | None]) -> bool:
    """Whether one of these models has too much unseen mass for its answer entropy to be identified."""
    return any(share is not None and share > MAX_UNSEEN for share in unseen)


def identified_direction(change: Estimate, base_unseen: float | None, rlvr_unseen: float | None) -> int:
    """The sign of a change of answer entropy (1, -1), or 0 if the samples don't tell it.

    The estimate for the model with more unseen mass may be too low or, if it took too many answers to share that mass,
    too high. So a rise and a fall must both be larger than what the unseen mass could add.
    """
    if base_unseen is None or rlvr_unseen is None or is_mostly_unseen([base_unseen, rlvr_unseen]):
        return 0
    if change.low is None or change.high is None:
        return 0
    room = math.log(MORE_ANSWERS) * max(base_unseen, rlvr_unseen)
    return int(change.low > room) - int(change.high < -room)


def chao_shen(hits: IntArray) -> float:
    """Chao and Shen's estimate for one problem, from the number of samples of each class."""
    samples, once = int(hits.sum()), int((hits == 1).sum())
    if len(hits) == 1:
        return 0.0
    # If every class occurred once, the estimated coverage would be 0.
    share = (1 - min(once, samples - 1) / samples) * hits / samples
    return float(-(xlogy(share, share) / -np.expm1(samples * np.log1p(-share))).sum())

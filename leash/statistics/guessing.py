"""Is a problem solved more often than guessing would? A test against the guess floor, which varies by problem.

A model that guesses gives some answers more often than others, whatever the problem. On each other problem, the answers
that are right *here* have a share of the wrong answers that the model gave there. The mean of these shares is the guess
floor. (Problems where the same answers are right are left out: there they need not be guesses.) Habits vary by problem,
so a guesser's own share here is not the floor: it follows a beta distribution with the floor as its mean, and with the
spread that the shares have over the other problems. Its hits among the answered samples are then beta-binomial, and the
p-value is the chance of as many:

    guessing_p_values(hits, answered, discovered, others, family)  ->  array([2e-9, 0.4, nan])

Whatever is uncertain makes the p-value larger:

- the mean gets one more independent hit in the other problems, and the variance that of the mean itself;
- the spread is freed of the sampling noise of the shares, and is at least the one of all right answers of the family
  together (that of a Dirichlet distribution is the same for all answers): most answers are too rare to show their own.
  To that of the family, one other problem is added on which a right answer has a share of PSEUDO_SHARE: if none has
  yet, that proves little;
- if a problem can have several right answers, only those that were hit are known to be right. The hit that showed an
  answer to be right is then no evidence, and is left out. It does show a habit: the distribution of the other hits is
  that of a guesser who gave these answers once already (Pólya's urn).

The p-value is that of a fixed number of samples and also that after a stop at the c-th hit: given which samples have
an answer, the answered ones are independent draws, and an outcome at least as strong has c or more hits in as many of
them. A problem that is not shown to be above guessing is not shown to be guessed either. Not covered: a guesser who
knows which answers a problem admits (the numbers in its text, a range) and guesses among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from leash.statistics.array_types import BoolArray, FloatArray, IntArray, ObjectArray
from leash.statistics.testing import benjamini_hochberg

# With fewer other problems, their shares do not show how much habits vary.
MIN_OTHER_PROBLEMS = 10
# A data set has problems with several right answers if more than this share of its problems with hits have.
MIN_SEVERAL = 0.02
# More known right answers than this, and how often they are guessed is not known well enough: nobody measured it.
MAX_RIGHT_ANSWERS = 100
# The share of a right answer on the one other problem that is added to those of a family.
PSEUDO_SHARE = 0.25
# A variance of a share this much above zero can't be told from none.
MIN_SPREAD = 1e-6


@dataclass(frozen=True)
class OtherShares:
    """For each problem, the shares s that its right answers have among the m wrong answers of each of the `problems`
    other problems where they are wrong and m is 2 or more: the sums of s, s², s(1 - s)/(m - 1), which is their sampling
    noise, and 1/m."""

    problems: IntArray
    shares: FloatArray
    squares: FloatArray
    noise: FloatArray
    one_hit: FloatArray


def guessing_p_values(
    hits: IntArray, answered: IntArray, discovered: IntArray, others: OtherShares, family: ObjectArray
) -> FloatArray:
    """The chance that a guesser hits each problem as often. `discovered` is the number of hits that are left out.

    The problems of a family (one model on one data set) share the least spread. NaN if there are no hits, if there are
    fewer than ten other problems, or if more than half of the hits, or more than MAX_RIGHT_ANSWERS, are left out: then
    most right answers are unknown, and so is how often they are guessed.
    """
    known = (hits > 0) & (others.problems >= MIN_OTHER_PROBLEMS) & (2 * discovered <= hits)
    known &= discovered <= MAX_RIGHT_ANSWERS
    p_values = np.full(len(hits), np.nan)
    if not known.any():
        return p_values
    spread = habit_spread(others, family, known)
    count = np.maximum(others.problems, 1)
    # Hits of a habit come together: one more independent hit is a larger share than one more hit.
    one_more = spread + (1 - spread) * others.one_hit / count
    mean = np.minimum((others.shares + one_more) / count, 1.0)
    # The beta distribution has as much weight as this many samples. Those that are left out add to it.
    weight = 1 / np.minimum(spread, 1 - MIN_SPREAD) - 1
    mean = (mean * weight + discovered) / (weight + discovered)
    spread = 1 / (weight + discovered + 1)
    p_values[known] = beta_binomial_tail(
        (hits - discovered)[known], (answered - discovered)[known], mean[known], spread[known]
    )
    return p_values


def correct_within_family(p_values: FloatArray, family: ObjectArray) -> FloatArray:
    """p-values adjusted for the false discovery rate within each family. NaN stays NaN, but counts as a test that found
    nothing: what could not be tested is decided by the same data."""
    corrected = benjamini_hochberg(np.nan_to_num(p_values, nan=1.0), family)
    return np.asarray(np.where(np.isnan(p_values), np.nan, corrected))


def hits_without_evidence(hits: IntArray, distinct: IntArray, right: IntArray, family: ObjectArray) -> IntArray:
    """How many hits only showed that an answer is right: the first of each distinct one, if a problem may have several
    right answers. That is, if two are known (`right`), or if that is so on more than a fiftieth of the problems of
    its family with hits."""
    several = right > 1
    for name in dict.fromkeys(family.tolist()):
        members = (family == name) & (hits > 0)
        if members.any() and (right[members] > 1).mean() > MIN_SEVERAL:
            several = several | members
    return np.asarray(np.where(several, distinct, 0))


def habit_spread(others: OtherShares, family: ObjectArray, known: BoolArray) -> FloatArray:
    """The variance of a guesser's share over problems, as a part of the largest possible, mean × (1 - mean): its own
    estimate for each problem's right answers, or that of the family if it is larger."""
    count = np.maximum(others.problems, 2)
    mean = others.shares / count
    raw = np.maximum(others.squares - count * mean**2, 0) / (count - 1)
    # A guesser's share here varies about the mean, and so does the mean of the others.
    variance = np.maximum(raw - others.noise / count, 0) + raw / count
    most = mean * (1 - mean)
    spread = np.divide(variance, most, out=np.zeros(len(most)), where=most > 0)
    for name in dict.fromkeys(family[known].tolist()):
        members = known & (family == name)
        one = 1 / count[members].mean()
        together = variance[members].sum() + PSEUDO_SHARE**2 * one
        spread[members] = np.maximum(spread[members], together / (most[members].sum() + PSEUDO_SHARE * one))
    return np.asarray(np.clip(spread, MIN_SPREAD, 1.0))


def beta_binomial_tail(hits: IntArray, n: IntArray, mean: FloatArray, spread: FloatArray) -> FloatArray:
    """The chance of at least `hits` in n samples whose chance of a hit is beta-distributed, with this mean and the
    variance spread × mean × (1 - mean).

    Sums the terms away from the mean, where they fall or the distribution is flat: nothing cancels or is lost.
    """
    hits, n = (np.asarray(x, dtype=np.int64) for x in (hits, n))
    mean, spread = np.clip(mean, 1e-12, 1 - 1e-12), np.clip(spread, MIN_SPREAD, 1 - MIN_SPREAD)
    a, b = mean * (1 / spread - 1), (1 - mean) * (1 / spread - 1)
    upper = hits > n * mean
    x = np.clip(np.where(upper, hits, hits - 1), 0, n)
    log_term = special.gammaln(n + 1) - special.gammaln(x + 1) - special.gammaln(n - x + 1)
    term = np.exp(log_term + special.betaln(x + a, n - x + b) - special.betaln(a, b))
    steps = np.where(upper, n - x, x)
    summed = term.copy()
    for _ in range(int(steps.max(initial=0))):
        up = (n - x) * (x + a) / np.maximum((x + 1) * (n - x - 1 + b), 1e-300)
        down = x * (n - x + b) / np.maximum((n - x + 1) * (x - 1 + a), 1e-300)
        term = np.where(steps > 0, term * np.where(upper, up, down), 0.0)
        summed += term
        x, steps = x + np.where(upper, 1, -1) * (steps > 0), steps - 1
        if not (term > summed * 1e-18).any():
            break
    return np.where(hits <= 0, 1.0, np.clip(np.where(upper, summed, 1 - summed), 0.0, 1.0))

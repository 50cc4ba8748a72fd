"""What can be said without a model of the masses: the range of pass@k beyond the samples, and of P, E, S and O of the
true masses, over all distributions of masses that fit the counts.

The only assumption is that the problems are independent draws from some population of problems. The chance of at least
t hits in j samples, averaged over that population, is linear in its distribution of masses. Its unbiased estimate is a
mean over problems of values from 0 to 1 (0 and 1 if all j samples are drawn). So every such mean has a bound that holds
for any number of problems: Clopper-Pearson's if all values are 0 or 1, otherwise Hoeffding's by relative entropy.
Bonferroni's correction makes all bounds hold together at the confidence. Then the distributions that fit are those
that satisfy all bounds, and two linear programs over weights on a grid of masses give the lowest and the highest value.
The true value is in this range with at least that confidence; in simulation nearly always, since the bounds are wide.

The range is wide beyond the samples, and that is a fact, not a weakness of the method. With n samples of each of
infinitely many problems, the counts determine the means of all polynomials of the mass up to degree n, and nothing
else. 1 - (1 - p)^k is close to such a polynomial only if k is well below n²: beyond k of the order of n² nothing is
identified without assumptions. With finitely many problems the limit is much lower.

After an early stop, only events that every problem's end decides are used: t hits in k samples for t up to
`sample.stop_after`, and one hit in fewer samples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import optimize, special, stats

from leash.statistics.array_types import BoolArray, FloatArray, IntArray
from leash.statistics.counts import ROLES, Counts
from leash.statistics.pass_at_k import SampleCounts, hit_probability
from leash.statistics.support import hits_above

Range = dict[str, float]
# At least t hits in j samples.
Event = tuple[int, int]

GRID_POINTS = 160
JOINT_GRID_POINTS = 14
NEAR_EPSILON = 2.0 ** np.array([-2, -1.5, -1, -0.5, 0.5, 1, 1.5, 2])
CUT_TAILS = (0.02, 0.98)
# More hits than these tell nothing about the small masses that matter beyond the samples.
MAX_EVENT_HITS = 32
# Linear programs are exact to about 1e-8; a fixed number of decimals is the same on every machine.
DECIMALS = 4
BISECTIONS = 60


def identified_pass_at_k(samples: SampleCounts, k: IntArray, ks: Sequence[int], confidence: float) -> dict[int, Range]:
    """The range of pass@k at every one of ks, for one model. `k` is the number of samples that each problem would have
    had without an early stop. Empty if no number of samples is known for all problems."""
    reach = common_samples(samples, k)
    events = [(2**i, 1) for i in range(reach.bit_length()) if 2**i < reach]
    events += [(reach, 2**i) for i in range(MAX_EVENT_HITS.bit_length()) if 2**i <= reach]
    events, values = _known_events(samples, events)
    if not events:
        return {}
    low, high = simultaneous_bounds(values, confidence)
    # Masses far below 1 / k are as good as 0, those far above as good as 1.
    least = 1e-3 / max(ks)
    masses = np.concatenate([[0.0], special.expit(np.linspace(np.log(least), 7.0, GRID_POINTS)), [1.0]])
    chances = _event_chances(events, masses)
    found = {at: extreme_means(1 - (1 - masses) ** at, chances, low, high) for at in ks}
    return {at: ends for at, ends in found.items() if ends is not None}


def identified_categories(counts: Counts, confidence: float) -> dict[str, Range] | None:
    """The range of the share of problems whose true masses are in P, E, S and O. None if the problems differ in k or
    epsilon, if they have no samples, if no mass exceeds epsilon, or if no distribution on the grid fits."""
    if len(set(counts.epsilon.tolist())) > 1 or len(set(counts.k.tolist())) > 1 or counts.epsilon[0] >= 1:
        return None
    k, epsilon = int(counts.k[0]), float(counts.epsilon[0])
    masses, above = split_grid(k, epsilon)
    values, chances = [], []
    for role in ROLES:
        samples = counts.samples(role)
        reach = common_samples(samples, counts.k)
        # The hits that tell masses on the two sides of epsilon apart: those that it hardly gives, and as few.
        tails = np.asarray(stats.binom.ppf(CUT_TAILS, reach, epsilon), dtype=int)
        cuts = {1, int(hits_above(epsilon, reach)), *tails.tolist()}
        events, of_problems = _known_events(samples, [(reach, t) for t in sorted(cuts) if 1 <= t <= reach])
        if not events:
            return None
        values.append(_bins_and_tails(of_problems.T).T)
        chances.append(_bins_and_tails(_event_chances(events, masses)))
    # Given the masses, the samples of the two models are independent: chances multiply.
    joint = np.einsum("pi,pj->pij", *values).reshape(len(counts), -1)[:, 1:]
    low, high = simultaneous_bounds(joint, confidence)
    joint_chances = np.einsum("ia,jb->ijab", *chances).reshape(joint.shape[1] + 1, -1)[1:]
    found = {}
    for name, (of_base, of_rlvr) in {"P": (1, 1), "E": (0, 1), "S": (1, 0), "O": (0, 0)}.items():
        ends = extreme_means(np.outer(above == of_base, above == of_rlvr).ravel(), joint_chances, low, high)
        if ends is None:
            return None
        found[name] = ends
    return found


def _bins_and_tails(tails: FloatArray) -> FloatArray:
    """From the chances of at least t hits, for rising t: the event that always happens (times it, an event of the other
    model stays as it is), the bins between two t, and the tails that are not bins themselves."""
    ends = np.vstack([np.ones(tails.shape[1]), tails, np.zeros(tails.shape[1])])
    bins = ends[:-1] - ends[1:]
    return np.vstack([ends[:1], bins, tails[1:-1]])


def split_grid(k: int, epsilon: float) -> tuple[FloatArray, BoolArray]:
    """Masses from 0 to 1, and which of them are above epsilon. Epsilon itself is there twice, since a mass may be just
    above it."""
    least = min(1e-2 / k, epsilon / 4) if epsilon else 1e-2 / k
    inner = special.expit(np.linspace(np.log(least), 5.0, JOINT_GRID_POINTS))
    if epsilon:
        # Masses near epsilon decide on which side of it a problem can be.
        inner = np.concatenate([inner, epsilon * NEAR_EPSILON[epsilon * NEAR_EPSILON < 1]])
    masses = np.concatenate([[0.0, epsilon, epsilon], inner[inner != epsilon], [1.0]])
    above = masses > epsilon
    above[2] = True
    return masses, above


def common_samples(samples: SampleCounts, k: IntArray) -> int:
    """The number of samples in which the hits of every problem are known; an early stop counts as k."""
    return int(np.where(samples.early, k, samples.n).min())


def _known_events(samples: SampleCounts, events: Sequence[Event]) -> tuple[list[Event], FloatArray]:
    """The events that all problems decide, and the chance of each in each problem's samples, a column per event."""
    columns = np.stack([_event_values(samples, *event) for event in events], axis=1) if events else np.zeros((0, 0))
    known = np.flatnonzero(~np.isnan(columns).any(axis=0))
    return [events[place] for place in known.tolist()], columns[:, known]


def _event_values(samples: SampleCounts, j: int, t: int) -> FloatArray:
    # All j samples: a plain comparison, which is quicker than a sum over t.
    if not samples.early.any() and (samples.n == j).all():
        return np.asarray(samples.c >= t, dtype=float)
    return hit_probability(samples, j, t)


def _event_chances(events: Sequence[Event], masses: FloatArray) -> FloatArray:
    return np.stack([special.betainc(t, j - t + 1, masses) for j, t in events])


def simultaneous_bounds(values: FloatArray, confidence: float) -> tuple[FloatArray, FloatArray]:
    """Bounds of the mean of each column of values from 0 to 1 that hold together at this confidence."""
    problems, columns = values.shape
    tail = (1 - confidence) / 2 / columns
    means = values.mean(axis=0)
    exact = np.isin(values, (0.0, 1.0)).all(axis=0)
    hits = np.rint(means * problems)
    with np.errstate(invalid="ignore"):
        low = np.where(hits > 0, stats.beta.ppf(tail, hits, problems - hits + 1), 0.0)
        high = np.where(hits < problems, stats.beta.isf(tail, hits + 1, problems - hits), 1.0)
    low_entropy, high_entropy = entropy_bounds(means, -np.log(tail) / problems)
    return np.where(exact, low, low_entropy), np.where(exact, high, high_entropy)


def entropy_bounds(means: FloatArray, distance: float) -> tuple[FloatArray, FloatArray]:
    """The shares on both sides of each mean whose relative entropy from it is this distance. Hoeffding: the mean of
    independent values from 0 to 1 is beyond a bound with probability at most exp(-number * distance)."""

    def bound(end: float) -> FloatArray:
        inside, outside = means.copy(), np.full(means.shape, end)
        for _ in range(BISECTIONS):
            middle = (inside + outside) / 2
            with np.errstate(divide="ignore", invalid="ignore"):
                entropy = special.rel_entr(means, middle) + special.rel_entr(1 - means, 1 - middle)
            near = entropy <= distance
            inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
        return np.asarray(outside)

    return bound(0.0), bound(1.0)


def extreme_means(target: FloatArray, chances: FloatArray, low: FloatArray, high: FloatArray) -> Range | None:
    """The lowest and the highest mean of `target` over all weights on the grid whose mean chances are within the
    bounds; None if there are no such weights."""
    # `linprog` would split every bound in two rows; `milp`, without whole numbers, is the same solver.
    bounds = optimize.LinearConstraint(np.vstack([chances, np.ones(len(target))]), [*low, 1.0], [*high, 1.0])
    ends = []
    for sign in (1, -1):
        solved = optimize.milp(sign * target.astype(float), constraints=bounds)
        if not solved.success:
            return None
        # + 0.0 turns a negative zero into zero.
        ends.append(round(min(max(sign * float(solved.fun), 0.0), 1.0), DECIMALS) + 0.0)
    return {"low": ends[0], "high": ends[1]}

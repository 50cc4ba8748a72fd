"""Masses far below 1/k: estimated, and bounded from below and above.

`pooled_mass` estimates a model's mass on a problem from the correct samples of both models of a pair. `lower_bound` is
the certificate: rollouts from a cut of prefixes (prefix_tree.py) prove that the mass is at least that.
`upper_bound` needs plain samples alone. `amplification` compares two models, `count_proven` many problems.

All bounds are one-sided and exact (Clopper and Pearson). No bound is proof of absence: what neither model wrote is in
no cut. `summarize_reach` gives the numbers of an analysis. Not covered: drawing and scoring rollouts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from leash.statistics.array_types import FloatArray, IntArray, ObjectArray
from leash.statistics.counts import ROLES, Counts
from leash.statistics.intervals import one_sided_bounds

# Of `proven`: a mass above each, in how many problems?
MASS_THRESHOLDS = (1e-3, 1e-4, 1e-5, 1e-6)
# Of `expected`: the numbers of samples.
EXPECTED_KS = (10**4, 10**5, 10**6)
# Whose mass could be small: the model without support.
TARGETS = {"S": "rlvr", "E": "base"}


@dataclass(frozen=True)
class Pooled:
    """An estimated mass and its standard error. The error knows nothing of completions that neither model wrote."""

    value: float
    error: float


def pooled_mass(
    target_logp: FloatArray,
    donor_logp: FloatArray,
    target_hits: IntArray,
    donor_hits: IntArray,
    n_target: int,
    n_donor: int,
) -> Pooled:
    """The target's mass from n_target samples of its own and n_donor of the donor: each correct sample y of either
    counts p(y) / (n_target p(y) + n_donor q(y)). Unbiased, and no sample counts more than 1 / n_target.

    The arrays have an entry per distinct correct completion: its log-probability under both models and how often each
    wrote it. An impossible completion (-inf) counts nothing.
    """
    possible = target_logp > -np.inf
    ratio = np.exp(np.minimum(donor_logp[possible] - target_logp[possible], 700.0))
    weights = np.zeros(len(target_logp))
    weights[possible] = 1 / (n_target + n_donor * ratio)
    value = variance = 0.0
    for hits, n in ((target_hits, n_target), (donor_hits, n_donor)):
        total = float((hits * weights).sum())
        value += total
        if n > 1:
            variance += n / (n - 1) * max(float((hits * weights**2).sum()) - total**2 / n, 0.0)
    return Pooled(value, float(np.sqrt(variance)))


def lower_bounds(
    whole_mass: FloatArray, open_mass: FloatArray, correct_mass: FloatArray, rollouts: int, confidence: float
) -> FloatArray:
    """The certificates to expect of several cuts, where `correct_mass` of the open mass is correct. The number of hits
    need not be whole."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip(np.where(open_mass > 0, correct_mass / open_mass, 0.0), 0.0, 1.0)
        hits = rollouts * share
        low = stats.beta.ppf(1 - confidence, hits, rollouts - hits + 1)
    return np.asarray(whole_mass + open_mass * np.where(hits > 0, low, 0.0))


def lower_bound(whole_mass: float, open_mass: float, hits: int, rollouts: int, confidence: float) -> float:
    """The certificate: the mass is at least this. `hits` of `rollouts` that were drawn from a cut's open prefixes, each
    with a chance in proportion to its probability, are correct."""
    if not hits:
        return whole_mass
    return whole_mass + open_mass * float(stats.beta.ppf(1 - confidence, hits, rollouts - hits + 1))


def estimate_mass(
    whole_mass: float, open_mass: float, hits: int, rollouts: int, other_hits: int, n_target: int
) -> float:
    """An unbiased estimate of the mass: that of the cut, and of all else from the target's plain samples, of which
    `other_hits` of n_target are correct and begin with no member of the cut. It can be above 1: clipped, it would be
    too low on average."""
    inside = open_mass * hits / rollouts if rollouts else 0.0
    return whole_mass + inside + (other_hits / n_target if n_target else 0.0)


def upper_bound(n: int, c: int, confidence: float) -> float:
    """The mass is at most this, after c hits in n plain samples."""
    return 1.0 if c >= n else float(stats.beta.ppf(confidence, c + 1, n - c))


@dataclass(frozen=True)
class Amplification:
    """How many times one model's mass the other's is. None: unknown, or without limit."""

    value: float | None
    low: float | None
    high: float | None

    def inverse(self) -> Amplification:
        """The same with the models exchanged. Without an upper limit, the inverse has the lower limit 0."""
        if self.low is None:
            return self
        return Amplification(1 / self.value if self.value else None, 1 / self.high if self.high else 0.0, 1 / self.low)


def amplification(
    n_donor: int,
    c_donor: int,
    n_target: int,
    c_target: int,
    whole_mass: float,
    open_mass: float,
    hits: int,
    rollouts: int,
    estimate: float,
    confidence: float,
) -> Amplification:
    """The donor's mass as a multiple of the target's. The donor's is from its counts; the target's is at least its
    certificate and at most what its counts allow. The interval holds if all four of these bounds do, so each has a
    quarter of the error."""
    each = 1 - (1 - confidence) / 4
    donor_low = lower_bound(0.0, 1.0, c_donor, n_donor, each)
    donor_high = upper_bound(n_donor, c_donor, each)
    target_low = lower_bound(whole_mass, open_mass, hits, rollouts, each)
    return Amplification(
        value=c_donor / n_donor / estimate if n_donor and estimate > 0 else None,
        low=donor_low / upper_bound(n_target, c_target, each),
        high=donor_high / target_low if target_low > 0 else None,
    )


def p_value_above(threshold: float, whole_mass: float, open_mass: float, hits: int, rollouts: int) -> float:
    """The p-value of "the mass is at most the threshold", given a certificate's rollouts: small if it is larger."""
    if whole_mass > threshold:
        return 0.0
    if not hits or threshold - whole_mass >= open_mass:
        return 1.0
    return float(stats.binom.sf(hits - 1, rollouts, (threshold - whole_mass) / open_mass))


def count_proven(p_values: FloatArray, confidence: float) -> int:
    """How many of these hypotheses are rejected together (Holm): with this confidence, none of them is true."""
    ordered = np.sort(np.asarray(p_values, dtype=float))
    passes = ordered <= (1 - confidence) / (len(ordered) - np.arange(len(ordered)))
    return int(np.argmin(passes)) if not passes.all() else len(ordered)


def expected_categories(
    low_base: FloatArray, high_base: FloatArray, low_rlvr: FloatArray, high_rlvr: FloatArray, k: int
) -> dict[str, tuple[float, float]]:
    """The expected numbers of problems in P, E, S and O at k samples (at least one hit counts), each as the least and
    the most that these bounds of both masses allow."""
    (base_low, base_high), (rlvr_low, rlvr_high) = (
        (hit_chance(low, k), hit_chance(high, k)) for low, high in ((low_base, high_base), (low_rlvr, high_rlvr))
    )
    ends = {
        "P": (base_low * rlvr_low, base_high * rlvr_high),
        "E": ((1 - base_high) * rlvr_low, (1 - base_low) * rlvr_high),
        "S": (base_low * (1 - rlvr_high), base_high * (1 - rlvr_low)),
        "O": ((1 - base_high) * (1 - rlvr_high), (1 - base_low) * (1 - rlvr_low)),
    }
    return {name: (float(low.sum()), float(high.sum())) for name, (low, high) in ends.items()}


def hit_chance(mass: FloatArray, k: int) -> FloatArray:
    """The chance of at least one hit in k samples."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(k * np.log1p(-np.asarray(mass, dtype=float))))


def summarize_reach(
    rows: Sequence[Mapping[str, Any]], counts: Counts, category: ObjectArray, rollouts: int, confidence: float
) -> dict[str, Any] | None:
    """The `reach` part of an analysis: what is proven about the problems of `counts`, whose categories are given in
    their order. `rows` are those of a pair's reach table (others than these problems' are ignored); `rollouts` is the
    budget per problem, and None is returned if it is 0."""
    if not rollouts:
        return None
    by_key = {(row["dataset"], row["problem_id"], row["target"]): row for row in rows}
    problems = list(zip(counts.dataset.tolist(), counts.problem_id.tolist(), strict=True))
    bounds = {
        role: simultaneous_bounds(counts, role, [by_key.get((*problem, role)) for problem in problems], confidence)
        for role in ROLES
    }
    summary: dict[str, Any] = {"confidence": confidence, "rollouts": rollouts}
    for letter, target in TARGETS.items():
        inside = [problem for problem, own in zip(problems, category.tolist(), strict=True) if own == letter]
        examined = [by_key[(*problem, target)] for problem in inside if (*problem, target) in by_key]
        summary[letter] = {"problems": len(inside), **summarize_category(examined, len(problems), confidence)}
    summary["expected"] = {
        str(k): {name: list(ends) for name, ends in expected_categories(*bounds["base"], *bounds["rlvr"], k).items()}
        for k in EXPECTED_KS
    }
    return summary


def summarize_category(rows: Sequence[Mapping[str, Any]], problems: int, confidence: float) -> dict[str, Any]:
    """What is known of the examined problems of a category, out of `problems` in all.

    The counts of `proven` hold together with this confidence: all problems that they count are above the thresholds.
    So a reader, or a sentence, may pick any of them. The largest certificate and the smallest upper bound are picked
    from many, too, so each bound has a share of the error: among the examined problems, and for upper bounds among all,
    since plain samples chose the problems."""
    p_values = {
        threshold: np.array([p_value_above(threshold, **certificate_of(row)) for row in rows])
        for threshold in MASS_THRESHOLDS
    }
    each = 1 - (1 - confidence) / len(MASS_THRESHOLDS)
    of_examined, of_all = (1 - (1 - confidence) / max(number, 1) for number in (len(rows), problems))
    uppers = [upper_bound(row["n_target"], row["c_target"], of_all) for row in rows]
    certificates = [
        lower_bound(**certificate_of(row), confidence=of_examined) for row in rows if row["status"] != "unreachable"
    ]
    return {
        "examined": len(rows),
        **{status: sum(row["status"] == status for row in rows) for status in ("certified", "unreachable")},
        "proven": {f"{threshold:g}": count_proven(p_values[threshold], each) for threshold in MASS_THRESHOLDS},
        "smallest_upper": min(uppers, default=None),
        "largest_certificate": max(certificates, default=None),
    }


def certificate_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers that a certificate rests on."""
    masses = {name: row[name] or 0.0 for name in ("whole_mass", "open_mass")}
    return {**masses, "hits": row["hits"], "rollouts": row["rollouts"]}


def simultaneous_bounds(
    counts: Counts, role: str, rows: Sequence[Mapping[str, Any] | None], confidence: float
) -> tuple[FloatArray, FloatArray]:
    """Bounds of one model's mass on each problem, from plain samples and certificates. All bounds of all problems and
    both models hold together: the error is divided by their number.

    A problem's error is spent on its upper bound by half, and by a quarter on each of two lower bounds. It is so
    divided also without a certificate, since the samples themselves decide which problems are examined."""
    each = (1 - confidence) / (len(ROLES) * max(len(counts), 1))
    samples = counts.samples(role)
    stopped = samples.ended == "hit"
    _, high = one_sided_bounds(samples.n, samples.c, stopped, 1 - each / 2)
    low, _ = one_sided_bounds(samples.n, samples.c, stopped, 1 - each / 4)
    certified = [lower_bound(**certificate_of(row), confidence=1 - each / 4) if row else 0.0 for row in rows]
    return np.maximum(low, certified), high

"""How often is a guesser shown to be above guessing, and how often is a solver?

A guesser has a habit: the probabilities of its answers. On each problem they are drawn anew from a Dirichlet
distribution around that habit; the smaller its concentration, the more habits vary by problem. A solver gives the right
answer more often by a fixed mass on some problems, and guesses on the others. Beside each rate is that of the rule
before: a binomial test of all hits against the floor as a known number, at 5% for each problem.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from goals import Goals
from scipy import stats

from leash.statistics.array_types import BoolArray, FloatArray, IntArray
from leash.statistics.guessing import OtherShares, correct_within_family, guessing_p_values, hits_without_evidence
from leash.statistics.seeds import stream

PROBLEMS, ALPHA = 48, 0.05
CONCENTRATIONS = (np.inf, 200.0, 20.0, 5.0)


@dataclass(frozen=True)
class Setting:
    """`answers` of a guesser are by Zipf's law. `rights` right answers per problem, `solved` of the problems have
    `extra` mass on the first of them."""

    concentration: float
    k: int
    blank: float = 0.0
    answers: int = 40
    rights: int = 1
    solved: float = 0.0
    extra: float = 0.0


def measure(trials: int, goals: Goals) -> None:
    print("False: problems of a guesser that are shown to be above guessing, and runs with any (rule before: problems)")
    head = f"{'concentration':>13} {'k':>5} {'blank':>6} {'answers':>8} {'right':>6}"
    print(f"{head} {'problems':>9} {'runs':>7} {'before':>7}")
    settings = [Setting(c, k, answers=a) for c in CONCENTRATIONS for k in (64, 1024) for a in (40, 300)]
    settings += [Setting(c, 1024, blank=0.8) for c in (20.0, 5.0)]
    settings += [Setting(c, 64, rights=6) for c in (200.0, 5.0)]
    settings += [Setting(c, k, answers=300, rights=r) for c in (20.0, 5.0) for k in (64, 1024) for r in (2, 6, 20)]
    settings += [Setting(5.0, k, answers=1000, rights=100) for k in (64, 1024)]
    for setting in settings:
        times = {64: 5, 1024: 2}[setting.k] * trials if setting.answers <= 300 else trials  # the others are slow
        rates = np.array([run_once(setting, trial)[0] for trial in range(times)])
        mark = goals.check_null(f"false above guessing, {setting}", rates[:, 1])
        goals.null_rates_before.append(float(rates[:, 3].mean()))
        print(
            f"{describe(setting)} {rates[:, 0].mean():9.2%} {rates[:, 1].mean():7.1%} {rates[:, 2].mean():7.1%}{mark}",
            flush=True,
        )
    print(
        "Found: problems of a solver that are shown to be above guessing, if a third of the problems is solved; and the"
    )
    print("share of the others among those that are shown")
    print(f"{head} {'extra':>6} {'found':>7} {'before':>7} {'false':>7}")
    for concentration, k, extra, least in (
        (np.inf, 64, 0.2, 0.9),
        (200.0, 64, 0.2, 0.9),
        (200.0, 1024, 0.2, 0.9),
        # Where habits vary so much, a guesser may have such a share, too: there is no goal for an extra mass of 0.2.
        (20.0, 64, 0.2, 0.0),
        (20.0, 64, 0.5, 0.9),
        (5.0, 64, 0.5, 0.0),
        (5.0, 64, 0.9, 0.9),
    ):
        measure_found(Setting(concentration, k, solved=1 / 3, extra=extra), least, 5 * trials, goals)
    for rights, extra, least in ((6, 0.2, 0.0), (6, 0.5, 0.9), (20, 0.5, 0.9)):
        measure_found(Setting(200.0, 64, answers=300, rights=rights, solved=1 / 3, extra=extra), least, trials, goals)


def measure_found(setting: Setting, least: float, trials: int, goals: Goals) -> None:
    runs = [run_once(setting, trial) for trial in range(trials)]
    false, rates = (np.array([run[i] for run in runs]) for i in (0, 1))
    mark = goals.check(f"found above guessing, {setting}", rates[:, 0], least, 1)
    mark += goals.check_null(f"false among those found, {setting}", false[:, 4])
    print(
        f"{describe(setting)} {setting.extra:6.2f} {rates[:, 0].mean():7.1%} {rates[:, 1].mean():7.1%} "
        f"{false[:, 4].mean():7.1%}{mark}",
        flush=True,
    )


def describe(setting: Setting) -> str:
    return f"{setting.concentration:13g} {setting.k:5} {setting.blank:6.0%} {setting.answers:8} {setting.rights:6}"


def run_once(setting: Setting, trial: int) -> tuple[list[float], tuple[float, float]]:
    """Of the guessed problems, the share that is shown to be above, whether any is, both by the rule before, and their
    share of all that are shown; of the solved ones, the share that is shown to be above, now and before."""
    rng = stream("diagnostics", "luck", *(str(value) for value in vars(setting).values()), trial)
    habit = 1 / np.arange(1, setting.answers + 1)
    habit /= habit.sum()
    right = np.zeros((PROBLEMS, setting.answers), dtype=bool)
    for row in right:
        row[rng.choice(setting.answers, setting.rights, replace=False)] = True
    chances = np.tile(habit, (PROBLEMS, 1))
    if np.isfinite(setting.concentration):
        chances = rng.dirichlet(setting.concentration * habit, PROBLEMS)
    solved = np.arange(PROBLEMS) < round(setting.solved * PROBLEMS)
    chances[solved] *= 1 - setting.extra
    chances[solved, right[solved].argmax(axis=1)] += setting.extra
    answered = rng.binomial(setting.k, 1 - setting.blank, PROBLEMS)
    counts = np.stack([rng.multinomial(n, row / row.sum()) for n, row in zip(answered, chances, strict=True)])
    hits = (counts * right).sum(axis=1)
    above = is_above(counts, right & (counts > 0), hits)
    before = (stats.binom.sf(hits - 1, setting.k, floor_before(counts, right & (counts > 0))) <= ALPHA) & (hits > 0)
    guessed = ~solved
    false = [value for rule in (above, before) for value in (float(rule[guessed].mean()), float(rule[guessed].any()))]
    false.append(float(above[guessed].sum() / max(above.sum(), 1)))
    return false, (
        float(above[solved].mean()) if solved.any() else 0.0,
        float(before[solved].mean()) if solved.any() else 0.0,
    )


def is_above(counts: IntArray, known: BoolArray, hits: IntArray) -> BoolArray:
    """Which problems are shown to be above guessing, from how often each answer was given (a row per problem) and which
    are known to be right: guesses.sql and the stage in numpy."""
    wrong = np.where(known, 0, counts)
    size = wrong.sum(axis=1)
    shown = size > 1
    shares = np.divide(wrong, size[:, None], out=np.zeros(wrong.shape), where=shown[:, None])
    known_count = known.astype(float)
    share = known_count @ shares.T  # of the right answers of a row's problem, on a column's problem
    other = shown[None, :] & (known_count @ known_count.T == 0)
    share = np.where(other, share, 0.0)
    noise = (share * (1 - share) / np.maximum(size - 1, 1)).sum(axis=1)
    one_hit = (other / np.maximum(size, 1)).sum(axis=1)
    others = OtherShares(other.sum(axis=1), share.sum(axis=1), (share**2).sum(axis=1), noise, one_hit)
    family = np.full(len(hits), "one", dtype=object)
    distinct = known.sum(axis=1)
    left_out = hits_without_evidence(hits, distinct, distinct, family)
    p_values = guessing_p_values(hits, counts.sum(axis=1), left_out, others, family)
    return np.asarray(np.nan_to_num(correct_within_family(p_values, family), nan=1.0) < ALPHA)


def floor_before(counts: IntArray, known: BoolArray) -> FloatArray:
    """The mean share of a problem's right answers among all answers to the other problems."""
    shares = counts / np.maximum(counts.sum(axis=1), 1)[:, None]
    share = known.astype(float) @ shares.T
    return np.asarray((share.sum(axis=1) - np.diag(share)) / (len(counts) - 1))

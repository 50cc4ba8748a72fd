"""How many problems and samples does it take to see a change? `leash plan --detect` (leash/statistics/power.py).

In:  params.yaml and, for the masses of each base, its verdicts or the first completions on disk; without them a prior.
Out: a table for each base: for every k the problems and completions that it takes, and what the run's own problems
     show.

Nothing is drawn or written here.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from leash import database, tables
from leash.errors import LeashError
from leash.formatting import MISSING_VALUE, format_text_table, join_names, pluralize
from leash.params.groups import Params
from leash.sampling.cost_estimate import MAX_GRADED_SAMPLES, count_hits, count_stored_samples, load_problems_offline
from leash.statistics.array_types import IntArray
from leash.statistics.extrapolation import MassDistribution, fit_mass_distribution
from leash.statistics.power import LuckOfSampling, luck_of_sampling, mass_grid, problems_needed, smallest_detectable
from leash.statistics.support import hits_above

# Masses like those of strong models on AIME, on MATH, and of the embedded pair; tests/benchmarks/calibration.py
# simulates the same.
PRIORS = {
    "aime": MassDistribution(0.3, 0.4, 2.0),
    "math": MassDistribution(0.03, 1.2, 0.35),
    "embedded": MassDistribution(0.1, 0.35, 2.5),
}
DEFAULT_PRIOR = "aime"
K_GRID = (16, 64, 256, 1024)
K_STEP = 4
# A fit needs problems with two samples or more: one sample shows the mean mass only.
MIN_PILOT_SAMPLES = 2


class ImpossibleChangeError(LeashError):
    """No number of problems shows a change of this size."""

    def __init__(self, detect: float, remedy: str) -> None:
        self.detect = detect
        super().__init__(f"Cannot plan for a net change of {detect:g}: {remedy}")


@dataclass(frozen=True)
class PowerGoal:
    """The net change to see (a share of the problems), with which power, and a prior instead of the samples on disk."""

    detect: float
    power: float = 0.8
    prior: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.detect <= 1:
            hint = f" For {self.detect:g}% write {self.detect / 100:g}." if 1 < self.detect <= 100 else ""
            raise ImpossibleChangeError(
                self.detect, f"`--detect` is a share of the problems, above 0 and at most 1.{hint}"
            )


@dataclass(frozen=True)
class MassSource:
    """The masses behind a plan, and where they come from. `samples` is the largest number per problem; None for a
    prior."""

    distribution: MassDistribution
    about: str
    samples: int | None


@dataclass(frozen=True)
class PlanRow:
    """What it takes at one k. None means that no number of problems, or no change, is enough."""

    k: int
    luck: LuckOfSampling
    problems: int | None
    detectable: float | None  # by the problems of the run

    @property
    def completions(self) -> int | None:
        return None if self.problems is None else 2 * self.problems * self.k


@dataclass(frozen=True)
class PowerPlan:
    """The plan for the pairs of one base. `run_problems` is None if a data set's size is unknown."""

    base: str
    source: MassSource
    rows: list[PlanRow]
    run_problems: int | None


def run(params: Params, goal: PowerGoal) -> list[PowerPlan]:
    """A plan for each base of the run."""
    bases = dict.fromkeys(params.pairs[pair].base for pair in params.run.pairs)
    run_problems = None
    with suppress(LeashError):
        run_problems = sum(load_problems_offline(params, dataset).count for dataset in params.run.datasets)
    plans = [plan_base(params, base, goal, run_problems) for base in bases]
    rows = [row for plan in plans for row in plan.rows]
    if all(row.problems is None for row in rows):
        reach = max(row.luck.reach for row in rows)
        if goal.detect > reach:
            raise ImpossibleChangeError(
                goal.detect, f"the base reaches only {reach:.1%} of the problems; choose a smaller `--detect`."
            )
        raise ImpossibleChangeError(goal.detect, "it takes more than a million problems; choose a larger `--detect`.")
    return plans


def plan_base(params: Params, base: str, goal: PowerGoal, run_problems: int | None) -> PowerPlan:
    source = mass_source(params, base, goal.prior)
    grid = mass_grid(source.distribution)
    # Holm's first step: the smallest p-value of all pairs must be below this.
    alpha = (1 - params.categorize.confidence) / len(params.run.pairs)
    rows = []
    for k in budgets(params, base):
        luck = luck_of_sampling(grid, k, int(hits_above(params.epsilon(k), k)))
        detectable = smallest_detectable(luck, run_problems, alpha, goal.power) if run_problems else None
        rows.append(PlanRow(k, luck, problems_needed(luck, goal.detect, alpha, goal.power), detectable))
    return PowerPlan(base, source, rows, run_problems)


def budgets(params: Params, base: str) -> list[int]:
    """The ks to show: 16, 64, 256, 1,024, further ones up to the run's own, and the run's own."""
    own = run_ks(params, base)
    ks = list(K_GRID)
    while ks[-1] * K_STEP <= max(own):
        ks.append(ks[-1] * K_STEP)
    return sorted({*ks, *own})


def run_ks(params: Params, base: str) -> list[int]:
    pairs = [pair for pair in params.run.pairs if params.pairs[pair].base == base]
    return sorted({params.pair_k(pair, dataset) for pair in pairs for dataset in params.run.datasets})


def mass_source(params: Params, base: str, prior: str | None) -> MassSource:
    """The given prior; else the masses that fit the base's samples on disk; else the default prior."""
    if prior is None:
        counts = count_pilot(params, base)
        if len(counts):
            n, c = counts.T
            about = f"{base}'s samples on disk ({_format_range(n)} of each of {pluralize(len(n), 'problem')})"
            return MassSource(fit_mass_distribution(n, c), about, int(n.max()))
    name = prior or DEFAULT_PRIOR
    why = "" if prior else f", since {base} has no graded samples on disk"
    return MassSource(PRIORS[name], f"the prior `{name}`{why}", None)


def _format_range(numbers: IntArray) -> str:
    least, most = int(numbers.min()), int(numbers.max())
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def count_pilot(params: Params, model: str) -> IntArray:
    """A row (samples, hits) for each problem with graded samples of a model: of its verdicts or, on a data set without
    verdicts, of its first completions, graded now."""
    verdicts = count_verdicts(params, model)
    counts: list[tuple[int, int]] = []
    for dataset in params.run.datasets:
        if dataset in verdicts:
            counts += verdicts[dataset]
            continue
        with suppress(LeashError):  # a data set of unknown size has no samples that could be graded here
            problems = load_problems_offline(params, dataset)
            stored = count_stored_samples(model, dataset, problems).samples
            if any(stored) and (hits := count_hits(params, model, dataset, problems)) is not None:
                counts += [(min(n, MAX_GRADED_SAMPLES), c) for n, c in zip(stored, hits, strict=True)]
    kept = np.array([pair for pair in counts if pair[0] > 0], dtype=np.int64).reshape(-1, 2)
    return kept if len(kept) and kept[:, 0].max() >= MIN_PILOT_SAMPLES else kept[:0]


def count_verdicts(params: Params, model: str) -> dict[str, list[tuple[int, int]]]:
    """(samples, hits) of each problem by data set, from the verdicts on disk. Samples without a score do not count."""
    if not any(tables.shards(tables.verdicts_folder(model, dataset)) for dataset in params.run.datasets):
        return {}
    counted = database.open_database(params, only=["verdicts"]).execute(
        "select dataset, count(correct), count(*) filter (where correct) from verdicts where model = ? "
        "group by dataset, problem_id order by dataset, problem_id",
        [model],
    )
    found: dict[str, list[tuple[int, int]]] = {}
    for dataset, n, c in counted.fetchall():
        found.setdefault(dataset, []).append((n, c))
    return found


def format_plans(params: Params, goal: PowerGoal, plans: list[PowerPlan], width: int = 80) -> str:
    """The tables for people, with what they assume."""
    blocks = []
    for plan in plans:
        heading = (
            f"To see a net change of {100 * goal.detect:.3g}% of the problems from {plan.base} with a power of "
            f"{100 * goal.power:.3g}%:"
        )
        header = ["k", "reached", "by luck", "problems", "completions"]
        if plan.run_problems:
            header.append(f"{plan.run_problems:,} show")
        rows = [_format_row(row, len(header)) for row in plan.rows]
        table = format_text_table(header, rows, align=["right"] * len(header))
        notes = (textwrap.fill(note, width, break_on_hyphens=False) for note in describe_plan(params, plan))
        blocks.append("\n".join([textwrap.fill(heading, width), table, "", *notes]))
    common = (textwrap.fill(note, width, break_on_hyphens=False) for note in COMMON_NOTES)
    return "\n\n".join([*blocks, "\n".join(common)])


def _format_row(row: PlanRow, columns: int) -> list[str]:
    whole = [MISSING_VALUE if number is None else f"{number:,}" for number in (row.problems, row.completions)]
    detectable = MISSING_VALUE if row.detectable is None else f"{row.detectable:.1%}"
    return [f"{row.k:,}", f"{row.luck.reach:.1%}", f"{row.luck.flips:.1%}", *whole, detectable][:columns]


COMMON_NOTES = (
    "Reached: the share of the problems that k samples of the base solve (by the run's ε). By luck: the share that "
    "looks gained though nothing changed; as many look lost. Completions: of one pair, two models.",
    "The change is in what k samples reach: choose k by your question, then the number of problems by this table.",
)


def describe_plan(params: Params, plan: PowerPlan) -> Iterator[str]:
    masses = plan.source.distribution
    yield (
        f"Masses: {plan.source.about}: {masses.never:.0%} of the problems are never solved, the others follow "
        f"Beta({masses.a:.3g}, {masses.b:.3g})."
    )
    pairs = len(params.run.pairs)
    corrected = f", corrected for {pairs} pairs" if pairs > 1 else ""
    yield f"The decision is `more` or `fewer` at {100 * params.categorize.confidence:.3g}% confidence{corrected}."
    if plan.source.samples and plan.source.samples < plan.rows[-1].k:
        yield f"Rows above k = {plan.source.samples:,} extrapolate and may ask for too few problems."
    own = run_ks(params, plan.base)
    shown = [f"{row.detectable:.1%} at k = {row.k:,}" for row in plan.rows if row.k in own and row.detectable]
    if shown and plan.run_problems:
        yield f"This run's {pluralize(plan.run_problems, 'problem')} show net changes from {join_names(shown)} on."

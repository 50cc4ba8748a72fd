"""What certificates will cost, before they are paid for: problems, rollouts, tokens and hours of the stage `reach`.

In:  params.yaml, the tasks that the stage finds in the verdicts on disk or, without verdicts, the first samples of each
     problem, which are graded here.
Out: a table for people. Unknown values are a dash, never a guess.

Verdicts give the problems that the stage examines now. From fewer samples follows the expected number: hit rates are
spread over the problems of a data set by a beta distribution, as for the adaptive budget
(leash/sampling/cost_estimate.py), and the two models of a pair are independent given their samples. Not covered: the
time to score known completions, and rollouts that are already on disk.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from scipy import stats

from leash.engines import selection
from leash.formatting import MISSING_VALUE, format_count, format_text_table, pluralize
from leash.params.groups import Params
from leash.reach.tasks import Task
from leash.sampling.cost_estimate import (
    MAX_GRADED_SAMPLES,
    CostAssumptions,
    count_hits,
    count_stored_samples,
    fit_hit_rate_prior,
    load_problems_offline,
)
from leash.statistics.counts import ROLES

# What the note of a run without certificates names as a budget.
ADVISED_ROLLOUTS = 2048


@dataclass(frozen=True)
class ReachCost:
    """The cost of one pair and target, over all data sets. None means unknown. A float is an expected number."""

    pair: str
    target: str
    problems: float | None
    rollouts: float | None
    tokens: float | None
    hours: float | None  # of one worker

    @property
    def cells(self) -> list[str]:
        problems = MISSING_VALUE if self.problems is None else format_count(self.problems)
        numbers = ((self.rollouts, 1, 0), (self.tokens, 1e6, 2), (self.hours, 1, 2))
        counts = [MISSING_VALUE if n is None else f"{n / unit:,.{digits}f}" for n, unit, digits in numbers]
        return [self.pair, self.target, problems, *counts]


@dataclass(frozen=True)
class SampledRates:
    """Graded samples (n) and hits (c) of each problem, and the beta distribution of hit rates that fits them."""

    counts: list[tuple[int, int]]
    prior: tuple[float, float]

    def chances_of_at_most(self, hits: int, k: int) -> list[float]:
        """For each problem, the chance of at most this many hits in k samples, given those that are graded."""
        a, b = self.prior
        return [
            float(c <= hits) if n >= k else float(stats.betabinom.cdf(hits - c, k - n, a + c, b + n - c))
            for n, c in self.counts
        ]


def estimate_reach_costs(
    params: Params,
    tasks: Sequence[Task] | None,
    given: CostAssumptions,
    speeds: Mapping[tuple[str, str], float | None],
) -> list[ReachCost]:
    """The costs of all pairs and targets. `tasks` is None if there are no verdicts; `speeds` has the tokens per second
    that a pilot measured, by model and data set. Figures from the user replace measured ones."""
    runs = {
        (model, dataset)
        for pair in params.run.pairs
        for model in params.models_of(pair)
        for dataset in params.run.datasets
    }
    measured = {run: count_stored_samples(*run, load_problems_offline(params, run[1])).mean_tokens for run in runs}
    rates = {run: grade_samples(params, *run) for run in runs} if tasks is None else {}

    def estimate_part(pair: str, role: str, dataset: str) -> ReachCost:
        base, rlvr = params.models_of(pair)
        target, donor = (base, rlvr) if role == "base" else (rlvr, base)
        problems: float | None
        if tasks is None:
            problems = expect_tasks(params, target, donor, dataset, rates)
        else:
            places = (task.place for task in tasks)
            problems = sum((each.pair, each.role, each.dataset) == (pair, role, dataset) for each in places)
        # A prefix is free, but the donor's solutions may be longer than the target's samples: as long as those.
        length, speed = given.mean_tokens or measured[target, dataset], given.speed
        if not speed and (pilot := speeds.get((target, dataset))):
            speed = pilot / selection.build_engine_spec(params, target).plan.workers
        rollouts = None if problems is None else problems * params.reach.rollouts
        tokens = 0.0 if not rollouts and rollouts is not None else rollouts and length and rollouts * length
        hours = 0.0 if tokens == 0 else tokens and speed and tokens / speed / 3600
        return ReachCost(pair, target, problems, rollouts, tokens, hours)

    costs = []
    for pair, role in product(params.run.pairs, ROLES):
        parts = [estimate_part(pair, role, dataset) for dataset in params.run.datasets]
        costs.append(ReachCost(pair, parts[0].target, *_sum_known(parts)))
    return costs


def grade_samples(params: Params, model: str, dataset: str) -> SampledRates | None:
    """None if there are no samples, or if they cannot be graded here."""
    problems = load_problems_offline(params, dataset)
    stored = count_stored_samples(model, dataset, problems)
    hits = count_hits(params, model, dataset, problems) if stored.mean_tokens is not None else None
    if hits is None:
        return None
    counts = [(min(n, MAX_GRADED_SAMPLES), c) for n, c in zip(stored.samples, hits, strict=True)]
    return SampledRates(counts, fit_hit_rate_prior(counts))


def expect_tasks(
    params: Params, target: str, donor: str, dataset: str, rates: Mapping[tuple[str, str], SampledRates | None]
) -> float | None:
    """The expected number of problems on which the target has few hits and the donor at least one."""
    own, other = rates[target, dataset], rates[donor, dataset]
    if params.engine(target) == "import":
        return 0.0  # nothing can be drawn from it
    if own is None or other is None:
        return None
    k, stop = min(params.k(model, dataset) for model in (target, donor)), params.sample.stop_after
    hits = params.reach.hits if stop is None else min(params.reach.hits, stop - 1)
    chances = zip(own.chances_of_at_most(hits, k), other.chances_of_at_most(0, k), strict=True)
    return sum(few * (1 - none) for few, none in chances)


def _sum_known(parts: Sequence[ReachCost]) -> Iterator[float | None]:
    """Problems, rollouts, tokens and hours in all; None if any part is unknown."""
    for name in ("problems", "rollouts", "tokens", "hours"):
        values = [getattr(part, name) for part in parts]
        yield None if None in values else sum(values)


def format_reach_costs(
    params: Params, tasks: Sequence[Task] | None, costs: Sequence[ReachCost], reasons: Sequence[str], width: int = 80
) -> str:
    """The lines for people: the table with totals, and notes on what is left out, assumed or unknown."""
    header = ["pair", "bounds on", "problems", "rollouts", "M tokens", "hours"]
    rows = [cost.cells for cost in costs]
    rows.append(ReachCost("all", "", *_sum_known(costs)).cells)
    table = format_text_table(header, rows, align=["left"] * 2 + ["right"] * 4)
    title = f"Certificates, with {pluralize(params.reach.rollouts, 'rollout')} per problem (`reach.rollouts`):"
    notes = [*reasons, *_describe_assumptions(tasks, costs)]
    return "\n".join([title, table, "", *(textwrap.fill(note, width, break_on_hyphens=False) for note in notes)])


def _describe_assumptions(tasks: Sequence[Task] | None, costs: Sequence[ReachCost]) -> Iterator[str]:
    if tasks is not None:
        yield "Problems are counted in the verdicts on disk, once for each pair and model."
    elif any(cost.problems is not None for cost in costs):
        yield "Problems are expected numbers, from the samples on disk."
    yield "Rollouts that are on disk are not drawn again. Scoring of known solutions comes on top."
    if any(cost.problems is None for cost in costs):
        yield (
            f"{MISSING_VALUE} for problems: they depend on the hits of both models. That needs verdicts, or samples (a "
            f"pilot, which the run keeps) and a grader that can run while sampling."
        )


def describe_missed_certificates(tasks: Sequence[Task] | None, width: int = 80) -> str | None:
    """A note for a run without certificates: what they would add. None if it would add nothing, or without verdicts."""
    if not tasks:
        return None
    note = (
        f"No certificates (`reach.rollouts: 0`). With {ADVISED_ROLLOUTS}, {len(tasks) * ADVISED_ROLLOUTS:,} rollouts "
        f"would bound masses far below 1/k, of {pluralize(len(tasks), 'problem')} that one model of a pair solved and "
        f"the other hardly ever or never did."
    )
    return textwrap.fill(note, width, break_on_hyphens=False)

"""Estimate the cost of a run before it starts, per model and data set, with a fixed and with an adaptive budget.

In:  params.yaml, and the problems and completions on disk. A data set that was not fetched is generated or read in
     memory; one on the hub is counted by the known size of its benchmark. This needs no engine, weights or network.
Out: a table for people. Unknown values are a dash, never a guess: lengths and hit rates come from samples on disk.

A pilot (`leash plan --pilot`, in the command line) draws the first samples of every problem and keeps them.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import optimize, stats

from leash import tables
from leash.datasets import loading
from leash.engines import selection
from leash.errors import LeashError
from leash.formatting import MISSING_VALUE, format_text_table
from leash.params.groups import Params
from leash.problems import Problem, index_problems, load_problems
from leash.sample_ledger import Ledger
from leash.sampling import sampler
from leash.statistics.support import hits_to_prove, min_hits_above

# Grading more samples of a problem would take long and change the estimate little.
MAX_GRADED_SAMPLES = 16
# On disk, if there are no completions to measure: text of four letters per token, compressed.
BYTES_PER_TOKEN = 1.5


class UnknownSizeError(LeashError):
    """The number of problems of a data set on the hub is not known before it is fetched."""

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        super().__init__(
            f"The number of problems of {dataset} is unknown until it is downloaded. Get it with `leash fetch "
            f"{dataset}`."
        )


@dataclass(frozen=True)
class CostAssumptions:
    """Figures from the user: mean tokens per completion, and tokens per second of one worker."""

    mean_tokens: float | None = None
    speed: float | None = None


@dataclass(frozen=True)
class Cost:
    """The cost of the missing samples of one model on one data set. None means unknown."""

    model: str
    dataset: str
    budget: str  # "k = 1024" or "stop after 1"
    completions: float | None
    tokens: float | None = None
    hours: float | None = None  # of one worker: a GPU with vLLM, a core with torch
    disk: float | None = None  # bytes
    counted: int | None = None  # number of problems, if they are not fetched yet
    drawn: bool = False  # whether there are samples on disk

    @property
    def cells(self) -> list[str]:
        numbers = ((self.completions, 1, 0), (self.tokens, 1e6, 2), (self.hours, 1, 2), (self.disk, 1e6, 1))
        counts = [MISSING_VALUE if n is None else f"{n / unit:,.{digits}f}" for n, unit, digits in numbers]
        return [self.model, self.dataset, self.budget, *counts]

    @property
    def is_adaptive(self) -> bool:
        return self.budget.startswith("stop")


@dataclass(frozen=True)
class ProblemSet:
    """The problems of a data set by id. If they are still on the hub, only their number is known."""

    by_id: Mapping[str, Problem] | None
    count: int


@dataclass(frozen=True)
class SampleStats:
    """Samples on disk: how many each problem has, and means over completions (None if there are none)."""

    samples: list[int]
    mean_tokens: float | None
    mean_bytes: float | None

    def missing(self, k: int) -> int:
        return sum(k - min(n, k) for n in self.samples)


def run(
    params: Params, given: CostAssumptions, speeds: Mapping[tuple[str, str], float | None] | None = None
) -> list[Cost]:
    """The costs of all models and data sets of the run, each with both budgets. `speeds` has the tokens per second that
    a pilot measured, by model and data set."""
    costs: list[Cost] = []
    for model, dataset in product(sampled_models(params), params.run.datasets):
        costs += estimate_costs(params, model, dataset, given, (speeds or {}).get((model, dataset)))
    return costs


def sampled_models(params: Params) -> list[str]:
    """The models of the run that are sampled here, not imported."""
    return [model for model in params.run.models if selection.choose_engine(params, model) != "import"]


def _advised_stop(params: Params, k: int) -> int:
    """The fewest hits after which a problem may stop: enough for its category, and to prove a mass above epsilon as
    surely as all k samples would."""
    epsilon = params.epsilon(k)
    return max(min_hits_above(epsilon, k), min(hits_to_prove(epsilon, k, params.categorize.confidence), k))


def estimate_costs(
    params: Params, model: str, dataset: str, given: CostAssumptions, measured_speed: float | None
) -> Iterator[Cost]:
    """The cost with the fixed budget, then with the adaptive one. Figures from the user replace measured ones."""
    problems = load_problems_offline(params, dataset)
    on_disk = count_stored_samples(model, dataset, problems)
    hits = count_hits(params, model, dataset, problems) if on_disk.mean_tokens is not None else None
    mean_tokens = given.mean_tokens or on_disk.mean_tokens
    speed = given.speed
    if not speed and measured_speed:
        speed = measured_speed / selection.build_engine_spec(params, model).plan.workers
    mean_bytes = on_disk.mean_bytes or (mean_tokens and mean_tokens * BYTES_PER_TOKEN)
    k, stop = params.k(model, dataset), params.sample.stop_after
    if not stop:
        stop = max(_advised_stop(params, params.pair_k(pair, dataset)) for pair in params.run.pairs)
    adaptive = None
    if hits is not None:
        counts = list(zip(on_disk.samples, hits, strict=True))
        prior = fit_hit_rate_prior(counts)
        adaptive = sum(expected_more_samples(n, c, stop, k, params.sample.floor, prior) for n, c in counts)
    for budget, completions in ((f"k = {k}", float(on_disk.missing(k))), (f"stop after {stop}", adaptive)):
        tokens = None if completions is None or mean_tokens is None else completions * mean_tokens
        hours = tokens / speed / 3600 if tokens is not None and speed else None
        disk = completions * mean_bytes if completions is not None and mean_bytes else None
        counted = problems.count if problems.by_id is None else None
        yield Cost(model, dataset, budget, completions, tokens, hours, disk, counted, drawn=any(on_disk.samples))


def load_problems_offline(params: Params, dataset: str) -> ProblemSet:
    """The problems of a data set, without a network and without writing anything."""
    if tables.problems_path(dataset).exists():
        problems = load_problems(dataset)
    elif not loading.is_on_hub(params.datasets[dataset]):
        problems = index_problems(loading.load_problems(params, dataset).rows)
    else:
        count = loading.known_problem_count(dataset, params.datasets[dataset])
        if count is None:
            raise UnknownSizeError(dataset)
        return ProblemSet(None, count)
    return ProblemSet(problems, len(problems))


def count_stored_samples(model: str, dataset: str, problems: ProblemSet) -> SampleStats:
    """How many samples each problem has on disk, and how large they are. Texts are not read."""
    ledger = Ledger(tables.completions_folder(model, dataset))
    parts = list(ledger.peek(["problem_id", "sample", "tokens"]))
    if not any(part.num_rows for part in parts):
        return SampleStats([0] * problems.count, None, None)
    rows = pa.concat_tables(parts)
    counts = rows.group_by("problem_id").aggregate([("sample", "count_distinct")]).to_pydict()
    count_of = dict(zip(counts["problem_id"], counts["sample_count_distinct"], strict=True))
    samples = [count_of.get(problem, 0) for problem in (count_of if problems.by_id is None else problems.by_id)]
    samples += [0] * (problems.count - len(samples))
    return SampleStats(samples, pc.mean(rows["tokens"]).as_py(), ledger.size / rows.num_rows)


def count_hits(params: Params, model: str, dataset: str, problems: ProblemSet) -> list[int] | None:
    """How many of the first samples of each problem are correct. None if they cannot be graded here: the problems are
    not fetched, or their grader costs money, is slow, or lacks something (which `leash doctor` reports)."""
    is_hit = None
    with suppress(LeashError):
        is_hit = sampler.make_hit_check(params, dataset, problems.by_id) if problems.by_id is not None else None
    if is_hit is None or problems.by_id is None:
        return None
    hits: dict[tuple[str, int], bool] = {}
    ledger = Ledger(tables.completions_folder(model, dataset))
    for part in ledger.peek(["problem_id", "sample", "text", "finish"], below=MAX_GRADED_SAMPLES):
        for row in part.to_pylist():
            key = row["problem_id"], row["sample"]
            if key not in hits and row["problem_id"] in problems.by_id:
                hits[key] = is_hit(row["problem_id"], row["text"], row["finish"])
    per_problem = Counter(problem for (problem, _), hit in hits.items() if hit)
    return [per_problem[problem] for problem in problems.by_id]


def fit_hit_rate_prior(counts: list[tuple[int, int]]) -> tuple[float, float]:
    """The beta distribution of hit rates across problems that fits these (samples, hits) best. Problems that are out of
    reach, and cost k samples each, show in it as weight near zero."""
    n = np.array([min(n, MAX_GRADED_SAMPLES) for n, _ in counts])
    c = np.array([c for _, c in counts])

    def negative_log_likelihood(log_parameters: NDArray[np.float64]) -> float:
        return -float(np.sum(stats.betabinom.logpmf(c, n, *np.exp(log_parameters))))

    bounds = [(-3, 3), (-3, 5)]
    fit = optimize.minimize(negative_log_likelihood, x0=np.log([0.5, 0.5]), method="Nelder-Mead", bounds=bounds)
    a, b = np.exp(fit.x).tolist()
    return a, b


@lru_cache(maxsize=4096)
def expected_more_samples(n: int, c: int, stop: int, k: int, floor: int, prior: tuple[float, float]) -> float:
    """The expected number of further samples of a problem with c hits in n samples. Sample m is drawn if fewer than
    `stop` samples before it are hits, or if m is below the floor."""
    graded = min(n, MAX_GRADED_SAMPLES)
    before = np.arange(n, k)
    unfinished = stats.betabinom.cdf(stop - 1 - c, before - graded, prior[0] + c, prior[1] + graded - c)
    return float(np.where(before < floor, 1.0, unfinished).sum())


def format_costs(params: Params, costs: list[Cost], width: int = 80) -> str:
    """The table for people, with totals, and notes on assumptions and unknown values."""
    if not costs:
        return "All models of this run are imported: there is nothing to sample."
    header = ["model", "data set", "budget", "completions", "M tokens", "hours", "MB"]
    rows = [cost.cells for cost in costs]
    for budget in ("fixed", "adaptive"):
        parts = [cost for cost in costs if cost.is_adaptive == (budget == "adaptive")]
        columns = zip(*((cost.completions, cost.tokens, cost.hours, cost.disk) for cost in parts), strict=True)
        completions, tokens, hours, disk = (None if None in column else sum(filter(None, column)) for column in columns)
        rows.append(Cost("all", "", budget, completions, tokens, hours, disk).cells)
    table = format_text_table(header, rows, align=["left"] * 3 + ["right"] * 4)
    notes = (textwrap.fill(note, width, break_on_hyphens=False) for note in describe_assumptions(params, costs))
    return "\n".join([table, "", *notes])


def describe_assumptions(params: Params, costs: list[Cost]) -> Iterator[str]:
    stop = params.sample.stop_after
    yield f"This run's budget is {'fixed' if stop is None else f'adaptive (`sample.stop_after: {stop}`)'}."
    yield "Hours are those of one worker: one GPU with vLLM, one core with torch."
    if counted := {cost.dataset: cost.counted for cost in costs if cost.counted is not None}:
        sizes = ", ".join(f"{dataset} ({count:,})" for dataset, count in counted.items())
        yield f"Not fetched yet, so the size is that of the published benchmark: {sizes}."
    if any(cost.tokens is None for cost in costs if not cost.is_adaptive):
        yield (
            f"{MISSING_VALUE} for tokens, hours and MB: there are no samples to measure. Pass `--mean-tokens`, or draw "
            f"a pilot."
        )
    if any(cost.completions is None for cost in costs):
        yield (
            f"{MISSING_VALUE} for an adaptive budget: it depends on how often models are right. That needs samples (a "
            f"pilot, which the run keeps) and a grader that can run while sampling."
        )


def is_pilot_needed(costs: list[Cost]) -> bool:
    """Whether a model has no samples on a data set, so that its lengths and hit rates are unknown."""
    return any(not cost.drawn for cost in costs)

"""What a run will cost before it is paid for, per model and data set, with a fixed and with an adaptive budget.

In:  params.yaml; problems and completions as far as they are here. A data set that was not fetched is generated or read
     in memory; one that is still on the hub is counted by its benchmark's known size. Nothing needs an engine, weights
     or a network.
Out: a table for people. What is not known is a dash, never a guess: lengths and hit rates come from samples on disk.

A pilot draws the first few samples of every problem. They are the run's own first samples, and are kept. It needs
everything that sampling needs, and fetches the data sets that are missing.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy import optimize, stats

from stages import fetch, sample, tables, verify
from stages.errors import LeashError
from stages.params import Params, hits_above
from stages.sample import engines
from stages.sample.ledger import Ledger

LOOK_AT = 16  # samples of a problem that are graded, at most
BYTES_PER_TOKEN = 1.5  # on disk, where no completion has been seen: text of four letters a token, compressed
UNKNOWN = "–"


@dataclass(frozen=True)
class Given:
    """What the user says: mean tokens a completion, tokens a second of one worker."""

    mean_tokens: float | None = None
    speed: float | None = None


@dataclass(frozen=True)
class Cost:
    """Drawing what is missing of one model on one data set. None: not known."""

    model: str
    dataset: str
    budget: str  # k = 1024, or stop after 1
    completions: float | None
    tokens: float | None = None
    hours: float | None = None  # of one worker: a GPU with vLLM, a core with torch
    disk: float | None = None  # bytes
    counted: int | None = None  # problems, if these are on the hub and only their number is known
    drawn: bool = False  # whether there are samples on disk

    @property
    def cells(self) -> list[str]:
        numbers = ((self.completions, 1, 0), (self.tokens, 1e6, 2), (self.hours, 1, 2), (self.disk, 1e6, 1))
        counts = [UNKNOWN if n is None else f"{n / unit:,.{digits}f}" for n, unit, digits in numbers]
        return [self.model, self.dataset, self.budget, *counts]

    @property
    def is_adaptive(self) -> bool:
        return self.budget.startswith("stop")


@dataclass(frozen=True)
class Problems:
    """The problems of a data set by id; or, if they are still on the hub, only how many."""

    by_id: Mapping[str, verify.Problem] | None
    count: int


@dataclass(frozen=True)
class Seen:
    """What the samples on disk tell: how many each problem has, and means over completions (None without any)."""

    samples: list[int]
    mean_tokens: float | None
    mean_bytes: float | None

    def missing(self, k: int) -> int:
        return sum(k - min(n, k) for n in self.samples)


def run(params: Params, given: Given, pilot: int | None = None) -> list[Cost]:
    """The costs of all models and data sets of the run, each with both budgets."""
    runs = [(model, dataset) for model in sampled_models(params) for dataset in params.run.datasets]
    if pilot and runs:
        fetch_missing(params)
    return list(chain.from_iterable(costs(params, model, dataset, given, pilot) for model, dataset in runs))


def sampled_models(params: Params) -> list[str]:
    """The models of the run that are sampled here, not imported."""
    return [model for model in params.run.models if engines.chosen(params, model) != "import"]


def fetch_missing(params: Params) -> None:
    """Write the problems that are not here yet, all before anything is drawn."""
    for dataset in params.run.datasets:
        if not tables.problems_path(dataset).exists():
            for warning in fetch.run(params, dataset).warnings:
                click.echo(f"Note: {warning}", err=True)


def costs(params: Params, model: str, dataset: str, given: Given, pilot: int | None) -> Iterator[Cost]:
    drawn = sample.run(params, model, dataset, pilot=pilot) if pilot else sample.Drawn()
    problems = known_problems(params, dataset)
    seen = measure(model, dataset, problems)
    hits = count_hits(params, model, dataset, problems) if seen.mean_tokens is not None else None
    tokens = given.mean_tokens or seen.mean_tokens
    speed = given.speed or (drawn.speed and drawn.speed / engines.kind_of(params, model).crew.workers)
    size = seen.mean_bytes or (tokens and tokens * BYTES_PER_TOKEN)
    k, stop = params.k(model, dataset), params.sample.stop_after or least_stop(params, dataset)
    adaptive = None
    if hits is not None:
        counts = list(zip(seen.samples, hits, strict=True))
        prior = shares(counts)
        adaptive = sum(more_samples(n, c, stop, k, params.sample.floor, prior) for n, c in counts)
    for budget, completions in ((f"k = {k}", float(seen.missing(k))), (f"stop after {stop}", adaptive)):
        drawing = None if completions is None or tokens is None else completions * tokens
        yield Cost(
            model,
            dataset,
            budget,
            completions,
            drawing,
            drawing / speed / 3600 if drawing is not None and speed else None,
            completions * size if completions is not None and size else None,
            problems.count if problems.by_id is None else None,
            any(seen.samples),
        )


def known_problems(params: Params, dataset: str) -> Problems:
    """The problems of a data set without a network and without writing anything."""
    if tables.problems_path(dataset).exists():
        found = verify.problems_of(dataset)
    elif not fetch.is_on_hub(params.datasets[dataset]):
        found = verify.by_id(fetch.problems(params, dataset).rows)
    else:
        count = fetch.known_count(dataset, params.datasets[dataset])
        if count is None:
            raise LeashError(
                f"The number of problems of {dataset} is not known before it is downloaded; get it with "
                f"`leash fetch {dataset}`."
            )
        return Problems(None, count)
    return Problems(found, len(found))


def measure(model: str, dataset: str, problems: Problems) -> Seen:
    """How many samples each problem has on disk, and how large they are. Reads no text."""
    ledger = Ledger(tables.completions_folder(model, dataset))
    parts = list(ledger.peek(["problem_id", "sample", "tokens"]))
    if not any(part.num_rows for part in parts):
        return Seen([0] * problems.count, None, None)
    rows = pa.concat_tables(parts)
    counted = rows.group_by("problem_id").aggregate([("sample", "count_distinct")])
    held = dict(zip(counted["problem_id"].to_pylist(), counted["sample_count_distinct"].to_pylist(), strict=True))
    samples = [held.get(problem, 0) for problem in (held if problems.by_id is None else problems.by_id)]
    samples += [0] * (problems.count - len(samples))
    return Seen(samples, pc.mean(rows["tokens"]).as_py(), ledger.size / rows.num_rows)


def count_hits(params: Params, model: str, dataset: str, problems: Problems) -> list[int] | None:
    """How many of the first samples of each problem are right; None if nobody here can tell: the problems are not here,
    or their grader costs money, takes long or lacks something, which `leash doctor` reports."""
    if problems.by_id is None:
        return None
    check = None
    with suppress(LeashError):
        check = sample.checker(params, dataset, problems.by_id)
    if check is None:
        return None
    hits: Counter[str] = Counter()
    looked_at: set[tuple[str, int]] = set()
    for part in Ledger(tables.completions_folder(model, dataset)).peek(["problem_id", "sample", "text"], below=LOOK_AT):
        for row in part.to_pylist():
            key = row["problem_id"], row["sample"]
            if key not in looked_at and row["problem_id"] in problems.by_id:
                looked_at.add(key)
                hits[row["problem_id"]] += check(row["problem_id"], row["text"])
    return [hits[problem] for problem in problems.by_id]


def least_stop(params: Params, dataset: str) -> int:
    """The fewest hits after which a problem may stop at the chosen epsilon, for any pair."""
    ks = [params.pair_k(pair, dataset) for pair in params.run.pairs]
    return max(hits_above(params.epsilon(k), k) for k in ks)


def shares(counts: list[tuple[int, int]]) -> tuple[float, float]:
    """The beta distribution of the problems' shares of hits under which (samples, hits) like these are likeliest.
    Problems out of reach, which cost k samples each, show in it as weight near zero."""
    n = np.array([min(n, LOOK_AT) for n, _ in counts])
    c = np.array([c for _, c in counts])

    def unlikely(logs: NDArray[np.float64]) -> float:
        return -float(np.sum(stats.betabinom.logpmf(c, n, *np.exp(logs))))

    found = optimize.minimize(unlikely, x0=np.log([0.5, 0.5]), method="Nelder-Mead", bounds=[(-3, 3), (-3, 5)])
    a, b = np.exp(found.x).tolist()
    return a, b


@lru_cache(maxsize=4096)
def more_samples(n: int, c: int, stop: int, k: int, floor: int, prior: tuple[float, float]) -> float:
    """How many samples a problem of which c of the first n were right is expected to need until it stops: sample m is
    drawn when fewer than `stop` of those before it were right, or when it lies below the floor."""
    looked = min(n, LOOK_AT)
    before = np.arange(n, k)
    further = stats.betabinom.cdf(stop - 1 - c, before - looked, prior[0] + c, prior[1] + looked - c)
    return float(np.where(before < floor, 1.0, further).sum())


def shown(params: Params, costs: list[Cost], width: int = 80) -> str:
    """The table people read, with what all of it takes together, and notes on what is not known."""
    if not costs:
        return "All models of this run are imported: there is nothing to sample."
    head = ["model", "data set", "budget", "completions", "M tokens", "hours", "MB"]
    rows = [head, *(cost.cells for cost in costs), *(_total(costs, adaptive).cells for adaptive in (False, True))]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    sides = [str.ljust] * 3 + [str.rjust] * 4
    lines = ["  ".join(side(cell, w) for side, cell, w in zip(sides, row, widths, strict=True)) for row in rows]
    wrapped = (textwrap.fill(note, width, break_on_hyphens=False) for note in notes(params, costs))
    return "\n".join([*lines, "", *wrapped])


def notes(params: Params, costs: list[Cost]) -> Iterator[str]:
    """What the table's figures rest on."""
    stop = params.sample.stop_after
    yield f"This run's budget is {'fixed' if stop is None else f'adaptive (`sample.stop_after: {stop}`)'}."
    yield "Hours are those of one worker: one GPU with vLLM, one core with torch."
    if counted := {cost.dataset: cost.counted for cost in costs if cost.counted is not None}:
        sizes = ", ".join(f"{dataset} ({count:,})" for dataset, count in counted.items())
        yield f"Not fetched yet, so counted as the benchmark has them: {sizes}."
    if any(cost.tokens is None for cost in costs if not cost.is_adaptive):
        yield f"{UNKNOWN} for tokens, hours and MB: no samples yet to measure. Give `--mean-tokens`, or draw a pilot."
    if any(cost.completions is None for cost in costs):
        yield (
            f"{UNKNOWN} for an adaptive budget: it depends on how often models are right. That needs samples (a pilot, "
            f"which the run keeps) and a grader that may be called while sampling."
        )


def wants_pilot(costs: list[Cost]) -> bool:
    """Whether some model has no samples yet on some data set, so that its lengths and hit rates are not known."""
    return any(not cost.drawn for cost in costs)


def _total(costs: list[Cost], adaptive: bool) -> Cost:
    mine = [cost for cost in costs if cost.is_adaptive == adaptive]

    def added(field: str) -> float | None:
        values = [getattr(cost, field) for cost in mine]
        return None if None in values else float(sum(values))

    name = "adaptive" if adaptive else "fixed"
    return Cost("all", "", name, added("completions"), added("tokens"), added("hours"), added("disk"))

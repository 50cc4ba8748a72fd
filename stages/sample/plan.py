"""What a run would cost before it is paid for, per model and data set, with a fixed and with an adaptive budget.

How long completions are, how fast they are drawn and how often they are right is taken from a pilot: the first few
samples of every problem, which are kept, since they are the run's own first samples. Or it is said by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from stages import sample, tables, verify
from stages.errors import LeashError
from stages.params import Params, hits_above
from stages.sample import engines
from stages.sample.ledger import Ledger

LOOK_AT = 16  # samples of a problem that are looked at, at most
BYTES_PER_TOKEN = 1.5  # on disk, where no completion has been seen: text of four letters a token, compressed


@dataclass(frozen=True)
class Given:
    """What the user says: mean tokens a completion, tokens a second of one worker."""

    mean_tokens: float | None = None
    speed: float | None = None


@dataclass(frozen=True)
class Cost:
    """Drawing what is missing of one model on one data set."""

    model: str
    dataset: str
    budget: str  # k = 1024, or stop after 1
    completions: float
    tokens: float
    hours: float | None  # of one worker: a GPU with vLLM, a core with torch
    disk: float  # bytes

    @property
    def cells(self) -> list[str]:
        hours = "–" if self.hours is None else f"{self.hours:,.2f}"
        counts = [f"{self.completions:,.0f}", f"{self.tokens / 1e6:,.2f}", hours, f"{self.disk / 1e6:,.1f}"]
        return [self.model, self.dataset, self.budget, *counts]


@dataclass(frozen=True)
class Seen:
    """What the samples on disk tell: samples and hits of each problem looked at, and means over completions."""

    counts: list[tuple[int, int]]
    mean_tokens: float | None
    mean_bytes: float | None


def run(params: Params, given: Given, pilot: int | None = None) -> list[Cost]:
    """The costs of all models and data sets of the run, each with both budgets."""
    runs = [(model, dataset) for model in params.run.models for dataset in params.run.datasets]
    return list(chain.from_iterable(costs(params, model, dataset, given, pilot) for model, dataset in runs))


def costs(params: Params, model: str, dataset: str, given: Given, pilot: int | None) -> Iterator[Cost]:
    if engines.chosen(params, model) == "import":
        return
    drawn = sample.run(params, model, dataset, pilot=pilot) if pilot else sample.Drawn()
    seen = look(params, model, dataset)
    tokens = given.mean_tokens or seen.mean_tokens
    if tokens is None:
        raise LeashError(
            f"Nothing is known of the length of {model}'s completions on {dataset}; draw a pilot, which is kept, with "
            f"`leash plan --pilot 4`, or say it with `--mean-tokens`."
        )
    speed = given.speed or (drawn.speed and drawn.speed / engines.kind_of(params, model).crew.workers)
    size = seen.mean_bytes or tokens * BYTES_PER_TOKEN
    k, stop = params.k(model, dataset), params.sample.stop_after or least_stop(params, dataset)
    prior = shares(seen.counts)
    fixed = float(sum(k - min(n, k) for n, _ in seen.counts))
    adaptive = sum(more_samples(n, c, stop, k, params.sample.floor, prior) for n, c in seen.counts)
    for budget, completions in ((f"k = {k}", fixed), (f"stop after {stop}", adaptive)):
        hours = completions * tokens / speed / 3600 if speed else None
        yield Cost(model, dataset, budget, completions, completions * tokens, hours, completions * size)


def look(params: Params, model: str, dataset: str) -> Seen:
    """How many samples each problem has, how many of the first ones are right, and how large they are."""
    problems = verify.problems_of(dataset)
    ledger = Ledger(tables.completions_folder(model, dataset))
    held = ledger.have() if ledger.folder.is_dir() else {}
    check = sample.checker(params, dataset, problems)
    hits: Counter[str] = Counter()
    tokens: list[int] = []
    for row in ledger.texts() if held else ():
        if row["sample"] < LOOK_AT and row["problem_id"] in problems:
            tokens.append(row["tokens"] or 0)
            hits[row["problem_id"]] += bool(check and check(row["problem_id"], row["text"]))
    files = tables.shards(ledger.folder)
    rows = sum(map(len, held.values()))
    return Seen(
        [(len(held.get(problem, ())), hits[problem]) for problem in problems],
        float(np.mean(tokens)) if tokens else None,
        sum(file.stat().st_size for file in files) / rows if rows and files else None,
    )


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


def shown(costs: list[Cost]) -> str:
    """The table people read, with what all of it takes together."""
    head = ["model", "data set", "budget", "completions", "million tokens", "hours", "MB on disk"]
    rows = [head, *(cost.cells for cost in costs), *(_total(costs, adaptive) for adaptive in (False, True))]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    sides = [str.ljust] * 3 + [str.rjust] * 4
    lines = ["  ".join(side(cell, w) for side, cell, w in zip(sides, row, widths, strict=True)) for row in rows]
    return "\n".join([*lines, "", "Hours are those of one worker: a GPU with vLLM, a core with torch."])


def _total(costs: list[Cost], adaptive: bool) -> list[str]:
    mine = [cost for cost in costs if cost.budget.startswith("stop") == adaptive]
    hours = [cost.hours for cost in mine if cost.hours is not None]
    return Cost(
        "all",
        "",
        "adaptive" if adaptive else "fixed",
        sum(cost.completions for cost in mine),
        sum(cost.tokens for cost in mine),
        sum(hours) if mine and len(hours) == len(mine) else None,
        sum(cost.disk for cost in mine),
    ).cells

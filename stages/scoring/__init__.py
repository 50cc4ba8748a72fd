"""Teacher forcing: how a model sees texts that are already there. Shared by perplexity and entropy.

    Trace(Prompt("compute 3 + 4 :"), "\\boxed{ 7 }", ended=True)  ->  Score(tokens=4, nll=0.31, token_entropy=0.12)

Scores are kept until the traces or the weights change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stages import disk, tables
from stages.models import Weights, has_weights, load
from stages.params import Params
from stages.progress import Progress
from stages.prompts import Prompt, images_of
from stages.work import Crew, spread

if TYPE_CHECKING:
    from stages.scoring.scorer import Scorer

UNIT = 512  # traces a worker scores at a time
PRELOAD = ("stages.scoring.scorer",)


@dataclass(frozen=True)
class Trace:
    """A text that follows a prompt; `ended` says that the end-of-text token belongs to it."""

    prompt: Prompt
    text: str
    ended: bool


@dataclass(frozen=True)
class Score:
    """Negative log-likelihood summed over a trace's tokens, and the mean entropy of its steps."""

    tokens: int
    nll: float
    token_entropy: float


@dataclass(frozen=True)
class Job:
    """A table of scores to make: a model's on some traces, each with the key columns of its row."""

    path: Path
    weights: Weights
    labels: Sequence[Mapping[str, Any]]
    traces: Sequence[Trace]

    @property
    def made_from(self) -> str:
        rows = (json.dumps([label, told(trace)]) for label, trace in zip(self.labels, self.traces, strict=True))
        return disk.hash_of(self.weights.identity, self.weights.dtype, *rows)

    @property
    def done(self) -> bool:
        return tables.note(self.path).get("made_from") == self.made_from


def told(trace: Trace) -> dict[str, Any]:
    """A trace in words: images, which are never scored, say nothing about it."""
    words = asdict(trace)
    del words["prompt"]["images"]
    return words


@dataclass(frozen=True)
class Unit:
    """Some traces of one job."""

    job: Path
    begin: int
    weights: Weights
    traces: Sequence[Trace]


def keep_scores(jobs: Sequence[Job], schema: pa.Schema, what: str, crew: Crew) -> int:
    """Make the tables that are not there yet for these traces and weights; return how many traces were scored."""
    stale = [job for job in jobs if not job.done]
    units = [unit for job in stale for unit in units_of(job)]
    total = sum(len(job.traces) for job in stale)
    scores: dict[tuple[Path, int], list[Score]] = {}
    with Progress(total, what, "traces") as progress:
        for unit, part in spread(units, _nothing, score_unit, crew):
            scores[unit.job, unit.begin] = part
            progress.add(len(part))
    for job in stale:
        flat = [score for unit in units_of(job) for score in scores[unit.job, unit.begin]]
        rows = [{**label, **asdict(score)} for label, score in zip(job.labels, flat, strict=True)]
        table = pa.Table.from_pylist(rows) if rows else schema.empty_table()
        tables.write(job.path, table, schema, note={"made_from": job.made_from})
    return total


def scorable(params: Params) -> list[tuple[str, str]]:
    """The models that have weights here with the data sets that are text alone."""
    models = [model for model in params.run.models if has_weights(params, model)]
    datasets = [dataset for dataset in params.run.datasets if not images_of(dataset)]
    return [(model, dataset) for model in models for dataset in datasets]


def leave_empty(params: Params, path_of: Callable[[str, str], Path], schema: pa.Schema, what: str) -> list[str]:
    """Write empty tables where nothing can be scored; return a sentence on each model or data set that is why."""
    scored = set(scorable(params))
    for run in product(params.run.models, params.run.datasets):
        if run not in scored:
            tables.write(path_of(*run), schema.empty_table(), schema)
    no_weights = [
        f"{model} has no weights here, so its {what} are left out; give `models.{model}` a `path` or a `hub` id to "
        f"have them."
        for model in params.run.models
        if not has_weights(params, model)
    ]
    images = [
        f"The questions of {dataset} have images, which are shown to models by `vllm` and `openai` while sampling but "
        f"not here, so {what} on it are left out."
        for dataset in params.run.datasets
        if images_of(dataset)
    ]
    return no_weights + images


def units_of(job: Job) -> Iterator[Unit]:
    for begin in range(0, len(job.traces), UNIT):
        yield Unit(job.path, begin, job.weights, job.traces[begin : begin + UNIT])


def score_unit(_: None, unit: Unit) -> list[Score]:
    return load_scorer(unit.weights).score(unit.traces)


@lru_cache(maxsize=1)
def load_scorer(weights: Weights) -> Scorer:
    """A worker keeps the model it used last: units come model by model."""
    from stages.scoring.scorer import Scorer

    return Scorer(*load(weights))


def _nothing() -> None:
    """Workers load models as the units ask for them."""

"""Teacher forcing: how a model sees texts that are already there. Shared by mass, perplexity and entropy.

    Trace(Prompt("compute 3 + 4 :"), "\\boxed{ 7 }", ended=True)  ->  Score(tokens=4, nll=0.31, …)

Scores are kept by what a trace says: a table that grows scores only what is new, and a run that was stopped goes on
from the parts that it finished, until the weights or the reading change.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, lru_cache, partial
from importlib.util import find_spec
from itertools import groupby, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stages import cpu, disk, hints, tables
from stages.errors import LeashError
from stages.models import Weights, for_scoring, has_gpu, has_weights, load
from stages.params import Params, ScorerName, Vllm
from stages.progress import Progress
from stages.prompts import Prompt, images_of
from stages.scoring import parts
from stages.work import Crew, expect, spread

if TYPE_CHECKING:
    from stages.scoring.scorer import Scorer
    from stages.scoring.vllm_scorer import VllmScorer

UNIT = 1024  # traces that a worker scores at a time at most,
CHARACTERS = 1 << 16  # and so many characters, so that long traces are shared out too, unless it is one trace
TENTHS = 10
DECIMALS = 6  # that scores are kept with: beyond them shows the batch that a trace happened to be in
PRELOAD = ("stages.scoring.scorer",)


@dataclass(frozen=True)
class Trace:
    """A text that follows a prompt; `ended` says that the end-of-text token belongs to it."""

    prompt: Prompt
    text: str
    ended: bool

    @property
    def key(self) -> str:
        """Names what the trace says, in 16 hex digits."""
        return disk.hash_of(json.dumps(told(self)))

    @property
    def size(self) -> int:
        return len(self.prompt.plain) + len(self.text)


def told(trace: Trace) -> dict[str, Any]:
    """A trace in words: images, which are never scored, say nothing about it."""
    prompt = {"user": trace.prompt.user, "system": trace.prompt.system, "chat": trace.prompt.chat}
    return {"prompt": prompt, "text": trace.text, "ended": trace.ended}


@dataclass(frozen=True)
class Reading:
    """What is to be found out of every trace, and by whom: vLLM gives log-probabilities alone. `temperature` and
    `top_p` make the decoding distribution; a step whose entropy is at least `forking` nats is a fork."""

    engine: ScorerName = "torch"
    entropies: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    forking: float = 0.693


@dataclass(frozen=True)
class Score:
    """A trace under a model: negative log-likelihoods are summed over its tokens, entropies are means over its steps,
    all in nats. Entropies are None unless asked for, and everything is None where the trace is longer than the model's
    window."""

    key: str
    tokens: int
    nll: float | None
    decoding_nll: float | None  # infinite where a token is beyond top_p; None where vLLM, which has none, was asked
    token_entropy: float | None
    decoding_entropy: float | None
    forks: float | None
    profile: list[float | None] | None  # token entropy by tenths of the trace; None for a tenth without steps


@dataclass(frozen=True)
class Job:
    """A table of scores to make: a model's on some traces, each with the key columns of its row."""

    path: Path
    weights: Weights
    labels: Sequence[Mapping[str, Any]]
    traces: Sequence[Trace]

    @cached_property
    def keys(self) -> list[str]:
        return [trace.key for trace in self.traces]


@dataclass(frozen=True)
class VllmCrew(Crew):
    """Workers that each hold a vLLM engine."""

    settings: Vllm = field(default_factory=Vllm)


@dataclass(frozen=True)
class Unit:
    """Some traces of one table."""

    table: int
    weights: Weights
    reading: Reading
    traces: Sequence[Trace]


@dataclass(frozen=True)
class Table:
    """A job's table on disk: its schema, that of the scores in it, and what they are made with."""

    job: Job
    schema: pa.Schema
    weights: Weights
    made_with: str

    @property
    def scores(self) -> pa.Schema:
        mine = {each.name for each in fields(Score)}
        return pa.schema([column for column in self.schema if column.name in mine])

    @cached_property
    def note(self) -> dict[str, str]:
        rows = (json.dumps([label, key]) for label, key in zip(self.job.labels, self.job.keys, strict=True))
        return {parts.MADE_WITH: self.made_with, parts.ROWS: disk.hash_of(*self.schema.names, *rows)}

    @property
    def done(self) -> bool:
        """Whether the table is there with exactly these rows; parts of it are then no longer wanted."""
        if there := tables.note(self.job.path) == self.note:
            parts.throw_away(self.job.path)
        return there

    def missing(self) -> list[Trace]:
        """The traces without a score on disk, each once, the longest first."""
        kept = parts.kept_keys(self.job.path, self.scores, self.made_with)
        new = {key: trace for key, trace in zip(self.job.keys, self.job.traces, strict=True) if key not in kept}
        return sorted(new.values(), key=lambda trace: trace.size, reverse=True)

    def keep(self, scores: Sequence[Score]) -> None:
        rows = [asdict(score) for score in scores]
        kept = [{name: rounded(row[name]) for name in self.scores.names} for row in rows]
        parts.write(self.job.path, kept, self.scores, self.made_with)

    def finish(self) -> None:
        """Write the table from what is on disk."""
        kept = parts.kept(self.job.path, self.scores, self.made_with)
        rows = [{**label, **kept[key]} for label, key in zip(self.job.labels, self.job.keys, strict=True)]
        tables.write(self.job.path, tables.table(rows, self.schema), self.schema, self.note)
        parts.throw_away(self.job.path)


def keep_scores(jobs: Sequence[Job], schema: pa.Schema, what: str, crew: Crew, reading: Reading) -> int:
    """Make the tables that are not there yet for these traces, weights and reading; return how many traces were newly
    scored. A unit's scores are on disk as soon as it is finished."""
    settings = crew.settings if isinstance(crew, VllmCrew) else Vllm()
    for folder in {job.path.parent for job in jobs}:
        disk.sweep(folder)
    stale = [table for table in _tables(jobs, schema, reading, settings) if not table.done]
    missing = [table.missing() for table in stale]
    units = [unit for i, table in enumerate(stale) for unit in _units(i, table.weights, reading, missing[i])]
    left = Counter(unit.table for unit in units)
    for i, table in enumerate(stale):
        if not left[i]:
            table.finish()
    total = sum(map(len, missing))
    with (
        Progress(total, what, "traces") as progress,
        closing(_scored(units, crew, reading, settings, progress)) as results,
    ):
        for unit, scores in results:
            stale[unit.table].keep(scores)
            left[unit.table] -= 1
            if not left[unit.table]:
                stale[unit.table].finish()
            progress.add(len(scores))
    return total


def rounded(value: Any) -> Any:
    """A score's field as it is kept."""
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return round(value, DECIMALS) if isinstance(value, float) else value


def crew_for(params: Params, reading: Reading) -> Crew:
    """The workers of this run. A GPU has one: more of them are had through Ray."""
    ray = params.ray if params.run.on == "ray" else None
    if reading.engine == "vllm":
        settings = params.sample.vllm
        return VllmCrew(at_once=2, stepping=True, ray=ray, gpus=settings.tensor_parallel, settings=settings)
    if not ray:
        expect(PRELOAD)
    return Crew(1 if has_gpu() else params.run.workers, ray=ray, gpus=1)


def scorable(params: Params) -> list[tuple[str, str]]:
    """The models that have weights here with the data sets that are text alone."""
    models = [model for model in params.run.models if has_weights(params, model)]
    datasets = [dataset for dataset in params.run.datasets if not images_of(dataset)]
    return [(model, dataset) for model in models for dataset in datasets]


def pairs_of(params: Params) -> pa.Table:
    """Each pair with its two models, for queries that compare them."""
    both = ((pair, *params.models_of(pair)) for pair in params.run.pairs)
    return pa.Table.from_pylist([{"pair": pair, "base": base, "rlvr": rlvr} for pair, base, rlvr in both])


def need_texts(runs: Iterable[tuple[str, str]]) -> None:
    """Refuse to go on without the completions of some models on some data sets, or with damaged ones."""
    for model, dataset in runs:
        shards = tables.shards(tables.completions_folder(model, dataset))
        tables.refuse_damaged(shards, f"leash sample {model} {dataset}")
        if not shards:
            raise LeashError(
                f"The completions of {model} on {dataset} are not here, and their texts are to be read; get them with "
                f"`leash pull everything`, or draw them with `leash sample {model} {dataset}`."
            )


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


def _tables(jobs: Sequence[Job], schema: pa.Schema, reading: Reading, settings: Vllm) -> list[Table]:
    window = settings.max_model_len if reading.engine == "vllm" else None
    held = {job.weights: for_scoring(job.weights) for job in jobs}
    made_with = {
        given: json.dumps([weights.identity, weights.dtype, asdict(reading), window, DECIMALS])
        for given, weights in held.items()
    }
    return [Table(job, schema, held[job.weights], made_with[job.weights]) for job in jobs]


def _units(table: int, weights: Weights, reading: Reading, traces: Sequence[Trace]) -> Iterator[Unit]:
    part: list[Trace] = []
    size = 0
    for trace in traces:
        if part and (len(part) == UNIT or size + trace.size > CHARACTERS):
            yield Unit(table, weights, reading, part)
            part, size = [], 0
        part.append(trace)
        size += trace.size
    if part:
        yield Unit(table, weights, reading, part)


def _scored(
    units: Sequence[Unit], crew: Crew, reading: Reading, settings: Vllm, progress: Progress
) -> Generator[tuple[Unit, list[Score]], None, None]:
    """Every unit with its scores, as they come. A vLLM engine takes the place of the one before, model by model."""
    if reading.engine == "torch":
        if not crew.ray and not has_gpu():
            for weights in {unit.weights for unit in units}:
                cpu.require_half(weights.name, weights.dtype)  # once, here: worker processes inherit the answer
        yield from spread(units, _nothing, score_unit, crew)
        return
    _refuse(reading)
    for weights, part in groupby(units, key=lambda unit: unit.weights):
        progress.starting(f"vllm for {weights.name}")
        make = partial(_load_vllm, weights, settings)
        yield from spread(part, make if crew.ray else progress.timed(make), _start, crew)


def _refuse(reading: Reading) -> None:
    if reading.entropies:
        raise LeashError("vLLM gives log-probabilities but no entropies; compute those with the engine `torch`.")
    if not find_spec("vllm"):
        raise LeashError(
            f"The engine vllm is not installed; install it with {hints.install_vllm(has_gpu())}, or set `mass.engine` "
            f"and `perplexity.engine` to torch."
        )


def score_unit(_: None, unit: Unit) -> list[Score]:
    return load_scorer(unit.weights).score(unit.traces, unit.reading)


@lru_cache(maxsize=1)
def load_scorer(weights: Weights) -> Scorer:
    """A worker keeps the model it used last: units come model by model."""
    from stages.scoring.scorer import Scorer

    return Scorer(*load(weights, "cuda" if has_gpu() else "cpu"))


def _load_vllm(weights: Weights, settings: Vllm) -> VllmScorer:
    from stages.scoring.vllm_scorer import VllmScorer

    return VllmScorer(weights, settings)


def _start(scorer: VllmScorer, unit: Unit) -> Any:
    """A ticket, for which the scorer will have the scores."""
    return scorer.start(unit.traces, unit.reading)


def _nothing() -> None:
    """Workers load models as the units ask for them."""

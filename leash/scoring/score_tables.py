"""Make tables of scores: a stage lists its jobs (a model, a table's path, traces), and this module brings each table up
to date with the least work.

    job = ScoringJob(path, weights, [{"problem_id": "p"}], [Trace(Prompt("compute 3 + 4 :"), "7", ended=True)])
    update_score_tables([job], schema, "mass", workers, ScoringSpec())  ->  1

A score belongs to a trace, the weights and the `ScoringSpec`. A table that grows scores only new traces, and a stopped
run continues from the parts it finished, until the weights or the specification change.

    ScoringJob ─► ScoreTable: which traces have no score on disk? ─► ScoringUnit ─► worker ─► part on disk ─► table
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, lru_cache, partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from leash import atomic_io, cpu, install_hints, tables
from leash.errors import LeashError, NotInstalledError
from leash.params.groups import Params, Vllm
from leash.progress import Progress
from leash.scheduler.run import run_units
from leash.scheduler.units import WorkerPlan, register_preloads
from leash.scoring import partial_scores
from leash.scoring.traces import Score, ScoringSpec, Trace
from leash.weights import Weights, has_gpu, load_model, with_scoring_dtype

if TYPE_CHECKING:
    from leash.scoring.torch_scorer import Scorer
    from leash.scoring.vllm_scorer import VllmScorer

# A unit of work has at most this many traces and characters, so that long traces are spread over workers too. A trace
# that is longer than the limit is a unit by itself.
MAX_UNIT_TRACES = 1024
MAX_UNIT_CHARS = 1 << 16
SCORE_DECIMALS = 6  # further decimals depend on the batch in which a trace happened to be scored
PRELOADED_MODULES = ("leash.scoring.torch_scorer",)


class NoEntropiesError(LeashError):
    """vLLM was chosen as the scorer of entropies."""

    def __init__(self) -> None:
        super().__init__("vLLM gives log-probabilities but no entropies; compute those with the engine `torch`.")


@dataclass(frozen=True)
class ScoringJob:
    """A table of scores to make: a model on traces. `labels` are the key columns of each trace's row."""

    path: Path
    weights: Weights
    labels: Sequence[Mapping[str, Any]]
    traces: Sequence[Trace]

    @cached_property
    def keys(self) -> list[str]:
        return [trace.key for trace in self.traces]


@dataclass(frozen=True)
class ScoringUnit:
    """Some traces of one table, the work of one worker at a time. `table` is the table's index."""

    table: int
    weights: Weights
    spec: ScoringSpec
    traces: Sequence[Trace]


@dataclass(frozen=True)
class VllmWorkerPlan(WorkerPlan):
    """Workers that each have a vLLM engine."""

    settings: Vllm = field(default_factory=Vllm)


def plan_scoring_workers(params: Params, spec: ScoringSpec) -> WorkerPlan:
    """The workers of this run. This machine's GPU gets one worker; use Ray for several GPUs."""
    ray = params.ray if params.run.on == "ray" else None
    if spec.engine == "vllm":
        settings = params.sample.vllm
        return VllmWorkerPlan(at_once=2, stepping=True, ray=ray, gpus=settings.tensor_parallel, settings=settings)
    if not ray:
        register_preloads(PRELOADED_MODULES)
    return WorkerPlan(1 if has_gpu() else params.run.workers, ray=ray, gpus=1)


def update_score_tables(
    jobs: Sequence[ScoringJob], schema: pa.Schema, what: str, workers: WorkerPlan, spec: ScoringSpec
) -> int:
    """Make the tables that do not have exactly these traces, weights and specification; return the number of traces
    that were scored. The scores of a unit are on disk as soon as it is finished."""
    vllm = workers.settings if isinstance(workers, VllmWorkerPlan) else Vllm()
    for folder in {job.path.parent for job in jobs}:
        atomic_io.delete_unfinished(folder)
    stale = [table for table in _describe_tables(jobs, schema, spec, vllm) if not table.is_current()]
    missing = [table.missing_traces() for table in stale]
    units = [unit for i, table in enumerate(stale) for unit in _split_into_units(i, table.weights, spec, missing[i])]
    units_left = Counter(unit.table for unit in units)
    for i, table in enumerate(stale):
        if not units_left[i]:  # all its scores are on disk, only its rows changed
            table.finish()
    total = sum(map(len, missing))
    with Progress(total, what, "traces") as bar, closing(_run_scoring(units, workers, spec, vllm, bar)) as finished:
        for unit, scores in finished:
            stale[unit.table].write_part(scores)
            units_left[unit.table] -= 1
            if not units_left[unit.table]:
                stale[unit.table].finish()
            bar.add(len(scores))
    return total


@dataclass(frozen=True)
class ScoreTable:
    """A job's table on disk. `made_with` identifies everything that decides a trace's score."""

    job: ScoringJob
    schema: pa.Schema
    weights: Weights
    made_with: str

    @property
    def score_schema(self) -> pa.Schema:
        """The columns of the table that are fields of `Score`."""
        score_fields = {each.name for each in fields(Score)}
        return pa.schema([column for column in self.schema if column.name in score_fields])

    @cached_property
    def note(self) -> dict[str, str]:
        """The metadata of the finished table: what its scores were made with, and which rows it has."""
        rows = (json.dumps([label, key]) for label, key in zip(self.job.labels, self.job.keys, strict=True))
        rows_hash = atomic_io.hash_of(*self.schema.names, *rows)
        return {partial_scores.MADE_WITH_KEY: self.made_with, partial_scores.ROWS_KEY: rows_hash}

    def is_current(self) -> bool:
        """Whether the table exists with exactly these rows and scores. If so, its parts are deleted."""
        current = tables.read_metadata(self.job.path) == self.note
        if current:  # a run that was killed between `tables.write` and `delete_parts` left them
            partial_scores.delete_parts(self.job.path)
        return current

    def missing_traces(self) -> list[Trace]:
        """The distinct traces without a score on disk, longest first, so that no long one is left for the end."""
        scored = partial_scores.load_scored_keys(self.job.path, self.score_schema, self.made_with)
        new = {key: trace for key, trace in zip(self.job.keys, self.job.traces, strict=True) if key not in scored}
        return sorted(new.values(), key=lambda trace: trace.size, reverse=True)

    def write_part(self, scores: Sequence[Score]) -> None:
        rows = [{name: round_values(getattr(score, name)) for name in self.score_schema.names} for score in scores]
        partial_scores.write_part(self.job.path, rows, self.score_schema, self.made_with)

    def finish(self) -> None:
        """Write the table from the scores on disk, and delete its parts."""
        scores = partial_scores.load_scores(self.job.path, self.score_schema, self.made_with)
        rows = [{**label, **scores[key]} for label, key in zip(self.job.labels, self.job.keys, strict=True)]
        tables.write(self.job.path, tables.table_from_rows(rows, self.schema), self.schema, self.note)
        partial_scores.delete_parts(self.job.path)


def round_values(value: Any) -> Any:
    """A field of a score as it is stored."""
    if isinstance(value, list):
        return [round_values(each) for each in value]
    return round(value, SCORE_DECIMALS) if isinstance(value, float) else value


def _describe_tables(jobs: Sequence[ScoringJob], schema: pa.Schema, spec: ScoringSpec, vllm: Vllm) -> list[ScoreTable]:
    window = vllm.max_model_len if spec.engine == "vllm" else None
    # Once per model: `identity` hashes the weights. Changing this text makes all users score everything again.
    weights = {job.weights: with_scoring_dtype(job.weights) for job in jobs}
    made_with = {
        given: json.dumps([used.identity, used.dtype, asdict(spec), window, SCORE_DECIMALS])
        for given, used in weights.items()
    }
    return [ScoreTable(job, schema, weights[job.weights], made_with[job.weights]) for job in jobs]


def _split_into_units(
    table: int, weights: Weights, spec: ScoringSpec, traces: Sequence[Trace]
) -> Iterator[ScoringUnit]:
    batch: list[Trace] = []
    chars = 0
    for trace in traces:
        if batch and (len(batch) == MAX_UNIT_TRACES or chars + trace.size > MAX_UNIT_CHARS):
            yield ScoringUnit(table, weights, spec, batch)
            batch, chars = [], 0
        batch.append(trace)
        chars += trace.size
    if batch:
        yield ScoringUnit(table, weights, spec, batch)


def _run_scoring(
    units: Sequence[ScoringUnit], workers: WorkerPlan, spec: ScoringSpec, vllm: Vllm, progress: Progress
) -> Generator[tuple[ScoringUnit, list[Score]], None, None]:
    """Yield every unit with its scores as it finishes."""
    if spec.engine == "torch":
        if not workers.ray and not has_gpu():
            # Probe the CPU once, here: worker processes inherit the result.
            for weights in {unit.weights for unit in units}:
                cpu.require_half_precision(weights.name, weights.dtype)
        yield from run_units(units, _prepare_nothing, score_unit, workers)
        return
    if spec.entropies:
        raise NoEntropiesError
    if not find_spec("vllm"):
        install = install_hints.install_vllm_command(has_gpu())
        raise NotInstalledError("The engine vllm", install, "set `mass.engine` and `perplexity.engine` to torch")
    # A vLLM engine fills a GPU, so models take turns: units of one model are adjacent.
    for weights, units_of_model in groupby(units, key=lambda unit: unit.weights):
        progress.starting(f"vllm for {weights.name}")
        load = partial(_load_vllm_scorer, weights, vllm)
        yield from run_units(units_of_model, load if workers.ray else progress.timed(load), _start_unit, workers)


def _prepare_nothing() -> None:
    """A torch worker loads a model with its first unit, not when it starts."""


def score_unit(_: None, unit: ScoringUnit) -> list[Score]:
    return load_scorer(unit.weights).score(unit.traces, unit.spec)


@lru_cache(maxsize=1)
def load_scorer(weights: Weights) -> Scorer:
    """A worker keeps only the last model: units come model by model."""
    from leash.scoring.torch_scorer import Scorer

    return Scorer(*load_model(weights, "cuda" if has_gpu() else "cpu"))


def _load_vllm_scorer(weights: Weights, settings: Vllm) -> VllmScorer:
    from leash.scoring.vllm_scorer import VllmScorer

    return VllmScorer(weights, settings)


def _start_unit(scorer: VllmScorer, unit: ScoringUnit) -> Any:
    """Start a unit and return its ticket: `scorer.step` later returns the ticket with the scores."""
    return scorer.start(unit.traces, unit.spec)

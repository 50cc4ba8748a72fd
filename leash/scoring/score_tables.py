"""Make tables of scores: a stage lists its jobs (a model, a table's path, traces), and this module brings each table up
to date with the least work.

    job = ScoringJob(path, weights, [{"problem_id": "p"}], [Trace(Prompt("compute 3 + 4 :"), "7", ended=True)])
    update_score_tables([job], schema, "mass", workers, ScoringSpec())  ->  1

A score belongs to a trace, the weights and the `ScoringSpec`. A table that grows scores only new traces, and a stopped
run continues from the parts it finished, until the weights or the specification change.

    ScoringJob ─► ScoreTable: which traces have no score on disk? ─► ScoringUnit ─► worker ─► part on disk ─► table

    data/entropy/base/chain.parquet             the table
    data/entropy/base/.chain.parts/*.parquet    the finished units of a run that was stopped
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from leash import atomic_io, half_precision, install_hints, tables
from leash.errors import LeashError, NotInstalledError
from leash.params.groups import Params, Vllm
from leash.progress import Progress
from leash.prompts import build_prompt
from leash.scheduler.run import run_units
from leash.scheduler.worker_plan import WorkerPlan, register_preloads
from leash.scoring.traces import SCORE_DECIMALS, Score, ScoringSpec, Trace
from leash.weights import Weights, find_weights, has_gpu, load_model, with_scoring_dtype

if TYPE_CHECKING:
    from leash.scoring.torch_scorer import Scorer
    from leash.scoring.vllm_scorer import VllmScorer

# A unit of work has at most this many traces and characters, so that long traces are spread over workers too. A trace
# that is longer than the limit is a unit by itself.
MAX_UNIT_TRACES = 1024
MAX_UNIT_CHARS = 1 << 16
# In the metadata of tables and parts: what the scores were made with (weights, dtype, specification), and which rows a
# finished table has. Scores that were made with anything else are ignored.
MADE_WITH_KEY, ROWS_KEY = "made_with", "rows"


class NoEntropiesError(LeashError):
    """vLLM was chosen as the scorer of entropies."""


@dataclass(frozen=True)
class ScoringJob:
    """A table of scores to make: a model on traces, in the dtype of `weights`. `labels` are the key columns of each
    trace's row."""

    path: Path
    weights: Weights
    labels: Sequence[Mapping[str, Any]]
    traces: Sequence[Trace]


@dataclass(frozen=True)
class ScoringUnit:
    """Some traces of one table, the work of one worker at a time. `table` is the table's index."""

    table: int
    weights: Weights
    spec: ScoringSpec
    traces: Sequence[Trace]


def build_job(
    params: Params,
    model: str,
    dataset: str,
    path: Path,
    rows: Sequence[Mapping[str, Any]],
    label_names: Sequence[str],
    *,
    as_sampled: bool = False,
) -> ScoringJob:
    """A model on texts of a data set. A row has a question, a text, whether that `ended`, the table's labels, and
    perhaps the text's `token_ids`. With `as_sampled` the scores are probabilities of the model that engines sample, so
    its dtype is theirs; otherwise it is the fastest that fits (`with_scoring_dtype`)."""
    labels = [{name: row[name] for name in label_names} for row in rows]
    traces = [
        Trace(
            build_prompt(params, model, dataset, row["question"]),
            row["text"],
            row["ended"],
            None if (ids := row.get("token_ids")) is None else tuple(ids),
        )
        for row in rows
    ]
    weights = find_weights(params, model)
    return ScoringJob(path, weights if as_sampled else with_scoring_dtype(weights), labels, traces)


def plan_scoring_workers(params: Params, spec: ScoringSpec) -> WorkerPlan:
    """The workers of this run. This machine's GPU gets one worker; use Ray for several GPUs."""
    ray = params.ray if params.run.on == "ray" else None
    if spec.engine == "vllm":
        return WorkerPlan(at_once=2, stepping=True, ray=ray, gpus=params.sample.vllm.tensor_parallel)
    if not ray:
        register_preloads(["leash.scoring.torch_scorer"])
    return WorkerPlan(1 if has_gpu() else params.run.workers, ray=ray, gpus=1)


def update_score_tables(
    jobs: Sequence[ScoringJob],
    schema: pa.Schema,
    what: str,
    workers: WorkerPlan,
    spec: ScoringSpec,
    vllm: Vllm | None = None,
) -> int:
    """Make the tables that do not have exactly these traces, weights and specification; return the number of traces
    that were scored. The scores of a unit are on disk as soon as it is finished. `vllm` is for the engine of that name
    (default: its default settings)."""
    vllm = vllm or Vllm()
    for folder in {job.path.parent for job in jobs}:
        atomic_io.delete_unfinished(folder)
    window = vllm.max_model_len if spec.engine == "vllm" else None
    # Once per model: `identity` hashes the weights. Changing this text makes all users score everything again.
    made_with = {
        weights: json.dumps([weights.identity, weights.dtype, spec_to_dict(spec), window, SCORE_DECIMALS])
        for weights in {job.weights for job in jobs}
    }
    score_tables = [ScoreTable(job, schema, made_with[job.weights]) for job in jobs]
    stale = [table for table in score_tables if not table.is_current()]
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


class ScoreTable:
    """A job's table on disk and, until it is complete, its parts. `made_with` has all that decides a trace's score."""

    def __init__(self, job: ScoringJob, schema: pa.Schema, made_with: str) -> None:
        self.path, self.schema, self.weights, self.made_with = job.path, schema, job.weights, made_with
        keys = [trace.key for trace in job.traces]
        self.traces = dict(zip(keys, job.traces, strict=True))
        self.labels = list(zip(job.labels, keys, strict=True))
        score_fields = {each.name for each in fields(Score)}
        self.score_schema = pa.schema([column for column in schema if column.name in score_fields])
        rows_hash = atomic_io.hash_strings(*schema.names, *(json.dumps([label, key]) for label, key in self.labels))
        self.note = {MADE_WITH_KEY: made_with, ROWS_KEY: rows_hash}

    def is_current(self) -> bool:
        """Whether the table exists with exactly these rows and scores. If so, its parts are deleted."""
        current = tables.read_metadata(self.path) == self.note
        if current:  # a run that was killed at the end of `finish` left them
            self._delete_parts()
        return current

    def missing_traces(self) -> list[Trace]:
        """The distinct traces without a score on disk, longest first, so that no long one is left for the end."""
        scored = {key for file in self._open_files() for key in file.read(columns=["key"])["key"].to_pylist()}
        new = [trace for key, trace in self.traces.items() if key not in scored]
        return sorted(new, key=lambda trace: trace.size, reverse=True)

    def write_part(self, scores: Sequence[Score]) -> None:
        """Write the scores of a finished unit."""
        rows = [{name: round_values(getattr(score, name)) for name in self.score_schema.names} for score in scores]
        part = parts_folder(self.path) / f"{atomic_io.hash_strings(*(score.key for score in scores))}.parquet"
        content = tables.table_from_rows(rows, self.score_schema)
        tables.write(part, content, self.score_schema, {MADE_WITH_KEY: self.made_with})

    def finish(self) -> None:
        """Write the table from the scores on disk, and delete its parts."""
        # In Arrow: the values of all tokens of a table do not fit into memory as Python numbers.
        read = [file.read(columns=self.score_schema.names) for file in self._open_files()]
        scores = pa.concat_tables([self.score_schema.empty_table(), *(table.cast(self.score_schema) for table in read)])
        places = {key: place for place, key in enumerate(scores["key"].to_pylist())}
        content = scores.take(pa.array([places[key] for _, key in self.labels], pa.int64()))
        label_schema = pa.schema([column for column in self.schema if column.name not in self.score_schema.names])
        labels = tables.table_from_rows([label for label, _ in self.labels], label_schema)
        for column in label_schema:
            content = content.append_column(column, labels[column.name])
        tables.write(self.path, content, self.schema, self.note)
        self._delete_parts()

    def _open_files(self) -> Iterator[pq.ParquetFile]:
        """The table and the parts that were made with the same; other parts are deleted."""
        parts = tables.shards(parts_folder(self.path))
        for file in (self.path, *parts):
            if tables.read_metadata(file).get(MADE_WITH_KEY) == self.made_with:
                try:
                    yield tables.open_table(file, self.score_schema, made_by="")
                except tables.WrongColumnError:  # an older version of Leash wrote it: score again
                    continue
            elif file in parts:
                file.unlink()

    def _delete_parts(self) -> None:
        shutil.rmtree(parts_folder(self.path), ignore_errors=True)


def spec_to_dict(spec: ScoringSpec) -> dict[str, Any]:
    """What is stored of a specification. Values by token came later: without them, earlier scores stay valid."""
    return {name: value for name, value in asdict(spec).items() if name != "per_token" or value}


def parts_folder(path: Path) -> Path:
    return path.parent / f".{path.stem}.parts"


def round_values(value: Any) -> Any:
    """A field of a score as it is stored."""
    if isinstance(value, list):
        return [round_values(each) for each in value]
    return round(value, SCORE_DECIMALS) if isinstance(value, float) else value


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
                half_precision.require_half_precision(weights.name, weights.dtype)
        yield from run_units(units, _prepare_nothing, score_unit, workers)
        return
    if spec.entropies:
        raise NoEntropiesError("vLLM gives log-probabilities but no entropies; compute those with the engine `torch`.")
    if not find_spec("vllm"):
        install = install_hints.install_vllm_command(has_gpu())
        raise NotInstalledError("The engine vllm", install, "set the stage's `engine` to torch")
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

"""The parts of sampling: fingerprint, budget, and the loop that draws with an engine into a ledger.

`stages/sample/stage.py` puts them together. `leash doctor` uses the `refuse_…` functions, which raise before anything
is drawn.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from leash import prompts, tables
from leash.engines import selection
from leash.engines.protocol import Completion, Decoding, Engine, Request
from leash.errors import LeashError
from leash.finish import has_failed
from leash.formatting import join_names, pluralize
from leash.grading.grade_answers import build_checker
from leash.grading.graders import registry
from leash.params.groups import ENGINES_WITHOUT_WEIGHTS, Params
from leash.params.security import refuse_unlisted_graders
from leash.problems import Problem, load_problems, load_question_hashes
from leash.progress import Progress, format_rate
from leash.prompts import Prompt
from leash.sample_ledger import Ledger
from leash.sampling.sample_budget import Budget, StoppingRule
from leash.scheduler.run import run_units
from leash.statistics import seeds
from leash.weights import find_weights, load_processor, load_tokenizer

# Of the line that shows progress.
MAX_NAMES_IN_TITLE = 3

HitCheck = Callable[[str, str, str], bool]  # problem id, text and finish -> whether the completion is correct


class SamplingError(LeashError):
    """Sampling cannot start or go on, for the reason that the sentence gives."""


class PaidGraderError(LeashError):
    """Sampling would have to call a grader that costs money, and params.yaml does not allow it."""

    def __init__(self, dataset: str, grader: str) -> None:
        self.dataset, self.grader = dataset, grader
        super().__init__(
            f"`sample.stop_after` grades {dataset} while it samples, and the grader {grader} costs money. Allow that "
            f"with `sample.paid_graders: true`, or draw all k samples with `stop_after: null`."
        )


@dataclass
class DrawStats:
    """What a run of the stage has drawn. `failed` counts completions that are not scored. `warm_tokens` and `seconds`
    count from the first result on, so that `speed` leaves out the start of the engine. Those of a model have those of
    each data set in `by_dataset`."""

    samples: int = 0
    tokens: int = 0
    hits: int = 0
    started: float = 0.0
    warm_tokens: int = 0
    seconds: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)  # by finish
    by_dataset: dict[str, DrawStats] = field(default_factory=dict)

    def add(self, completions: Sequence[Completion], hits: int = 0) -> None:
        tokens = sum(completion.tokens or 0 for completion in completions)
        if self.samples:
            self.warm_tokens += tokens
        else:
            self.started = time.monotonic()
        self.samples += len(completions)
        self.tokens += tokens
        self.hits += hits
        self.failed.update(c.finish for c in completions if has_failed(c.finish))
        self.seconds = time.monotonic() - self.started

    @property
    def speed(self) -> float | None:
        """Tokens per second of all workers together."""
        return self.warm_tokens / self.seconds if self.warm_tokens and self.seconds else None


def describe_failures(model: str, dataset: str, failed: Counter[str]) -> str | None:
    """What the server ended before the model did, if anything."""
    if not failed:
        return None
    reasons = ", ".join(f"{finish} {count:,}" for finish, count in sorted(failed.items()))
    completions = pluralize(failed.total(), "completion")
    return (
        f"{model} on {dataset}: the server broke off {completions} ({reasons}), which verify does not score (status "
        f"error). They are kept and not drawn again; `{resample_command(model, dataset)}` starts over."
    )


def fingerprint(params: Params, model: str, dataset: str) -> dict[str, str]:
    """Everything that old and new samples must share to be counted together, apart from the problems' texts."""
    sample, entry = params.sample, params.models[model]
    options = prompts.resolve_prompt_options(params, model, dataset)
    if selection.choose_engine(params, model) in ENGINES_WITHOUT_WEIGHTS:
        identity = f"{entry.served or entry.hub or entry.path or model}@{entry.revision or 'main'}"
    else:
        identity = find_weights(params, model).identity
    always = {
        "model": identity,
        "dtype": entry.dtype,
        "temperature": str(sample.temperature),
        "top_p": str(sample.top_p),
        "max_tokens": str(sample.max_tokens),
        "seed": str(sample.seed),
    }
    # Left out if not set, so that manifests from before these options stay valid.
    stops = params.stop_strings(model, dataset)
    if_set = {
        "chat": options.chat and "yes",
        "system": options.system,
        "instruction": options.instruction,
        "stop": stops and json.dumps(stops),
    }
    return always | {field: value for field, value in if_set.items() if value}


def resample_command(model: str, dataset: str) -> str:
    return f"leash sample {model} {dataset} --resample"


def new_budget(params: Params, problem_ids: Sequence[str], k: int, ledger: Ledger, is_hit: HitCheck | None) -> Budget:
    """A budget that continues from the samples in the ledger. For an adaptive one, their hits are graded again."""
    on_disk, sample = ledger.have(), params.sample
    if sample.stop_after is None or is_hit is None:
        return Budget(problem_ids, k, on_disk)
    problems, hits = set(problem_ids), dict[str, list[int]]()
    for row in ledger.texts():
        if row["problem_id"] in problems and is_hit(row["problem_id"], row["text"], row["finish"]):
            hits.setdefault(row["problem_id"], []).append(row["sample"])
    return Budget(problem_ids, k, on_disk, StoppingRule(sample.stop_after, sample.floor), hits)


def decoding_from_params(params: Params, model: str, dataset: str) -> Decoding:
    sample = params.sample
    if sample.max_tokens is None:  # it has no default, since every completion is paid for up to it
        raise SamplingError("`sample.max_tokens` is missing. Set it to the largest number of tokens of a completion.")
    return Decoding(sample.temperature, sample.top_p, sample.max_tokens, params.stop_strings(model, dataset))


@dataclass
class SamplingJob:
    """What a model still has to draw on one data set, and where that goes."""

    dataset: str
    budget: Budget
    ledger: Ledger
    prompt_of: Mapping[str, Prompt]
    decoding: Decoding
    is_hit: HitCheck | None  # None: nothing is graded while sampling
    stats: DrawStats = field(default_factory=DrawStats)


@dataclass(frozen=True)
class SamplingUnit:
    """What an engine gets at a time: requests for one data set."""

    dataset: str
    requests: tuple[Request, ...]
    decoding: Decoding

    @property
    def samples(self) -> int:
        return sum(len(request.samples) for request in self.requests)


def iterate_units(
    jobs: Sequence[SamplingJob], name: tuple[seeds.NamePart, ...], rows: int, slots: int
) -> Iterator[SamplingUnit | None]:
    """The units of all jobs as one queue, so that the last long completions of one data set run beside the others
    instead of leaving an engine idle. None means: nothing until there are more results.

    Data sets that may have the longest completions come first, since what is drawn last leaves slots empty. The rounds
    of an adaptive budget come back in at their data set's place."""
    queues = {job.dataset: job.budget.units(rows, slots) for job in jobs}
    ordered = sorted(jobs, key=lambda job: -job.decoding.max_tokens)
    while queues:
        for job in ordered:
            if job.dataset not in queues:
                continue
            try:
                unit = next(queues[job.dataset])
            except StopIteration:
                del queues[job.dataset]
                continue
            if unit is not None:
                stream = (*name, job.dataset)
                requests = (Request(t.problem_id, job.prompt_of[t.problem_id], t.samples, stream) for t in unit)
                yield SamplingUnit(job.dataset, tuple(requests), job.decoding)
                break
        else:
            if queues:
                yield None


def draw_samples(params: Params, model: str, spec: selection.EngineSpec, jobs: Sequence[SamplingJob]) -> DrawStats:
    """Draw what the budgets want with one engine, keep it in the ledgers, and report hits to the budgets, until nothing
    is left. Return what was drawn on all data sets together; each job has its own share."""
    stats = DrawStats(by_dataset={job.dataset: job.stats for job in jobs})
    job_of = {job.dataset: job for job in jobs}
    units = iterate_units(jobs, (params.sample.seed, model), spec.rows, spec.plan.slots)
    act: Callable[..., Any] = submit_unit if spec.plan.stepping else complete_unit
    at_most = sum(job.budget.at_most for job in jobs)
    names = [job.dataset for job in jobs]
    of = join_names(names) if len(names) <= MAX_NAMES_IN_TITLE else f"{len(names)} data sets"
    with Progress(at_most, f"sample {model} on {of}", "completions") as progress:
        make = spec.make
        if at_most and spec.name == "vllm":  # it starts for minutes, the others for seconds
            progress.starting(f"{spec.name} for {model}")
            make = make if spec.plan.ray else progress.timed(make)
        with closing(run_units(units, make, act, spec.plan)) as results:
            for unit, completions in results:
                if len(completions) != unit.samples:
                    fault = f"The engine {spec.name} returned fewer completions than requested"
                    raise SamplingError(f"{fault}. Run the command again.")
                stats.add(completions, keep_completions(job_of[unit.dataset], completions))
                shown = {"tokens": format_rate(stats.speed)} if stats.speed else {}
                shown |= {"hits": f"{stats.hits:,}"} if any(job.is_hit for job in jobs) else {}
                left = sum(job.budget.at_most for job in jobs)
                progress.add(len(completions), total=stats.samples + left, **shown)
    return stats


def keep_completions(job: SamplingJob, completions: Sequence[Completion]) -> int:
    """Write completions to the ledger, and tell the budget of them. Return how many are hits."""
    # First to disk, then graded: a grader that fails must not lose paid completions.
    job.ledger.add(completions)
    hits = [job.is_hit is not None and job.is_hit(c.problem_id, c.text, c.finish) for c in completions]
    for completion, hit in zip(completions, hits, strict=True):
        job.budget.saw(completion.problem_id, completion.sample, hit)
    job.stats.add(completions, sum(hits))
    return sum(hits)


# Module-level functions, since worker processes unpickle them.


def submit_unit(engine: Any, unit: SamplingUnit) -> int:
    ticket: int = engine.start(unit.requests, unit.decoding)
    return ticket


def complete_unit(engine: Engine, unit: SamplingUnit) -> list[Completion]:
    return list(engine.complete(unit.requests, unit.decoding))


def make_hit_check(params: Params, dataset: str, problems: Mapping[str, Problem]) -> HitCheck | None:
    """The function that grades completions before the verify stage. None if grading should wait for that: the grader
    costs money and is not allowed here, or it is slow and nothing stops early."""
    graders = {row["grader"] for row in problems.values()}
    refuse_unlisted_graders(params, dataset, graders)
    refuse_paid_graders(params, dataset, graders)
    if any(map(registry.is_paid, graders)) and not params.sample.paid_graders:
        return None
    if not params.sample.stop_after and any(map(registry.is_slow, graders)):
        return None
    return build_checker(problems, params.verify)


def refuse_paid_graders(params: Params, dataset: str, graders: Iterable[str]) -> None:
    """Raise if sampling would have to call one of these graders, it costs money, and params.yaml does not allow it."""
    paid = sorted(filter(registry.is_paid, graders))
    if paid and params.sample.stop_after and not params.sample.paid_graders:
        raise PaidGraderError(dataset, paid[0])


def refuse_other_samples(params: Params, model: str, dataset: str) -> None:
    """Raise if samples on disk were drawn with other parameters. Call it only if the problems are fetched and the model
    has weights."""
    ledger = Ledger(tables.completions_folder(model, dataset))
    if ledger.size:  # without samples there is nothing to compare, and hashing large weights takes seconds
        hashes, again = load_question_hashes(dataset), resample_command(model, dataset)
        ledger.check(fingerprint(params, model, dataset), hashes, again=again)


def format_first_prompt(params: Params, model: str, dataset: str) -> str:
    """The prompt of the first problem of a data set, as the model reads it or a server gets it."""
    problem, row = next(iter(load_problems(dataset).items()))
    images = prompts.load_problem_images(dataset).get(problem, ())
    prompt = prompts.build_prompt(params, model, dataset, row["question"], images)
    tokenizer = None
    if selection.choose_engine(params, model) not in ENGINES_WITHOUT_WEIGHTS:
        load = load_processor if prompt.images else load_tokenizer
        tokenizer = load(find_weights(params, model))
    return prompts.format_prompt_for_display(prompt, tokenizer)

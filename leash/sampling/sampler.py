"""The parts of sampling: fingerprint, budget, and the loop that draws with an engine into a ledger.

`stages/sample/stage.py` puts them together. `leash doctor` uses the `refuse_…` functions, which raise before anything
is drawn.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from leash import prompts, tables
from leash.engines import selection
from leash.engines.protocol import Completion, Decoding, Engine, Request
from leash.errors import LeashError
from leash.finish import has_failed
from leash.formatting import pluralize
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
from leash.weights import find_weights, load_processor, load_tokenizer

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
    count from the first result on, so that `speed` leaves out the start of the engine."""

    samples: int = 0
    tokens: int = 0
    hits: int = 0
    started: float = 0.0
    warm_tokens: int = 0
    seconds: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)  # by finish

    def add(self, completions: Sequence[Completion], hits: int) -> None:
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


def draw_samples(
    params: Params,
    model: str,
    dataset: str,
    spec: selection.EngineSpec,
    budget: Budget,
    ledger: Ledger,
    prompt_of: Mapping[str, Prompt],
    is_hit: HitCheck | None,
) -> DrawStats:
    """Draw what the budget wants, keep it in the ledger, and report hits to the budget, until nothing is left."""
    stats, stream_name = DrawStats(), (params.sample.seed, model, dataset)
    units = (
        [Request(task.problem_id, prompt_of[task.problem_id], task.samples, stream_name) for task in unit]
        if unit
        else None
        for unit in budget.units(spec.rows, spec.plan.slots)
    )
    draw: Callable[..., Any] = submit_requests if spec.plan.stepping else generate_completions
    act = partial(draw, decoding=decoding_from_params(params, model, dataset))
    with Progress(budget.at_most, f"sample {model} on {dataset}", "completions") as progress:
        make = spec.make
        if budget.at_most and spec.name == "vllm":  # it starts for minutes, the others for seconds
            progress.starting(f"{spec.name} for {model}")
            make = make if spec.plan.ray else progress.timed(make)
        with closing(run_units(units, make, act, spec.plan)) as results:
            for requests, completions in results:
                if len(completions) != sum(len(request.samples) for request in requests):
                    fault = f"The engine {spec.name} returned fewer completions than requested"
                    raise SamplingError(f"{fault}. Run the command again.")
                # First to disk, then graded: a grader that fails must not lose paid completions.
                ledger.add(completions)
                hits = [is_hit is not None and is_hit(c.problem_id, c.text, c.finish) for c in completions]
                for completion, hit in zip(completions, hits, strict=True):
                    budget.saw(completion.problem_id, completion.sample, hit)
                stats.add(completions, sum(hits))
                shown = {"tokens": format_rate(stats.speed)} if stats.speed else {}
                shown |= {"hits": f"{stats.hits:,}"} if is_hit else {}
                progress.add(len(completions), total=stats.samples + budget.at_most, **shown)
    return stats


# Module-level functions, since worker processes unpickle them.


def submit_requests(engine: Any, requests: Sequence[Request], *, decoding: Decoding) -> int:
    ticket: int = engine.start(requests, decoding)
    return ticket


def generate_completions(engine: Engine, requests: Sequence[Request], *, decoding: Decoding) -> list[Completion]:
    return list(engine.complete(requests, decoding))


def make_hit_check(params: Params, dataset: str, problems: Mapping[str, Problem]) -> HitCheck | None:
    """The function that grades completions while sampling, to stop early and to show hits. None if grading should wait
    for the verify stage: the grader costs money and is not allowed here, or it is slow and nothing stops early."""
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

"""sample: completions of one model on one data set, up to k a problem.

In:  data/problems/{dataset}.parquet and a model.
Out: data/completions/{model}/{dataset}/, a ledger that only ever grows.

The budget says what to draw, the engine draws it, the ledger keeps it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from stages import disk, prompts, tables, verify
from stages.errors import LeashError
from stages.models import load_processor, load_tokenizer, weights
from stages.params import WEIGHTLESS, Params, Sample
from stages.progress import Progress, format_rate
from stages.prompts import Prompt
from stages.safety import refuse_strange_graders
from stages.sample import elsewhere, engines, facts
from stages.sample.budget import Budget, Stop, Unit
from stages.sample.engine import Completion, Decoding, Engine, Request
from stages.sample.ledger import Ledger
from stages.verify import graders
from stages.work import spread

Check = Callable[[str, str], bool]


@dataclass
class Drawn:
    """What a run of the stage has drawn, and how fast once its engine was at work."""

    samples: int = 0
    tokens: int = 0
    hits: int = 0
    started: float = 0.0  # when the first completions came back
    warm_tokens: int = 0  # since then
    seconds: float = 0.0

    def add(self, completions: Sequence[Completion], hits: int) -> None:
        tokens = sum(c.tokens or 0 for c in completions)
        if self.samples:
            self.warm_tokens += tokens
        else:
            self.started = time.monotonic()
        self.samples, self.tokens, self.hits = self.samples + len(completions), self.tokens + tokens, self.hits + hits
        self.seconds = time.monotonic() - self.started

    @property
    def speed(self) -> float | None:
        """Tokens a second, of all workers together."""
        return self.warm_tokens / self.seconds if self.warm_tokens and self.seconds else None


def run(params: Params, model: str, dataset: str, *, resample: bool = False, pilot: int | None = None) -> Drawn:
    """Draw what is missing of the samples of every problem: all below k, or until there are hits enough; or, as a
    pilot, the first few of each."""
    if not resample:
        elsewhere.refuse(model, dataset)
    if engines.chosen(params, model) == "import":
        from stages import importing

        importing.held(model, dataset)
        facts.note_weights(params, model, dataset)
        return Drawn()
    problems, kind = verify.problems_of(dataset), engines.kind_of(params, model)
    asked = prompts_of(params, model, dataset, problems, kind.name)
    check = checker(params, dataset, problems)
    name = (params.sample.seed, model, dataset)

    def requests(unit: Unit) -> list[Request]:
        return [Request(task.problem_id, asked[task.problem_id], task.samples, name) for task in unit]

    with closing(Ledger(tables.completions_folder(model, dataset))) as ledger:
        if resample:
            ledger.clear()
        ledger.open(
            fingerprint(params, model, dataset),
            {problem: asked_hash(row["question"], asked[problem].images) for problem, row in problems.items()},
            again=_resample(model, dataset),
            engine=kind.label,
        )
        k = params.k(model, dataset)
        budget = new_budget(params, list(problems), min(k, pilot or k), ledger, None if pilot else check)
        try:
            drawn = draw(params, model, dataset, kind, budget, ledger, requests, check)
        finally:
            ledger.flush()  # whatever ended the run, what has come back is kept
        ledger.settle()
    if kind.name in WEIGHTLESS:
        facts.note_weights(params, model, dataset)
    return drawn


def prompts_of(
    params: Params, model: str, dataset: str, problems: Mapping[str, verify.Problem], engine: str
) -> dict[str, Prompt]:
    """What the model is asked for each problem, if this engine can show its images."""
    images = prompts.images_of(dataset)
    if images:
        prompts.refuse_images(params, model, dataset, engine)
    return {
        problem: prompts.asked(params, model, dataset, row["question"], images.get(problem, ()))
        for problem, row in problems.items()
    }


def asked_hash(question: str, images: Sequence[bytes]) -> str:
    """Changes when the question does or one of its images."""
    return disk.hash_of(question, *map(disk.bytes_hash, images))


def draw(
    params: Params,
    model: str,
    dataset: str,
    kind: engines.Kind,
    budget: Budget,
    ledger: Ledger,
    requests: Callable[[Unit], list[Request]],
    check: Check | None,
) -> Drawn:
    drawn = Drawn()
    units = (requests(unit) if unit else None for unit in budget.units(kind.rows, kind.crew.slots))
    how: Callable[..., Any] = start if kind.crew.stepping else complete
    act = partial(how, decoding=decoding(params.sample))

    def keep(completions: Sequence[Completion], asked: Sequence[Request]) -> None:
        if len(completions) != sum(len(request.samples) for request in asked):
            raise LeashError(f"The engine {kind.name} gave fewer completions than were asked for; run it again.")
        ledger.add(completions)
        hits = [check is not None and check(c.problem_id, c.text) for c in completions]
        for completion, hit in zip(completions, hits, strict=True):
            budget.saw(completion.problem_id, completion.sample, hit)
        drawn.add(completions, sum(hits))

    what = f"sample {model} on {dataset}"
    with Progress(budget.at_most, what, "completions") as progress:
        make = kind.make
        if budget.at_most and kind.name == "vllm":  # which takes minutes; the others take seconds
            progress.starting(f"{kind.name} for {model}")
            make = make if kind.crew.ray else progress.timed(make)
        with closing(spread(units, make, act, kind.crew)) as results:
            for asked, completions in results:
                keep(completions, asked)
                shown = {"tokens": format_rate(drawn.speed)} if drawn.speed else {}
                shown |= {"hits": f"{drawn.hits:,}"} if check else {}
                progress.add(len(completions), total=drawn.samples + budget.at_most, **shown)
    return drawn


def fingerprint(params: Params, model: str, dataset: str) -> dict[str, str]:
    """What old samples must share with new ones to be counted together."""
    sample, named, how = params.sample, params.models[model], prompts.asking(params, model, dataset)
    if engines.chosen(params, model) in WEIGHTLESS:
        identity = f"{named.served or named.hub or named.path or model}@{named.revision or 'main'}"
    else:
        identity = weights(params, model).identity
    always = {
        "model": identity,
        "dtype": named.dtype,
        "temperature": str(sample.temperature),
        "top_p": str(sample.top_p),
        "max_tokens": str(sample.max_tokens),
        "seed": str(sample.seed),
    }
    where_set = {"chat": how.chat and "yes", "system": how.system, "instruction": how.instruction}
    return always | {field: value for field, value in where_set.items() if value}


def decoding(sample: Sample) -> Decoding:
    if sample.max_tokens is None:
        raise LeashError("`sample.max_tokens` is missing; set it to the most tokens that a completion may have.")
    return Decoding(sample.temperature, sample.top_p, sample.max_tokens)


def start(engine: Any, requests: Sequence[Request], *, decoding: Decoding) -> int:
    """The ticket of an engine that works on many requests at a time."""
    ticket: int = engine.start(requests, decoding)
    return ticket


def complete(engine: Engine, requests: Sequence[Request], *, decoding: Decoding) -> list[Completion]:
    return list(engine.complete(requests, decoding))


def checker(params: Params, dataset: str, problems: Mapping[str, verify.Problem]) -> Check | None:
    """What tells hits while sampling: to stop early, and for the progress shown where that costs little. Graders that
    cost money are left for the verify stage, unless asked for."""
    names = {row["grader"] for row in problems.values()}
    refuse_strange_graders(params, dataset, names)
    refuse_paid_graders(params, dataset, names)
    if any(map(graders.costs_money, names)) and not params.sample.paid_graders:
        return None
    if not params.sample.stop_after and any(graders.takes_long(row["grader"]) for row in problems.values()):
        return None
    return verify.checker(problems, params.verify)


def refuse_paid_graders(params: Params, dataset: str, names: Iterable[str]) -> None:
    """Raise if sampling would have to call one of these graders, it costs money, and the user did not allow that."""
    paid = sorted(filter(graders.costs_money, names))
    if paid and params.sample.stop_after and not params.sample.paid_graders:
        raise LeashError(
            f"`sample.stop_after` grades {dataset} while it samples, and the grader {paid[0]} costs money; "
            f"allow that with `sample.paid_graders: true`, or draw all k samples with `stop_after: null`."
        )


def refuse_other_samples(params: Params, model: str, dataset: str) -> None:
    """Raise what `run` would about samples on disk that were drawn with other parameters. Call it only if the problems
    were fetched and the model can be found."""
    ledger = Ledger(tables.completions_folder(model, dataset))
    if ledger.size:  # hashing large weights takes seconds: not for nothing
        images = prompts.images_of(dataset)
        problems = verify.problems_of(dataset).items()
        asked = {problem: asked_hash(row["question"], images.get(problem, ())) for problem, row in problems}
        ledger.check(fingerprint(params, model, dataset), asked, again=_resample(model, dataset))


def _resample(model: str, dataset: str) -> str:
    return f"leash sample {model} {dataset} --resample"


def new_budget(params: Params, problem_ids: Sequence[str], k: int, ledger: Ledger, check: Check | None) -> Budget:
    held, sample = ledger.have(), params.sample
    if sample.stop_after is None or check is None:
        return Budget(problem_ids, k, held)
    wanted, hits = set(problem_ids), dict[str, list[int]]()
    for row in ledger.texts():
        if row["problem_id"] in wanted and check(row["problem_id"], row["text"]):
            hits.setdefault(row["problem_id"], []).append(row["sample"])
    return Budget(problem_ids, k, held, Stop(sample.stop_after, sample.floor), hits)


def show_prompt(params: Params, model: str, dataset: str) -> str:
    """The first problem of a data set as the model is asked it."""
    problem, first = next(iter(verify.problems_of(dataset).items()))
    images = prompts.images_of(dataset).get(problem, ())
    prompt = prompts.asked(params, model, dataset, first["question"], images)
    if engines.chosen(params, model) in WEIGHTLESS:
        return prompts.shown(prompt, None)
    held = weights(params, model)
    return prompts.shown(prompt, load_processor(held) if prompt.images else load_tokenizer(held))

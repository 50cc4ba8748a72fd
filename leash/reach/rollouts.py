"""Rollouts from prefixes: drawn with the target's own engine, and kept in a ledger per place.

    data/rollouts/drawn/{pair}/{target}/{dataset}/    a ledger of completions (leash/sample_ledger.py)

The ledger's `problem_id` is the problem with a hash of the prompt and the prefix, its `sample` the number of the
rollout within the problem's budget. So a rollout on disk counts only where exactly this one is planned again: after a
kill nothing is drawn twice, and a plan that changes (other completions, another search) gets its own rollouts, whatever
changed it. Weights and decoding are in the ledger's fingerprint. If they change, all its rollouts are dropped.

When a run is killed, long rollouts are still underway, and short ones are on disk. An engine that draws a rollout from
its seed again as it was loses nothing by that. From any other engine, new rollouts would take the place of the long
ones, and some of them would be short: what is short would count too often. So the rollouts that an engine begins are
noted first, with the engine if it can draw them again

    data/rollouts/drawn/{pair}/{target}/{dataset}/.started-5f1c….jsonl    until a run has ended

and those that a killed run began and did not finish are in the ledger as wrong ones (`finish: lost`), unless the same
engine draws them again. The notes stay as long as unplanned rollouts do: a plan may change, and change back after
another kill.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import click
import numpy as np

from leash import atomic_io, tables
from leash.engines.openai_engine import ServedModelError, ServerKeyError, ServerRequestError, ServerUnreachableError
from leash.engines.protocol import Completion, Decoding, Request
from leash.engines.selection import EngineSpec
from leash.finish import LOST
from leash.formatting import MISSING_VALUE, pluralize
from leash.params.groups import Params
from leash.problems import Problem
from leash.progress import Progress, format_rate
from leash.prompts import build_prompt, tokenize_prompts
from leash.reach.tasks import Place, Task
from leash.sample_ledger import Ledger, LostManifestError, SamplesMismatchError
from leash.sampling import sampler
from leash.scheduler.run import run_units
from leash.statistics.prefix_tree import Prefix
from leash.weights import find_weights, load_tokenizer

# A server that gives one of these errors draws nothing. A timeout or a broken connection can depend on what it draws.
REFUSALS = (ServerKeyError, ServerRequestError, ServerUnreachableError, ServedModelError)


@dataclass(frozen=True)
class PlannedRollouts:
    """Rollouts of a task from one prefix, by their numbers."""

    task: Task
    prefix: Prefix
    numbers: range


@dataclass(frozen=True)
class DrawUnit:
    """What an engine gets at a time: requests of one place."""

    place: Place
    decoding: Decoding
    requests: Sequence[Request]


def plan_rollouts(task: Task, prefixes: Sequence[Prefix], begin: int) -> list[PlannedRollouts]:
    """The rollouts from these prefixes, numbered from `begin` on. Equal prefixes get adjacent numbers."""
    planned = []
    for prefix, same in groupby(sorted(prefixes)):
        count = len(list(same))
        planned.append(PlannedRollouts(task, prefix, range(begin, begin + count)))
        begin += count
    return planned


class RolloutStore:
    """The rollouts of one place."""

    def __init__(self, params: Params, place: Place, problems: Mapping[str, Problem]) -> None:
        self.place, self._params = place, params
        self.ledger = Ledger(tables.rollouts_folder(place.pair, place.target, place.dataset), "leash reach")
        self.decoding = sampler.decoding_from_params(params, place.target, place.dataset)
        self._prompts = {
            problem: build_prompt(params, place.target, place.dataset, row["question"])
            for problem, row in problems.items()
        }
        tokens = tokenize_prompts(self._prompts.values(), load_tokenizer(find_weights(params, place.target)))
        self._prompt_tokens = {prompt: len(ids) for prompt, ids in tokens.items()}
        self._started_path = self.ledger.folder / ".started.jsonl"
        self._started_before = 0  # bytes of the notes of earlier rounds and runs

    def open(self, engine: str) -> None:
        """Lock the ledger. Rollouts of other weights or another decoding are dropped, and those of which nothing tells
        how they were drawn."""
        fingerprint = sampler.fingerprint(self._params, self.place.target, self.place.dataset)
        fingerprint["seed"] = str(self._params.reach.seed)
        name = f".started-{atomic_io.hash_strings(json.dumps(fingerprint, sort_keys=True))}.jsonl"
        self._started_path = self.ledger.folder / name
        try:
            self.ledger.open(fingerprint, {}, again="leash reach", engine=engine)
        except (SamplesMismatchError, LostManifestError) as error:
            how = "lost their manifest"
            if isinstance(error, SamplesMismatchError):
                how = f"were drawn with another {', '.join(error.fields)}"
            what = f"the rollouts of {self.place.target} on {self.place.dataset}"
            click.echo(f"Note: {what} {how}, and are drawn again.", err=True)
            self.ledger.clear()
            for notes in self.ledger.folder.glob(".started*"):
                notes.unlink()
            self.ledger.open(fingerprint, {}, again="leash reach", engine=engine)

    def key(self, planned: PlannedRollouts) -> str:
        """What the ledger and the random streams call a problem's rollouts from a prefix."""
        prompt = self._prompts[planned.task.problem_id]
        content = [prompt.user, prompt.system, prompt.chat, planned.prefix]
        return f"{planned.task.problem_id} {atomic_io.hash_strings(json.dumps(content))}"

    def requests_for_missing(self, planned: Iterable[PlannedRollouts], engine: str | None = None) -> list[Request]:
        """Requests for what is not on disk. Those of equal length are adjacent, so that they can share a batch. What an
        earlier run began is kept as wrong, unless this `engine` began it and can draw it again (None: it cannot)."""
        on_disk, started = self.ledger.have(), self._read_started(engine)
        place = self.place
        name = (self._params.reach.seed, "reach", place.pair, place.target, place.dataset)
        requests: list[Request] = []
        lost: list[Completion] = []
        for each in planned:
            key, prompt = self.key(each), self._prompts[each.task.problem_id]
            missing = np.setdiff1d(np.array(each.numbers, np.int32), on_disk.get(key, ()))
            begun = np.intersect1d(missing, np.array(started.get(key, ()), np.int32))
            facts = "", len(each.prefix), LOST, None, list(each.prefix)
            lost += [Completion(key, number, *facts) for number in begun.tolist()]
            missing = np.setdiff1d(missing, begun)
            for run in np.split(missing, np.flatnonzero(np.diff(missing) > 1) + 1):
                if len(run):
                    numbers = range(int(run[0]), int(run[-1]) + 1)
                    requests.append(Request(key, prompt, numbers, name, each.prefix))
        if lost:
            self.ledger.add(lost)
            self.ledger.flush()
            click.echo(
                f"Note: {pluralize(len(lost), 'rollout')} of {place.target} on {place.dataset} were underway when an "
                f"earlier run ended. This engine cannot draw the same again, so they count as wrong.",
                err=True,
            )
        return sorted(requests, key=self._total_tokens)

    def note_started(self, requests: Sequence[Request], engine: str | None = None) -> None:
        """Note rollouts before an engine gets them. `engine` is None if it cannot draw them again."""
        with self._started_path.open("a") as notes:
            for each in requests:
                notes.write(json.dumps([each.problem_id, each.samples.start, each.samples.stop, engine]) + "\n")

    def take_back_started(self) -> None:
        """No rollout of this round was begun."""
        if self._started_path.exists():
            os.truncate(self._started_path, self._started_before)

    def _read_started(self, engine: str | None) -> dict[str, list[int]]:
        """The numbers of the rollouts that were begun and that this engine cannot draw again, by their key."""
        started: dict[str, list[int]] = {}
        if not self._started_path.exists():
            return started
        content = self._started_path.read_bytes()
        # Behind the last end of a line is what a kill cut off, before the engine got it. New notes must not follow it.
        self._started_before = content.rfind(b"\n") + 1
        os.truncate(self._started_path, self._started_before)
        for line in content[: self._started_before].splitlines():
            key, begin, end, *noted = json.loads(line)  # notes of earlier versions have no engine
            if engine is None or noted != [engine]:
                started.setdefault(key, []).extend(range(begin, end))
        return started

    def _total_tokens(self, request: Request) -> int:
        return self._prompt_tokens[request.prompt] + len(request.prefix)

    def read(self, planned: Iterable[PlannedRollouts]) -> Iterator[tuple[PlannedRollouts, dict[str, Any]]]:
        """The planned rollouts on disk, each once, in the order of the files."""
        self.ledger.flush()
        by_key = {self.key(each): each for each in planned}
        seen: set[tuple[str, int]] = set()
        for row in self.ledger.texts():
            each, at = by_key.get(row["problem_id"]), (row["problem_id"], row["sample"])
            if each and row["sample"] in each.numbers and at not in seen:
                seen.add(at)
                yield each, row

    def settle(self, planned: Iterable[PlannedRollouts]) -> None:
        """Sort the rollouts into shards, and delete all that are not planned."""
        self.ledger.retain({(self.key(each), number) for each in planned for number in each.numbers})
        self._started_path.unlink(missing_ok=True)


def draw_rollouts(
    spec: EngineSpec, stores: Sequence[RolloutStore], planned: Sequence[PlannedRollouts], what: str
) -> int:
    """Draw the planned rollouts of a target model that are not on disk, and keep them; return their number."""
    store_of = {store.place: store for store in stores}
    engine = spec.label if spec.reproducible else None
    missing = {
        store.place: store.requests_for_missing((each for each in planned if each.task.place == store.place), engine)
        for store in stores
    }
    total = sum(len(request.samples) for requests in missing.values() for request in requests)
    rows = max(1, min(spec.rows, math.ceil(total / spec.plan.slots)))

    def begin_units() -> Iterator[DrawUnit]:
        for place, requests in missing.items():
            for unit in split_requests(requests, rows):
                store_of[place].note_started(unit, engine)
                yield DrawUnit(place, store_of[place].decoding, unit)

    act: Callable[..., Any] = submit_unit if spec.plan.stepping else draw_unit
    stats = sampler.DrawStats()
    with Progress(total, what, "rollouts") as progress:
        make = spec.make
        if total and spec.name == "vllm":
            progress.starting(f"{spec.name} for {stores[0].place.target}")
            make = make if spec.plan.ray else progress.timed(make)
        try:
            with closing(run_units(begin_units(), make, act, spec.plan)) as results:
                for unit, completions in results:
                    if len(completions) != sum(len(request.samples) for request in unit.requests):
                        fault = f"The engine {spec.name} returned fewer rollouts than requested"
                        raise sampler.SamplingError(f"{fault}. Run the command again.")
                    store_of[unit.place].ledger.add(completions)
                    stats.add(completions, 0)
                    shown = format_rate(stats.speed) if stats.speed else MISSING_VALUE
                    progress.add(len(completions), tokens=shown)
        except REFUSALS:
            if not stats.samples:  # nothing was drawn
                for store in stores:
                    store.take_back_started()
            raise
        finally:
            for store in stores:  # however the run ends, finished rollouts are kept
                store.ledger.flush()
    return total


def split_requests(requests: Iterable[Request], rows: int) -> Iterator[list[Request]]:
    """Units of at most this many rollouts, in order."""
    unit: list[Request] = []
    room = rows
    for request in requests:
        numbers = request.samples
        while numbers:
            now, numbers = numbers[:room], numbers[room:]
            unit.append(Request(request.problem_id, request.prompt, now, request.name, request.prefix))
            room -= len(now)
            if not room:
                yield unit
                unit, room = [], rows
    if unit:
        yield unit


# Module-level functions, since worker processes unpickle them.


def submit_unit(engine: Any, unit: DrawUnit) -> int:
    ticket: int = engine.start(unit.requests, unit.decoding)
    return ticket


def draw_unit(engine: Any, unit: DrawUnit) -> list[Completion]:
    return list(engine.complete(unit.requests, unit.decoding))

"""Examine all tasks of a run: score what the models wrote, draw rollouts in three rounds, and build the table's rows.

    score known completions ─► for each target model:  first round ─► score ─► second round ─► score ─► final round

The rounds of all problems of a model run together, so that an engine starts three times per model and its batches are
full. Everything is on disk as soon as it is there (scores in tables, rollouts in ledgers), and a plan follows from data
and earlier rounds alone: a run that was killed continues where it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from leash import tables
from leash.engines.selection import build_engine_spec, choose_engine
from leash.errors import LeashError
from leash.params.groups import Params
from leash.problems import load_problems
from leash.reach.hits import HitChecker
from leash.reach.known import Completion, build_completions, count_distinct
from leash.reach.known_scores import score_completions
from leash.reach.probe import probe_servers
from leash.reach.rollouts import PlannedRollouts, RolloutStore, draw_rollouts
from leash.reach.rows import build_row
from leash.reach.search import ROUNDS, KnownCompletion, Search, decoding_nlls
from leash.reach.tasks import Place, Task
from leash.weights import find_weights, load_end_tokens, load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Rollouts that are graded together: enough to keep all workers busy, and few enough for memory if they are long.
GRADED_TOGETHER = 1 << 14

TaskKey = tuple[str, str, str]  # pair, data set, problem


class IncompleteRoundError(LeashError):
    """Rollouts that were drawn are not all on disk. A share of those that are there would not be that of all."""

    def __init__(self, place: Place, found: int, wanted: int) -> None:
        self.place, self.found, self.wanted = place, found, wanted
        super().__init__(
            f"{tables.rollouts_folder(place.pair, place.target, place.dataset)} has {found:,} of {wanted:,} rollouts: "
            f"run `leash reach` again, which draws the missing ones."
        )


def examine(
    params: Params, tasks: Sequence[Task], written: Mapping[TaskKey, Sequence[Mapping[str, Any]]]
) -> tuple[list[tuple[str, dict[str, Any]]], int]:
    """The rows of all tasks, each with its pair, in their order, and how many rollouts were drawn. `written` has the
    correct completions of both models to each problem (stages/reach/correct.sql)."""
    targets = dict.fromkeys(task.place.target for task in tasks)
    tokenizers = {model: load_tokenizer(find_weights(params, model)) for model in targets}
    probe_servers(params, tasks)
    searches = start_searches(params, tasks, written, tokenizers)
    drawn = 0
    for model in targets:
        drawn += search_with_model(params, model, [each for each in searches if each.task.place.target == model])
    places = (search.task.place for search in searches)
    return [
        (place.pair, build_row(search, tokenizers[place.target]))
        for place, search in zip(places, searches, strict=True)
    ], drawn


def start_searches(
    params: Params,
    tasks: Sequence[Task],
    written: Mapping[TaskKey, Sequence[Mapping[str, Any]]],
    tokenizers: Mapping[str, PreTrainedTokenizerBase],
) -> list[Search]:
    """A search for each task, with the scores of its known completions under both models."""
    completions = {}
    for task in tasks:
        rows = written[task.place.pair, task.place.dataset, task.problem_id]
        built = build_completions(rows, tokenizers[task.place.target])
        counted = ((each, row["model"], row["times"]) for each, row in zip(built, rows, strict=True))
        completions[task] = count_distinct(counted)
    wanted = [
        (model, task.place.dataset, task.problem_id, completion)
        for task in tasks
        for completion in completions[task]
        for model in (task.place.target, task.place.donor)
    ]
    scores = score_completions(params, wanted, "known")
    limit = params.sample.max_tokens or 0
    searches = []
    for task in tasks:
        known = []
        for completion in completions[task]:
            own, other = (
                scores[model, task.place.dataset, task.problem_id, completion.tokens]
                for model in (task.place.target, task.place.donor)
            )
            own_nlls, other_nlls = (
                decoding_nlls(completion, each, limit, _end_tokens(params, model))
                for each, model in ((own, task.place.target), (other, task.place.donor))
            )
            excluded = own.scored and bool(np.isinf(own.nlls).any())
            known.append(KnownCompletion(completion, own_nlls, other_nlls, own.untempered, excluded))
        searches.append(Search(task, known, params.reach))
    return searches


def search_with_model(params: Params, model: str, searches: Sequence[Search]) -> int:
    """All rounds of the tasks whose target this model is. Return the number of rollouts that were drawn."""
    spec = build_engine_spec(params, model, prefixes=True)
    places = dict.fromkeys(search.task.place for search in searches)
    problems = {dataset: load_problems(dataset) for dataset in dict.fromkeys(place.dataset for place in places)}
    checkers = {dataset: HitChecker(params, found) for dataset, found in problems.items()}
    drawn = 0
    with ExitStack() as opened:
        stores = [RolloutStore(params, place, problems[place.dataset]) for place in places]
        for store in stores:
            opened.enter_context(closing(store.ledger))
            store.open(spec.label)
        for number, name in enumerate(ROUNDS, start=1):
            planned = [each for search in searches for each in search.plan(number)]
            drawn += draw_rollouts(spec, stores, planned, f"reach {model}: {name} round")
            grade_round(number, searches, stores, checkers)
            if number < len(ROUNDS):
                add_hits(params, name, searches)
        for store in stores:
            own = [search for search in searches if search.task.place == store.place]
            store.settle(each for search in own for round_ in search.planned.values() for each in round_)
    return drawn


def grade_round(
    number: int, searches: Sequence[Search], stores: Sequence[RolloutStore], checkers: Mapping[str, HitChecker]
) -> None:
    """Tell each search about the rollouts of a round, and give it the correct ones."""
    search_of = {search.task: search for search in searches}
    for store in stores:
        checker = checkers[store.place.dataset]
        planned = [each for search in searches if search.task.place == store.place for each in search.planned[number]]
        read = 0
        for chunk in _in_chunks(store.read(planned)):
            read += len(chunk)
            answers = [checker.answer(each.task.problem_id, row["text"], row["finish"]) for each, row in chunk]
            found = [
                (each.task.problem_id, answer)
                for (each, _), answer in zip(chunk, answers, strict=True)
                if answer is not None
            ]
            correct = dict(zip(found, checker.are_correct(found), strict=True))
            for (each, row), answer in zip(chunk, answers, strict=True):
                hit = answer is not None and correct[each.task.problem_id, answer]
                tokens = tuple(row["token_ids"])
                search_of[each.task].record(number, each.prefix, tokens, hit)
                if answer is not None and hit:
                    if number == len(ROUNDS):
                        search_of[each.task].keep_for_audit(each.prefix, row["sample"], answer, row["text"])
                        continue
                    tail, ended = row.get("tail"), row["finish"] == "stop"  # files without any tail lack the column
                    found_hit = Completion(tokens, row["text"] + (tail or ""), ended, tokens, tail is not None, answer)
                    search_of[each.task].keep_hit(row["sample"], found_hit)
        if read != (wanted := sum(len(each.numbers) for each in planned)):
            raise IncompleteRoundError(store.place, read, wanted)


def _in_chunks(
    rollouts: Iterator[tuple[PlannedRollouts, dict[str, Any]]],
) -> Iterable[list[tuple[PlannedRollouts, dict[str, Any]]]]:
    return iter(lambda: list(islice(rollouts, GRADED_TOGETHER)), [])


def add_hits(params: Params, name: str, searches: Sequence[Search]) -> None:
    """Score the correct rollouts of a round, and let the searches know them."""
    new = {search.task: search.take_new() for search in searches}
    wanted = [
        (task.place.target, task.place.dataset, task.problem_id, completion)
        for task, completions in new.items()
        for completion in completions
    ]
    scores = score_completions(params, wanted, name)
    limit = params.sample.max_tokens or 0
    for search in searches:
        place, problem = search.task.place, search.task.problem_id
        for completion in new[search.task]:
            found = scores[place.target, place.dataset, problem, completion.tokens]
            ends = _end_tokens(params, place.target)
            search.add(completion, decoding_nlls(completion, found, limit, ends))


def _end_tokens(params: Params, model: str) -> frozenset[int]:
    return load_end_tokens(find_weights(params, model), choose_engine(params, model))

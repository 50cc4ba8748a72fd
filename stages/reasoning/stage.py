"""reasoning: does a judge find the working of correct completions sound, and how often is the judge right?

In:  data/verdicts/ and data/completions/ of all models of the run.
Out: data/reasoning/{model}/{dataset}.parquet, one row per correct completion that shows working, with the votes on its
     text; data/reasoning/{model}.calibration.parquet, the votes on good traces of the model, as they are and with one
     planted error. Without `reasoning.judge` the tables are empty.

Only correct completions are asked about. Of each model and problem, at most `reasoning.hits` are chosen at random, so
that they stand for the others. Problems whose category hangs on few hits come first; what the budget does not pay for
is not asked, and said. Calibration traces are paid first, since nothing can be said without them, and are mixed with
the others in random order. Completions without working (`direct`) are not asked about: there is nothing to judge.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import duckdb

from leash import atomic_io, database, tables
from leash.errors import MissingCompletionsError
from leash.grading import reasoning
from leash.grading.judging import CHARS_PER_TOKEN, JudgeCase, JudgeServer, WordCache, query_judge
from leash.grading.process.checkers import check_working
from leash.grading.process.planting import plant_error
from leash.grading.run_on import cut_run_on
from leash.params.groups import Params, Reasoning
from leash.problems import Problem, load_problems
from leash.statistics import seeds

SQL_DIR = Path(__file__).parent


@dataclass
class Hit:
    """A correct completion with working. `rank`: its place in the random order of its model and problem."""

    model: str
    dataset: str
    problem_id: str
    sample: int
    text: str
    answer: str | None
    process: str
    rank: int = 0


@dataclass
class Trace:
    """A good trace, as it is or with a planted error."""

    hit: Hit
    text: str
    planted: bool


@dataclass
class Questions:
    """The cases of each text, by question and text, in the order in which they are paid for."""

    settings: Reasoning
    template: str
    cases: dict[tuple[str, str], list[JudgeCase]] = field(default_factory=dict)

    def add(self, question: str, text: str) -> list[JudgeCase]:
        key = (question, text)
        if key not in self.cases:
            votes = range(self.settings.votes)
            self.cases[key] = [reasoning.case_of(self.settings, self.template, *key, vote) for vote in votes]
        return self.cases[key]


def run(params: Params) -> list[str]:
    """Ask the judge what is not in the cache; return sentences on what was not asked."""
    settings = params.reasoning
    folder = tables.DATA_DIR / "reasoning"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.rglob("*.parquet"):
        old.unlink()
    if settings.judge is None:  # DVC needs an output, and warns of an empty folder
        write_empty_tables(params)
        return []
    problems = {dataset: load_problems(dataset) for dataset in params.run.datasets}
    hits = load_hits(params, problems)
    traces = [trace for model in params.run.models for trace in choose_traces(settings, model, hits, problems)]
    chosen = [hit for hit in sort_by_decisiveness(hits) if hit.rank < settings.hits]

    questions = Questions(settings, reasoning.load_template(settings))
    question_of = {(d, name): str(problem["question"]) for d in problems for name, problem in problems[d].items()}
    first = [questions.add(question_of[t.hit.dataset, t.hit.problem_id], t.text) for t in traces]
    then = [questions.add(question_of[hit.dataset, hit.problem_id], hit.text) for hit in chosen]
    cache = reasoning.open_cache()
    server = reasoning.server_of(settings)
    asked, sentences = select_affordable(server, first, then, cache)
    seeds.stream("reasoning", settings.seed, "order").shuffle(asked)
    if asked:
        print(describe_cost(server, asked), file=sys.stderr, flush=True)
        query_judge(server, asked, cache, reasoning.parse_vote, reasoning.decoding_of(settings), "votes")
    write_tables(params, hits, traces, questions, question_of, cache)
    return [*sentences, *describe_lacking(params, traces)]


def load_hits(params: Params, problems: Mapping[str, Mapping[str, Problem]]) -> list[Hit]:
    """The correct completions with working of all models of the run, ranked at random within model and problem."""
    hits: list[Hit] = []
    for model, dataset in product(params.run.models, params.run.datasets):
        if not tables.shards(tables.completions_folder(model, dataset)):
            raise MissingCompletionsError(model, dataset)
    with database.open_database(params, only=["completions", "verdicts"]) as connection:
        for model, dataset in product(params.run.models, params.run.datasets):
            hits += rank_hits(params, load_model_hits(connection, model, dataset, problems[dataset]))
    return hits


def load_model_hits(
    connection: duckdb.DuckDBPyConnection, model: str, dataset: str, problems: Mapping[str, Problem]
) -> list[Hit]:
    rows = database.query(connection, SQL_DIR / "hits.sql", {"model": model, "dataset": dataset}).to_pylist()
    known: dict[tuple[str, str], str] = {}
    hits = []
    for row in rows:
        text = cut_run_on(row["text"])  # the judge reads what was graded
        # Verdicts of an earlier version have no candidate and no process.
        answer = row["answer"] if row.get("candidate") is None else row["candidate"]
        key = (row["problem_id"], text)
        if key not in known:
            known[key] = row.get("process") or check_working(problems[key[0]], text, answer).process
        if known[key] != "direct":
            hits.append(Hit(model, dataset, key[0], row["sample"], text, answer, known[key]))
    return hits


def rank_hits(params: Params, hits: list[Hit]) -> list[Hit]:
    """Give each hit its place in the random order of its problem. Hits within the k of the smallest pair come first, so
    that every pair has judged hits: samples are exchangeable, so a choice by their numbers is a random one, too."""
    by_problem: dict[str, list[Hit]] = {}
    for hit in hits:
        by_problem.setdefault(hit.problem_id, []).append(hit)
    for name, mine in by_problem.items():
        model, dataset = mine[0].model, mine[0].dataset
        ks = sorted(params.pair_k(pair, dataset) for pair in params.run.pairs if model in params.models_of(pair))
        drawn = seeds.stream("reasoning", params.reasoning.seed, model, dataset, name).random(len(mine))
        place = {id(hit): (sum(hit.sample >= k for k in ks), drawn[i]) for i, hit in enumerate(mine)}
        for rank, hit in enumerate(sorted(mine, key=lambda hit: place[id(hit)])):
            hit.rank = rank
    return hits


def choose_traces(
    settings: Reasoning, model: str, hits: Iterable[Hit], problems: Mapping[str, Mapping[str, Problem]]
) -> list[Trace]:
    """Good traces of a model, each also with a planted error. Problems take turns, and no text comes twice."""
    random = seeds.stream("reasoning", settings.seed, "planted", model)
    good: dict[tuple[str, str, str], Hit] = {}
    for hit in hits:
        if hit.model == model and hit.process == "sound":
            good.setdefault((hit.dataset, hit.problem_id, hit.text), hit)
    turns: dict[tuple[str, str], int] = {}
    shuffled = [list(good.values())[i] for i in random.permutation(len(good))]
    order: list[tuple[int, int, Hit]] = []
    for hit in shuffled:
        turn = turns.setdefault((hit.dataset, hit.problem_id), 0)
        turns[hit.dataset, hit.problem_id] += 1
        order.append((turn, len(order), hit))
    traces: list[Trace] = []
    for _, _, hit in sorted(order):
        if len(traces) == 2 * settings.planted:
            break
        planted = plant_error(problems[hit.dataset][hit.problem_id], hit.text, hit.answer, random)
        if planted is not None:
            traces += [Trace(hit, hit.text, planted=False), Trace(hit, planted, planted=True)]
    return traces


def sort_by_decisiveness(hits: Sequence[Hit]) -> list[Hit]:
    """Problems whose support hangs on the fewest hits of one model come first, for all models alike."""
    counts: dict[tuple[str, str, str], int] = {}
    for hit in hits:
        key = (hit.dataset, hit.problem_id, hit.model)
        counts[key] = counts.get(key, 0) + 1
    fewest: dict[tuple[str, str], int] = {}
    for (dataset, problem, _), count in counts.items():
        fewest[dataset, problem] = min(count, fewest.get((dataset, problem), count))
    return sorted(hits, key=lambda hit: (fewest[hit.dataset, hit.problem_id], hit.dataset, hit.problem_id, hit.rank))


def select_affordable(
    server: JudgeServer, first: Sequence[list[JudgeCase]], then: Sequence[list[JudgeCase]], cache: WordCache
) -> tuple[list[JudgeCase], list[str]]:
    """The cases to send, each once: those of calibration traces, then of hits in their order while the budget lasts.
    Nothing if it does not pay for calibration."""
    seen: set[str] = set(cache.words)

    def cost_of(cases: Iterable[JudgeCase]) -> float:
        return sum(server.cost_usd(len(case.prompt), reasoning.TOKENS_PER_REPLY) for case in cases)

    def new_cases(cases: Iterable[JudgeCase]) -> list[JudgeCase]:
        fresh = [case for case in cases if case.key not in seen]
        seen.update(case.key for case in fresh)
        return fresh

    asked = new_cases(case for cases in first for case in cases)
    spent, left_out, missing = cost_of(asked), 0, 0.0
    if spent > server.budget:
        enough = math.ceil((spent + cost_of(new_cases(c for cases in then for c in cases))) * 120) / 100
        return [], [
            f"`reasoning.budget` allows ${server.budget:,.2f}, but the calibration traces alone cost about "
            f"${spent:,.2f}, so nothing is asked. Set it to {enough:.2f} to ask everything."
        ]
    for cases in then:
        fresh = new_cases(cases)
        cost = cost_of(fresh)
        if fresh and (left_out or spent + cost > server.budget):
            left_out, missing = left_out + 1, missing + cost
            continue
        asked, spent = asked + fresh, spent + cost
    if not left_out:
        return asked, []
    enough = math.ceil((spent + missing) * 120) / 100
    return asked, [
        f"`reasoning.budget` allows ${server.budget:,.2f}: {left_out:,} texts are not asked about. Set it to "
        f"{enough:.2f} to ask everything."
    ]


def describe_cost(server: JudgeServer, cases: Sequence[JudgeCase]) -> str:
    characters, replies = sum(len(case.prompt) for case in cases), reasoning.TOKENS_PER_REPLY * len(cases)
    cost = server.cost_usd(characters, replies)
    price = f"about ${max(cost, 0.01):,.2f}" if cost else "free of charge"
    return (
        f"Judging working with {len(cases):,} votes by {server.model} takes about {characters // CHARS_PER_TOKEN:,} "
        f"tokens in (at {CHARS_PER_TOKEN} characters each) and {replies:,} out, {price}."
    )


def count_votes(settings: Reasoning, cases: Sequence[JudgeCase], cache: WordCache) -> dict[str, Any]:
    words = [cache.words[case.key] for case in cases if case.key in cache.words]
    sound = words.count("SOUND")
    combined = reasoning.combine_votes(sound, len(words), settings.rule)
    return {"votes": len(words), "votes_sound": sound, "sound": combined}


def write_tables(
    params: Params,
    hits: Sequence[Hit],
    traces: Sequence[Trace],
    questions: Questions,
    question_of: Mapping[tuple[str, str], str],
    cache: WordCache,
) -> None:
    settings = params.reasoning
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {
        key: [] for key in product(params.run.models, params.run.datasets)
    }
    for hit in hits:
        cases = questions.cases.get((question_of[hit.dataset, hit.problem_id], hit.text), [])
        votes = count_votes(settings, cases, cache)
        row = {"problem_id": hit.problem_id, "sample": hit.sample, "text_hash": atomic_io.hash_strings(hit.text)}
        # A chosen hit that the budget left out, or without a usable reply, counts as not chosen.
        row |= {"chosen": hit.rank < settings.hits and votes["votes"] > 0, **votes}
        rows[hit.model, hit.dataset].append(row)
    for (model, dataset), found in rows.items():
        content = tables.table_from_rows(found, tables.REASONING_SCHEMA)
        tables.write(tables.reasoning_path(model, dataset), content, tables.REASONING_SCHEMA)
    for model in params.run.models:
        found = []
        for trace in (each for each in traces if each.hit.model == model):
            hit = trace.hit
            votes = count_votes(settings, questions.cases[question_of[hit.dataset, hit.problem_id], trace.text], cache)
            about = {"dataset": hit.dataset, "problem_id": hit.problem_id, "sample": hit.sample}
            found.append({**about, "planted": trace.planted, **votes})
        content = tables.table_from_rows(found, tables.CALIBRATION_SCHEMA)
        tables.write(tables.calibration_path(model), content, tables.CALIBRATION_SCHEMA)


def write_empty_tables(params: Params) -> None:
    schema = tables.REASONING_SCHEMA
    for model, dataset in product(params.run.models, params.run.datasets):
        tables.write(tables.reasoning_path(model, dataset), schema.empty_table(), schema)


def describe_lacking(params: Params, traces: Sequence[Trace]) -> list[str]:
    sentences = []
    for model in params.run.models:
        if not any(trace.hit.model == model for trace in traces):
            sentences.append(
                f"{model}: no correct completion has working that Leash can check, so no error can be planted, and the "
                f"judge's votes on this model cannot be corrected."
            )
    return sentences

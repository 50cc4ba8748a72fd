"""The data inside the page: the numbers behind its sliders, and as many texts as fit.

Everything here is plain data, ready for JSON. The page contains the hits at every k of its slider, counted by the
pipeline's own query, so its script finds the categories at any epsilon and k. Intervals, p-values and decisions are
computed here, by `leash.statistics`, for every k of the slider and a grid of epsilons.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from leash import database
from leash.counting import hit_counts
from leash.counting.analysis_settings import settings_of
from leash.counting.hit_counts import Control
from leash.formatting import truncate
from leash.params.groups import Params
from leash.report import audit
from leash.report.narrative import CONTROL_LABELS, control_headline, is_reach_measurable
from leash.statistics import seeds
from leash.statistics.analysis import distinct_epsilons
from leash.statistics.categories import classify_counts
from leash.statistics.counts import ROLES, Counts
from leash.statistics.problem_group import describe_categories
from leash.statistics.ratios import RATIO_NAMES
from leash.statistics.support import detectable_mass

SQL_DIR = Path(__file__).parent
# Of the correct, the wrong and the unscored completions of each model on a problem.
MAX_EXAMPLES_PER_KIND = 2
# What is kept of a longer completion: how it begins, and where its answer is.
HEAD_CHARS, TAIL_CHARS = 400, 800
# Of a false step, or of an answer that lenient reading alone finds.
MAX_NOTE_CHARS = 200
# Questions are cut to the largest limit at which all of them together fit.
MAX_QUESTIONS_CHARS = 3_000_000
QUESTION_CHAR_LIMITS = (4000, 2000, 1000, 500, 250)
ProblemKey = tuple[str, str]  # data set and problem
ProblemNumbers = Mapping[ProblemKey, int]
# By model and place in the slider's ks: the columns n, c and ended, an entry per problem.
HitColumns = dict[str, list[dict[str, list[Any]]]]


def dump_html_json(value: Any) -> str:
    """JSON for an HTML element: without `<`, no text in it can close the element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def number_problems(support: pa.Table) -> dict[ProblemKey, int]:
    """The number of every problem on the page, in order."""
    keys = {*zip(support["dataset"].to_pylist(), support["problem_id"].to_pylist(), strict=True)}
    return {key: number for number, key in enumerate(sorted(keys))}


def build_page_numbers(params: Params, support: pa.Table, analyses: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The pairs, the hits of every model on every problem at every k, and what Python computed from them."""
    problems = number_problems(support)
    ks = slider_ks(params)
    settings = params.categorize
    switched = switched_controls(params)
    by_control = hits_by_control(params, ks, problems, ("chosen", *switched))
    hits = by_control["chosen"]
    keys = zip(support["dataset"].to_pylist(), support["problem_id"].to_pylist(), strict=True)
    labels = dict(zip(keys, support["cluster"].to_pylist(), strict=True))

    def pair_entry(pair: str) -> dict[str, Any]:
        base, rlvr = params.models_of(pair)
        k = {dataset: params.pair_k(pair, dataset) for dataset in params.run.datasets}
        return {"name": pair, "base": base, "rlvr": rlvr, "k": k}

    def collapse(columns: Mapping[str, list[Any]]) -> dict[str, Any]:
        # A column with the same value for all problems becomes that value, which makes the page smaller.
        return {name: column[0] if len({*column}) == 1 and name != "c" else column for name, column in columns.items()}

    return {
        "ks": ks,
        "epsilon": settings.epsilon,
        "epsilons": slider_epsilons(params, ks),
        "confidence": settings.confidence,
        # With fewer samples than this, the page does not speak of a model's reach.
        "reach_from": next(k for k in count(1) if is_reach_measurable(k, settings.confidence)),
        "datasets": params.run.datasets,
        "pairs": [pair_entry(pair) for pair in params.run.pairs],
        "problems": {"dataset": [d for d, _ in problems], "id": [name for _, name in problems]},
        "models": {model: [collapse(columns) for columns in by_k] for model, by_k in hits.items()},
        # What else the map can count as a hit. A k at which it counts the same has no columns of its own.
        "reading": CONTROL_LABELS[params.verify.reading],
        "controls": {
            control: {
                "label": CONTROL_LABELS[control],
                "models": {
                    model: [
                        None if columns == hits[model][place] else collapse(columns)
                        for place, columns in enumerate(by_k)
                    ]
                    for model, by_k in by_control[control].items()
                },
                **control_summaries(params, analyses, control),
            }
            for control in switched
        },
        "tests": {pair: _test_columns(support, pair, problems) for pair in params.run.pairs},
        "intervals": {pair: intervals_by_setting(params, pair, hits, problems, labels) for pair in params.run.pairs},
        "expected": {pair: expected_by_k(params, analyses[pair]) for pair in params.run.pairs},
    }


def slider_epsilons(params: Params, ks: Sequence[int]) -> list[float]:
    """The places of the slider for epsilon: the grid of data/analysis below 1, and the run's own epsilon."""
    own = params.categorize.epsilon
    grid = {epsilon for epsilon in distinct_epsilons(max(ks)) if epsilon < 1}
    return sorted(grid if own == "auto" else grid | {float(own)})


def intervals_by_setting(
    params: Params,
    pair: str,
    hits: HitColumns,
    problems: ProblemNumbers,
    labels: Mapping[ProblemKey, str | None] | None = None,
) -> dict[str, dict[str, Any]]:
    """By data set ("": all): the intervals of the ratios at every k and epsilon of the sliders.

    No p-values and no decisions: over all settings, one of them would be significant in a quarter of the runs in which
    nothing changed. The decision is made at the run's own k and epsilon.

    `at[k][epsilon]` is a place in `rows`, since many settings give every problem the same category. The last place of
    an `at[k]` is for the epsilon `auto`. `labels` are the names of the problems' clusters.
    """
    settings, ks = settings_of(params), slider_ks(params)
    dataset = np.array([name for name, _ in problems], dtype=object)
    cluster = np.array([(labels or {}).get(key) for key in problems], dtype=object)
    at_k = [replace(_counts_at(params, pair, place, hits, problems), cluster=cluster) for place in range(len(ks))]
    masks = {"": np.ones(len(problems), dtype=bool), **{name: dataset == name for name in params.run.datasets}}
    intervals: dict[str, dict[str, Any]] = {}
    for name, mask in masks.items():
        weights = settings.drawn(int(mask.sum()), settings.clusters_of(at_k[0].where(mask)))
        rows: list[dict[str, Any]] = []
        row_by_categories: dict[bytes, int] = {}
        at: list[list[int]] = []
        for all_counts in at_k:
            group = all_counts.where(mask)
            auto = np.array([detectable_mass(int(k), settings.confidence) for k in group.k])
            places = []
            for epsilon in [*(np.full(len(group), e) for e in slider_epsilons(params, ks)), auto]:
                chosen = replace(group, epsilon=epsilon)
                # Equal categories have equal intervals, since all settings share the weights.
                key = classify_counts(chosen).columns.tobytes()
                if key not in row_by_categories:
                    row_by_categories[key] = len(rows)
                    described = describe_categories(classify_counts(chosen), weights, settings.confidence)
                    rows.append({name: _rounded_ends(described[name]) for name in RATIO_NAMES})
                places.append(row_by_categories[key])
            at.append(places)
        intervals[name] = {"rows": rows, "at": at}
    return intervals


def _rounded_ends(estimate: Mapping[str, float]) -> dict[str, float | None] | None:
    """The interval of a ratio with few digits; None for 0/0."""
    if np.isnan(estimate["low"]):
        return None
    return {end: _round_digits(estimate[end], 6) for end in ("low", "high")}


def _counts_at(params: Params, pair: str, place: int, hits: HitColumns, problems: ProblemNumbers) -> Counts:
    """The counts of a pair at a k of the slider, or at the k of the pair on a data set if that is smaller."""
    ks = slider_ks(params)
    k = np.array([min(ks[place], params.pair_k(pair, dataset)) for dataset, _ in problems])
    columns: dict[str, Any] = {}
    for role, model in zip(ROLES, params.models_of(pair), strict=True):
        for name in ("n", "c", "ended"):
            values = [hits[model][ks.index(at)][name][i] for i, at in enumerate(k.tolist())]
            filled = values if name == "ended" else [value or 0 for value in values]
            columns[f"{name}_{role}"] = np.array(filled, dtype=object if name == "ended" else np.int64)
    dataset, problem = (np.array(list(column), dtype=object) for column in zip(*problems, strict=True))
    return Counts(dataset=dataset, problem_id=problem, k=k, epsilon=np.zeros(len(k)), **columns)


def expected_by_k(params: Params, groups: Mapping[str, Any]) -> dict[str, dict[str, list[float | None]]]:
    """By data set ("": all) and k: the expected P, E, S and O at epsilon = 0, from data/analysis."""
    return {
        name: {
            k: [_round_digits(values[letter]["value"], 6) for letter in "PESO"]
            for k, values in groups.get(name or "all", {}).get("expected", {}).items()
            if values["P"]["value"] is not None
        }
        for name in ("", *params.run.datasets)
    }


def slider_ks(params: Params) -> list[int]:
    """The places of the slider for k: powers of two, and every k at which a pair is compared."""
    own = {params.pair_k(pair, dataset) for pair in params.run.pairs for dataset in params.run.datasets}
    return sorted(own | {2**i for i in range(max(own).bit_length()) if 2**i < max(own)})


def max_k_by_model(params: Params) -> dict[tuple[str, str], int]:
    """The largest k at which a model is compared on a data set, in any of its pairs."""
    largest: dict[tuple[str, str], int] = {}
    for pair in params.run.pairs:
        for model in params.models_of(pair):
            for dataset in params.run.datasets:
                largest[model, dataset] = max(largest.get((model, dataset), 0), params.pair_k(pair, dataset))
    return largest


def switched_controls(params: Params) -> tuple[Control, Control]:
    """What the map can count instead of the run's own hits."""
    return ("lenient" if params.verify.reading == "strict" else "strict"), "sound"


def control_summaries(params: Params, analyses: Mapping[str, Mapping[str, Any]], control: Control) -> dict[str, Any]:
    """By pair and data set ("": all): the intervals of the ratios and the headline by a control, at the run's own k and
    epsilon."""
    intervals: dict[str, dict[str, Any]] = {pair: {} for pair in params.run.pairs}
    headlines: dict[str, dict[str, str]] = {pair: {} for pair in params.run.pairs}
    for pair in params.run.pairs:
        for name in ("", *params.run.datasets):
            if analysis := analyses[pair].get(name or "all"):
                found = analysis["controls"][control]
                intervals[pair][name] = {
                    ratio: None
                    if found[ratio]["low"] is None
                    else {end: _round_digits(found[ratio][end], 6) for end in ("low", "high")}
                    for ratio in RATIO_NAMES
                }
                headlines[pair][name] = control_headline(analysis, control, *params.models_of(pair))
    return {"intervals": intervals, "headlines": headlines}


def hits_by_control(
    params: Params, ks: Sequence[int], problems: ProblemNumbers, controls: Sequence[Control]
) -> dict[Control, HitColumns]:
    """By control, model and k: n, c and how sampling ended, for each problem; None if its data set has fewer samples,
    or if a control does not know. "chosen" are the hits of the run's own reading."""
    largest = max_k_by_model(params)
    # counts.sql counts pairs, so compare each model with itself; the name makes each k a pair of its own.
    plan = pa.Table.from_pylist(
        [
            {"pair": f"{model} {k}", "dataset": dataset, "domain": "", "base": model, "rlvr": model}
            | {"k": k, "eighth": k // 8, "epsilon": 0.0}
            for (model, dataset), most in largest.items()
            for k in ks
            if k <= most
        ]
    )
    found: dict[Control, HitColumns] = {}
    with hit_counts.open_tallies(params, [plan]) as connection:
        for control in controls:
            hit_counts.choose_control(connection, control)
            hit_counts.create_counts_table(connection, params, plan, control=control != "chosen")
            hits: HitColumns = {
                model: [{name: [None] * len(problems) for name in ("n", "c", "ended")} for _ in ks]
                for model, _ in largest
            }
            for row in database.query(connection, SQL_DIR / "hits.sql").to_pylist():
                if control != "chosen" and row["ended"] is None and not row["n"]:
                    continue  # not known (leash/counting/forget_stopped.sql)
                i = problems[row["dataset"], row["problem_id"]]
                for name, column in hits[row["model"]][ks.index(row["k"])].items():
                    column[i] = row[name]
            found[control] = hits
    return found


def _test_columns(support: pa.Table, pair: str, problems: ProblemNumbers) -> dict[str, list[Any]]:
    """The run's own tests of each problem: exact intervals of both masses, and the corrected p-value."""
    names = ("low_base", "high_base", "low_rlvr", "high_rlvr", "q_value")
    rows = {(r["dataset"], r["problem_id"]): r for r in support.to_pylist() if r["pair"] == pair}
    return {name: [_round_digits(rows.get(key, {}).get(name)) for key in problems] for name in names}


def _round_digits(value: float | None, digits: int = 4) -> float | None:
    return None if value is None or math.isnan(value) else float(f"{value:.{digits}g}")


def question_columns(questions: pa.Table, problems: ProblemNumbers) -> dict[str, Any]:
    """Question, gold and number of images of every problem, cut to a length at which all fit."""
    by_key = {(row["dataset"], row["problem_id"]): row for row in questions.to_pylist()}
    rows = [by_key[key] for key in problems]
    lengths = [len(row["question"]) for row in rows]
    fitting = (n for n in QUESTION_CHAR_LIMITS if sum(min(length, n) for length in lengths) <= MAX_QUESTIONS_CHARS)
    limit = next(fitting, QUESTION_CHAR_LIMITS[-1])
    return {
        "question": [truncate(row["question"], limit, count_omitted=True) for row in rows],
        "gold": [truncate("\n".join(row["gold"]), QUESTION_CHAR_LIMITS[-1], count_omitted=True) for row in rows],
        "images": [row["images"] for row in rows],
    }


def truncate_middle(text: str) -> str:
    return truncate(text, HEAD_CHARS + TAIL_CHARS, tail_chars=TAIL_CHARS, count_omitted=True)


def answers_by_model(top_answers: pa.Table, problems: ProblemNumbers) -> dict[str, list[list[list[Any]]]]:
    """By model and problem: its most frequent answers, whether they are right, and how often it gave them."""
    answers: dict[str, list[list[list[Any]]]] = {}
    for row in top_answers.to_pylist():
        of_model = answers.setdefault(row["model"], [[] for _ in problems])
        shown = None if row["answer"] is None else truncate(row["answer"], 60)
        of_model[problems[row["dataset"], row["problem_id"]]].append([shown, row["correct"], row["count"]])
    return answers


def load_example_candidates(params: Params, connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Completions that the page may show."""
    rows = [{"model": model, "dataset": dataset, "k": k} for (model, dataset), k in max_k_by_model(params).items()]
    connection.register("limits", pa.Table.from_pylist(rows))
    candidates = database.query(connection, SQL_DIR / "examples.sql", {"most": MAX_EXAMPLES_PER_KIND})
    return list(candidates.to_pylist())


def rank_examples(examples: Iterable[dict[str, Any]], support: pa.Table) -> list[dict[str, Any]]:
    """The order in which examples are kept: one of each kind before a second one, then problems that are E or S
    for any pair before others, then a random order from a named stream."""
    moved = {(r["dataset"], r["problem_id"]) for r in support.to_pylist() if r["category"] in ("E", "S")}
    problems = number_problems(support)
    turn = seeds.stream("report", "examples").permutation(len(problems)).tolist()

    def rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
        key = (row["dataset"], row["problem_id"])
        return row["place"], key not in moved, turn[problems[key]]

    return sorted(examples, key=rank)


def pack_examples(
    examples: Sequence[Mapping[str, Any]],
    texts: Mapping[audit.CompletionKey, str],
    problems: ProblemNumbers,
    max_bytes: int,
) -> list[list[Any]]:
    """As many examples, in their order, as fit: model, problem, sample, right or not, status, text, working."""
    kept = []
    for row in examples:
        text = texts.get((row["model"], row["dataset"], row["problem_id"], row["sample"]))
        if text is None:
            continue
        problem = problems[row["dataset"], row["problem_id"]]
        about = [row["model"], problem, row["sample"], row["correct"], row["status"]]
        example = [*about, truncate_middle(text), describe_working(row)]
        max_bytes -= len(dump_html_json(example).encode()) + 1
        if max_bytes < 0:
            break
        kept.append(example)
    return kept


def describe_working(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is known about the working of a completion, and the answer if lenient reading alone finds it; None for
    nothing."""
    found = {name: row[name] for name in ("process", "flaw", "candidate") if row[name] is not None}
    for name in ("flaw", "candidate"):
        if name in found:
            found[name] = truncate(found[name], MAX_NOTE_CHARS)
    if "candidate" in found:
        found["right"] = row["correct_lenient"]
    return found or None


def decisive_hit_rows(table: pa.Table, problems: ProblemNumbers, most: int) -> list[dict[str, Any]]:
    """The first hits that decide a category, at most `most`."""
    names = ("pair", "role", "model", "sample", "why", "second_check", "answer")
    return [
        {name: row[name] for name in names}
        | {"problem": problems[row["dataset"], row["problem_id"]], "text": row["text"] and truncate_middle(row["text"])}
        | {"working": describe_working({**row, "candidate": None})}
        for row in table.slice(0, most).to_pylist()
    ]

"""What the page carries: the numbers its sliders work on, and as many texts as there is room for.

Everything here is plain data, ready for JSON. Hits are kept at every k of the slider, counted by the query of the
pipeline itself, so that the page can sort the problems at any epsilon and k exactly as `leash categorize` would.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from stages import categorize, seeds, tables
from stages.categorize.saying import shows_reach
from stages.params import Params
from stages.verify import audit

ROOM = Path(__file__).parent
EACH = 2  # examples of right, of wrong and of unscored completions that a problem may have from each model
HEAD, TAIL = 400, 800  # characters of a longer completion that are kept
QUESTIONS = 3_000_000  # characters of all questions together
LENGTHS = (4000, 2000, 1000, 500, 250)  # to which questions are cut, the longest that fits
Key = tuple[str, str]  # a data set and a problem


def written(value: Any) -> str:
    """JSON that can't end the element it stands in."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def keys(support: pa.Table) -> list[Key]:
    """Every problem, in the order in which the page numbers them."""
    return sorted({*zip(support["dataset"].to_pylist(), support["problem_id"].to_pylist(), strict=True)})


def numbers(params: Params, support: pa.Table) -> dict[str, Any]:
    """The pairs, and how many hits every model had on every problem at every k."""
    problems = keys(support)
    ks = budgets(params)
    chosen = params.categorize
    return {
        "ks": ks,
        "epsilon": chosen.epsilon,
        "confidence": chosen.confidence,
        "reach_from": next(k for k in count(1) if shows_reach(k, chosen.confidence)),  # fewer samples show less
        "datasets": params.run.datasets,
        "pairs": [_pair(params, pair) for pair in params.run.pairs],
        "problems": {"dataset": [d for d, _ in problems], "id": [name for _, name in problems]},
        "models": hits(params, ks, problems),
        "tests": {pair: _tests(support, pair, problems) for pair in params.run.pairs},
    }


def budgets(params: Params) -> list[int]:
    """The k of the slider: powers of two, and every k at which a pair is compared."""
    own = {params.pair_k(pair, dataset) for pair in params.run.pairs for dataset in params.run.datasets}
    return sorted(own | {2**i for i in range(max(own).bit_length()) if 2**i < max(own)})


def _pair(params: Params, pair: str) -> dict[str, Any]:
    base, rlvr = params.models_of(pair)
    return {"name": pair, "base": base, "rlvr": rlvr, "k": {d: params.pair_k(pair, d) for d in params.run.datasets}}


def reach(params: Params) -> dict[tuple[str, str], int]:
    """The most samples of each model and data set that a pair is compared at."""
    found: dict[tuple[str, str], int] = {}
    for pair in params.run.pairs:
        for model in params.models_of(pair):
            for dataset in params.run.datasets:
                found[model, dataset] = max(found.get((model, dataset), 0), params.pair_k(pair, dataset))
    return found


def hits(params: Params, ks: Sequence[int], problems: Sequence[Key]) -> dict[str, list[dict[str, Any]]]:
    """Of every model, at every k: n, c and how sampling ended, a list each over the problems or what they all have in
    common; null where a data set has fewer samples."""
    wanted = _plan(params, ks)
    with categorize.tallied(params, [wanted]) as connection:
        categorize.count(connection, params, wanted)
        rows = tables.query(connection, ROOM / "hits.sql").to_pylist()
    place = {key: i for i, key in enumerate(problems)}
    empty: dict[str, list[Any]] = {name: [None] * len(problems) for name in ("n", "c", "ended")}
    found = {
        m: [{n: list(v) for n, v in empty.items()} for _ in ks] for m in dict.fromkeys(m for m, _ in reach(params))
    }
    at = {k: i for i, k in enumerate(ks)}
    for row in rows:
        columns, i = found[row["model"]][at[row["k"]]], place[row["dataset"], row["problem_id"]]
        for name, column in columns.items():
            column[i] = row[name]
    return {model: [_common(columns) for columns in by_k] for model, by_k in found.items()}


def _plan(params: Params, ks: Sequence[int]) -> pa.Table:
    """Each model against itself at each k; the names tell one k from another."""
    rows = [
        {"pair": f"{model} {k}", "dataset": dataset, "domain": "", "base": model, "rlvr": model}
        | {"k": k, "eighth": k // 8, "epsilon": 0.0}
        for (model, dataset), most in reach(params).items()
        for k in ks
        if k <= most
    ]
    return pa.Table.from_pylist(rows)


def _common(columns: Mapping[str, list[Any]]) -> dict[str, Any]:
    """A column whose problems are all alike is said once."""
    return {name: column[0] if len({*column}) == 1 and name != "c" else column for name, column in columns.items()}


def _tests(support: pa.Table, pair: str, problems: Sequence[Key]) -> dict[str, list[Any]]:
    """What the run itself says of each problem: exact intervals of both masses, and the corrected p-value."""
    names = ("low_base", "high_base", "low_rlvr", "high_rlvr", "q_value")
    rows = {(r["dataset"], r["problem_id"]): r for r in support.to_pylist() if r["pair"] == pair}
    return {name: [_digits(rows.get(key, {}).get(name)) for key in problems] for name in names}


def _digits(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(f"{value:.4g}")


def questions(found: pa.Table, problems: Sequence[Key]) -> dict[str, Any]:
    """Question, gold and number of images of every problem, cut to a length at which they have room."""
    by_key = {(row["dataset"], row["problem_id"]): row for row in found.to_pylist()}
    rows = [by_key[key] for key in problems]
    length = fitting([row["question"] for row in rows])
    return {
        "question": [cut(row["question"], length) for row in rows],
        "gold": [cut("\n".join(row["gold"]), LENGTHS[-1]) for row in rows],
        "images": [row["images"] for row in rows],
    }


def fitting(texts: Sequence[str]) -> int:
    """The length to which texts must be cut to fit together."""
    return next((n for n in LENGTHS if sum(min(len(text), n) for text in texts) <= QUESTIONS), LENGTHS[-1])


def cut(text: str, most: int) -> str:
    """The head of a text that is too long, and how much was left out."""
    return text if len(text) <= most else f"{text[:most]} … [{len(text) - most:,} more characters]"


def shortened(text: str) -> str:
    """Head and tail of a long completion: how it begins, and where its answer is."""
    left_out = len(text) - HEAD - TAIL
    return text if left_out <= 0 else f"{text[:HEAD]}\n… [{left_out:,} characters left out] …\n{text[-TAIL:]}"


def answers(top_answers: pa.Table, problems: Sequence[Key]) -> dict[str, list[list[list[Any]]]]:
    """By model and problem: its most frequent answers, whether they are right, and how often they came."""
    place = {key: i for i, key in enumerate(problems)}
    models = dict.fromkeys(top_answers["model"].to_pylist())
    found: dict[str, list[list[list[Any]]]] = {model: [[] for _ in problems] for model in models}
    for row in top_answers.to_pylist():
        shown = None if row["answer"] is None else cut(row["answer"], 60)
        mine = found[row["model"]][place[row["dataset"], row["problem_id"]]]
        mine.append([shown, row["correct"], row["count"]])
    return found


def candidates(params: Params, connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Completions that the page might show."""
    rows = [{"model": model, "dataset": dataset, "k": k} for (model, dataset), k in reach(params).items()]
    connection.register("reach", pa.Table.from_pylist(rows))
    found: list[dict[str, Any]] = tables.query(connection, ROOM / "examples.sql", {"most": EACH}).to_pylist()
    return found


def in_order(found: Iterable[dict[str, Any]], support: pa.Table) -> list[dict[str, Any]]:
    """Examples by who goes first: one of a kind before a second one, problems that came or went before others, and
    among those in an order that a named stream shuffles."""
    moved = {(r["dataset"], r["problem_id"]) for r in support.to_pylist() if r["category"] in ("E", "S")}  # of any pair
    problems = keys(support)
    shuffled = seeds.stream("report", "examples").permutation(len(problems)).tolist()
    turn = dict(zip(problems, shuffled, strict=True))

    def rank(row: Mapping[str, Any]) -> tuple[Any, ...]:
        key = (row["dataset"], row["problem_id"])
        return row["place"], key not in moved, turn[key]

    return sorted(found, key=rank)


def packed(
    found: Sequence[Mapping[str, Any]], texts: Mapping[audit.Written, str], problems: Sequence[Key], room: int
) -> list[list[Any]]:
    """As many examples, in their order, as there is room for: model, problem, sample, right or not, status, text."""
    place = {key: i for i, key in enumerate(problems)}
    kept = []
    for row in found:
        text = texts.get((row["model"], row["dataset"], row["problem_id"], row["sample"]))
        if text is None:
            continue
        who = [row["model"], place[row["dataset"], row["problem_id"]], row["sample"], row["correct"], row["status"]]
        example = [*who, shortened(text)]
        room -= len(written(example).encode()) + 1
        if room < 0:
            break
        kept.append(example)
    return kept


def decisive(table: pa.Table, problems: Sequence[Key], most: int) -> list[dict[str, Any]]:
    """The first of the hits on which a category hangs, by pair and problem."""
    place = {key: i for i, key in enumerate(problems)}
    names = ("pair", "role", "model", "sample", "why", "second_check", "answer")
    return [
        {name: row[name] for name in names}
        | {"problem": place[row["dataset"], row["problem_id"]], "text": row["text"] and shortened(row["text"])}
        for row in table.slice(0, most).to_pylist()
    ]

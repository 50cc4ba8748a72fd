"""The statistics of every group of problems: each data set, each domain where there are several, and all of them.

groups(support) of a run on chain and make  ->  {"all": [...], "chain": [...], "make": [...]}

data/analysis/{pair}.json has what `analysis.py` says of each, and beside it what takes the order of samples or their
answers: the plain hit rate of the first k, maj@k, and how many hits are no more than guessing gives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages import disk, seeds, tables
from stages.categorize import majority
from stages.categorize.aggregates import budgets
from stages.categorize.analysis import analysis, plain
from stages.categorize.counts import ROLES, Counts
from stages.categorize.statistics import Ints, Reals, Truths
from stages.categorize.statistics.resampling import Settings, Weights, interval
from stages.params import Params

ROOM = Path(__file__).parent
# maj@k of each problem at the powers of two up to k and at k itself, by (model, data set, k) and problem.
Majorities = Mapping[tuple[str, str, int], Mapping[str, list[float]]]
# What is said of a pair and a group of its problems.
Analyses = Mapping[str, Mapping[str, Mapping[str, Any]]]


def write(params: Params, support: pa.Table, majorities: Majorities) -> Analyses:
    """Write what is said of every pair, and return it."""
    found = {}
    for pair in params.run.pairs:
        rows = support.filter(pc.equal(support["pair"], pair))
        found[pair] = analyses(rows, Settings.of(params), params.models_of(pair), majorities)
        disk.write(tables.analysis_path(pair), json.dumps(found[pair], indent=1, allow_nan=False) + "\n")
    return found


def analyses(
    rows: pa.Table, chosen: Settings, models: tuple[str, str], majorities: Majorities
) -> dict[str, dict[str, Any]]:
    """Everything of one pair, by group."""
    counts = Counts.from_table(rows)
    found = {}
    for name, mask in groups(rows).items():
        if mask.any():
            mine = rows.filter(pa.array(mask))
            said = analysis(counts.where(mask), chosen)
            found[name] = {**said, **plain(beyond_counts(mine, chosen, models, majorities))}
    return found


def groups(rows: pa.Table) -> dict[str, Truths]:
    """Which problems each group has. Names are those of metrics.sql."""
    domain, dataset = (rows[name].to_numpy(zero_copy_only=False) for name in ("domain", "dataset"))
    domains, datasets = (dict.fromkeys(sorted(names)) for names in (set(domain.tolist()), set(dataset.tolist())))
    apart = {f"all {name}": domain == name for name in domains} if len(domains) > 1 else {}
    return {"all": np.ones(len(dataset), dtype=bool), **apart, **{name: dataset == name for name in datasets}}


def beyond_counts(rows: pa.Table, chosen: Settings, models: tuple[str, str], majorities: Majorities) -> dict[str, Any]:
    """What counts alone don't tell of a group."""
    k = rows["k"].to_numpy()
    at = budgets(k)
    drawn = chosen.drawn(rows.num_rows)

    def curve(columns: Callable[[str, str], Reals]) -> dict[str, dict[int, Any]]:
        return {
            role: _means(columns(role, model), at, drawn, chosen) for role, model in zip(ROLES, models, strict=True)
        }

    return {
        "first_k_hit_rate": curve(lambda role, _: first_hits(rows, role, at)),
        "maj_at_k": curve(lambda _, model: majority_columns(rows, model, at, majorities)),
        "guess_floor": {role: guessed(rows, role) for role in ROLES},
    }


def first_hits(rows: pa.Table, role: str, at: tuple[int, ...]) -> Reals:
    """Whether each problem has a hit in its first samples, at these numbers of them: 0, 1, or NaN where it has not so
    many. A stop comes after its hits."""
    ended = rows[f"ended_{role}"].to_numpy(zero_copy_only=False)
    first = np.array(rows[f"hit_{role}"].to_pylist(), dtype=float)[:, None]
    enough = np.array([how is not None for how in ended])[:, None] & (np.array(at) <= rows["k"].to_numpy()[:, None])
    with np.errstate(invalid="ignore"):
        return np.where(enough, (first < np.array(at)).astype(float), np.nan)


def majority_columns(rows: pa.Table, model: str, at: tuple[int, ...], majorities: Majorities) -> Reals:
    """maj@k of each problem at these k; NaN where it is not known."""
    found = np.full((rows.num_rows, len(at)), np.nan)
    place = {k: i for i, k in enumerate(at)}
    three = (rows[name].to_pylist() for name in ("dataset", "problem_id", "k"))
    for row, (dataset, problem, k) in enumerate(zip(*three, strict=True)):
        values = majorities.get((model, dataset, k), {}).get(problem)
        if values is not None:
            found[row, [place[b] for b in budgets(np.array([k])) if b in place]] = [
                value for b, value in zip(budgets(np.array([k])), values, strict=True) if b in place
            ]
    return found


def majorities(connection: duckdb.DuckDBPyConnection, wanted: pa.Table, seed: int) -> Majorities:
    """maj@k of every problem that has all its samples, for the models of a plan."""
    connection.register("plan", wanted)
    votes = tables.query(connection, ROOM / "ballots.sql")
    found: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    for (model, dataset, k, problem), times, correct, blank in _ballots(votes):
        drawn = seeds.stream("categorize", seed, "majority", model, dataset, k, problem)
        curve = majority.curve(times, correct, blank, budgets(np.array([k])), majority.RESAMPLES, drawn)
        found.setdefault((model, dataset, k), {})[problem] = curve
    return found


def _ballots(votes: pa.Table) -> Iterator[tuple[tuple[str, str, int, str], Ints, Truths, int]]:
    """Each problem's votes: how often each answer was given, whether it is right, and how many samples had none."""
    if votes.num_rows == 0:
        return
    names = ("model", "dataset", "problem_id", "k")
    codes = [votes[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in names]
    starts = np.flatnonzero(np.any([np.diff(code, prepend=-1) != 0 for code in codes], axis=0))
    times, voting, correct = (votes[name].to_numpy() for name in ("times", "votes", "correct"))
    heads = zip(*(votes[name].take(pa.array(starts)).to_pylist() for name in names), strict=True)
    for (model, dataset, problem, k), begin, end in zip(heads, starts, [*starts[1:], votes.num_rows], strict=True):
        mine = slice(begin, end)
        named = voting[mine]
        yield (model, dataset, k, problem), times[mine][named], correct[mine][named], int(times[mine][~named].sum())


def guessed(rows: pa.Table, role: str) -> dict[str, Any]:
    """The mean guess floor of the problems that have one, and which problems' hits are not above theirs."""
    floors = rows[f"guess_{role}"].drop_null()
    lucky = rows.filter(pc.fill_null(rows[f"lucky_{role}"], False)).select(["dataset", "problem_id"])
    return {
        "mean": pc.mean(floors).as_py(),
        "problems": len(floors),
        "with_hits": len(rows[f"lucky_{role}"].drop_null()),
        "not_above": lucky.to_pylist(),
    }


def _means(columns: Reals, at: tuple[int, ...], drawn: Weights, chosen: Settings) -> dict[int, Any]:
    """Each column's mean over problems with its interval; NaN where a problem has none: those left are others."""
    means = columns.mean(axis=0)
    draws = (drawn.problems @ columns + drawn.quarters[:, :2].sum(axis=1)[:, None]) / drawn.size[:, None]
    low, high = interval(means, draws, chosen.confidence)
    return {
        k: {"value": float(v), "low": float(a), "high": float(b)}
        for k, v, a, b in zip(at, means, low, high, strict=True)
    }

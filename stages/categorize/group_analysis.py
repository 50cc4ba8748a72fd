"""The statistics of every group of problems: all of them, each domain if there are several, and each data set.

Writes data/analysis/{pair}.json: by group the dictionary of `leash.statistics.analysis`, and what needs the order of
samples or their answers: the plain hit rate of the first k, maj@k, and the problems whose hits are not shown to be
above guessing; and what data/reach and a judge say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leash import atomic_io, database, json_checksum, tables
from leash.counting.analysis_settings import settings_of
from leash.counting.hit_counts import Control
from leash.counting.metrics import group_masks
from leash.params.groups import Params, available_cores
from leash.statistics import majority, seeds
from leash.statistics.analysis import analyze_counts, to_jsonable
from leash.statistics.array_types import BoolArray, FloatArray, is_none
from leash.statistics.bootstrap_weights import AnalysisSettings, bootstrap_interval
from leash.statistics.categories import categorize_problems
from leash.statistics.counts import ROLES, Counts
from leash.statistics.decision import correct_for_several
from leash.statistics.problem_group import budget_grid
from stages.categorize import controls, judged, reachability

SQL_DIR = Path(__file__).parent
# maj@k of each problem at the powers of two up to k and at k itself, by (model, data set, k) and problem.
MajorityCurves = Mapping[tuple[str, str, int], Mapping[str, list[float]]]
# The analysis of each pair and group of its problems.
AnalysesByPair = Mapping[str, Mapping[str, Mapping[str, Any]]]


def write_analyses(
    params: Params,
    support: pa.Table,
    majorities: MajorityCurves,
    by_control: Mapping[Control, pa.Table],
    working: pa.Table,
    reach: Mapping[str, Sequence[reachability.Row]],
) -> AnalysesByPair:
    analyses: dict[str, dict[str, dict[str, Any]]] = {}
    for pair in params.run.pairs:
        rows, *of_controls = (rows.filter(pc.equal(rows["pair"], pair)) for rows in (support, *by_control.values()))
        controlled = dict(zip(by_control, of_controls, strict=True))
        analyses[pair] = analyze_groups(rows, settings_of(params), params.models_of(pair), majorities, controlled)
        stopped = controls.has_stopped_early(rows)
        of_judge = judged.analyze_judged(params, pair, rows)
        of_reach = reachability.summarize_groups(params, reach[pair], rows)
        for group, analysis in analyses[pair].items():
            analysis["working"] = controls.summarize_working(working, pair, group, stopped=stopped)
            analysis["judged"] = to_jsonable(of_judge[group])
            analysis["reach"] = to_jsonable(of_reach[group])
    correct_families(params, analyses)
    # A control is a second look at the same comparison, not another comparison.
    for control in by_control:
        correct_families(
            params, {pair: {g: a["controls"][control] for g, a in groups.items()} for pair, groups in analyses.items()}
        )
    for pair, groups in analyses.items():
        # A line per group: indented, it would take a second for the bands of a dozen data sets.
        sealed = json_checksum.with_checksum(groups)
        lines = (f"{json.dumps(name)}: {json.dumps(analysis, allow_nan=False)}" for name, analysis in sealed.items())
        atomic_io.write(tables.analysis_path(pair), "{\n" + ",\n".join(lines) + "\n}\n")
    return analyses


def correct_families(params: Params, analyses: Mapping[str, Mapping[str, dict[str, Any]]]) -> None:
    """Correct the decisions for the comparisons that a reader sees together: all pairs of the run, and in the tables by
    data set (or by domain) all pairs on all of them."""
    families: dict[str, list[dict[str, Any]]] = {}
    for groups in analyses.values():
        for name, analysis in groups.items():
            kind = "all" if name == "all" else "dataset" if name in params.run.datasets else "domain"
            families.setdefault(kind, []).append(analysis)
    for family in families.values():
        correct_for_several(family)


def analyze_groups(
    rows: pa.Table,
    settings: AnalysisSettings,
    models: tuple[str, str],
    majorities: MajorityCurves,
    by_control: Mapping[Control, pa.Table],
) -> dict[str, dict[str, Any]]:
    counts = Counts.from_table(rows)
    # All problems of the pair are one family of tests; a group counts its own part of it.
    categories = categorize_problems(counts, settings.confidence)
    of_control = {control: Counts.from_table(control_rows) for control, control_rows in by_control.items()}
    control_categories = {
        control: categorize_problems(each, settings.confidence) for control, each in of_control.items()
    }
    groups = {name: mask for name, mask in group_masks(rows).items() if mask.any()}

    def analyze_control(control: Control, chosen: Mapping[str, Any], mask: BoolArray) -> dict[str, Any]:
        """The analysis of a group by a control. That by the run's reading, `chosen`, serves if the counts agree, but
        for the tested categories: problems outside of the group are in their family."""
        tested, control_counts = control_categories[control].count_tested(mask), of_control[control].where(mask)
        analysis = chosen
        if not controls.same_counts(counts.where(mask), control_counts):
            analysis = analyze_counts(control_counts, settings, tested, deconvolved=False)
        in_group = by_control[control].filter(pa.array(mask))
        return {
            **controls.trim(analysis),
            "tested": to_jsonable(tested),
            "moves": controls.count_moves(rows, by_control[control], mask),
            "guessed_moves": controls.count_guessed_moves(by_control["strict"], by_control["lenient"], mask),
            "guess_floor": {role: to_jsonable(summarize_guess_floor(in_group, role)) for role in ROLES},
        }

    def analyze_group(name: str) -> dict[str, Any]:
        mask = groups[name]
        tested = categories.count_tested(mask)
        from_counts = analyze_counts(counts.where(mask), settings, tested, deconvolved=name == "all")
        beyond = analyze_beyond_counts(rows.filter(pa.array(mask)), settings, models, majorities)
        of_controls = {control: analyze_control(control, from_counts, mask) for control in by_control}
        return {**from_counts, **to_jsonable(beyond), "controls": of_controls}

    # numpy computes outside of Python's lock: two cores need three quarters of the time of one.
    with ThreadPoolExecutor(available_cores()) as pool:
        return dict(zip(groups, pool.map(analyze_group, groups), strict=True))


def analyze_beyond_counts(
    rows: pa.Table, settings: AnalysisSettings, models: tuple[str, str], majorities: MajorityCurves
) -> dict[str, Any]:
    """What counts alone do not show about a group."""
    budgets = budget_grid(rows["k"].to_numpy())
    weights = settings.drawn(rows.num_rows, settings.clusters_of(Counts.from_table(rows)))

    def mean_curve(columns: FloatArray) -> dict[int, Any]:
        # NaN if a problem has no value: the mean of the others would be of another set of problems.
        means = columns.mean(axis=0)
        draws = (weights.problems @ columns + weights.quarters[:, :2].sum(axis=1)[:, None]) / weights.size[:, None]
        low, high = bootstrap_interval(means, draws, settings.confidence)
        ends = zip(budgets, means.tolist(), low.tolist(), high.tolist(), strict=True)
        return {k: {"value": mean, "low": least, "high": most} for k, mean, least, most in ends}

    return {
        "first_k_hit_rate": {role: mean_curve(first_hit_columns(rows, role, budgets)) for role in ROLES},
        "maj_at_k": {
            role: mean_curve(majority_columns(rows, model, budgets, majorities))
            for role, model in zip(ROLES, models, strict=True)
        },
        "guess_floor": {role: summarize_guess_floor(rows, role) for role in ROLES},
    }


def first_hit_columns(rows: pa.Table, role: str, budgets: tuple[int, ...]) -> FloatArray:
    """Whether each problem has a hit in its first samples, a column per budget: 0, 1, or NaN beyond its k."""
    # Samples after an early stop are not needed: the first hit came before it.
    complete = ~is_none(rows[f"ended_{role}"].to_numpy(zero_copy_only=False))[:, None]
    first = np.array(rows[f"hit_{role}"].to_pylist(), dtype=float)[:, None]
    ks = np.array(budgets)
    with np.errstate(invalid="ignore"):
        return np.where(complete & (ks <= rows["k"].to_numpy()[:, None]), (first < ks).astype(float), np.nan)


def majority_columns(rows: pa.Table, model: str, budgets: tuple[int, ...], majorities: MajorityCurves) -> FloatArray:
    """maj@k of each problem, a column per budget; NaN if it is unknown."""
    columns = np.full((rows.num_rows, len(budgets)), np.nan)
    column = {budget: index for index, budget in enumerate(budgets)}
    keys = (rows[name].to_pylist() for name in ("dataset", "problem_id", "k"))
    for row, (dataset, problem, k) in enumerate(zip(*keys, strict=True)):
        values = majorities.get((model, dataset, k), {}).get(problem)
        for budget, value in zip(budget_grid(np.array([k])), values or [], strict=bool(values)):
            if budget in column:
                columns[row, column[budget]] = value
    return columns


def compute_majorities(connection: duckdb.DuckDBPyConnection, plan: pa.Table, seed: int) -> MajorityCurves:
    """maj@k of every problem that has all its samples, for the models of a plan."""
    connection.register("plan", plan)
    votes = database.query(connection, SQL_DIR / "ballots.sql")
    curves: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    if votes.num_rows == 0:
        return curves
    names = ("model", "dataset", "problem_id", "k")
    # Rows of one problem are adjacent: a problem starts where any of its key columns changes.
    codes = [votes[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in names]
    starts = np.flatnonzero(np.any([np.diff(code, prepend=-1) != 0 for code in codes], axis=0))
    times, voting, correct = (votes[name].to_numpy() for name in ("times", "votes", "correct"))
    heads = zip(*(votes[name].take(pa.array(starts)).to_pylist() for name in names), strict=True)
    for (model, dataset, problem, k), begin, end in zip(heads, starts, [*starts[1:], votes.num_rows], strict=True):
        # The answers of this problem, which vote, and the samples without one, which do not.
        rows = slice(begin, end)
        votes_cast = voting[rows]
        answers, right = times[rows][votes_cast], correct[rows][votes_cast]
        blank = int(times[rows][~votes_cast].sum())
        random = seeds.stream("categorize", seed, "majority", model, dataset, k, problem)
        budgets = budget_grid(np.array([k]))
        curves.setdefault((model, dataset, k), {})[problem] = majority.maj_at_k(
            answers, right, blank, budgets, majority.MAJORITY_RESAMPLES, random
        )
    return curves


def summarize_guess_floor(rows: pa.Table, role: str) -> dict[str, Any]:
    """The mean guess floor of the problems that have one, the mean mass there, how many problems with hits were tested
    against theirs, and those that are not shown to be above it."""
    floors, tested = rows[f"guess_{role}"].drop_null(), rows[f"above_guessing_{role}"].drop_null()
    masses = rows.filter(pc.is_valid(rows[f"guess_{role}"]))[f"mass_{role}"]
    not_shown = pc.invert(pc.fill_null(rows[f"above_guessing_{role}"], True))
    return {
        "mean": pc.mean(floors).as_py(),
        # Null if an early stop left a mass unknown: the mean of the others would be of other problems.
        "share": None if masses.null_count else pc.mean(masses).as_py(),
        "problems": len(floors),
        "tested": len(tested),
        "not_above": rows.filter(not_shown).select(["dataset", "problem_id"]).to_pylist(),
    }

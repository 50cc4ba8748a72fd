"""Controls: the categories of every problem if something else counts as a hit.

    strict, lenient   the right answer, in the form that was asked for or in any form (leash/grading/reading.py)
    sound             a hit whose working was checked and is right (leash/grading/process)
    unrefuted         a hit whose working was not found to be wrong: sound, not shown, or not checkable

A control differs from the run's own analysis in its counts alone: the same queries count, and the same statistics
decide. Sampling that stopped early stopped by the run's reading. So if a problem of a pair did, no problem of the pair
has counts or a category under a control: those that are left would be chosen by their hits.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from typing import Any, get_args

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leash import database
from leash.counting import hit_counts
from leash.counting.hit_counts import Control
from leash.params.groups import Params
from leash.statistics.array_types import BoolArray
from leash.statistics.counts import ROLES, Counts
from leash.statistics.ratios import RATIO_NAMES

CONTROLS: tuple[Control, ...] = tuple(name for name in get_args(Control) if name != "chosen")
READINGS = ("strict", "lenient")
# What an analysis says of each control.
CONTROL_KEYS = (
    *("problems", "uncategorized", "k", "epsilon", "confidence", "categories", *RATIO_NAMES, "tested"),
    *("test", "equivalence", "noise", "pass_at_k", "difference", "avg_at_n", "corrected_for", "decision"),
)
WORKING_COLUMNS = ("strict", "lenient", "hits", "sound", "unsound", "direct", "unchecked")


def count_working(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The hits of each model of a pair by reading and by their working, for the plan of the connection."""
    return database.query(connection, hit_counts.SQL_DIR / "working.sql")


def is_run_reading(params: Params, control: Control) -> bool:
    return control == params.verify.reading


def same_counts(first: Counts, second: Counts) -> bool:
    """Whether two counts of the same problems are equal, so that one analysis serves both."""
    names = (f"{name}_{role}" for name in ("n", "c", "ended") for role in ROLES)
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)


def trim(analysis: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a control's analysis, as a copy: decisions are corrected in place."""
    return {key: copy.deepcopy(analysis[key]) for key in CONTROL_KEYS}


def count_moves(chosen: pa.Table, control: pa.Table, mask: BoolArray) -> dict[str, int]:
    """How many problems have which category by the run's reading and by the control: {"EP": 5} are five E that are P
    by the control. A problem without a category under one of them is left out."""
    letters = (rows["category"].to_numpy(zero_copy_only=False)[mask].tolist() for rows in (chosen, control))
    moves = Counter(f"{ours}{theirs}" for ours, theirs in zip(*letters, strict=True) if ours and theirs)
    return {move: moves[move] for move in sorted(moves) if move[0] != move[1]}


def has_stopped_early(rows: pa.Table) -> bool:
    """Whether an adaptive budget ended a problem before its k samples."""
    return any({"hit", "floor"} & set(rows[f"ended_{role}"].unique().to_pylist()) for role in ROLES)


def count_guessed_moves(strict: pa.Table, lenient: pa.Table, mask: BoolArray) -> dict[str, int]:
    """Of the expansions and shrinkages by strict reading that lenient reading preserves ("EP", "SP"), those where the
    hits that it adds are not shown to be more than guesses. Problems without that test are left out."""
    before, after = (rows["category"].to_numpy(zero_copy_only=False) for rows in (strict, lenient))
    guessed = {}
    for move, role in (("EP", "base"), ("SP", "rlvr")):
        not_above = pc.invert(pc.fill_null(lenient[f"above_guessing_{role}"], True)).to_numpy()
        guessed[move] = int((mask & (before == move[0]) & (after == move[1]) & not_above).sum())
    return {move: number for move, number in guessed.items() if number}


def summarize_working(working: pa.Table, pair: str, group: str, *, stopped: bool) -> dict[str, Any]:
    """The hits of each model in a group of problems by their working, and the share of right answers (by lenient
    reading) that strict reading does not see. That share is null if sampling stopped by hits: then problems with many
    unseen answers have more samples than others."""
    rows = working.filter(pc.equal(working["pair"], pair)).to_pylist()
    inside = [row for row in rows if group in ("all", f"all {row['domain']}", row["dataset"])]
    summary = {}
    for role in ROLES:
        sums = {name: sum(row[name] for row in inside if row["role"] == role) for name in WORKING_COLUMNS}
        known = sums["lenient"] > 0 and not stopped
        unseen = (sums["lenient"] - sums["strict"]) / sums["lenient"] if known else None
        summary[role] = {**sums, "unseen_share": unseen}
    return summary

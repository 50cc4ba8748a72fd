"""Count how completions of both models of a pair ended: without an answer, or cut off.

A trained model that only learned to put its answer in a box solves more problems without being more capable, so the
verdict warns if the endings differ. leash/statistics/endings.py has the rule.

Not covered: an answer whose form makes extraction read another answer counts as wrong, not as missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb

from leash import database
from leash.params.groups import Params
from leash.statistics.endings import EndingComparison
from leash.statistics.testing import mcnemar_p_value

ENDINGS_SQL = Path(__file__).parent / "endings.sql"


def compare_endings(params: Params, connection: duckdb.DuckDBPyConnection) -> dict[str, list[EndingComparison]]:
    """Both endings of every pair; `connection` has the tables support, verdicts and roles."""
    comparisons: dict[str, list[EndingComparison]] = {pair: [] for pair in params.run.pairs}
    for row in database.query(connection, ENDINGS_SQL).to_pylist():
        # McNemar's exact test on the numbers of problems where one model ends like this more often is a sign test.
        p_value = mcnemar_p_value(row["more_rlvr"], row["more_base"])
        comparisons[row["pair"]].append(EndingComparison(row["status"], row["share_base"], row["share_rlvr"], p_value))
    return comparisons


def endings_to_metrics(endings: Sequence[EndingComparison]) -> dict[str, Any]:
    """The part that `metrics.json` keeps, by status."""
    return {
        ending.status: {name: value for name, value in asdict(ending).items() if name != "status"} for ending in endings
    }

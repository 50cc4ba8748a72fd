"""Format: does one model of a pair give no answer, or get cut off, more often than the other?

A trained model that merely learnt to put its answer in a box solves more problems and can do no more than before. So
the verdict says when the endings of the two models' completions differ. They do if both hold:

- the shares of completions differ by MIN_DIFFERENCE or more;
- an exact sign test over problems agrees: for each problem, which of the two models ended like that more often? At
  k = 1 this is McNemar's test. Two endings are tested, so each gets half of the error rate.

Problems are the unit, because samples of one problem are alike. What is not covered: an answer in a form that the
reader of answers takes for another one, which counts as wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb

from stages import tables
from stages.categorize.statistics.testing import mcnemar
from stages.params import Params

QUERY = Path(__file__).parent / "endings.sql"
STATUSES = ("no_answer", "truncated")
MIN_DIFFERENCE = 0.05


@dataclass(frozen=True)
class Ending:
    """How often completions of both models ended with a status, and the p-value of the sign test over problems."""

    status: str
    base: float
    rlvr: float
    p_value: float

    def differs(self, confidence: float) -> bool:
        alpha = (1 - confidence) / len(STATUSES)
        return abs(self.base - self.rlvr) >= MIN_DIFFERENCE and self.p_value < alpha


def compare_endings(params: Params, connection: duckdb.DuckDBPyConnection) -> dict[str, list[Ending]]:
    """Both endings of every pair; `connection` has the tables support, verdicts and roles."""
    found: dict[str, list[Ending]] = {pair: [] for pair in params.run.pairs}
    for row in tables.query(connection, QUERY).to_pylist():
        p_value = mcnemar(row["more_rlvr"], row["more_base"])
        found[row["pair"]].append(Ending(row["status"], row["share_base"], row["share_rlvr"], p_value))
    return found


def as_metrics(endings: Sequence[Ending]) -> dict[str, Any]:
    """What `metrics.json` keeps of them, by status."""
    return {one.status: {name: value for name, value in asdict(one).items() if name != "status"} for one in endings}

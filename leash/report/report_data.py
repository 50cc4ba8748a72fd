"""Every number of the report in one place: the figures, the tables and the page are made from it.

stages/report/stage.py fills it; nothing here reads files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leash.report import audit
from leash.statistics.endings import EndingComparison


@dataclass(frozen=True)
class Results:
    support: pa.Table  # a row per pair and problem
    metrics: pa.Table  # P, E, S, O and ratios, per pair and group of problems
    answers: pa.Table  # the same, of the distinct correct answers of problems that have several
    levels: pa.Table  # by level of the problems, per pair and data set
    pass_at_k: pa.Table  # per pair, data set, role and k
    trajectory: pa.Table  # all pairs at one k, by group of problems: checkpoints and trainings side by side
    comparison: pa.Table  # the rows of trajectory over all problems
    ever_reached: pa.Table  # per checkpoint of a training: the problems that any checkpoint so far has reached
    paired: pa.Table  # trained models of one base against each other
    completions: pa.Table  # P, E, S, O of distinct correct completions, at several epsilons
    masses: pa.Table
    perplexity: pa.Table
    style: pa.Table
    entropy: pa.Table
    entropy_intervals: pa.Table
    decoupling: pa.Table
    profile: pa.Table
    statuses: pa.Table  # how completions ended, per model and data set
    statuses_by_category: pa.Table  # and per pair, category and role
    changed_by_control: pa.Table  # the problems that are E or S by the run's reading or by a control, not by both
    reach: pa.Table  # the rows of data/reach with their pair; none if the stage is off
    reach_hits: pa.Table  # what the certificates on E and S problems count
    decisive_hits: pa.Table  # the hits that decide a category
    questions: pa.Table  # the question and the accepted answers of each problem
    examples: list[dict[str, Any]]  # samples that the page may show
    texts: dict[audit.CompletionKey, str]  # the texts of examples and decisive hits, if completions are on this machine
    top_answers: pa.Table  # the most frequent answers of every model to every problem
    analyses: dict[str, dict[str, Any]]  # by pair and group of problems: data/analysis/{pair}.json
    endings: dict[str, list[EndingComparison]]  # by pair: completions without an answer, or cut off
    verdicts: dict[str, list[str]]  # by pair: the sentences about all problems
    provenance: dict[str, Any]  # versions, settings and inputs behind the numbers
    tables: dict[str, pa.Table] = field(default_factory=dict)  # what is shown, with the paper's rows


def matching_rows(table: pa.Table, **values: str) -> list[dict[str, Any]]:
    """The rows of a table that have these values."""
    for name, value in values.items():
        table = table.filter(pc.equal(table[name], value))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows

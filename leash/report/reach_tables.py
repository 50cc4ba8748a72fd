"""The tables of certificates: E and S problems one by one, how many are within reach, categories at larger k, and
correct rollouts for the audit.

In:  the rows of data/reach with their pair, the support table, and the analyses by pair and group of problems (`reach`,
     null if the stage is off).
Out: Arrow tables for the report, without rows if the stage is off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from leash import tables
from leash.formatting import format_mass, truncate
from leash.params.groups import Params
from leash.problems import Problem
from leash.report.answer_recheck import recheck_answer
from leash.statistics.reachability import MASS_THRESHOLDS, TARGETS

Problems = Mapping[str, Mapping[str, Problem]]  # by data set and id
AnalysesByPair = Mapping[str, Mapping[str, Mapping[str, Any]]]
Row = dict[str, Any]
INT64 = pa.int64()
MAX_TEXT_CHARS = 500  # the answer is at the end of a rollout
KEY_COLUMNS = {"pair": tables.STRING, "dataset": tables.STRING}
# Of data/reach, as they are.
PROBLEM_NUMBERS = {
    **dict.fromkeys(("pooled", "pooled_error", "certificate", "estimate", "upper"), tables.FLOAT64),
    **dict.fromkeys(("amplification", "amplification_low", "amplification_high"), tables.FLOAT64),
    **dict.fromkeys(("prefixes", "pilot", "rollouts", "hits", "tokens"), INT64),
    "depth": tables.FLOAT64,
}
REACH_TABLE_SCHEMA = pa.schema(
    {
        **KEY_COLUMNS,
        **dict.fromkeys(("problem_id", "category", "target", "status"), tables.STRING),
        **dict.fromkeys(("c_target", "n_target", "c_donor", "n_donor"), INT64),
        **PROBLEM_NUMBERS,
        "cut_place": INT64,
    }
)
PROVEN_COLUMNS = {f"{mass:g}": f"mass_{format_mass(mass)}" for mass in MASS_THRESHOLDS}
REACH_PROVEN_SCHEMA = pa.schema(
    {
        **{**KEY_COLUMNS, "category": tables.STRING, "target": tables.STRING},
        **dict.fromkeys(("problems", "examined", "certified", "unreachable", *PROVEN_COLUMNS.values()), INT64),
        **dict.fromkeys(("largest_certificate", "smallest_upper", "confidence"), tables.FLOAT64),
    }
)
REACH_EXPECTED_SCHEMA = pa.schema(
    {
        **{**KEY_COLUMNS, "k": INT64},
        **{f"{letter}{end}": tables.FLOAT64 for letter in "PESO" for end in ("", "_most")},
    }
)
# The rows of data/reach with their pair and texts; these are null if they are not on this machine.
REACH_WITH_TEXTS_SCHEMA = pa.schema(
    [
        pa.field("pair", tables.STRING),
        *tables.REACH_SCHEMA,
        *(each.with_nullable(True) for each in tables.TRACES_SCHEMA if each.name not in tables.REACH_SCHEMA.names),
    ]
)
REACH_HITS_SCHEMA = pa.schema(
    {
        **KEY_COLUMNS,
        **dict.fromkeys(("problem_id", "category", "target"), tables.STRING),
        **dict.fromkeys(("hits", "rollout"), INT64),
        "share": tables.FLOAT64,
        **dict.fromkeys(("second_check", "answer", "gold", "text"), tables.STRING),
    }
)
# What follows has rows only if the stage ran.
REACH_TABLES = ("reach_proven", "reach", "reach_expected", "reach_hits")


def _expanded_or_shrunk(reach: pa.Table, support: pa.Table) -> Iterator[tuple[str, Row]]:
    """The rows of data/reach on E and S problems whose target is the model that does not support them, with the
    category."""
    letters = {
        (row["pair"], row["dataset"], row["problem_id"]): row["category"]
        for row in support.select(["pair", "dataset", "problem_id", "category"]).to_pylist()
    }
    for row in reach.to_pylist():
        category = letters.get((row["pair"], row["dataset"], row["problem_id"]))
        if category and TARGETS.get(category) == row["target"]:
            yield category, row


def reach_table(params: Params, reach: pa.Table, support: pa.Table) -> pa.Table:
    """A row per E and S problem whose mass was examined, S first, the largest certificates first."""
    rows = []
    for category, row in _expanded_or_shrunk(reach, support):
        base, rlvr = params.models_of(row["pair"])
        place = row["cut_token"]
        rows.append(
            {
                **{name: row[name] for name in REACH_TABLE_SCHEMA.names if name in row},
                "category": category,
                "target": base if row["target"] == "base" else rlvr,
                "cut_place": None if place is None else place + 1,
            }
        )
    order = {pair: i for i, pair in enumerate(params.run.pairs)}
    rows.sort(key=lambda row: (order[row["pair"]], row["category"] != "S", -(row["certificate"] or 0.0)))
    return tables.table_from_rows(rows, REACH_TABLE_SCHEMA)


def hits_table(params: Params, reach: pa.Table, support: pa.Table, problems: Problems) -> pa.Table:
    """What each certificate on an E or S problem counts: correct rollouts and complete solutions, with a second check
    of their answers. A false hit of the grader is certified, too. Certificates on few rollouts come first."""
    rows = []
    for category, row in _expanded_or_shrunk(reach, support):
        problem = problems[row["dataset"]][row["problem_id"]]
        gold = problem["gold"]
        columns = [row[f"hit_{name}"] or () for name in ("rollouts", "shares", "answers", "texts")]
        for rollout, share, answer, text in zip(*columns, strict=True):
            rows.append(
                {
                    **{name: row[name] for name in ("pair", "dataset", "problem_id", "hits")},
                    "category": category,
                    "target": params.models_of(row["pair"])[row["target"] == "rlvr"],
                    "rollout": rollout,
                    "share": share,
                    "second_check": recheck_answer(answer, gold, problem["meta"], problem["grader"]),
                    "answer": answer,
                    "gold": gold[0] if len(gold) == 1 else json.dumps(gold, ensure_ascii=False),
                    "text": truncate(text, MAX_TEXT_CHARS + 1, tail_chars=MAX_TEXT_CHARS),
                }
            )
    order = {pair: i for i, pair in enumerate(params.run.pairs)}
    rows.sort(key=lambda row: (order[row["pair"]], row["hits"]))
    return tables.table_from_rows(rows, REACH_HITS_SCHEMA)


def proven_table(params: Params, analyses: AnalysesByPair) -> pa.Table:
    """A row per pair, group of problems and category: how many masses are proven to be above each threshold."""
    rows: list[Row] = []
    for pair, group, reach in _examined_groups(analyses):
        models = dict(zip(("base", "rlvr"), params.models_of(pair), strict=True))
        for letter, role in TARGETS.items():
            found = reach[letter]
            counts = {name: found["proven"][mass] for mass, name in PROVEN_COLUMNS.items()}
            about = {"pair": pair, "dataset": group, "category": letter, "target": models[role]}
            numbers = {name: found[name] for name in REACH_PROVEN_SCHEMA.names if name in found}
            rows.append({**about, **numbers, **counts, "confidence": reach["confidence"]})
    return tables.table_from_rows(rows, REACH_PROVEN_SCHEMA)


def expected_table(analyses: AnalysesByPair) -> pa.Table:
    """A row per pair, group of problems and k: the least and the most problems to expect in each category."""
    rows: list[Row] = []
    for pair, group, reach in _examined_groups(analyses):
        for k, ends in reach["expected"].items():
            columns = {f"{letter}{end}": ends[letter][i] for letter in "PESO" for i, end in enumerate(("", "_most"))}
            rows.append({"pair": pair, "dataset": group, "k": int(k), **columns})
    return tables.table_from_rows(rows, REACH_EXPECTED_SCHEMA)


def _examined_groups(analyses: AnalysesByPair) -> list[tuple[str, str, Mapping[str, Any]]]:
    return [
        (pair, group, reach)
        for pair, groups in analyses.items()
        for group, analysis in groups.items()
        if (reach := analysis.get("reach"))
    ]

"""The audit: which hits decide a category, are they right, and how did completions end?

A category that depends on one hit in thousands depends on a grader's correctness, too. Such decisive hits are listed
with the end of their completion and a second check (answer_recheck.py) that shares no code with the graders. If the two
disagree, a person should look.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from leash import database, tables
from leash.formatting import truncate
from leash.params.groups import Params
from leash.report.answer_recheck import recheck_answer
from leash.report.narrative import decisive_hit_reason, decisive_hits_sentence
from leash.statistics.endings import EndingComparison
from leash.statistics.testing import mcnemar_p_value

SQL_DIR = Path(__file__).parent
# A category is listed if at most this many hits decide it.
MAX_DECISIVE_HITS = 3
# The answer is at the end of a completion.
TEXT_TAIL_CHARS = 2000

DECISIVE_HITS_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("pair", "dataset", "problem_id", "category", "role", "model")]
    + [("sample", pa.int32())]
    + [(name, pa.string()) for name in ("why", "second_check", "process", "flaw", "answer", "gold", "text")]
)
CompletionKey = tuple[str, str, str, int]  # model, dataset, problem_id, sample


def count_statuses(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    return database.query(connection, SQL_DIR / "statuses.sql")


def count_statuses_by_category(params: Params, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    return database.query(register_roles(params, connection), SQL_DIR / "statuses_by_category.sql")


def find_changed_by_control(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    return database.query(connection, SQL_DIR / "changed_by_control.sql")


def register_roles(params: Params, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The same connection, with the table `roles` that names the two models of each pair."""
    rows = [
        {"pair": pair, "role": role, "model": model}
        for pair in params.run.pairs
        for role, model in zip(("base", "rlvr"), params.models_of(pair), strict=True)
    ]
    connection.register("roles", pa.Table.from_pylist(rows))
    return connection


def compare_endings(params: Params, connection: duckdb.DuckDBPyConnection) -> dict[str, list[EndingComparison]]:
    """By pair, how often each model's completions end without an answer, or cut off (leash/statistics/endings.py).

    A trained model that only learned to put its answer in a box solves more problems without being more capable. Not
    covered: an answer whose form makes extraction read another answer counts as wrong, not as missing.
    """
    comparisons: dict[str, list[EndingComparison]] = {pair: [] for pair in params.run.pairs}
    for row in database.query(register_roles(params, connection), SQL_DIR / "endings.sql").to_pylist():
        # McNemar's exact test on the numbers of problems where one model ends like this more often is a sign test.
        p_value = mcnemar_p_value(row["more_rlvr"], row["more_base"])
        comparisons[row["pair"]].append(EndingComparison(row["status"], row["share_base"], row["share_rlvr"], p_value))
    return comparisons


def find_decisive_hits(params: Params, connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Every hit that decides a category, with what the table and the texts need."""
    connection = register_roles(params, connection)
    hits = database.query(connection, SQL_DIR / "decisive_hits.sql", {"most": MAX_DECISIVE_HITS})
    return list(hits.to_pylist())


def build_decisive_table(hits: Sequence[Mapping[str, Any]], texts: Mapping[CompletionKey, str]) -> pa.Table:
    """Decisive hits with the reason, the second check and the end of the text (null if completions are not here)."""
    rows = []
    for hit in hits:
        gold, meta = hit["gold"], json.loads(hit["meta"])
        text = texts.get((hit["model"], hit["dataset"], hit["problem_id"], hit["sample"]))
        rows.append(
            {
                **hit,
                "why": decisive_hit_reason(hit),
                "second_check": recheck_answer(hit["answer"] or "", gold, meta, hit["grader"]),
                "gold": gold[0] if len(gold) == 1 else json.dumps(gold, ensure_ascii=False),
                "text": text and truncate(text, TEXT_TAIL_CHARS + 1, tail_chars=TEXT_TAIL_CHARS),
            }
        )
    return pa.Table.from_pylist(rows, schema=DECISIVE_HITS_SCHEMA)


def describe_decisive_hits(hits: pa.Table) -> str:
    """One sentence on the whole list."""
    categories = len({(row["pair"], row["dataset"], row["problem_id"]) for row in hits.to_pylist()})
    disagreeing = pc.sum(pc.equal(hits["second_check"], "disagrees")).as_py() or 0
    return decisive_hits_sentence(categories, hits.num_rows, disagreeing, MAX_DECISIVE_HITS)


def read_completion_texts(rows: Iterable[Mapping[str, Any]]) -> dict[CompletionKey, str]:
    """The texts of some samples, by model, data set, problem and sample. Texts that are not on disk are left out."""
    by_folder: dict[tuple[str, str], set[tuple[str, int]]] = {}
    for row in rows:
        by_folder.setdefault((row["model"], row["dataset"]), set()).add((row["problem_id"], row["sample"]))
    texts: dict[CompletionKey, str] = {}
    for (model, dataset), selected in by_folder.items():
        problems, samples = (pa.array({*column}) for column in zip(*selected, strict=True))
        for shard in tables.shards(tables.completions_folder(model, dataset)):
            file = tables.open_table(shard, tables.COMPLETIONS_SCHEMA, "leash sample")
            for group in range(file.num_row_groups):
                # Completions may be terabytes: read the keys first, and texts only of row groups with a selected one.
                keys = file.read_row_group(group, columns=["problem_id", "sample"])
                candidates = pc.indices_nonzero(
                    pc.and_(pc.is_in(keys["problem_id"], problems), pc.is_in(keys["sample"], samples.cast(pa.int32())))
                )
                if not len(candidates):
                    continue
                found = file.read_row_group(group, columns=["text"])["text"].take(candidates).to_pylist()
                for key, text in zip(keys.take(candidates).to_pylist(), found, strict=True):
                    # A candidate may combine the problem of one selected sample with the number of another.
                    if (key["problem_id"], key["sample"]) in selected:
                        texts[model, dataset, key["problem_id"], key["sample"]] = text
    return texts

"""The audit: which hits decide, are they right, and how did completions end?

A category that hangs on one hit in thousands hangs on a grader, too. Such hits are listed with what the completion says
and with a second opinion (recheck.py) that shares no code with the graders; where the two differ, someone should look.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from stages import tables
from stages.params import Params
from stages.verify.recheck import recheck

ROOM = Path(__file__).parent
MOST = 3  # hits on which a category may hang to be listed
TAIL = 2000  # characters of a completion's end: where its answer is

DECISIVE = pa.schema(
    [(name, pa.string()) for name in ("pair", "dataset", "problem_id", "category", "role", "model")]
    + [("sample", pa.int32())]
    + [(name, pa.string()) for name in ("why", "second_check", "answer", "gold", "text")]
)
Place = tuple[str, str]  # a model and a data set
Sample = tuple[str, int]  # a problem and the number of a sample
Written = tuple[str, str, str, int]  # all four


def statuses(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    return tables.query(connection, ROOM / "statuses.sql")


def statuses_by_category(params: Params, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    return tables.query(with_roles(params, connection), ROOM / "statuses_by_category.sql")


def hits(params: Params, connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Every hit on which a category hangs."""
    with_roles(params, connection)
    found: list[dict[str, Any]] = tables.query(connection, ROOM / "decisive_hits.sql", {"most": MOST}).to_pylist()
    return found


def decisive_hits(found: Sequence[Mapping[str, Any]], written: Mapping[Written, str]) -> pa.Table:
    """Such hits with why a category hangs on them, the second opinion and the end of the text."""
    return pa.Table.from_pylist([_row(hit, written) for hit in found], schema=DECISIVE)


def sentence(hits: pa.Table) -> str:
    """What the list comes to."""
    problems = len({(row["pair"], row["dataset"], row["problem_id"]) for row in hits.to_pylist()})
    doubted = pc.sum(pc.equal(hits["second_check"], "disagrees")).as_py() or 0
    return (
        f"{problems:,} categories hang on {MOST} hits or fewer, {hits.num_rows:,} completions in all; the second check "
        f"disagrees with the grader on {doubted:,} of them."
    )


def with_roles(params: Params, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """The same connection with the table `roles`: which model is the base of each pair, and which the trained one."""
    rows = [
        {"pair": pair, "role": role, "model": model}
        for pair in params.run.pairs
        for role, model in zip(("base", "rlvr"), params.models_of(pair), strict=True)
    ]
    connection.register("roles", pa.Table.from_pylist(rows))
    return connection


def _row(hit: Mapping[str, Any], written: Mapping[Written, str]) -> dict[str, Any]:
    gold, meta = hit["gold"], json.loads(hit["meta"])
    text = written.get((hit["model"], hit["dataset"], hit["problem_id"], hit["sample"]))
    return {
        **hit,
        "why": _why(hit),
        "second_check": recheck(hit["answer"] or "", gold, meta, hit["grader"]),
        "gold": gold[0] if len(gold) == 1 else json.dumps(gold, ensure_ascii=False),
        "text": text and (text if len(text) <= TAIL else f"…{text[-TAIL:]}"),
    }


def _why(hit: Mapping[str, Any]) -> str:
    """For instance: O without the 2 hits of rlvr."""
    hits, hangs_on = hit["hits"], hit["hangs_on"]
    which = f"{hangs_on} of the {hits} hits" if hits > hangs_on else f"the {hits} hits" if hits > 1 else "the only hit"
    return f"{hit['otherwise']} without {which} of {hit['model']}"


def texts(rows: Iterable[Mapping[str, Any]]) -> dict[Written, str]:
    """The texts of some samples. Completions may be terabytes, and may be elsewhere: of each group of rows only those
    texts are read that are wanted, and what is not there is left out."""
    wanted: dict[Place, set[Sample]] = {}
    for row in rows:
        wanted.setdefault((row["model"], row["dataset"]), set()).add((row["problem_id"], row["sample"]))
    return {(*place, *sample): text for place, samples in wanted.items() for sample, text in _texts(place, samples)}


def _texts(place: Place, wanted: set[Sample]) -> Iterator[tuple[Sample, str]]:
    names, numbers = (pa.array({*column}) for column in zip(*wanted, strict=True))
    for shard in tables.shards(tables.completions_folder(*place)):
        file = tables.opened(shard, tables.COMPLETIONS, "leash sample")
        for group in range(file.num_row_groups):
            keys = file.read_row_group(group, columns=["problem_id", "sample"])
            likely = pc.and_(pc.is_in(keys["problem_id"], names), pc.is_in(keys["sample"], numbers.cast(pa.int32())))
            rows = pc.indices_nonzero(likely)
            if len(rows):
                yield from _texts_at(file, group, rows, keys.take(rows).to_pylist(), wanted)


def _texts_at(
    file: Any, group: int, rows: pa.Array, keys: Sequence[Mapping[str, Any]], wanted: set[Sample]
) -> Iterator[tuple[Sample, str]]:
    found = file.read_row_group(group, columns=["text"])["text"].take(rows).to_pylist()
    for key, text in zip(keys, found, strict=True):
        sample = (key["problem_id"], key["sample"])
        if sample in wanted:
            yield sample, text

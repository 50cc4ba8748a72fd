"""DuckDB with the tables of a run as views. Every count is a query over these views.

    open_database(params, only=["verdicts"]).sql("select model, count(*) from verdicts group by model")

The parameters decide what the views show, not the files on disk: no sample beyond k and, with an adaptive budget
(`sample.stop_after`), no verdict past the stop, even if the sampler drew more.

Every file of a view is checked when it is opened: its checksum, its columns, and that no sample is in the view twice.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from leash import tables
from leash.params.groups import Params

# With more files than this, DuckDB compares their columns, which is faster than to open each of them.
MAX_FILES_OPENED_SINGLY = 64
FILES_PER_SCHEMA_QUERY = 4096
FILE_KINDS_SQL = Path(__file__).parent / "file_kinds.sql"
UNIT_BY_SUPPORT_TABLE = {"support": "problem", "support_by_answer": "answer", "support_by_completion": "completion"}


class SampleFolder(NamedTuple):
    """The files of one model on one data set that hold a row per sample."""

    files: Sequence[Path]
    k: int
    made_by: str


def open_database(params: Params, only: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
    """Open DuckDB with the tables that exist for the models, data sets and pairs of this run.

    `only` names the tables to open beside the problems (default: all). A stage opens only upstream tables, so a
    damaged output never blocks making it again.
    """
    connection = duckdb.connect()
    # The schema checks read every footer; with the cache, the queries need not read it again.
    connection.execute("set parquet_metadata_cache = true")
    selects: dict[str, list[str]] = {}
    sample_folders: list[SampleFolder] = []

    def add(table: str, files: list[Path], schema: pa.Schema, made_by: str, labels: str = "", limits: str = "") -> None:
        """Add files to a view. `labels` are columns that DuckDB adds to their rows, `limits` clauses that drop rows."""
        if files and (not only or table in (*only, "problems")):
            tables.refuse_damaged(files, made_by)
            lacking = _check_schemas(connection, files, schema, made_by)
            # Columns that earlier versions did not write are null: for all files, or for those that lack them.
            added = sorted(set.intersection(*lacking))
            kinds = connection.from_arrow(schema.empty_table().select(added)).types if added else []
            labels += "".join(f"null::{kind} as {name}, " for name, kind in zip(added, kinds, strict=True))
            by_name = ", union_by_name = true" if any(each != lacking[0] for each in lacking) else ""
            read = f"read_parquet([{_quote_paths(files)}]{by_name})"
            selects.setdefault(table, []).append(f"select {labels}* from {read}{limits}")

    for model, dataset in product(params.run.models, params.run.datasets):
        labels = f"'{model}' as model, '{dataset}' as dataset, "
        first_k = f" where sample < {params.k(model, dataset)}"
        until_stop = first_k + _stopping_rule_sql(params)
        completions = tables.shards(tables.completions_folder(model, dataset))
        verdicts = tables.verdict_files(model, dataset) if not only or "verdicts" in only else []
        mass = _path_if_exists(tables.mass_path(model, dataset))
        perplexity = _path_if_exists(tables.perplexity_path(model, dataset))
        entropy = _path_if_exists(tables.entropy_path(model, dataset))
        sampled_by, verified_by = (f"leash {stage} {model} {dataset}" for stage in ("sample", "verify"))
        add("completions", completions, tables.COMPLETIONS_SCHEMA, sampled_by, labels, first_k)
        add("verdicts", verdicts, tables.VERDICTS_SCHEMA, verified_by, labels, until_stop)
        for table, files, made_by in (("completions", completions, sampled_by), ("verdicts", verdicts, verified_by)):
            if files and (not only or table in only):
                sample_folders.append(SampleFolder(files, params.k(model, dataset), made_by))
        add("mass", mass, tables.MASS_SCHEMA, "leash mass", labels)
        add("perplexity", perplexity, tables.PERPLEXITY_SCHEMA, "leash perplexity", labels)
        add("entropy", entropy, tables.ENTROPY_SCHEMA, "leash entropy", labels, first_k)
    for dataset in params.run.datasets:
        problems = _path_if_exists(tables.problems_path(dataset))
        add("problems", problems, tables.PROBLEMS_SCHEMA, f"leash fetch {dataset}")
    for pair, (table, unit) in product(params.run.pairs, UNIT_BY_SUPPORT_TABLE.items()):
        support = _path_if_exists(tables.support_path(pair, unit))
        add(table, support, tables.SUPPORT_SCHEMA, "leash categorize", f"'{pair}' as pair, ")
    for pair in params.run.pairs:
        controls = _path_if_exists(tables.support_path(pair, "control"))
        label = f"'{pair}' as pair, "
        add("support_by_control", controls, tables.CONTROL_SUPPORT_SCHEMA, "leash categorize", label)
        reach = _path_if_exists(tables.reach_path(pair))
        add("reach", reach, tables.REACH_SCHEMA, "leash reach", label)
    _refuse_repeated_samples(connection, sample_folders)
    for table, parts in selects.items():
        connection.execute(f"create view {table} as {' union all by name '.join(parts)}")
    return connection


def _path_if_exists(path: Path) -> list[Path]:
    return [path] if path.exists() else []


def query(connection: duckdb.DuckDBPyConnection, file: Path, parameters: Mapping[str, Any] | None = None) -> pa.Table:
    """Run one query file with its parameters bound."""
    result = connection.sql(file.read_text(encoding="utf-8"), params=dict(parameters) if parameters else None)
    return pa.table(result.to_arrow_table())


def materialize_query(
    connection: duckdb.DuckDBPyConnection, name: str, file: Path, parameters: Mapping[str, Any] | None = None
) -> None:
    """Run one query file and store its result as a temporary table of this connection."""
    query_text = file.read_text(encoding="utf-8")
    connection.execute(f"create or replace temp table {name} as {query_text}", dict(parameters) if parameters else None)


def _stopping_rule_sql(params: Params) -> str:
    """Keep a verdict if it is below the floor, or if fewer than `stop_after` hits come before it."""
    if params.sample.stop_after is None:
        return ""
    before = "partition by problem_id order by sample rows between unbounded preceding and 1 preceding"
    hits = f"count(*) filter (where correct) over ({before})"
    return f" qualify sample < {params.sample.floor} or {hits} < {params.sample.stop_after}"


def _check_schemas(
    connection: duckdb.DuckDBPyConnection, files: list[Path], schema: pa.Schema, made_by: str
) -> list[set[str]]:
    """Check the columns of files; return which added columns they lack, at least once for each kind of file. Opening
    thousands of files takes long, so DuckDB groups them by their columns, and only the first of each kind is compared
    with the schema."""

    def first_of_each_kind(begin: int) -> list[Path]:
        batch = files[begin : begin + FILES_PER_SCHEMA_QUERY]
        try:
            found = query(connection.cursor(), FILE_KINDS_SQL, {"files": [*map(str, batch)]})["file"].to_pylist()
        except duckdb.Error:  # a file that DuckDB can't read: `open_table` finds it and names it
            return batch
        return [Path(file) for file in found]

    if len(files) > MAX_FILES_OPENED_SINGLY:
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            begins = range(0, len(files), FILES_PER_SCHEMA_QUERY)
            files = [file for kinds in threads.map(first_of_each_kind, begins) for file in kinds]
    return [set(tables.missing_columns(tables.open_columns(file, schema, made_by), schema)) for file in files]


def _refuse_repeated_samples(connection: duckdb.DuckDBPyConnection, folders: Sequence[SampleFolder]) -> None:
    """Raise if a sample below k comes twice. A bit for each sample of a problem tells: k bits of memory, where a count
    of distinct samples keeps every number. One query for all folders, since each query costs milliseconds."""
    if not folders:
        return
    k = max(folder.k for folder in folders)
    parts = (
        f"select {i} as folder, problem_id, sample from read_parquet([{_quote_paths(folder.files)}]) "
        f"where sample between 0 and {folder.k - 1}"
        for i, folder in enumerate(folders)
    )
    repeated = connection.execute(
        f"select folder, problem_id from ({' union all '.join(parts)}) group by folder, problem_id "
        f"having count(*) > bit_count(bitstring_agg(sample, 0, {k - 1})) order by all limit 1"
    ).fetchall()
    for at, problem_id in repeated:
        [(sample, holders)] = connection.execute(
            f"select sample, list(distinct filename order by filename) "
            f"from read_parquet([{_quote_paths(folders[at].files)}], filename = true) where problem_id = $problem_id "
            f"and sample between 0 and {folders[at].k - 1} group by sample having count(*) > 1 order by sample limit 1",
            {"problem_id": problem_id},
        ).fetchall()
        raise tables.RepeatedSampleError([Path(file) for file in holders], problem_id, sample, folders[at].made_by)


def _quote_paths(files: Sequence[Path]) -> str:
    return ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)

"""The tables between stages: their schemas, their places, and the only reading and writing of them.

A table that lacks a column, has a wrong type or can't be read is refused at this border with a sentence.
`database` opens DuckDB with the tables of a run as views; every metric is a query over those.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from stages import disk
from stages.errors import LeashError
from stages.params import Params

DATA = Path("data")
TEXT, INT, REAL, TRUTH = pa.string(), pa.int32(), pa.float64(), pa.bool_()

PROBLEMS = pa.schema(
    [
        pa.field("dataset", TEXT, nullable=False),
        pa.field("problem_id", TEXT, nullable=False),
        pa.field("question", TEXT, nullable=False),
        pa.field("gold", pa.list_(TEXT), nullable=False),
        pa.field("grader", TEXT, nullable=False),
        pa.field("images", pa.list_(pa.binary())),
        pa.field("meta", TEXT, nullable=False),
    ]
)
COMPLETIONS = pa.schema(
    [
        pa.field("problem_id", TEXT, nullable=False),
        pa.field("sample", INT, nullable=False),
        pa.field("text", TEXT, nullable=False),
        pa.field("tokens", INT, nullable=False),
        pa.field("finish", TEXT, nullable=False),
        pa.field("logprob", REAL),
    ]
)
VERDICTS = pa.schema(
    [
        pa.field("problem_id", TEXT, nullable=False),
        pa.field("sample", INT, nullable=False),
        pa.field("answer", TEXT),
        pa.field("answer_class", TEXT),
        pa.field("correct", TRUTH),  # null: not scored, which is not the same as wrong
        pa.field("score", REAL),
        pa.field("status", TEXT, nullable=False),
    ]
)
SUPPORT = pa.schema(
    [
        pa.field("dataset", TEXT, nullable=False),
        pa.field("problem_id", TEXT, nullable=False),
        pa.field("unit", TEXT, nullable=False),
        pa.field("unit_key", TEXT, nullable=False),
        pa.field("k", INT, nullable=False),
        pa.field("epsilon", REAL, nullable=False),
        pa.field("n_base", INT, nullable=False),
        pa.field("c_base", INT, nullable=False),
        pa.field("n_rlvr", INT, nullable=False),
        pa.field("c_rlvr", INT, nullable=False),
        pa.field("mass_base", REAL),
        pa.field("low_base", REAL),
        pa.field("high_base", REAL),
        pa.field("mass_rlvr", REAL),
        pa.field("low_rlvr", REAL),
        pa.field("high_rlvr", REAL),
        pa.field("category", TEXT),
        pa.field("tested_category", TEXT),
        pa.field("p_value", REAL),
        pa.field("q_value", REAL),
    ]
)
PERPLEXITY = pa.schema(
    [
        pa.field("problem_id", TEXT, nullable=False),
        pa.field("source", TEXT, nullable=False),
        pa.field("tokens", INT, nullable=False),
        pa.field("nll", REAL, nullable=False),
    ]
)
ENTROPY = pa.schema(
    [
        pa.field("problem_id", TEXT, nullable=False),
        pa.field("sample", INT, nullable=False),
        pa.field("token_entropy", REAL, nullable=False),
        pa.field("tokens", INT, nullable=False),
    ]
)


def problems_path(dataset: str) -> Path:
    return DATA / "problems" / f"{dataset}.parquet"


def completions_folder(model: str, dataset: str) -> Path:
    return DATA / "completions" / model / dataset


def verdicts_folder(model: str, dataset: str) -> Path:
    return DATA / "verdicts" / model / dataset


def support_path(pair: str) -> Path:
    return DATA / "support" / f"{pair}.parquet"


def perplexity_path(model: str, dataset: str) -> Path:
    return DATA / "perplexity" / model / f"{dataset}.parquet"


def entropy_path(model: str, dataset: str) -> Path:
    return DATA / "entropy" / model / f"{dataset}.parquet"


def table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)


def write(path: Path, content: pa.Table, schema: pa.Schema, note: Mapping[str, str] | None = None) -> None:
    """Write a table whole, in the order and types of its schema; `note` is kept with the file."""
    missing = set(schema.names) - set(content.column_names)
    if missing:
        raise LeashError(f"The table for {path} lacks the column {', '.join(sorted(missing))}.")
    fitted = content.select(schema.names).cast(schema.with_metadata(None)).replace_schema_metadata(note)
    with disk.whole(path) as unfinished:
        pq.write_table(fitted, unfinished, compression="zstd")


def read(path: Path, schema: pa.Schema, made_by: str) -> pa.Table:
    """Read a table and check it against its schema; `made_by` is the command that makes it anew."""
    return opened(path, schema, made_by).read(columns=schema.names or None)


def opened(path: Path, schema: pa.Schema, made_by: str) -> pq.ParquetFile:
    """A Parquet file whose columns are those of the schema, not yet read."""
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise LeashError(f"{path} is not there; make it with `{made_by}`.") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise LeashError(
            f"{path} can't be read as Parquet ({_brief(error)}); make it again with `{made_by}`."
        ) from None
    for field in schema:
        place = file.schema_arrow.get_field_index(field.name)
        if place < 0:
            raise LeashError(f"{path} lacks the column {field.name}; make it again with `{made_by}`.")
        if (found := file.schema_arrow.field(place).type) != field.type:
            raise LeashError(
                f"{path}: column {field.name} is {found}, not {field.type}; make it again with `{made_by}`."
            )
    return file


def note(path: Path) -> dict[str, str]:
    """What was kept with a table when it was written; nothing where there is no such table."""
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return {}
    return {name.decode(): value.decode() for name, value in metadata.items()}


def shards(folder: Path) -> list[Path]:
    """The shards of a growing table: files that were written whole."""
    return sorted(path for path in folder.glob("*.parquet") if not path.name.startswith("."))


def database(params: Params) -> duckdb.DuckDBPyConnection:
    """DuckDB with every table that is there as a view, for the models, data sets and pairs of this run."""
    connection = duckdb.connect()
    runs = [(model, dataset) for model in params.run.models for dataset in params.run.datasets]
    growing = {
        "completions": (COMPLETIONS, "sample", [(m, d, shards(completions_folder(m, d))) for m, d in runs]),
        "verdicts": (VERDICTS, "verify", [(m, d, shards(verdicts_folder(m, d))) for m, d in runs]),
        "perplexity": (PERPLEXITY, "perplexity", [(m, d, _there(perplexity_path(m, d))) for m, d in runs]),
        "entropy": (ENTROPY, "entropy", [(m, d, _there(entropy_path(m, d))) for m, d in runs]),
    }
    for name, (schema, made_by, parts) in growing.items():
        limits = {(m, d): params.k(m, d) for m, d, _ in parts} if "sample" in schema.names else {}
        queries = [
            _part(files, f"'{m}' as model, '{d}' as dataset, ", limits.get((m, d)))
            for m, d, files in parts
            if all(opened(file, schema, f"leash {made_by}") for file in files) and files
        ]
        _view(connection, name, queries)
    problems = [path for d in params.run.datasets for path in _there(problems_path(d))]
    support = [(pair, path) for pair in params.run.pairs for path in _there(support_path(pair))]
    _view(connection, "problems", [_part(problems, "", None)] if problems else [])
    _view(connection, "support", [_part([path], f"'{pair}' as pair, ", None) for pair, path in support])
    return connection


def query(connection: duckdb.DuckDBPyConnection, file: Path, parameters: Mapping[str, Any] | None = None) -> pa.Table:
    """Run one query file with its parameters bound."""
    return connection.execute(file.read_text(encoding="utf-8"), parameters or None).to_arrow_table()


def _there(path: Path) -> list[Path]:
    return [path] if path.exists() else []


def _part(files: Sequence[Path], labels: str, k: int | None) -> str:
    """One model's rows of a table. Samples beyond k never leak into anything."""
    listed = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
    where = "" if k is None else f" where sample < {k}"
    return f"select {labels}* from read_parquet([{listed}]){where}"


def _view(connection: duckdb.DuckDBPyConnection, name: str, parts: Sequence[str]) -> None:
    if parts:
        connection.execute(f"create view {name} as {' union all by name '.join(parts)}")


def _brief(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(".")

"""The tables between stages: their schemas, their places, and the only reading and writing of them.

A table that lacks a column, has a wrong type or can't be read is refused at this border with a sentence.
`database` opens DuckDB with the tables of a run as views; every metric is a query over those.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from stages import disk, seal
from stages.errors import LeashError, first_line
from stages.params import Params

DATA = Path("data")
FEW, MANY = 64, 4096  # files that are opened one by one, and together
ODD_COLUMNS = Path(__file__).parent / "odd_columns.sql"
COPIES = "if DVC brings it back so, `chmod -R u+w .dvc/cache/files` has DVC check its copies"
SUPPORTS = {"support": "problem", "support_by_answer": "answer", "support_by_completion": "completion"}  # their units
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
        pa.field("tokens", INT),  # null: imported from a file that does not tell
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
        pa.field("domain", TEXT, nullable=False),
        pa.field("problem_id", TEXT, nullable=False),
        pa.field("unit", TEXT, nullable=False),
        pa.field("unit_key", TEXT, nullable=False),
        pa.field("k", INT, nullable=False),
        pa.field("epsilon", REAL, nullable=False),
        pa.field("n_base", INT, nullable=False),
        pa.field("c_base", INT, nullable=False),
        pa.field("ended_base", TEXT),  # k: all were drawn; hit: at its last hit; floor: had them by then; null: too few
        pa.field("n_rlvr", INT, nullable=False),
        pa.field("c_rlvr", INT, nullable=False),
        pa.field("ended_rlvr", TEXT),
        pa.field("mass_base", REAL),  # c/n; (c - 1)/(n - 1) where ended is hit, and null where that hit is the only one
        pa.field("low_base", REAL),
        pa.field("high_base", REAL),
        pa.field("mass_rlvr", REAL),
        pa.field("low_rlvr", REAL),
        pa.field("high_rlvr", REAL),
        pa.field("category", TEXT),
        pa.field("tested_category", TEXT),
        pa.field("p_value", REAL),
        pa.field("q_value", REAL),
        pa.field("hit_base", INT),  # the number of the first correct sample
        pa.field("hit_rlvr", INT),
        pa.field("n_base_first", INT, nullable=False),  # of the first eighth of the k samples
        pa.field("c_base_first", INT, nullable=False),
        pa.field("n_rlvr_first", INT, nullable=False),
        pa.field("c_rlvr_first", INT, nullable=False),
        pa.field("guess_base", REAL),  # the chance that an answer to another problem is right here
        pa.field("guess_rlvr", REAL),
        pa.field("lucky_base", TRUTH),  # hits no more than guessing would give; null: no hits
        pa.field("lucky_rlvr", TRUTH),
    ]
)
MASS = pa.schema(  # distinct correct completions that a model of one of this one's pairs wrote
    [
        pa.field("problem_id", TEXT, nullable=False),
        pa.field("completion", TEXT, nullable=False),  # names it: a hash of its text and of whether it ended
        pa.field("hits", INT, nullable=False),  # how often this model wrote it
        pa.field("first", INT),  # the sample in which this model first wrote it
        pa.field("key", TEXT, nullable=False),
        pa.field("tokens", INT, nullable=False),
        pa.field("nll", REAL),  # null: longer than the model's window
        pa.field("decoding_nll", REAL),  # with the temperature and top_p of sampling; infinite: beyond top_p
    ]
)
PERPLEXITY = pa.schema(
    [
        pa.field("problem_id", TEXT, nullable=False),
        pa.field("source", TEXT, nullable=False),
        pa.field("trace", INT, nullable=False),  # its number among those of the source for the problem
        pa.field("shuffled", TRUTH, nullable=False),  # its sentences in another order
        pa.field("bytes", INT, nullable=False),
        pa.field("key", TEXT, nullable=False),
        pa.field("tokens", INT, nullable=False),
        pa.field("nll", REAL),  # null: longer than the model's window
    ]
)
ENTROPY = pa.schema(
    [
        pa.field("problem_id", TEXT, nullable=False),
        pa.field("sample", INT, nullable=False),
        pa.field("key", TEXT, nullable=False),
        pa.field("tokens", INT, nullable=False),
        pa.field("token_entropy", REAL),  # of the model's own distribution, mean over steps
        pa.field("decoding_entropy", REAL),  # of the distribution that was sampled from
        pa.field("forks", REAL),  # share of the steps that are at least as unsure as `entropy.forking`
        pa.field("profile", pa.list_(REAL)),  # mean token entropy by tenths of the trace; null: no step in it
    ]
)


def problems_path(dataset: str) -> Path:
    return DATA / "problems" / f"{dataset}.parquet"


def completions_folder(model: str, dataset: str) -> Path:
    return DATA / "completions" / model / dataset


def verdicts_folder(model: str, dataset: str) -> Path:
    return DATA / "verdicts" / model / dataset


def support_path(pair: str, unit: str = "problem") -> Path:
    folder = DATA / "support"
    return (folder if unit == "problem" else folder / f"by_{unit}") / f"{pair}.parquet"


def mass_path(model: str, dataset: str) -> Path:
    return DATA / "mass" / model / f"{dataset}.parquet"


def analysis_path(pair: str) -> Path:
    return DATA / "analysis" / f"{pair}.json"


def perplexity_path(model: str, dataset: str) -> Path:
    return DATA / "perplexity" / model / f"{dataset}.parquet"


def entropy_path(model: str, dataset: str) -> Path:
    return DATA / "entropy" / model / f"{dataset}.parquet"


def problem_row(
    *,
    dataset: str,
    problem_id: str,
    question: str,
    gold: Sequence[str],
    grader: str,
    meta: Mapping[str, Any],
    images: Sequence[bytes] | None = None,
) -> dict[str, Any]:
    """A complete row of the problems table. Every source of problems builds its rows here, so that none lacks a
    column."""
    return {
        "dataset": dataset,
        "problem_id": problem_id,
        "question": question,
        "gold": list(gold),
        "grader": grader,
        "images": None if images is None else list(images),
        "meta": json.dumps(meta, ensure_ascii=False),
    }


def table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)


def write(path: Path, content: pa.Table, schema: pa.Schema, note: Mapping[str, str] | None = None) -> None:
    """Write a table whole and sealed, in the order and types of its schema; `note` is kept with the file."""
    disk.write(path, seal.sealed(encoded(content, schema, {**(note or {}), seal.NAME: seal.BLANK})))


def encoded(content: pa.Table, schema: pa.Schema, note: Mapping[str, str] | None = None) -> bytes:
    """A table as the bytes of a Parquet file."""
    fitted = content.select(schema.names).cast(schema).replace_schema_metadata(note)
    buffer = pa.BufferOutputStream()
    pq.write_table(fitted, buffer, compression="zstd")
    return bytes(buffer.getvalue())


def read(path: Path, schema: pa.Schema, made_by: str) -> pa.Table:
    """Read a table and check it against its schema; `made_by` is the command that makes it anew."""
    return opened(path, schema, made_by).read(columns=schema.names or None)


def opened(path: Path, schema: pa.Schema, made_by: str) -> pq.ParquetFile:
    """A Parquet file whose columns are those of the schema, not yet read."""
    again = f"make it again with `{made_by}`"
    try:
        if seal.holds(path) is False:
            raise LeashError(f"{path} is damaged: its bytes are not those that were written; {again} ({COPIES}).")
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise LeashError(f"{path} is not there; make it with `{made_by}`.") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise LeashError(f"{path} can't be read as Parquet ({first_line(error)}); {again}.") from None
    for field in schema:
        place = file.schema_arrow.get_field_index(field.name)
        if place < 0:
            raise LeashError(f"{path} lacks the column {field.name}; {again}.")
        if (found := file.schema_arrow.field(place).type) != field.type:
            raise LeashError(f"{path}: column {field.name} is {found}, not {field.type}; {again}.")
    return file


def note(path: Path) -> dict[str, str]:
    """What was kept with a table when it was written; nothing where there is no such table, or a damaged one."""
    try:
        metadata = {} if seal.holds(path) is False else pq.read_schema(path).metadata or {}
    except (OSError, pa.ArrowInvalid):
        return {}
    return {name.decode(): value.decode() for name, value in metadata.items() if name.decode() != seal.NAME}


def shards(folder: Path) -> list[Path]:
    """The shards of a growing table: files that were written whole."""
    names = os.listdir(folder) if folder.is_dir() else []
    return [folder / name for name in sorted(names) if name.endswith(".parquet") and not name.startswith(".")]


def refuse_damaged(files: Iterable[Path], mended_by: str) -> None:
    """Raise a sentence where a file has not the content that its name says."""
    for file in files:
        if disk.intact(file) is False:
            raise LeashError(f"{file} is damaged; mend it with `{mended_by}`.")


def database(params: Params, only: Sequence[str] = ()) -> duckdb.DuckDBPyConnection:
    """DuckDB with every table that is there as a view (or `only` some, and the problems), for the models, data sets and
    pairs of this run. Who makes a table asks for those before it only: so none that is damaged is in its own way.

    The parameters decide what is seen, not what is on disk: no sample beyond k, and of an adaptive budget
    (`sample.stop_after`) no verdict past the stop, whatever the sampler drew beyond it.
    """
    connection = duckdb.connect()
    connection.execute("set parquet_metadata_cache = true")  # what a check has read of a file, a query need not
    runs = [(model, dataset) for model in params.run.models for dataset in params.run.datasets]
    places: dict[str, tuple[pa.Schema, str, Callable[[str, str], list[Path]]]] = {
        "completions": (COMPLETIONS, "leash sample", lambda m, d: shards(completions_folder(m, d))),
        "verdicts": (VERDICTS, "leash verify", lambda m, d: shards(verdicts_folder(m, d))),
        "mass": (MASS, "leash mass", lambda m, d: _there(mass_path(m, d))),
        "perplexity": (PERPLEXITY, "leash perplexity", lambda m, d: _there(perplexity_path(m, d))),
        "entropy": (ENTROPY, "leash entropy", lambda m, d: _there(entropy_path(m, d))),
    }
    for name, (schema, made_by, files_of) in places.items():
        if only and name not in only:
            continue
        parts = []
        for model, dataset in runs:
            files = _checked(connection, files_of(model, dataset), schema, made_by)
            limits = f" where sample < {params.k(model, dataset)}" if "sample" in schema.names else ""
            limits += _curtailed(params) if name == "verdicts" else ""
            parts += _part(files, f"'{model}' as model, '{dataset}' as dataset, ", limits)
        _view(connection, name, parts)
    for name, wanted in _whole_tables(params).items():
        if only and name not in (*only, "problems"):
            continue
        parts = []
        for path, schema, made_by, labels in wanted:
            parts += _part(_checked(connection, _there(path), schema, made_by), labels)
        _view(connection, name, parts)
    return connection


def query(connection: duckdb.DuckDBPyConnection, file: Path, parameters: Mapping[str, Any] | None = None) -> pa.Table:
    """Run one query file with its parameters bound."""
    found = connection.sql(file.read_text(encoding="utf-8"), params=dict(parameters) if parameters else None)
    return pa.table(found.to_arrow_table())


def keep(
    connection: duckdb.DuckDBPyConnection, name: str, file: Path, parameters: Mapping[str, Any] | None = None
) -> None:
    """Run one query file and keep what it makes as a table of this connection."""
    query_text = file.read_text(encoding="utf-8")
    connection.execute(f"create or replace temp table {name} as {query_text}", dict(parameters) if parameters else None)


def _whole_tables(params: Params) -> dict[str, list[tuple[Path, pa.Schema, str, str]]]:
    """The tables that are written whole: the files of each, what makes them, and the columns that label their rows."""
    pairs, datasets = params.run.pairs, params.run.datasets
    return {
        "problems": [(problems_path(d), PROBLEMS, f"leash fetch {d}", "") for d in datasets],
        **{
            name: [(support_path(p, unit), SUPPORT, "leash categorize", f"'{p}' as pair, ") for p in pairs]
            for name, unit in SUPPORTS.items()
        },
    }


def _there(path: Path) -> list[Path]:
    return [path] if path.exists() else []


def _checked(connection: duckdb.DuckDBPyConnection, files: list[Path], schema: pa.Schema, made_by: str) -> list[Path]:
    """Files whose columns are those of the schema. Of many, which take long to open, the first is compared with the
    schema and all with each other; only if they differ each is opened, to name the one that is wrong."""
    for file in files[:1] if len(files) > FEW and _alike(connection, files) else files:
        opened(file, schema, made_by)
    return files


def _alike(connection: duckdb.DuckDBPyConnection, files: list[Path]) -> bool:
    """Whether all files have the columns of the first, as far as DuckDB can read them."""
    names = [str(file) for file in files]
    parts = [[names[0], *names[begin : begin + MANY]] for begin in range(1, len(names), MANY)]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return all(threads.map(lambda part: _no_odd_columns(connection.cursor(), part), parts))


def _no_odd_columns(connection: duckdb.DuckDBPyConnection, files: list[str]) -> bool:
    try:
        return bool(query(connection, ODD_COLUMNS, {"files": files}).num_rows == 0)
    except duckdb.Error:
        return False


def _curtailed(params: Params) -> str:
    """Where a problem stops: each verdict counts until the h-th hit is behind it, and below the floor in any case."""
    if params.sample.stop_after is None:
        return ""
    before = "partition by problem_id order by sample rows between unbounded preceding and 1 preceding"
    hits = f"count(*) filter (where correct) over ({before})"
    return f" qualify sample < {params.sample.floor} or {hits} < {params.sample.stop_after}"


def _part(files: Sequence[Path], labels: str, limits: str = "") -> list[str]:
    """A query for some files of a table, if there are any. Samples beyond the limits never leak into anything."""
    if not files:
        return []
    listed = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
    return [f"select {labels}* from read_parquet([{listed}]){limits}"]


def _view(connection: duckdb.DuckDBPyConnection, name: str, parts: Sequence[str]) -> None:
    if parts:
        connection.execute(f"create view {name} as {' union all by name '.join(parts)}")

"""The tables between stages: their schemas, their paths, and the only code that reads and writes them.

Every table is Parquet. `read` and `open_table` check the file's checksum, columns and types, and raise an error that
names the command to run. `leash.database` opens the tables of a run in DuckDB.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from leash import atomic_io, json_checksum, parquet_checksum
from leash.errors import LeashError, first_line

DATA_DIR = Path("data")
# Names the files of verdicts that count, beside them. leash/verdict_files.py writes both.
VERDICTS_MANIFEST_FILENAME = "manifest.json"
VERDICTS_FILENAME_PATTERN = re.compile(r"\d{5}\.[0-9a-f]{16}\.parquet")
# What pyarrow raises for a file that is damaged or no Parquet. A ValueError: bytes that are no text.
READ_ERRORS = (pa.ArrowException, OSError, ValueError)
STRING, INT32, INT64, FLOAT64, BOOL = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()


def _required(kind: pa.DataType, *names: str) -> list[pa.Field]:
    return [pa.field(name, kind, nullable=False) for name in names]


def _optional(kind: pa.DataType, *names: str) -> list[pa.Field]:
    return [pa.field(name, kind) for name in names]


def _schema(*columns: list[pa.Field]) -> pa.Schema:
    return pa.schema(chain(*columns))


PROBLEMS_SCHEMA = _schema(
    _required(STRING, "dataset", "problem_id", "question"),
    _required(pa.list_(STRING), "gold"),
    _required(STRING, "grader"),
    _optional(pa.list_(pa.binary()), "images"),
    _required(STRING, "meta"),
    # level: how hard the problem is, by its data set. cluster: the problems that may come and go together (a template,
    # a level, duplicate questions); null: a cluster of its own.
    _optional(STRING, "level", "cluster"),
)
# Columns that tables of earlier versions lack. They are read as null.
ADDED_COLUMNS = frozenset(
    {"level", "cluster", "token_ids", "tail", "pooled_base", "pooled_rlvr", "certified_base", "certified_rlvr"}
)
COMPLETIONS_SCHEMA = _schema(
    _required(STRING, "problem_id"),
    _required(INT32, "sample"),
    _required(STRING, "text"),
    _optional(INT32, "tokens"),  # null: the imported file has no token counts
    _required(STRING, "finish"),
    _optional(FLOAT64, "logprob"),
    # The drawn tokens where the text does not split into exactly these, end of text included; null: it does, or the
    # ids are not known (imported, from a server, or written by an earlier version).
    _optional(pa.list_(INT32), "token_ids"),
    # What was drawn from a stop string on (`sample.stop`): the text ends before it, and tokens, logprob and token_ids
    # are of text and tail together. Null: no stop string. Files without any tail lack the column.
    _optional(STRING, "tail"),
)
VERDICTS_SCHEMA = _schema(
    _required(STRING, "problem_id"),
    _required(INT32, "sample"),
    _optional(STRING, "answer", "answer_class"),
    _optional(BOOL, "correct"),  # null: not scored, which is not wrong
    _optional(FLOAT64, "score"),
    _required(STRING, "status"),
    # The columns above follow `verify.reading`; these do not (leash/grading/reading.py).
    _optional(BOOL, "correct_strict", "correct_lenient"),
    _optional(STRING, "candidate", "candidate_class"),  # the answer if lenient reading alone finds it, otherwise null
    # The working of a completion that is correct under lenient reading (leash/grading/process); null: of no other.
    _optional(BOOL, "sound"),  # null: not checkable
    _optional(STRING, "process", "flaw"),  # process: sound, unsound, direct or unchecked; flaw: the false step
)
# n samples and c hits of the base and of the trained model (rlvr).
SUPPORT_SCHEMA = _schema(
    _required(STRING, "dataset", "domain", "problem_id", "unit", "unit_key"),
    _required(INT32, "k"),
    _required(FLOAT64, "epsilon"),
    # ended: why sampling stopped. k: all k samples are drawn; hit: at the last hit of `sample.stop_after`;
    # floor: at `sample.floor`, with enough hits by then; null: it has not stopped, samples are missing.
    _required(INT32, "n_base", "c_base"),
    _optional(STRING, "ended_base"),
    _required(INT32, "n_rlvr", "c_rlvr"),
    _optional(STRING, "ended_rlvr"),
    # mass: c/n. If sampling ended at a hit: (c - 1)/(n - 1), which is unbiased; null if that hit is the only one.
    _optional(FLOAT64, "mass_base", "low_base", "high_base", "mass_rlvr", "low_rlvr", "high_rlvr"),
    # support: `above` or `below` if the mass is surely on that side of epsilon, otherwise `open`.
    _optional(STRING, "support_base", "support_rlvr"),
    _optional(STRING, "category", "tested_category"),
    _optional(FLOAT64, "p_value", "q_value"),
    _optional(INT32, "hit_base", "hit_rlvr"),  # number of the first correct sample
    # among the first k // 8 samples
    _required(INT32, "n_base_first", "c_base_first", "n_rlvr_first", "c_rlvr_first"),
    _optional(FLOAT64, "guess_base", "guess_rlvr"),  # the chance that a wrong answer to another problem is right here
    # above_guessing: are the hits shown to be more than a guesser's (guess_p: its corrected p-value)? null: no hits or
    # no test
    _optional(FLOAT64, "guess_p_base", "guess_p_rlvr"),
    _optional(BOOL, "above_guessing_base", "above_guessing_rlvr"),
    # a completion's exact probabilities at the temperature and top_p of sampling; null: other units, or not known
    _optional(FLOAT64, "sampled_base", "sampled_rlvr"),
    _optional(FLOAT64, "inclusion"),  # the chance that k samples of both models show this completion; null: other units
    # a problem's pooled mass and certificate (REACH_SCHEMA); null: other units, or not examined
    _optional(FLOAT64, "pooled_base", "pooled_rlvr", "certified_base", "certified_rlvr"),
    # as in the problems table; cluster is null if `categorize.clusters` is none
    _optional(STRING, "level", "cluster"),
)
# The support of each problem if something else counts as a hit (leash/counting/hit_counts.py).
CONTROL_SUPPORT_SCHEMA = _schema(_required(STRING, "control"), list(SUPPORT_SCHEMA))
# One row per distinct correct completion that this model, or the other model of one of its pairs, wrote.
MASS_SCHEMA = _schema(
    _required(STRING, "problem_id", "completion"),  # completion: hash of the text and of whether it ended
    _required(INT32, "hits"),  # how often this model wrote it
    _optional(INT32, "first"),  # this model's first sample with this text
    _required(STRING, "key"),
    _required(INT32, "tokens"),
    _optional(FLOAT64, "nll"),  # null: longer than the model's context window
    _optional(FLOAT64, "decoding_nll"),  # at the temperature and top_p of sampling; infinite: outside top_p
)
# One row per problem on which a model, the target, has few hits and the other model of the pair, the donor, has some
# (data/reach/{pair}.parquet). Probabilities are those of the target at its temperature and top_p.
REACH_SCHEMA = _schema(
    _required(STRING, "dataset", "problem_id"),
    _required(STRING, "target"),  # base or rlvr
    # certified: the certificate is above 0; no_hit: it is not; unreachable: nor can it be by what is known, since every
    # known correct completion has probability 0 at these settings, and no rollout from their beginnings was correct
    _required(STRING, "status"),
    _required(INT32, "n_target", "c_target", "n_donor", "c_donor"),
    _required(INT32, "completions"),  # distinct correct ones that either model wrote
    _required(INT32, "outside"),  # of the donor's: those with probability 0
    _optional(FLOAT64, "pooled", "pooled_error"),  # null: see data/README.md
    _optional(FLOAT64, "untempered"),  # the sum of the probabilities of all known ones at temperature 1 and top_p 1
    # The cut: its complete sequences count fully (whole_mass), from its prefixes (open_mass) rollouts were drawn.
    _optional(FLOAT64, "whole_mass", "open_mass"),
    _optional(FLOAT64, "certificate", "estimate"),
    _required(FLOAT64, "upper"),  # from the plain samples alone
    _optional(
        FLOAT64, "amplification", "amplification_low", "amplification_high"
    ),  # the trained model's mass / the base's
    _required(INT32, "prefixes"),  # members of the cut
    _required(INT32, "pilot", "rollouts", "hits"),  # rollouts that chose the cut; rollouts from it, and their hits
    _required(INT64, "tokens"),  # drawn in all rollouts, without their prefixes
    _optional(FLOAT64, "depth"),  # mean tokens of the open prefixes, weighted by their probabilities
    # The trace: the donor's completion that is likeliest under the target, or if all are impossible, the one with the
    # longest possible beginning, by token (infinite: impossible). Its text is in TRACES_SCHEMA.
    _optional(pa.list_(FLOAT64), "trace_nlls", "trace_donor_nlls"),
    # Along the trace: a depth, the rollouts from or through this prefix, and their hits.
    _optional(pa.list_(INT32), "profile_depths", "profile_trials", "profile_hits"),
    _optional(INT32, "cut_token"),  # the place in the trace of the token that decides
)
# The texts behind a row of data/reach (data/rollouts/traces/{pair}.parquet), apart from the table that people share.
TRACES_SCHEMA = _schema(
    _required(STRING, "dataset", "problem_id", "target"),
    _optional(pa.list_(STRING), "trace_tokens"),  # null: all are impossible from the first token on
    # Correct rollouts and complete solutions that the certificate counts, so that a person can check them.
    _required(pa.list_(INT32), "hit_rollouts"),  # null: a complete solution, which counts with its own probability
    # How much of the cut's mass, as estimated, is behind the prefix of the rollout, or is the complete solution's own.
    _required(pa.list_(FLOAT64), "hit_shares"),
    _required(pa.list_(STRING), "hit_answers", "hit_texts"),
)
# Scores of correct completions and rollouts (data/rollouts/scores), which only the stage reads.
REACH_SCORES_SCHEMA = _schema(
    _required(STRING, "problem_id", "key"),
    _required(INT32, "tokens"),
    _optional(FLOAT64, "nll", "decoding_nll"),
    _optional(pa.list_(pa.float32()), "token_nlls"),
    _optional(pa.list_(pa.float32()), "token_decoding_nlls"),  # null: temperature and top_p are 1
)
PERPLEXITY_SCHEMA = _schema(
    _required(STRING, "problem_id", "source"),
    _required(INT32, "trace"),  # number within problem and source
    _required(BOOL, "shuffled"),  # the trace with its sentences in another order
    _required(BOOL, "ended"),  # its last token is the end of the text, which has no bytes
    _required(INT32, "bytes"),
    _required(STRING, "key"),
    _required(INT32, "tokens"),
    _optional(FLOAT64, "nll"),  # null: longer than the model's context window
    _optional(pa.list_(pa.float32()), "token_nlls"),
    _optional(pa.list_(pa.float32()), "token_entropies"),  # null: the engine was vLLM, which has none
)
# One row per correct completion that shows working (data/reasoning/{model}/{dataset}.parquet).
REASONING_SCHEMA = _schema(
    _required(STRING, "problem_id"),
    _required(INT32, "sample"),
    _required(STRING, "text_hash"),  # equal texts are one question to the judge
    _required(BOOL, "chosen"),  # one of the `reasoning.hits` that were chosen at random, and asked about
    _required(INT32, "votes", "votes_sound"),  # of the judge on this text; 0: not asked, or no usable reply
    _optional(BOOL, "sound"),  # by `reasoning.rule`; null: no vote
)
# Good traces of a model, as they are and with a planted error (data/reasoning/{model}.calibration.parquet).
CALIBRATION_SCHEMA = _schema(
    _required(STRING, "dataset", "problem_id"),
    _required(INT32, "sample"),
    _required(BOOL, "planted"),
    _required(INT32, "votes", "votes_sound"),
    _optional(BOOL, "sound"),
)
ENTROPY_SCHEMA = _schema(
    _required(STRING, "problem_id"),
    _required(INT32, "sample"),
    _required(STRING, "key"),
    _required(INT32, "tokens"),
    _optional(FLOAT64, "token_entropy"),  # mean over steps, of the model's own distribution
    _optional(FLOAT64, "decoding_entropy"),  # the same, of the distribution that was sampled from
    _optional(FLOAT64, "forks"),  # share of steps with an entropy of at least `entropy.forking`
    _optional(pa.list_(FLOAT64), "profile"),  # mean token entropy by tenths of the trace; null: no step
)


class MissingTableError(LeashError):
    """A table that has not been made yet. `made_by` is the command that makes it."""

    def __init__(self, path: Path, made_by: str) -> None:
        self.path, self.made_by = path, made_by
        super().__init__(f"{path} is not there; make it with `{made_by}`.")


class DamagedTableError(LeashError):
    """A table that does not have the content that was written. `reason` completes "{path} …"."""

    def __init__(self, path: Path, made_by: str, reason: str) -> None:
        self.path, self.made_by, self.reason = path, made_by, reason
        # DVC restores a damaged file from its cache unchecked if the cached copy is write-protected.
        super().__init__(
            f"{path} {reason}. Make it again with `{made_by}`. If DVC restores the same damaged file, run "
            f"`chmod -R u+w .dvc/cache/files`, so that DVC checks its copies."
        )


class RepeatedSampleError(LeashError):
    """Files of one table hold the same sample of a problem twice, so it would count twice. `files` are those that hold
    it: a single one holds it more than once."""

    def __init__(self, files: Sequence[Path], problem_id: str, sample: int, made_by: str) -> None:
        self.files, self.problem_id, self.sample, self.made_by = tuple(files), problem_id, sample, made_by
        holders = f"{files[0]} holds" if len(files) == 1 else f"{files[0]} and {files[1]} both hold"
        super().__init__(
            f"{holders} sample {sample} of {problem_id}{' twice' if len(files) == 1 else ''}, and a sample counts "
            f"once. Delete the file that does not belong there and run `{made_by}`."
        )


class WrongColumnError(LeashError):
    """A table without a column of its schema (`found` is None), or with another type in it."""

    def __init__(self, path: Path, made_by: str, column: str, expected: pa.DataType, found: pa.DataType | None) -> None:
        self.path, self.made_by, self.column = path, made_by, column
        self.expected, self.found = expected, found
        problem = f" lacks the column {column}" if found is None else f": column {column} is {found}, not {expected}"
        super().__init__(f"{path}{problem}; make it again with `{made_by}`.")


def problems_path(dataset: str) -> Path:
    return DATA_DIR / "problems" / f"{dataset}.parquet"


def completions_folder(model: str, dataset: str) -> Path:
    return DATA_DIR / "completions" / model / dataset


def verdicts_folder(model: str, dataset: str) -> Path:
    return DATA_DIR / "verdicts" / model / dataset


def support_path(pair: str, unit: str = "problem") -> Path:
    folder = DATA_DIR / "support"
    return (folder if unit == "problem" else folder / f"by_{unit}") / f"{pair}.parquet"


def mass_path(model: str, dataset: str) -> Path:
    return DATA_DIR / "mass" / model / f"{dataset}.parquet"


def reach_path(pair: str) -> Path:
    return DATA_DIR / "reach" / f"{pair}.parquet"


def traces_path(pair: str) -> Path:
    return DATA_DIR / "rollouts" / "traces" / f"{pair}.parquet"


def rollouts_folder(pair: str, target: str, dataset: str) -> Path:
    return DATA_DIR / "rollouts" / "drawn" / pair / target / dataset


def rollout_scores_path(model: str, dataset: str, name: str) -> Path:
    return DATA_DIR / "rollouts" / "scores" / model / dataset / f"{name}.parquet"


def analysis_path(pair: str) -> Path:
    return DATA_DIR / "analysis" / f"{pair}.json"


def perplexity_path(model: str, dataset: str) -> Path:
    return DATA_DIR / "perplexity" / model / f"{dataset}.parquet"


def reasoning_path(model: str, dataset: str) -> Path:
    return DATA_DIR / "reasoning" / model / f"{dataset}.parquet"


def calibration_path(model: str) -> Path:
    return DATA_DIR / "reasoning" / f"{model}.calibration.parquet"


def entropy_path(model: str, dataset: str) -> Path:
    return DATA_DIR / "entropy" / model / f"{dataset}.parquet"


def problem_row(
    *,
    dataset: str,
    problem_id: str,
    question: str,
    gold: Sequence[str],
    grader: str,
    meta: Mapping[str, Any],
    images: Sequence[bytes] | None = None,
    level: str | None = None,
    cluster: str | None = None,
) -> dict[str, Any]:
    """A complete row of the problems table. Every source of problems builds its rows here, so none lacks a column."""
    return {
        "dataset": dataset,
        "problem_id": problem_id,
        "question": question,
        "gold": list(gold),
        "grader": grader,
        "images": None if images is None else list(images),
        "meta": json.dumps(meta, ensure_ascii=False),
        "level": level,
        "cluster": cluster,
    }


def table_from_rows(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)


def write(path: Path, content: pa.Table, schema: pa.Schema, note: Mapping[str, str] | None = None) -> None:
    """Write a table atomically with a checksum, in the columns and types of its schema. `note` is its metadata."""
    atomic_io.write(path, encode_with_checksum(content, schema, note))


def encode_with_checksum(content: pa.Table, schema: pa.Schema, note: Mapping[str, str] | None = None) -> bytes:
    metadata = {**(note or {}), parquet_checksum.METADATA_KEY: parquet_checksum.BLANK_CHECKSUM}
    return parquet_checksum.fill_checksum(encode_parquet(content, schema, metadata))


def encode_parquet(
    content: pa.Table, schema: pa.Schema, note: Mapping[str, str] | None = None, row_group_rows: int | None = None
) -> bytes:
    fitted = content.select(schema.names).cast(schema).replace_schema_metadata(note)
    buffer = pa.BufferOutputStream()
    pq.write_table(fitted, buffer, compression="zstd", row_group_size=row_group_rows)
    return bytes(buffer.getvalue())


def encode_row_groups_with_checksum(
    groups: Iterable[pa.Table], schema: pa.Schema, note: Mapping[str, str] | None = None
) -> bytes:
    """A row group for each table. They are taken one by one, so that only one is in memory."""
    metadata = {**(note or {}), parquet_checksum.METADATA_KEY: parquet_checksum.BLANK_CHECKSUM}
    buffer = pa.BufferOutputStream()
    with pq.ParquetWriter(buffer, schema.with_metadata(metadata), compression="zstd") as writer:
        for group in groups:
            # Without chunks, whose borders would show in the bytes.
            fitted = group.select(schema.names).cast(schema).combine_chunks()
            writer.write_table(fitted, row_group_size=max(fitted.num_rows, 1))
    return parquet_checksum.fill_checksum(bytes(buffer.getvalue()))


def read(path: Path, schema: pa.Schema, made_by: str) -> pa.Table:
    """Read the columns of a schema and check them. `made_by` is the command that makes the table."""
    return _read_columns(open_table(path, schema, made_by), schema)


def read_row_group(path: Path, group: int, schema: pa.Schema, made_by: str) -> pa.Table:
    """Read the columns of a schema of one row group. Their types are checked; the caller has checked the checksum."""
    return _read_columns(open_columns(path, schema, made_by), schema, group)


def _read_columns(file: pq.ParquetFile, schema: pa.Schema, group: int | None = None) -> pa.Table:
    added = missing_columns(file, schema)
    columns = [name for name in schema.names if name not in added] or None
    table = file.read(columns) if group is None else file.read_row_group(group, columns)
    for name in added:
        table = table.append_column(name, pa.nulls(table.num_rows, schema.field(name).type))
    return table.select(schema.names) if added else table


def missing_columns(file: pq.ParquetFile, schema: pa.Schema) -> list[str]:
    """The columns of a schema that this file lacks, since an earlier version wrote it."""
    return [name for name in schema.names if name in ADDED_COLUMNS and name not in file.schema_arrow.names]


def open_table(path: Path, schema: pa.Schema, made_by: str) -> pq.ParquetFile:
    """Open a Parquet file and check its checksum, columns and types. The columns are not read yet."""
    refuse_damaged([path], made_by)
    return open_columns(path, schema, made_by)


def open_columns(path: Path, schema: pa.Schema, made_by: str) -> pq.ParquetFile:
    """Open a Parquet file and check its columns and types, but not its checksum."""
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise MissingTableError(path, made_by) from None
    except READ_ERRORS as error:
        raise DamagedTableError(path, made_by, _unreadable(error)) from None
    for field in schema:
        index = file.schema_arrow.get_field_index(field.name)
        found = file.schema_arrow.field(index).type if index >= 0 else None
        if found != field.type and not (found is None and field.name in ADDED_COLUMNS):
            raise WrongColumnError(path, made_by, field.name, field.type, found)
    return file


def refuse_damaged(files: Sequence[Path], made_by: str) -> None:
    """Raise DamagedTableError if a file does not have the content that was written: a checksum is inside it, or, for
    completions, in its name. Files of other programs have none.

    Every byte of every file is read and hashed, by all processors. Nothing is remembered from one call to the next,
    since a disk damages files without a new time stamp.
    """
    if len(files) == 1:  # without the cost of starting threads
        faults: Iterable[str | None] = map(_fault, files)
    else:
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            faults = threads.map(_fault, files)
    for file, fault in zip(files, faults, strict=True):
        if fault is not None:
            raise DamagedTableError(file, made_by, fault)


def _fault(file: Path) -> str | None:
    """Why a file is damaged; None if it is not, or if it is not there."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        return _unreadable(error)
    if (valid := parquet_checksum.is_valid(content)) is not None:
        return None if valid else "is damaged: its checksum does not match its content"
    if (hash_in_name := atomic_io.hash_in_name(file)) is not None:
        is_intact = hash_in_name == atomic_io.bytes_hash(content)
        return None if is_intact else "is damaged: its content does not match the hash in its name"
    try:  # nothing says what was written, but all of it can be read
        pq.read_table(pa.BufferReader(content)).validate(full=True)
    except READ_ERRORS as error:
        return _unreadable(error)
    return None


def _unreadable(error: Exception) -> str:
    return f"can't be read as Parquet ({first_line(error)})"


def read_metadata(path: Path) -> dict[str, str]:
    """The note that was written with a table; empty if the table is missing or damaged."""
    try:
        metadata = {} if parquet_checksum.has_valid_checksum(path) is False else pq.read_schema(path).metadata or {}
        note = {name.decode(): value.decode() for name, value in metadata.items()}
    except READ_ERRORS:
        return {}
    return {name: value for name, value in note.items() if name != parquet_checksum.METADATA_KEY}


def shards(folder: Path) -> list[Path]:
    """The Parquet files of a table that grows file by file. Files that are still being written have a dot name."""
    names = os.listdir(folder) if folder.is_dir() else []
    return [folder / name for name in sorted(names) if name.endswith(".parquet") and not name.startswith(".")]


def verdict_files(model: str, dataset: str) -> list[Path]:
    """The files that hold the verdicts of a model on a data set: those that their manifest names. Other files in the
    folder are left from a killed run, or copies. Without a manifest (of an earlier version, or in a bundle): all."""
    folder = verdicts_folder(model, dataset)
    path = folder / VERDICTS_MANIFEST_FILENAME
    if not path.exists():
        return shards(folder)
    manifest = read_verdicts_manifest(folder)
    if manifest is None:
        reason = "is damaged, so nothing tells which files of verdicts count"
        raise DamagedTableError(path, f"leash verify {model} {dataset}", reason)
    return [folder / name for name in manifest["files"]]


def read_verdicts_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of verdicts; None if it is missing or damaged. It can come from strangers."""
    try:
        manifest, valid = json_checksum.check((folder / VERDICTS_MANIFEST_FILENAME).read_bytes())
        files = manifest["files"]
        are_lists = isinstance(files, list) and isinstance(manifest["completions"], list)
        are_names = bool(files) and all(map(VERDICTS_FILENAME_PATTERN.fullmatch, files))
        are_texts = all(isinstance(text, str) for text in (manifest["made_from"], *manifest["completions"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return manifest if valid and are_lists and are_names and are_texts else None

"""Tables: a file that is not what its schema requires is refused, damage is noticed, and writing is atomic."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from leash import atomic_io, database, parquet_checksum, tables
from leash.params.groups import Params
from stages.cli import main
from tests.conftest import ROOT
from tests.faults import damage

ROW = {"problem_id": "p", "sample": 0, "text": "t", "tokens": 1, "finish": "stop", "logprob": None}
ROW |= {"token_ids": [3, 1], "tail": "Q:"}
SCHEMA = tables.COMPLETIONS_SCHEMA
VERDICT = {"problem_id": "p", "sample": 0, "answer": "7", "answer_class": "7", "correct": True, "score": 1.0}
VERDICT |= {"status": "ok", "correct_strict": True, "correct_lenient": True}
VERDICT |= dict.fromkeys(("candidate", "candidate_class", "sound", "process", "flaw"))


def write_row(path: Path) -> None:
    tables.write(path, tables.table_from_rows([ROW], SCHEMA), SCHEMA, note={"made_from": "x"})


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_row(tmp_path / "a.parquet")
    assert tables.read(tmp_path / "a.parquet", SCHEMA, "").to_pylist() == [ROW]
    assert tables.read_metadata(tmp_path / "a.parquet") == {"made_from": "x"}
    assert tables.read_metadata(tmp_path / "none.parquet") == {}


def test_a_missing_table_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(tables.MissingTableError, match="make it with `leash sample`") as error:
        tables.read(tmp_path / "a.parquet", SCHEMA, "leash sample")
    assert (error.value.path, error.value.made_by) == (tmp_path / "a.parquet", "leash sample")


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"not a table")
    with pytest.raises(tables.DamagedTableError) as error:
        tables.read(path, SCHEMA, "leash sample")
    assert (error.value.path, error.value.made_by) == (path, "leash sample")
    assert "can't be read as Parquet" in error.value.reason


def test_a_missing_column_or_a_wrong_type_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"problem_id": ["p"]}), path)
    with pytest.raises(tables.WrongColumnError, match="lacks the column sample") as error:
        tables.read(path, SCHEMA, "leash sample")
    assert (error.value.column, error.value.found) == ("sample", None)
    pq.write_table(pa.table({name: ["x"] for name in SCHEMA.names}), path)
    with pytest.raises(tables.WrongColumnError) as error:
        tables.read(path, SCHEMA, "leash sample")
    assert (error.value.column, error.value.found, error.value.expected) == ("sample", pa.string(), pa.int32())


def test_a_flipped_bit_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    """Except in the marker of the checksum: then the file seems to have no checksum, and all its data is intact."""
    path = tmp_path / "a.parquet"
    write_row(path)
    written = path.read_bytes()
    marker = written.rfind(parquet_checksum.CHECKSUM_MARKER)
    for i in range(0, len(written), 7):
        path.write_bytes(written[:i] + bytes([written[i] ^ 1 << i % 8]) + written[i + 1 :])
        if not marker <= i < marker + len(parquet_checksum.CHECKSUM_MARKER):
            assert parquet_checksum.has_valid_checksum(path) is False
            assert tables.read_metadata(path) == {}
    path.write_bytes(written)
    assert parquet_checksum.has_valid_checksum(path) is True


def test_a_damaged_table_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_row(path)
    damage(path, "flip")
    with pytest.raises(tables.DamagedTableError, match=r"Make it again with `leash sample`.*`chmod -R") as error:
        tables.read(path, SCHEMA, "leash sample")
    assert (error.value.path, error.value.made_by) == (path, "leash sample")


def test_a_table_of_another_program_is_read_without_a_checksum(tmp_path: Path) -> None:
    pq.write_table(tables.table_from_rows([ROW], SCHEMA), tmp_path / "a.parquet")
    assert tables.read(tmp_path / "a.parquet", SCHEMA, "").to_pylist() == [ROW]


def test_a_damaged_table_stops_only_those_who_open_it(project: Params) -> None:
    write_row(tables.completions_folder("base", "chain") / "a.parquet")
    tables.write(tables.support_path("rlvr"), tables.SUPPORT_SCHEMA.empty_table(), tables.SUPPORT_SCHEMA)
    damage(tables.support_path("rlvr"), "flip")
    assert database.open_database(project, only=["completions"]).table("completions").fetchall()
    with pytest.raises(tables.DamagedTableError) as error:
        database.open_database(project, only=["support"])
    assert error.value.path == tables.support_path("rlvr")


def test_unfinished_files_of_killed_runs_are_deleted(tmp_path: Path) -> None:
    atomic_io.write(tmp_path / "a.txt", "whole")
    for folder in (tmp_path, tmp_path / ".parts"):
        folder.mkdir(exist_ok=True)
        (folder / f"{atomic_io.UNFINISHED_PREFIX}a-x.txt").touch()
    atomic_io.delete_unfinished(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.txt"]


def test_dvc_ignores_unfinished_files() -> None:
    assert f"{atomic_io.UNFINISHED_PREFIX}*" in (ROOT / ".dvcignore").read_text().splitlines()


def test_samples_beyond_k_are_never_counted(project: Params) -> None:
    rows = [{**ROW, "sample": sample} for sample in range(40)]
    folder = tables.completions_folder("base", "chain")
    tables.write(folder / "a.parquet", tables.table_from_rows(rows, SCHEMA), SCHEMA)
    (folder / ".unfinished.parquet").write_bytes(b"")
    counted = database.open_database(project).sql("select count(*), max(sample) from completions").fetchall()
    assert counted == [(16, 15)]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    atomic_io.write(path, "before")

    def fail() -> None:
        with atomic_io.atomic_write(path) as unfinished:
            unfinished.write_text("half")
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        fail()
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def write_many_verdicts(files: int, samples: int = 8) -> Path:
    """Verdicts of one problem in several files; the folder."""
    folder = tables.verdicts_folder("base", "chain")
    rows = [{**VERDICT, "sample": sample} for sample in range(files * samples)]
    for i in range(files):
        part = tables.table_from_rows(rows[i * samples : (i + 1) * samples], tables.VERDICTS_SCHEMA)
        tables.write(folder / f"{i:03d}.parquet", part, tables.VERDICTS_SCHEMA)
    return folder


@pytest.mark.parametrize("number", [0, 1, 37, 71])
def test_one_damaged_file_among_many_is_refused(project: Params, number: int) -> None:
    """Whatever is damaged: here a verdict, in a file that Parquet's readers find in order."""
    file = write_many_verdicts(72, samples=1) / f"{number:03d}.parquet"
    assert database.open_database(project, only=["verdicts"]).table("verdicts").fetchall()
    changed = pq.read_table(file).set_column(4, "correct", pa.array([False]))
    atomic_io.write(file, tables.encode_parquet(changed, tables.VERDICTS_SCHEMA, pq.read_schema(file).metadata))
    with pytest.raises(tables.DamagedTableError) as error:
        database.open_database(project, only=["verdicts"])
    assert error.value.path == file


def test_completions_that_do_not_match_the_hash_in_their_name_are_refused(project: Params) -> None:
    """Completions have no checksum inside."""
    content = tables.encode_parquet(tables.table_from_rows([ROW], SCHEMA), SCHEMA)
    file = tables.completions_folder("base", "chain") / f"0.{atomic_io.bytes_hash(content)}.parquet"
    atomic_io.write(file, content)
    assert database.open_database(project, only=["completions"]).table("completions").fetchall()
    atomic_io.write(file, tables.encode_parquet(tables.table_from_rows([ROW | {"text": "u"}], SCHEMA), SCHEMA))
    with pytest.raises(tables.DamagedTableError) as error:
        database.open_database(project, only=["completions"])
    assert error.value.path == file


def test_a_query_checks_only_the_tables_that_it_reads(project: Params) -> None:
    file = write_many_verdicts(2) / "001.parquet"
    tables.write(tables.support_path("rlvr"), tables.SUPPORT_SCHEMA.empty_table(), tables.SUPPORT_SCHEMA)
    damage(file, "flip")
    run = CliRunner().invoke(main, ["query", "select count(*) from support"])
    assert run.exit_code == 0
    run = CliRunner().invoke(main, ["query", "with all_of_them as (from verdicts) select count(*) from all_of_them"])
    assert (run.exit_code, str(file) in run.output) == (2, True)


@pytest.mark.parametrize("where", ["verdicts", "completions"])
@pytest.mark.parametrize("files", [2, 72])
def test_a_sample_in_two_files_is_refused_by_name(project: Params, where: str, files: int) -> None:
    folders = {"verdicts": tables.verdicts_folder, "completions": tables.completions_folder}
    folder = folders[where]("base", "chain")
    schema, row = {"verdicts": (tables.VERDICTS_SCHEMA, VERDICT), "completions": (SCHEMA, ROW)}[where]
    for i in range(files):
        rows = [{**row, "problem_id": f"p{i // 8}", "sample": i % 8}, {**row, "problem_id": "q", "sample": 99}]
        tables.write(folder / f"{i:03d}.parquet", tables.table_from_rows(rows, schema), schema)
    # Samples beyond k (99) are in no count.
    assert database.open_database(project, only=[where]).table(where).fetchall()
    twice = tables.table_from_rows([{**row, "problem_id": "p0", "sample": 1}], schema)
    tables.write(folder / "copy.parquet", twice, schema)
    with pytest.raises(tables.RepeatedSampleError, match=r"sample 1 of p0") as error:
        database.open_database(project, only=[where])
    assert (error.value.problem_id, error.value.sample) == ("p0", 1)
    assert error.value.files == (folder / "001.parquet", folder / "copy.parquet")


def test_a_sample_that_is_twice_in_one_file_is_refused(project: Params) -> None:
    file = tables.verdicts_folder("base", "chain") / "a.parquet"
    rows = [{**VERDICT, "sample": sample} for sample in (0, 1, 3, 3)]
    tables.write(file, tables.table_from_rows(rows, tables.VERDICTS_SCHEMA), tables.VERDICTS_SCHEMA)
    with pytest.raises(tables.RepeatedSampleError) as error:
        database.open_database(project, only=["verdicts"])
    assert (error.value.sample, error.value.files) == (3, (file,))

"""Verdicts are few files, the same whatever happened before, and readers see each verdict once at any moment."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from leash import atomic_io, database, json_checksum, tables, verdict_files
from leash.params.groups import Params
from stages.cli import main
from stages.verify.stage import run
from tests.faults import damage
from tests.unit.test_verify import completions_table, fetch_problems, read_verdicts, write_completions

FOLDER, SAMPLES = tables.verdicts_folder("base", "chain"), 16


@pytest.fixture(autouse=True)
def _small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_files, "MAX_FILE_ROWS", 10)
    monkeypatch.setattr(verdict_files, "ROW_GROUP_ROWS", 4)


@pytest.fixture
def problems(project: Params) -> list[str]:
    return fetch_problems(project)


def write_samples(problems: list[str], begin: int, end: int, name: str) -> Path:
    """A shard of completions with these samples of the first problem, and as many of the second, in row groups of 4."""
    parts = [(problem, [f"so \\boxed{{ {i} }}" for i in range(begin, end)]) for problem in problems[:2]]
    rows = [row for problem, texts in parts for row in completions_table(problem, texts, begin).to_pylist()]
    schema, path = tables.COMPLETIONS_SCHEMA, tables.completions_folder("base", "chain") / f"{name}.parquet"
    content = tables.encode_parquet(tables.table_from_rows(rows, schema), schema, row_group_rows=4)
    atomic_io.write(path, content)
    return path


def verdicts_on_disk() -> dict[str, bytes]:
    return {str(path.relative_to(FOLDER)): path.read_bytes() for path in FOLDER.rglob("*") if path.is_file()}


def files_of_verdicts() -> dict[str, bytes]:
    return {name: content for name, content in verdicts_on_disk().items() if name.endswith(".parquet")}


def count(params: Params) -> int:
    connection = database.open_database(params, only=["verdicts"])
    found: int = connection.sql("select count(distinct (problem_id, sample)) from verdicts").fetchall()[0][0]
    assert connection.sql("select count(*) from verdicts").fetchall() == [(found,)]
    return found


def verify_from_nothing(params: Params) -> dict[str, bytes]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    run(params, "base", "chain")
    return verdicts_on_disk()


def test_files_have_a_range_of_the_sorted_verdicts_each(project: Params, problems: list[str]) -> None:
    write_samples(problems, 0, 7, "z")
    write_samples(problems, 7, SAMPLES, "a")
    assert run(project, "base", "chain") == 2 * SAMPLES
    files = tables.verdict_files("base", "chain")
    assert [pq.read_metadata(file).num_rows for file in files] == [10, 10, 10, 2]
    assert [pq.read_metadata(files[0]).row_group(i).num_rows for i in range(3)] == [4, 4, 2]
    keys = [(row["problem_id"], row["sample"]) for row in read_verdicts()]
    assert keys == sorted((problem, sample) for problem in problems[:2] for sample in range(SAMPLES))
    assert all(row["answer"] == str(row["sample"]) for row in read_verdicts())
    assert sorted(verdicts_on_disk()) == [*(file.name for file in files), tables.VERDICTS_MANIFEST_FILENAME]


def test_the_same_completions_give_the_same_files_whatever_came_before(project: Params, problems: list[str]) -> None:
    write_samples(problems, 0, 5, "a")
    run(project, "base", "chain")
    write_samples(problems, 10, SAMPLES, "c")
    assert run(project, "base", "chain") == 12
    gone = write_samples([*problems[2:], *problems], 0, 4, "b")
    run(project, "base", "chain")
    gone.unlink()
    write_samples(problems, 5, 10, "b2")
    assert run(project, "base", "chain") == 10
    assert run(project, "base", "chain") == 0
    step_by_step = verdicts_on_disk()
    assert step_by_step == verify_from_nothing(project)
    for shard in tables.shards(tables.completions_folder("base", "chain")):
        shard.unlink()
    write_samples(problems, 0, SAMPLES, "whole")
    before = files_of_verdicts()
    run(project, "base", "chain")
    assert files_of_verdicts() == before  # other shards, the same samples


@pytest.mark.parametrize("renewed", [False, True])
def test_a_kill_at_any_write_leaves_each_verdict_once_and_loses_no_part(
    project: Params, problems: list[str], monkeypatch: pytest.MonkeyPatch, renewed: bool
) -> None:
    """With every kill one more write or deletion succeeds, until the run ends."""
    write_samples(problems, 0, 8, "a")
    run(project, "base", "chain")
    write_samples(problems, 8, SAMPLES, "b")
    if renewed:  # no old verdict is right
        project = project.model_copy(update={"verify": project.verify.model_copy(update={"timeout": 9})})
    write, unlink, left = atomic_io.write, Path.unlink, 0

    def spend(act: Callable[..., None]) -> Callable[..., None]:
        def spending(*arguments: object, **options: object) -> None:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            act(*arguments, **options)

        return spending

    allowed, counts = 0, set()
    while True:
        allowed, left = allowed + 1, allowed
        parts = len(list(FOLDER.glob(".parts/*.parquet")))
        with monkeypatch.context() as patched:
            patched.setattr(atomic_io, "write", spend(write))
            patched.setattr(Path, "unlink", spend(unlink))
            try:
                run(project, "base", "chain")
                break
            except KeyboardInterrupt:
                counts.add(count(project))
        now = len(list(FOLDER.glob(".parts/*.parquet")))
        assert now >= parts or counts & {2 * SAMPLES}
    assert counts == {16, 2 * SAMPLES}
    assert allowed > 5
    assert count(project) == 2 * SAMPLES
    assert verdicts_on_disk() == verify_from_nothing(project)


def test_only_the_samples_of_a_damaged_file_are_verified_again(project: Params, problems: list[str]) -> None:
    write_samples(problems, 0, SAMPLES, "a")
    run(project, "base", "chain")
    before = verdicts_on_disk()
    for how in ("flip", "truncate", "empty"):
        damage(tables.verdict_files("base", "chain")[1], how)
        assert 10 <= run(project, "base", "chain") < 20
        assert verdicts_on_disk() == before
    tables.verdict_files("base", "chain")[2].unlink()
    with pytest.raises(tables.MissingTableError):
        database.open_database(project, only=["verdicts"])
    assert 10 <= run(project, "base", "chain") < 20
    assert verdicts_on_disk() == before


def test_files_that_the_manifest_does_not_name_are_not_counted_and_deleted(
    project: Params, problems: list[str]
) -> None:
    write_samples(problems, 0, SAMPLES, "a")
    run(project, "base", "chain")
    before = verdicts_on_disk()
    file = tables.verdict_files("base", "chain")[0]
    shutil.copy(file, file.with_name(f"z{file.name}"))
    shutil.copytree(FOLDER, FOLDER / ".parts")
    assert count(project) == 2 * SAMPLES
    assert run(project, "base", "chain") == 0
    assert verdicts_on_disk() == before


@pytest.mark.parametrize("how", ["flip", "truncate", "empty", "{}", "files", "path"])
def test_a_damaged_manifest_is_refused_and_made_again(project: Params, problems: list[str], how: str) -> None:
    write_samples(problems, 0, SAMPLES, "a")
    run(project, "base", "chain")
    before, manifest = verdicts_on_disk(), FOLDER / tables.VERDICTS_MANIFEST_FILENAME
    if how in ("flip", "truncate", "empty"):
        damage(manifest, how)
    else:
        files = {"files": [7], "path": ["../chain/a.parquet"], "{}": None}[how]
        content = {"made_from": "", "completions": [], "files": files} if files else {}
        manifest.write_text(json.dumps(json_checksum.with_checksum(content)))
    with pytest.raises(tables.DamagedTableError) as error:
        count(project)
    assert error.value.path == manifest
    assert run(project, "base", "chain") == 2 * SAMPLES
    assert verdicts_on_disk() == before


def test_a_lost_manifest_costs_no_grading(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("once.py").write_text(
        "def score(answer, gold, meta):\n    print(answer, file=open('graded', 'a'))\n    return answer == '1'\n"
    )
    write_samples(fetch_problems(project, "once:score"), 0, SAMPLES, "a")
    run(project, "base", "chain")
    before = verdicts_on_disk()
    graded = Path("graded").read_text()
    (FOLDER / tables.VERDICTS_MANIFEST_FILENAME).unlink()
    assert count(project) == 2 * SAMPLES
    assert run(project, "base", "chain") == 2 * SAMPLES
    assert verdicts_on_disk() == before
    assert Path("graded").read_text() == graded


def test_verdicts_of_an_earlier_version_are_made_again(project: Params, problems: list[str]) -> None:
    """It had a file for each shard, and no manifest."""
    shard = write_completions(problems[0], [r"\boxed{ 1 }", "?"])
    run(project, "base", "chain")
    (file,), expected = tables.verdict_files("base", "chain"), verdicts_on_disk()
    rows = tables.read(file, tables.VERDICTS_SCHEMA, "")
    shutil.rmtree(FOLDER)
    tables.write(FOLDER / shard.name, rows, tables.VERDICTS_SCHEMA, note={"made_from": "of an earlier version"})
    assert count(project) == 2
    assert run(project, "base", "chain") == 2
    assert verdicts_on_disk() == expected


def test_a_unit_of_work_is_a_row_group(project: Params, problems: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """So a large shard keeps several workers busy, and a kill costs little."""
    write_samples(problems, 0, SAMPLES, "a")
    added: list[int] = []
    add = verdict_files.VerdictFiles.add

    def record(self: verdict_files.VerdictFiles, *unit: object) -> None:
        add(self, *unit)  # type: ignore[arg-type]
        added.append(len(list(FOLDER.glob(".parts/*.parquet"))))

    monkeypatch.setattr(verdict_files.VerdictFiles, "add", record)
    run(project, "base", "chain")
    assert added == list(range(1, 9))


def test_completions_that_are_gone_have_no_verdicts(project: Params, problems: list[str]) -> None:
    write_samples(problems, 0, 10, "a")
    write_samples(problems, 10, 20, "b").rename(tables.completions_folder("base", "chain") / "c.parquet")
    run(project, "base", "chain")
    (tables.completions_folder("base", "chain") / "a.parquet").unlink()
    assert run(project, "base", "chain") == 0
    assert {row["sample"] for row in read_verdicts()} == set(range(10, 20))


def test_a_run_without_any_known_problem_can_be_killed_and_repeated(
    project: Params, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_samples(["gone", "lost"], 0, 8, "a")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(verdict_files, "write_files", die)
        with pytest.raises(KeyboardInterrupt):
            run(project, "base", "chain")
    for _ in range(2):
        assert run(project, "base", "chain") == 0
        assert count(project) == 0
    write_samples(problems, 0, 8, "b")
    assert run(project, "base", "chain") == 16
    assert count(project) == 16


def test_damaged_completions_are_refused_by_name(project: Params, problems: list[str]) -> None:
    shard = write_samples(problems, 0, 10, "a")
    shard = shard.rename(shard.with_name(f"a.{atomic_io.file_hash(shard)}.parquet"))
    damage(shard, "flip")
    with pytest.raises(tables.DamagedTableError) as error:
        run(project, "base", "chain")
    assert error.value.path == shard


def test_a_query_that_reads_no_verdicts_needs_no_manifest(project: Params, problems: list[str]) -> None:
    write_samples(problems, 0, 4, "a")
    run(project, "base", "chain")
    damage(FOLDER / tables.VERDICTS_MANIFEST_FILENAME, "flip")
    assert CliRunner().invoke(main, ["query", "select count(*) from completions"]).exit_code == 0
    refused = CliRunner().invoke(main, ["query", "select count(*) from verdicts"])
    assert (refused.exit_code, tables.VERDICTS_MANIFEST_FILENAME in refused.output) == (2, True)

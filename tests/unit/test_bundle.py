"""The bundle: unpacked in an empty folder it gives the report's numbers, and it reveals nothing private."""

from __future__ import annotations

import json
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from leash import tables
from leash.bundle.archive import BundleFileError, StaleReportError, shareable_yaml, write_bundle
from leash.errors import LeashError
from leash.params import loading
from stages.cli import main
from tests import made
from tests.conftest import yaml

PRIVATE = "/somewhere/private"
SERVER = "http://gpu-box.example:8000/v1"
# A manifest may have a password, though params.yaml no longer takes one.
OLDER = "http://me:hush@gpu-box.example:8000/v1"
QUESTION, TEXT = "QuestionOfALicence", "CompletionOfAModel"
CHANGES: dict[str, dict[str, Any]] = {
    "datasets": {"exam": {"imported": True, "grader": "exact", "path": f"{PRIVATE}/exam.jsonl"}},
    "sample": {"openai": {"url": SERVER}},
    "categorize": {"units": ["problem", "answer", "completion"]},
}
LOCK = f"stages:\n  fetch:\n    params:\n      params.yaml: {{datasets.exam: {{path: {PRIVATE}/exam.jsonl}}}}\n"
FACTS = {"engines": ["openai 3"], "fingerprint": {"server": OLDER}, "files": []}


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run and its report, with a path and a server in its parameters and a password in its facts. Tests work in
    copies of it."""
    folder = tmp_path_factory.mktemp("reported")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        params = made.parameters(folder, 64, less=32, **CHANGES)
        made.write(params, 40, question=QUESTION, text=TEXT, carried=4)
        folder.joinpath("dvc.lock").write_text(LOCK)
        (tables.verdicts_folder("mine", "exam") / "sampling.json").write_text(json.dumps(FACTS))
        made.reported(params)
    return folder


@pytest.fixture
def run(reported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "run"
    shutil.copytree(reported, folder)
    monkeypatch.chdir(folder)
    return folder


def leash(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    return result.stderr


def unpacked(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = bundle.parent / "unpacked"
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(folder)
    monkeypatch.chdir(folder)
    return folder


def numbers(folder: Path) -> Any:
    return json.loads((folder / "reports" / "metrics.json").read_text())["pairs"]["tuned"]


def with_epsilon(folder: Path, epsilon: float) -> None:
    raw = yaml.load((folder / "params.yaml").read_text())
    raw["categorize"]["epsilon"] = epsilon
    with (folder / "params.yaml").open("w") as file:
        yaml.dump(raw, file)


def written(bundle: Path) -> dict[str, str]:
    """Every file of a bundle as text, whatever it is made of."""
    with zipfile.ZipFile(bundle) as archive:
        return {name: _text(archive, name) for name in archive.namelist()}


def _text(archive: zipfile.ZipFile, name: str) -> str:
    with archive.open(name) as file:
        return (
            str(pq.read_table(file).to_pylist())
            if name.endswith(".parquet")
            else file.read().decode("utf-8", "replace")
        )


@pytest.mark.usefixtures("undrawn")
def test_in_an_empty_folder_it_gives_the_numbers_of_the_report(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = leash("bundle", "../appendix.zip")
    assert output.startswith("../appendix.zip: ")
    assert output.endswith(" MB; its README.txt lists them.\n")
    folder = unpacked(run.parent / "appendix.zip", monkeypatch)
    assert not (folder / "data" / "completions").exists()

    before = numbers(folder)
    compared = json.loads(leash("compare", "counts/tuned.csv", "--json"))
    assert compared["categories"] == {name: before[name] for name in "PESO"}
    assert min(before[name] for name in "PES") > 0
    assert compared["NSCR"]["low"] == pytest.approx(before["intervals"]["NSCR"]["low"], rel=1e-5)

    leash("categorize")
    leash("report")
    assert numbers(folder) == before


def test_another_epsilon_gives_what_it_gives_in_the_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leash("bundle", "--without-texts", "../appendix.zip")
    there = unpacked(run.parent / "appendix.zip", monkeypatch)
    for folder in (there, run):
        monkeypatch.chdir(folder)
        with_epsilon(folder, 0.2)
        leash("categorize")
    name = tables.support_path("tuned")
    assert (there / name).read_bytes() == (run / name).read_bytes()
    assert pq.read_table(name)["epsilon"].to_pylist()[0] == 0.2


def test_the_same_run_gives_the_same_bytes_also_through_links(run: Path) -> None:
    leash("bundle")
    first = Path("bundle.zip").read_bytes()
    shard = run / tables.verdicts_folder("mine", "exam") / "a.parquet"
    shard.rename(run.parent / "cached")
    shard.symlink_to(run.parent / "cached")
    leash("bundle")
    assert Path("bundle.zip").read_bytes() == first
    with zipfile.ZipFile("bundle.zip") as archive:
        assert archive.namelist() == sorted(archive.namelist())
        assert {info.date_time[0] for info in archive.infolist()} == {1980}
        assert all(stat.S_ISREG(info.external_attr >> 16) for info in archive.infolist())
        assert not [name for name in archive.namelist() if name.startswith("/") or ".." in name]


def test_nothing_of_this_machine_is_in_it(run: Path) -> None:
    leash("bundle")
    for name, text in written(Path("bundle.zip")).items():
        for secret in (PRIVATE, "hush", "gpu-box", str(run)):
            assert secret not in text, name
    kept = written(Path("bundle.zip"))
    assert yaml.load(kept["params.yaml"])["sample"]["openai"]["url"] == "http://…/v1"
    assert kept["dvc.lock"].count("exam.jsonl") == 1


def test_parameters_without_paths_stay_as_they_were_written(run: Path) -> None:
    for text, same in (("a: 1 # of b\n", True), ("a: /b/c/d\n", False), ("a: 1 # in /b/c/d\n", False)):
        Path("some.yaml").write_text(text)
        assert (shareable_yaml(Path("some.yaml")) == text) is same
        assert "/b/c" not in shareable_yaml(Path("some.yaml"))


def test_texts_are_in_the_bundle_and_announced_or_left_out(run: Path) -> None:
    leash("bundle", "with.zip")
    leash("bundle", "without.zip", "--without-texts")
    full, bare = written(Path("with.zip")), written(Path("without.zip"))
    assert full.keys() - bare.keys() == {"reports/index.html"}
    assert TEXT in full["reports/index.html"]
    assert TEXT in full["reports/decisive_hits.csv"]
    assert QUESTION in full["data/problems/exam.parquet"]
    assert "carries texts" in full["README.txt"]
    assert "carries no question" in bare["README.txt"]
    assert not [name for name, text in bare.items() if TEXT in text or QUESTION in text]
    assert bare["reports/decisive_hits.csv"].count("\n") == full["reports/decisive_hits.csv"].count("\n")


def test_tests_of_programs_and_images_stay_out(run: Path) -> None:
    path = tables.problems_path("exam")
    rows = tables.read(path, tables.PROBLEMS_SCHEMA, "").to_pylist()
    rows[0] |= {"gold": ["t" * 50_000], "images": [b"\x89PNG"], "meta": json.dumps({"starter": "s" * 50_000})}
    tables.write(path, tables.table_from_rows(rows, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA)
    leash("bundle")
    with zipfile.ZipFile("bundle.zip") as archive, archive.open(path.as_posix()) as file:
        first, second = pq.read_table(file).to_pylist()[:2]
    assert (first["gold"], first["images"], first["meta"]) == ([], None, "{}")
    assert second["gold"] == ["7"]


@pytest.mark.parametrize(
    ("missing", "command"),
    [
        ("reports/metrics.json", "dvc repro"),
        ("reports/index.html", "leash report"),
        ("data/analysis/tuned.json", "leash categorize"),
        ("data/problems/quiz.parquet", "leash fetch quiz"),
        ("data/verdicts/mine/quiz", "leash verify mine quiz"),
        ("data/perplexity/tuned/quiz.parquet", "leash perplexity"),
    ],
)
def test_a_missing_file_is_named_with_its_command_and_nothing_is_written(run: Path, missing: str, command: str) -> None:
    Path("bundle.zip").write_text("an older one")
    shutil.rmtree(missing) if Path(missing).is_dir() else Path(missing).unlink()
    before = sorted(run.iterdir())
    message = refused("bundle")
    assert f"`{command}`" in message
    assert missing in message or "verdicts for mine on quiz" in message
    assert Path("bundle.zip").read_text() == "an older one"
    assert sorted(run.iterdir()) == before


@pytest.mark.parametrize("missing", ["reports/metrics.json", "reports/summary.json", "data/analysis/tuned.json"])
def test_a_missing_file_is_an_error_with_its_path(run: Path, missing: str) -> None:
    Path(missing).unlink()
    with pytest.raises(BundleFileError) as error:
        write_bundle(loading.load(), Path("params.yaml"), Path("bundle.zip"))
    assert error.value.path == Path(missing)


def _other_epsilon() -> None:
    with_epsilon(Path(), 0.2)


def _other_support() -> None:
    with_epsilon(Path(), 0.2)
    leash("categorize")
    with_epsilon(Path(), 0)


def _damage() -> None:
    Path("reports/metrics.json").write_text("{}")


@pytest.mark.parametrize(
    ("change", "kind", "facts"),
    [
        (_other_epsilon, StaleReportError, {"group": "categorize"}),
        (_other_support, BundleFileError, {"path": Path("reports/metrics.json"), "command": "leash report"}),
        (_damage, BundleFileError, {"path": Path("reports/metrics.json"), "command": "leash report"}),
    ],
)
def test_a_report_of_another_run_is_not_bundled(
    run: Path, change: Callable[[], None], kind: type[LeashError], facts: dict[str, Any]
) -> None:
    change()
    with pytest.raises(kind) as error:
        write_bundle(loading.load(), Path("params.yaml"), Path("bundle.zip"))
    assert vars(error.value) == facts
    assert not Path("bundle.zip").exists()


def test_a_name_that_is_no_zip_is_refused(run: Path) -> None:
    before = Path("params.yaml").read_bytes()
    message = refused("bundle", "params.yaml")
    assert "params.yaml" in message
    assert "ends in .zip" in message
    assert Path("params.yaml").read_bytes() == before

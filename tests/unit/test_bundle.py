"""The bundle: unpacked in an empty folder it gives the report's numbers, and it reveals nothing private."""

from __future__ import annotations

import itertools
import json
import shutil
import stat
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from leash import tables
from leash.bundle.archive import BundleFileError, StaleReportError, shareable_yaml, write_bundle
from leash.bundle.pseudonyms import encode_mass, encode_verdicts, number_answers, number_completions
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
    pictures = {f"reports/figures/answers.{suffix}" for suffix in ("png", "svg")}
    hits = {f"reports/tables/reach_hits.{suffix}" for suffix in ("csv", "md")}
    assert full.keys() - bare.keys() == {"reports/index.html"} | pictures | hits
    assert TEXT in full["reports/index.html"]
    assert TEXT in full["reports/decisive_hits.csv"]
    assert QUESTION in full["data/problems/exam.parquet"]
    assert "carries texts" in full["README.txt"]
    assert "carries no question" in bare["README.txt"]
    assert not [name for name, text in bare.items() if TEXT in text or QUESTION in text]
    assert bare["reports/decisive_hits.csv"].count("\n") == full["reports/decisive_hits.csv"].count("\n")


def vary_answers() -> None:
    """Give problems several right answers, some of which are wrong for others, in two spellings, and quote flaws."""
    for model, dataset in itertools.product(made.MODELS, made.DATASETS):
        path = tables.verdicts_folder(model, dataset) / "a.parquet"
        rows = tables.read(path, tables.VERDICTS_SCHEMA, "").to_pylist()
        for row in rows:
            problem, sample = int(row["problem_id"][-4:]), row["sample"]
            number = 10 * (problem % 4) + (sample * 7 + len(model)) % 3 if row["correct"] else (sample * 5) % 40 + 3
            row |= {"answer": f"{'Secret' if sample % 2 else 'SECRET'} {number}", "answer_class": f"secret-{number}"}
            row |= {"flaw": row["flaw"] and f"{number} + 1 = secret"}
            if row["candidate"]:
                row |= {"candidate": f"Secret {10 * (problem % 4)}", "candidate_class": f"secret-{10 * (problem % 4)}"}
        content = tables.table_from_rows(rows, tables.VERDICTS_SCHEMA)
        tables.write(path, content, tables.VERDICTS_SCHEMA)


@pytest.mark.usefixtures("undrawn")
def test_without_texts_no_answer_is_in_it_and_its_numbers_are_the_same(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vary_answers()
    for command in ("categorize", "report"):
        leash(command)
    leash("bundle", "../appendix.zip", "--without-texts")
    kept = written(run.parent / "appendix.zip")
    assert not [name for name, text in kept.items() if "secret" in text.lower() or made.FLAW in text]
    assert "answer 17" in kept["data/verdicts/mine/exam/a.parquet"]
    assert "nothing is hashed" in kept["README.txt"]

    supports = [tables.support_path("tuned", unit) for unit in ("problem", "answer")]
    before, rows = numbers(run), pq.read_table(supports[1]).num_rows
    assert rows > 20
    there = unpacked(run.parent / "appendix.zip", monkeypatch)
    packed = [path.read_bytes() for path in supports]
    leash("categorize")
    leash("report")
    assert numbers(there) == before
    assert [path.read_bytes() for path in supports] == packed
    assert pq.read_table(supports[0]) == pq.read_table(run / supports[0])


def test_equal_answers_have_equal_numbers_and_the_numbers_do_not_follow_the_spelling(run: Path) -> None:
    vary_answers()
    path = tables.verdicts_folder("tuned", "exam") / "a.parquet"
    answers = number_answers(loading.load(), "exam")
    plain = tables.read(path, tables.VERDICTS_SCHEMA, "").to_pylist()
    hidden = pq.read_table(BytesIO(encode_verdicts(path, answers))).to_pylist()
    named = {(old["answer_class"], new["answer_class"]) for old, new in zip(plain, hidden, strict=True)}
    named |= {(o["candidate_class"], n["candidate_class"]) for o, n in zip(plain, hidden, strict=True)}
    assert len(named) == len(dict(named)) == len(set(dict(named).values())) > 20
    order = [int(name.split()[1]) for _, name in sorted(pair for pair in named if pair[0])]
    assert order != sorted(order)
    texts = ("answer", "answer_class", "candidate", "candidate_class", "flaw")
    for old, new in zip(plain, hidden, strict=True):
        assert [old[name] is None for name in texts[:-1]] == [new[name] is None for name in texts[:-1]]
        assert {**old, **dict.fromkeys(texts)} == {**new, **dict.fromkeys(texts)}


def test_completions_are_not_named_by_their_hashes(run: Path) -> None:
    """A short completion, such as an answer alone, would be found by hashing all that it could be."""
    path = tables.mass_path("tuned", "exam")
    rows = [
        {"problem_id": "exam-0001", "completion": f"{10**15 - first:016}", "hits": 1, "first": first}
        | {"key": f"{first:016}", "tokens": 3, "nll": 1.0 + first, "decoding_nll": 1.0}
        for first in range(20)
    ]
    rows = sorted(rows, key=lambda row: str(row["completion"]))
    tables.write(path, tables.table_from_rows(rows, tables.MASS_SCHEMA), tables.MASS_SCHEMA)
    hidden = pq.read_table(BytesIO(encode_mass(path, number_completions(loading.load(), "exam")))).to_pylist()
    assert {row["completion"]: row["first"] for row in hidden} == {f"completion {i + 1}": i for i in range(20)}
    assert [row["completion"] for row in hidden] == sorted(row["completion"] for row in hidden)
    assert {row["key"] for row in hidden} == {""}


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

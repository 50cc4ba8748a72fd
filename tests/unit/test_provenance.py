"""Provenance: what the numbers were made of is told, and nothing of the machine they were made on."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from leash import database, tables
from leash.params import loading
from leash.params.groups import Params
from leash.report import audit
from leash.report.provenance import collect_provenance, git_state, redact_paths_and_hosts
from leash.sampling import metadata
from stages.cli import main
from stages.fetch import stage
from stages.sample import stage as sample
from tests.conftest import small, write_params

KEY = "sk-3f9d0c1e7a-planted"


def drawn(asked: Params) -> None:
    """Real samples, few and short, with their verdicts as `leash verify` leaves them."""
    for dataset in asked.run.datasets:
        stage.run(asked, dataset)
        for model in asked.run.models:
            sample.run(asked, model, dataset)
            done = CliRunner().invoke(main, ["verify", model, dataset])
            assert done.exit_code == 0, done.output


def told(asked: Params) -> dict[str, Any]:
    with database.open_database(asked, only=["verdicts"]) as connection:
        found = collect_provenance(asked, audit.count_statuses(connection))
    return dict(json.loads(json.dumps(found, allow_nan=False)))


@pytest.fixture
def short(project: Params) -> Params:
    asked = small(run={"models": ["base", "rlvr"], "datasets": ["chain"], "pairs": ["rlvr"], "processes": 1})
    asked["sample"] |= {"k": 2, "batch": 8}
    asked["sample"]["openai"] = {"url": "https://inside.example.org:8443/v1", "key": "PLANTED_API_KEY"}
    return write_params(Path(), asked)


def test_everything_that_makes_a_number_is_told(short: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_API_KEY", KEY)
    drawn(short)
    found = told(short)
    assert found["decoding"] == {"temperature": 1.0, "top_p": 1.0, "max_tokens": 72, "seed": 0}
    assert found["engines"] == [f"torch {version('torch')}"]
    assert found["packages"]["duckdb"] == version("duckdb")
    assert found["models"]["base"]["path"] == "models/embedded/base"
    assert found["models"]["base"]["weights"] != found["models"]["rlvr"]["weights"]
    assert found["datasets"]["chain"]["problems"] == 4
    assert [row["model"] for row in found["samples"]] == ["base", "rlvr"]
    for row in found["samples"]:
        assert row["completions"] == 8 == sum(row[n] for n in ("correct", "wrong", "no_answer", "truncated"))
        assert row["fingerprint"]["temperature"] == "1.0"
    assert found["params"]["sample"]["k"] == 2
    assert set(found["params"]["run"]) == {"models", "datasets", "pairs"}
    text = json.dumps(found, ensure_ascii=False)
    for planted in (KEY, "inside.example.org", str(Path.cwd()), str(Path.home()), socket.gethostname()):
        assert planted not in text


def test_verdicts_alone_are_enough(short: Params) -> None:
    drawn(short)
    before = told(short)
    shutil.rmtree(tables.DATA_DIR / "completions")
    assert told(short) == before


def test_what_is_not_known_is_null(short: Params) -> None:
    drawn(short)
    shutil.rmtree(tables.DATA_DIR / "completions")
    for file in tables.DATA_DIR.rglob(metadata.SAMPLING_FILENAME):
        file.unlink()
    found = told(short)
    assert found["engines"] == []
    assert found["models"]["rlvr"]["weights"] is None
    assert found["samples"][0]["fingerprint"] is None
    assert found["samples"][0]["completions"] == 8


def test_facts_beside_verdicts_make_no_verdict_again(short: Params) -> None:
    """Those of a run that was verified before are added, and nothing else is touched."""
    drawn(short)
    folder = tables.verdicts_folder("base", "chain")
    kept = {path.name: path.stat().st_mtime_ns for path in tables.shards(folder)}
    (folder / metadata.SAMPLING_FILENAME).unlink()
    done = CliRunner().invoke(main, ["verify", "base", "chain"])
    assert "0 completions verified" in done.stdout
    assert (folder / metadata.SAMPLING_FILENAME).exists()
    assert {path.name: path.stat().st_mtime_ns for path in tables.shards(folder)} == kept


def test_where_a_data_set_was_read_is_told_without_the_path_to_it(short: Params, tmp_path: Path) -> None:
    exam = tmp_path / "somebody" / "exam.csv"
    exam.parent.mkdir()
    exam.write_text("question,answer\ncompute 3 + 4 :,7\n")
    raw = small(run={"models": ["base", "rlvr"], "datasets": ["exam"], "pairs": ["rlvr"], "processes": 1})
    raw["datasets"]["exam"] = {"path": str(exam), "grader": "math"}
    raw["sample"] |= {"k": 2}
    asked = write_params(Path(), raw)
    drawn(asked)
    found = told(asked)
    assert found["datasets"]["exam"]["source"]["file"] == "…/exam.csv"
    assert len(found["datasets"]["exam"]["source"]["hash"]) == 16
    assert found["params"]["datasets"]["exam"]["path"] == "…/exam.csv"
    assert "somebody" not in json.dumps(found)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("/home/jane doe/runs/step-500", "…/step-500"),
        ("~/runs/step-500/", "…/step-500"),
        (r"C:\Users\jane\model", "…/model"),
        ("pretrained=/home/jane/model,dtype=auto", "pretrained=…/model,dtype=auto"),
        ("http://gpu-7.lab:8000/v1", "http://…/v1"),
        ("models/embedded/base", "models/embedded/base"),
        ("my-lab/base-1b@main", "my-lab/base-1b@main"),
        ("data/test-*.parquet", "data/test-*.parquet"),
        ("Choose true and/or false.", "Choose true and/or false."),
    ],
)
def test_paths_and_hosts_are_shortened_and_names_are_not(said: str, kept: str) -> None:
    assert redact_paths_and_hosts({"model": [said]}) == {"model": [kept]}


def run_git(*arguments: str) -> str:
    named = ["git", "-c", "user.name=nobody", "-c", "user.email=nobody@example.org", *arguments]
    return subprocess.run(named, check=True, capture_output=True, text=True).stdout.strip()


def test_the_revision_is_the_last_that_made_a_difference(project: Params) -> None:
    run_git("init", "--quiet")
    assert git_state() == {"revision": None, "changed": None}
    run_git("add", "params.yaml", "models")
    run_git("commit", "--quiet", "-m", "what is measured")
    made = {"revision": run_git("rev-parse", "HEAD"), "changed": False}
    assert git_state() == made
    Path("notes.txt").write_text("not code")
    run_git("add", "notes.txt")
    run_git("commit", "--quiet", "-m", "something else")
    assert git_state() == made
    write_params(Path(), small(sample={"k": 3}))
    assert git_state() == {**made, "changed": True}
    assert loading.load().sample.k == 3


def test_outside_of_git_and_without_it_there_is_no_revision(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git_state() == {"revision": None, "changed": None}
    monkeypatch.setenv("PATH", "")
    assert git_state() == {"revision": None, "changed": None}

"""The real DAG in a temporary repo: what runs, what does not, and what comes out.

One repo is carried through the file: each test changes something and looks at what `dvc repro` does about it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT, small, write_params

CHECKS = sorted((Path(__file__).parent / "checks").glob("*.sql"))


def shell(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ran(output: str) -> list[str]:
    """The stages that `dvc repro` ran, without the data set or model they ran for."""
    return list(dict.fromkeys(re.findall(r"Running stage '([^'@]+)", output)))


def new_repo(folder: Path) -> Path:
    """The project's pipeline, code and weights, as git has them, in a repo of its own."""
    files = shell("git", "ls-files", "dvc.yaml", "dvc.lock", "stages", "models", ".dvc", ".dvcignore", cwd=ROOT)
    for name in files.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shell("git", "init", "--quiet", cwd=folder)
    shutil.copy(ROOT / "params.yaml", folder)
    # The weights in git are those of the recipe in git: a clone skips training. If this fails, the recipe was edited:
    # run `dvc repro train`, or `dvc commit train` where the edit can't change a weight.
    assert "up to date" in shell("dvc", "status", "train", cwd=folder)
    return folder


def reproduce(folder: Path, **changes: dict[str, Any]) -> list[str]:
    write_params(folder, small(**changes))
    return ran(shell("dvc", "repro", cwd=folder))


def rows(folder: Path) -> list[dict[str, Any]]:
    """A growing table, whatever its shards."""
    table = pa.concat_tables(pq.read_table(path) for path in folder.rglob("[!.]*.parquet"))
    found: list[dict[str, Any]] = table.sort_by([("problem_id", "ascending"), ("sample", "ascending")]).to_pylist()
    return found


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = new_repo(tmp_path_factory.mktemp("repo"))
    stages = reproduce(folder)
    assert stages == ["fetch", "sample", "verify", "categorize", "perplexity", "entropy", "report"]
    return folder


@pytest.fixture(scope="module")
def query(repo: Path) -> Callable[[str], str]:
    return lambda sql: shell("leash", "query", sql, cwd=repo)


def test_a_second_run_does_nothing(repo: Path) -> None:
    assert reproduce(repo) == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda path: path.stem)
def test_data(repo: Path, check: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check is a query over the tables that must return no row."""
    from stages import params, tables

    monkeypatch.chdir(repo)
    assert tables.query(tables.database(params.load()), check).to_pylist() == []


def test_report_is_complete(repo: Path) -> None:
    metrics = json.loads((repo / "reports" / "metrics.json").read_text())["rlvr"]
    assert sum(metrics[name] for name in "PESO") == 10
    assert {"SRR", "NDR", "SDS", "NSCR", "base_pass@1", "rlvr_pass@16"} <= set(metrics)
    for name in ("pass_at_k", "support_map", "categories", "comparison", "perplexity", "entropy"):
        for suffix in (".png", ".svg"):
            assert (repo / "reports" / "figures" / name).with_suffix(suffix).stat().st_size > 1000
    for name in ("metrics", "pass_at_k", "comparison", "perplexity", "entropy"):
        assert (repo / "reports" / "tables" / f"{name}.csv").read_text().count("\n") > 1
        assert (repo / "reports" / "tables" / f"{name}.md").read_text().startswith("| ")
    page = (repo / "reports" / "index.html").read_text()
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!data:)', page)


def test_dvc_shows_metrics_and_plots(repo: Path) -> None:
    assert "rlvr.NSCR" in shell("dvc", "metrics", "show", "--md", cwd=repo)
    shell("dvc", "plots", "show", "-o", "plots", cwd=repo)
    assert "pass_at_k" in (repo / "plots" / "index.html").read_text()


def test_epsilon_runs_categorize_and_what_follows(repo: Path) -> None:
    before = json.loads((repo / "reports" / "metrics.json").read_text())["rlvr"]
    assert reproduce(repo, categorize={"epsilon": 0.2}) == ["categorize", "perplexity", "report"]
    after = json.loads((repo / "reports" / "metrics.json").read_text())["rlvr"]
    assert (before["epsilon"], after["epsilon"]) == (0.0, 0.2)
    assert after["O"] > before["O"]
    assert reproduce(repo, categorize={"epsilon": "auto"}) == ["categorize", "perplexity", "report"]
    assert json.loads((repo / "reports" / "metrics.json").read_text())["rlvr"]["epsilon"] == pytest.approx(
        0.187, abs=1e-3
    )


def test_report_parameters_run_report_alone(repo: Path) -> None:
    reproduce(repo)
    assert reproduce(repo, report={"title": "Another <b>title</b>"}) == ["report"]
    assert "Another &lt;b&gt;title&lt;/b&gt;" in (repo / "reports" / "index.html").read_text()


def test_more_k_draws_only_the_new_samples(repo: Path) -> None:
    completions = repo / "data" / "completions" / "rlvr" / "make"
    before = {path.name: path.read_bytes() for path in completions.glob("*.parquet")}
    old = rows(completions)
    assert "sample" in reproduce(repo, sample={"k": 24, "batch": 64})
    assert {path.name: path.read_bytes() for path in completions.glob("*.parquet") if path.name in before} == before
    new = rows(completions)
    assert len(new) == len(old) * 24 // 16
    assert [row for row in new if row["sample"] < 16] == old
    assert json.loads((repo / "reports" / "metrics.json").read_text())["rlvr"]["k"] == 24


def test_less_k_throws_nothing_away_and_leaks_nothing_in(repo: Path) -> None:
    completions = repo / "data" / "completions" / "rlvr" / "make"
    kept = rows(completions)
    reproduce(repo, sample={"k": 4, "batch": 64}, entropy={"samples": 4})
    assert rows(completions) == kept
    metrics = json.loads((repo / "reports" / "metrics.json").read_text())["rlvr"]
    assert metrics["k"] == 4
    assert "base_pass@4" in metrics
    assert "base_pass@8" not in metrics


def test_the_number_of_processes_changes_nothing(repo: Path, tmp_path: Path) -> None:
    """Sampled and verified by hand with one process and another batch size: the same verdicts."""
    reproduce(repo)
    other = new_repo(tmp_path)
    changes: dict[str, dict[str, Any]] = {
        "run": {"models": ["base"], "pairs": ["same"], "processes": 1},
        "sample": {"k": 16, "batch": 50},
    }
    write_params(other, small(pairs={"same": {"base": "base", "rlvr": "base"}}, **changes))
    for command in (["fetch", "make"], ["sample", "base", "make"], ["verify", "base", "make"]):
        shell("leash", *command, cwd=other)
    place = Path("data") / "verdicts" / "base" / "make"
    assert rows(other / place) == [row for row in rows(repo / place) if row["sample"] < 16]


def test_another_temperature_is_refused_and_nothing_is_lost(repo: Path) -> None:
    write_params(repo, small(sample={"k": 16, "batch": 64, "temperature": 0.6}))
    kept = rows(repo / "data" / "completions" / "base" / "chain")
    done = subprocess.run(["leash", "sample", "base", "chain"], cwd=repo, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "another temperature" in done.stderr
    assert "leash sample base chain --resample" in done.stderr
    assert rows(repo / "data" / "completions" / "base" / "chain") == kept


def test_query_sees_every_table(repo: Path, query: Callable[[str], str]) -> None:
    reproduce(repo)
    for table in ("problems", "completions", "verdicts", "support", "perplexity", "entropy"):
        assert "0" not in query(f"select (count(*) > 0)::int as there from {table}").splitlines()[-2]


def test_a_data_set_of_ones_own_goes_all_the_way(tmp_path: Path) -> None:
    """Questions and answers from a CSV file, a pair that is the same model twice, no reference traces."""
    folder = new_repo(tmp_path)
    (folder / "exam.csv").write_text("problem,answer\ncompute 3 + 4 :,7\ncompute 9 + 4 - 2 :,11\n")
    raw = small(
        run={"models": ["base"], "datasets": ["exam"], "pairs": ["self"], "processes": 1},
        sample={"k": 8, "batch": 64},
    )
    raw["pairs"]["self"] = {"base": "base", "rlvr": "base", "training": "other"}
    raw["datasets"]["exam"] = {"path": "exam.csv", "question": "problem", "answer": "answer", "grader": "math"}
    write_params(folder, raw)
    output = shell("dvc", "repro", cwd=folder)
    assert ran(output) == ["fetch", "sample", "verify", "categorize", "perplexity", "entropy", "report"]
    metrics = json.loads((folder / "reports" / "metrics.json").read_text())["self"]
    assert metrics["P"] == 2
    assert metrics["base_pass@1"] == metrics["rlvr_pass@1"] > 0
    assert (metrics["E"], metrics["S"], metrics["SRR"], metrics["NDR"]) == (0, 0, 1, 0)


def test_an_adaptive_run_sorts_problems_as_the_full_one_does(repo: Path, tmp_path: Path) -> None:
    """One hit decides at epsilon 0. Entropies are there once every problem has the samples they are measured on."""
    reproduce(repo, entropy={"samples": 8})
    full = json.loads((repo / "reports" / "metrics.json").read_text())["rlvr"]
    everything = [row for row in rows(repo / "data" / "completions") if row["sample"] < 16]
    folder = new_repo(tmp_path)
    stages = reproduce(folder, sample={"stop_after": 1}, entropy={"samples": 8})
    assert stages == ["fetch", "sample", "verify", "categorize", "perplexity", "entropy", "report"]
    early = json.loads((folder / "reports" / "metrics.json").read_text())["rlvr"]
    counts = ("k", "epsilon", "P", "E", "S", "O", "SRR", "NDR", "SDS", "NSCR")
    entropies = [f"{role}_{name}" for role in ("base", "rlvr") for name in ("token_entropy", "answer_entropy")]
    assert {name: early[name] for name in counts} == {name: full[name] for name in counts}
    assert [early[name] for name in entropies] == [None] * 4
    drawn = rows(folder / "data" / "completions")
    assert len(drawn) < len(everything)
    assert all(row in everything for row in drawn)

    assert "entropy" in reproduce(folder, sample={"stop_after": 1, "floor": 8}, entropy={"samples": 8})
    floored = json.loads((folder / "reports" / "metrics.json").read_text())["rlvr"]
    assert {name: floored[name] for name in counts} == {name: full[name] for name in counts}
    assert [floored[name] for name in entropies] == pytest.approx([full[name] for name in entropies])
    assert len(drawn) < len(rows(folder / "data" / "completions")) < len(everything)


def test_the_papers_parameters_make_a_pipeline_of_tens_of_stages(tmp_path: Path) -> None:
    folder = new_repo(tmp_path)
    shutil.copy(ROOT / "params.paper.yaml", folder / "params.yaml")
    stages = shell("dvc", "stage", "list", "--name-only", cwd=folder).splitlines()
    assert "sample@prorl-1.5b-v1-aime24" in stages
    assert len(stages) == 35
    assert "up to date" in shell("dvc", "status", "train", cwd=folder)

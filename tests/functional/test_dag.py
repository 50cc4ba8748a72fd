"""The real DAG in a temporary repo: what runs, what does not, and what comes out.

One repo is carried through the file: each test changes something and looks at what `dvc repro` does about it.
"""

from __future__ import annotations

import html
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leash.params.groups import Params
from stages.fetch import stage
from stages.sample import stage as sample
from stages.verify import stage as verify
from tests import made
from tests.conftest import ROOT, small, write_params
from tests.functional.conftest import asked, ran, run, shell

STAGES = ["fetch", "sample", "verify", "reasoning", "mass", "reach", "categorize", "perplexity", "entropy", "report"]
CHECKS = sorted((Path(__file__).parent / "checks").glob("*.sql"))


def new_repo(prepared: Path, folder: Path) -> Path:
    """A copy of the prepared repo."""
    shutil.copytree(prepared, folder, dirs_exist_ok=True, symlinks=True)
    return folder


def reproduce(folder: Path, *targets: str, **changes: dict[str, Any]) -> list[str]:
    write_params(folder, asked(**changes))
    return ran(shell("dvc", "repro", *targets, cwd=folder))


def rows(folder: Path) -> list[dict[str, Any]]:
    """A growing table, whatever its shards."""
    table = pa.concat_tables(pq.read_table(path) for path in folder.rglob("[!.]*.parquet"))
    found: list[dict[str, Any]] = table.sort_by([("problem_id", "ascending"), ("sample", "ascending")]).to_pylist()
    return found


@pytest.fixture(scope="module")
def repo(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_repo(finished, tmp_path_factory.mktemp("repo"))


def test_a_first_run_goes_through_all_stages(finished: Path) -> None:
    assert ran(finished.with_suffix(".log").read_text()) == STAGES


def test_a_second_run_does_nothing(repo: Path) -> None:
    assert reproduce(repo) == []


@pytest.mark.parametrize("check", CHECKS, ids=lambda path: path.stem)
def test_data(repo: Path, check: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check is a query over the tables that must return no row."""
    from leash import database
    from leash.params import loading

    monkeypatch.chdir(repo)
    assert database.query(database.open_database(loading.load()), check).to_pylist() == []


def test_report_is_complete(repo: Path) -> None:
    metrics = json.loads((repo / "reports" / "metrics.json").read_text())["pairs"]["rlvr"]
    assert sum(metrics[name] for name in "PESO") == 6
    assert {"SRR", "NDR", "SDS", "NSCR", "base_pass@1", "rlvr_pass@16"} <= set(metrics)
    for name in ("pass_at_k", "support_map", "categories", "trajectory", "perplexity", "entropy"):
        for suffix in (".png", ".svg"):
            assert (repo / "reports" / "figures" / name).with_suffix(suffix).stat().st_size > 1000
    support = ("by_domain", "by_dataset", "pass_at_k", "trajectory", "masses", "completions")
    for name in (*support, "perplexity", "style", "entropy"):
        assert (repo / "reports" / "tables" / f"{name}.csv").read_text().count("\n") > 1
        assert (repo / "reports" / "tables" / f"{name}.md").read_text().startswith("| ")
    assert metrics["verdict"][0] in html.unescape((repo / "reports" / "index.html").read_text())


def test_dvc_shows_metrics_and_plots(repo: Path) -> None:
    assert "| NSCR.low " in shell("dvc", "metrics", "show", "--md", cwd=repo)
    shell("dvc", "plots", "show", "-o", "plots", cwd=repo)
    assert "pass_at_k" in (repo / "plots" / "index.html").read_text()


def test_epsilon_runs_categorize_and_what_follows(repo: Path) -> None:
    before = json.loads((repo / "reports" / "metrics.json").read_text())["pairs"]["rlvr"]
    assert reproduce(repo, categorize={"epsilon": "auto"}) == ["categorize", "report"]
    after = json.loads((repo / "reports" / "metrics.json").read_text())["pairs"]["rlvr"]
    assert (before["epsilon"], after["epsilon"]) == (0.0, pytest.approx(0.187, abs=1e-3))
    assert after["O"] > before["O"]


def test_report_parameters_run_report_alone(repo: Path) -> None:
    changes = {"categorize": {"epsilon": "auto"}, "report": {"title": "Another <b>title</b>"}}
    assert reproduce(repo, **changes) == ["report"]
    assert "Another &lt;b&gt;title&lt;/b&gt;" in (repo / "reports" / "index.html").read_text()


def test_more_k_draws_only_the_new_samples(repo: Path) -> None:
    completions = repo / "data" / "completions" / "rlvr" / "make"
    before = {path.name: path.read_bytes() for path in completions.glob("*.parquet")}
    old = rows(completions)
    assert reproduce(repo, "categorize", sample={"k": 24, "batch": 64}) == STAGES[1:7]
    assert {path.name: path.read_bytes() for path in completions.glob("*.parquet") if path.name in before} == before
    new = rows(completions)
    assert len(new) == len(old) * 24 // 16
    assert [row for row in new if row["sample"] < 16] == old
    assert json.loads((repo / "data" / "analysis" / "rlvr.json").read_text())["all"]["k"] == 24


def test_less_k_throws_nothing_away_and_leaks_nothing_in(repo: Path) -> None:
    completions = repo / "data" / "completions" / "rlvr" / "make"
    kept = rows(completions)
    reproduce(repo, "categorize", sample={"k": 4, "batch": 64})
    assert rows(completions) == kept
    found = json.loads((repo / "data" / "analysis" / "rlvr.json").read_text())["all"]
    assert found["k"] == 4
    assert list(found["pass_at_k"]["base"]) == ["1", "2", "4"]


def test_the_number_of_processes_changes_nothing(repo: Path, project: Params) -> None:
    """Sampled and verified by hand with two processes and another batch size: the same verdicts."""
    params = write_params(Path(), small(run={"processes": 2}, sample={"k": 16, "batch": 50}))
    stage.run(params, "make")
    sample.run(params, "base", "make")
    verify.run(params, "base", "make")
    place = Path("data") / "verdicts" / "base" / "make"
    assert rows(place) == [row for row in rows(repo / place) if row["sample"] < 16]


def test_another_temperature_is_refused_and_nothing_is_lost(repo: Path) -> None:
    write_params(repo, small(sample={"k": 16, "batch": 64, "temperature": 0.6}))
    kept = rows(repo / "data" / "completions" / "base" / "make")
    done = run("leash", "sample", "base", "make", cwd=repo)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "another temperature" in done.stderr
    assert "leash sample base make --resample" in done.stderr
    assert rows(repo / "data" / "completions" / "base" / "make") == kept


def test_query_sees_every_table(repo: Path) -> None:
    write_params(repo, small())
    names = ("problems", "completions", "verdicts", "support", "perplexity", "entropy")
    counted = [f"select '{name}' as name from {name} having count(*) > 0" for name in names]
    said = shell("leash", "query", " union all ".join(counted), cwd=repo)
    assert [name for name in names if name not in said] == []


@pytest.mark.usefixtures("project", "undrawn")
def test_a_data_set_of_ones_own_goes_all_the_way() -> None:
    """Questions and answers from a CSV file, a pair that is the same model under two names, no reference traces."""
    Path("exam.csv").write_text("problem,answer\ncompute 3 + 4 :,7\ncompute 9 + 4 - 2 :,11\n")
    raw = small(
        run={"models": ["base", "again"], "datasets": ["exam"], "pairs": ["self"], "processes": 1},
        sample={"k": 8, "batch": 64},
    )
    raw["models"]["again"] = raw["models"]["base"]
    raw["pairs"]["self"] = {"base": "base", "rlvr": "again", "training": "other"}
    raw["datasets"]["exam"] = {"path": "exam.csv", "question": "problem", "answer": "answer", "grader": "math"}
    params = write_params(Path(), raw)
    made.sampled(params)
    made.reported(params)
    metrics = json.loads(Path("reports/metrics.json").read_text())["pairs"]["self"]
    assert metrics["P"] == 2
    assert min(metrics["base_pass@1"], metrics["rlvr_pass@1"]) > 0
    assert (metrics["E"], metrics["S"], metrics["SRR"], metrics["NDR"]) == (0, 0, 1, 0)


def test_the_papers_parameters_make_a_pipeline_with_one_sampling_stage_per_model(
    prepared: Path, tmp_path: Path
) -> None:
    folder = new_repo(prepared, tmp_path)
    shutil.copy(ROOT / "params.paper.yaml", folder / "params.yaml")
    stages = shell("dvc", "stage", "list", "--name-only", cwd=folder).splitlines()
    assert "sample@prorl-1.5b-v1" in stages
    assert len(stages) == 19
    assert "up to date" in shell("dvc", "status", "train", cwd=folder)

"""Plans: what is known, what is expected, and what is asked for where nothing is known."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from stages import params as parameters
from stages import sample, seeds, tables
from stages.cli import main
from stages.errors import LeashError
from stages.params import Params
from stages.sample import plan
from tests.conftest import ROOT, small, write_params

NOWHERE = "http://127.0.0.1:9"  # the discard port: nobody listens there
EMBEDDED_BASE = {"path": "models/embedded/base", "dtype": "float64"}


def run_plan(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["plan", *arguments], env={"COLUMNS": "80"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def table_rows(result: Result) -> list[list[str]]:
    """The rows of the printed table, below its head, by columns."""
    lines = result.stdout.split("\n\n")[0].splitlines()
    return [re.split(r"\s{2,}", line) for line in lines[1:]]


@pytest.mark.usefixtures("project")
def test_a_plan_needs_no_fetch_and_writes_nothing() -> None:
    result = run_plan("--mean-tokens", "100", "--tokens-per-second", "1000")
    assert result.exit_code == 0
    assert table_rows(result)[0][:5] == ["base", "chain", "k = 16", "64", "0.01"]
    assert not tables.DATA.exists()


@pytest.mark.usefixtures("project")
def test_an_adaptive_budget_without_samples_is_a_dash() -> None:
    rows = table_rows(run_plan("--mean-tokens", "100", "--tokens-per-second", "1000"))
    adaptive = [row for row in rows if "stop after" in row[2] or row[1] == "adaptive"]
    assert len(adaptive) == 5
    assert all(set(row[-4:]) == {"–"} for row in adaptive)


@pytest.mark.usefixtures("project")
def test_without_a_pilot_completions_are_counted_and_the_pilot_is_the_next_command() -> None:
    result = run_plan()
    assert result.exit_code == 0
    assert table_rows(result)[0] == ["base", "chain", "k = 16", "64", "–", "–", "–"]
    assert result.stdout.splitlines()[-1] == "Next: leash plan --pilot 4"


def test_the_papers_run_is_planned_without_network_engine_or_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.paper.yaml", "params.yaml")
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", NOWHERE)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    result = run_plan("--mean-tokens", "10000")
    assert result.exit_code == 0
    rows = {(row[0], row[1]): row for row in table_rows(result) if row[2].startswith("k =")}
    assert rows["deepseek-1.5b", "aime24"][3] == f"{30 * 8192:,}"
    assert rows["prorl-1.5b-v1", "olympiad"][3] == f"{675 * 8192:,}"
    assert "aime24 (30)" in result.stdout
    assert result.stdout.splitlines()[-1] == "Next: leash doctor"
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert not tables.DATA.exists()


@pytest.mark.parametrize(
    ("dataset", "count"),
    [
        ({"family": "simpleqa"}, 433),
        ({"family": "simpleqa", "size": "all"}, 4326),
        ({"family": "math500", "size": 50}, 50),
        ({"hub": "lab/exam", "files": "*.jsonl", "size": 7}, 7),
        ({"family": "reasoning_gym", "task": "dice", "size": 3}, 3),
    ],
)
@pytest.mark.usefixtures("project")
def test_problems_that_were_not_fetched_are_counted(dataset: dict[str, Any], count: int) -> None:
    params = write_params(Path(), small(datasets={"exam": dataset}))
    assert plan.known_problems(params, "exam").count == count


@pytest.mark.usefixtures("project")
def test_a_hub_data_set_of_unknown_size_must_be_fetched_first() -> None:
    params = write_params(Path(), small(datasets={"exam": {"hub": "lab/exam", "files": "*.jsonl"}}))
    with pytest.raises(LeashError, match="`leash fetch exam`"):
        plan.known_problems(params, "exam")


@pytest.mark.usefixtures("project")
def test_a_run_of_imports_costs_nothing_and_needs_nothing_fetched() -> None:
    raw = small()
    raw["models"] = {name: {"engine": "import"} for name in ("base", "rlvr")}
    write_params(Path(), raw)
    result = run_plan()
    assert result.exit_code == 0
    assert "nothing to sample" in result.stdout


def test_given_figures_make_a_plan_before_anything_is_drawn(project: Params) -> None:
    fixed, adaptive = plan.run(project, plan.Given(mean_tokens=100, speed=1000))[:2]
    assert (fixed.model, fixed.dataset, fixed.budget) == ("base", "chain", "k = 16")
    assert (fixed.completions, fixed.tokens) == (4 * 16, 4 * 16 * 100)
    assert fixed.hours == pytest.approx(6400 / 1000 / 3600)
    assert (adaptive.budget, adaptive.completions) == ("stop after 1", None)


@pytest.mark.usefixtures("project")
def test_a_pilot_fetches_what_it_needs_and_is_kept_as_the_runs_own_beginning() -> None:
    result = run_plan("--pilot", "4")
    assert result.exit_code == 0
    assert all(tables.problems_path(dataset).exists() for dataset in ("chain", "make"))
    rows = table_rows(result)
    assert [row[3] for row in rows if row[2] == "k = 16"] == ["48", "72", "48", "72"]
    assert all("–" not in row[3:5] for row in rows if row[0] != "all")
    assert "leash plan --pilot" not in result.stdout
    params = parameters.load()
    adaptive = [cost for cost in plan.run(params, plan.Given()) if cost.budget.startswith("stop")]
    assert all(cost.completions and 0 < cost.completions < 72 for cost in adaptive)
    assert sample.run(params, "base", "chain").samples == 4 * 12


@pytest.mark.usefixtures("project")
def test_a_pilot_is_not_begun_when_a_later_model_can_not_be_sampled() -> None:
    write_params(Path(), small(models={"base": EMBEDDED_BASE, "rlvr": {"path": "elsewhere"}}))
    result = run_plan("--pilot", "4")
    assert result.exit_code == 2
    assert "rlvr" in result.stderr
    assert not tables.completions_folder("base", "chain").exists()


def test_hits_that_only_a_paid_grader_can_tell_leave_a_dash(project: Params) -> None:
    """Samples are there, but nobody may grade them yet: as little is known of hit rates as without samples."""
    plan.run(project, plan.Given(), pilot=2)
    path = tables.problems_path("chain")
    rows = tables.read(path, tables.PROBLEMS, "").to_pylist()
    tables.write(path, tables.table([{**row, "grader": "judge"} for row in rows], tables.PROBLEMS), tables.PROBLEMS)
    fixed, adaptive = plan.run(project, plan.Given())[:2]
    assert fixed.tokens is not None
    assert adaptive.completions is None


@pytest.mark.parametrize(
    ("n", "c", "stop", "floor"), [(4, 0, 1, 0), (4, 2, 3, 0), (4, 4, 1, 0), (4, 1, 1, 12), (0, 0, 2, 0)]
)
def test_expected_samples_are_those_of_a_simulation(n: int, c: int, stop: int, floor: int) -> None:
    """Shares drawn from what is known of them, samples drawn from those: 4,000 times, within 4 standard errors."""
    k, prior = 64, (0.5, 1.5)
    rng = seeds.stream("test", "plan", n, c, stop, floor)
    share = rng.beta(prior[0] + c, prior[1] + n - c, 4000)
    hits = c + (rng.random((4000, k - n)) < share[:, None]).cumsum(1)
    before = np.column_stack([np.full(4000, c), hits[:, :-1]])
    drawn = ((before < stop) | (np.arange(n, k) < floor)).sum(1)
    expected = plan.more_samples(n, c, stop, k, floor, prior)
    assert abs(drawn.mean() - expected) <= 4 * drawn.std() / np.sqrt(4000) + 1e-9


def test_problems_out_of_reach_show_in_the_shares() -> None:
    """Half of the problems always solved, half never: the distribution has its weight at both ends."""
    a, b = plan.shares([(4, 0)] * 30 + [(4, 4)] * 30)
    assert a < 0.2
    assert b < 0.2
    easy = plan.shares([(4, 3)] * 30 + [(4, 4)] * 30)
    assert plan.more_samples(4, 0, 1, 1024, 0, (a, b)) > 500 > 20 > plan.more_samples(4, 0, 1, 1024, 0, easy)

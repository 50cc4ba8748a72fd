"""`leash plan`: what is known before a run, what is estimated, and a dash for what is unknown."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from leash import tables
from leash.params import loading
from leash.params.groups import Params
from leash.sampling import cost_estimate
from leash.statistics import seeds
from stages.cli import draw_pilot, main
from stages.sample import stage
from tests.conftest import ROOT, small, write_params

NOWHERE = "http://127.0.0.1:9"  # the discard port: nothing listens there
EMBEDDED_BASE = {"path": "models/embedded/base", "dtype": "float64"}


def run_plan(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["plan", *arguments], env={"COLUMNS": "80"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def table_rows(result: Result) -> list[list[str]]:
    """The cells of the printed table, without its header."""
    lines = result.stdout.split("\n\n")[0].splitlines()
    return [re.split(r"\s{2,}", line) for line in lines[1:]]


@pytest.mark.usefixtures("project")
def test_a_plan_needs_no_fetch_and_writes_nothing() -> None:
    result = run_plan("--mean-tokens", "100", "--tokens-per-second", "1000")
    assert result.exit_code == 0
    assert table_rows(result)[0][:5] == ["base", "chain", "k = 16", "64", "0.01"]
    assert not tables.DATA_DIR.exists()


@pytest.mark.usefixtures("project")
def test_an_adaptive_budget_without_samples_is_a_dash() -> None:
    rows = table_rows(run_plan("--mean-tokens", "100", "--tokens-per-second", "1000"))
    adaptive = [row for row in rows if "stop after" in row[2] or row[1] == "adaptive"]
    assert len(adaptive) == 5
    assert all(set(row[-4:]) == {"–"} for row in adaptive)


@pytest.mark.usefixtures("project")
def test_without_samples_only_completions_are_known_and_a_pilot_is_suggested() -> None:
    result = run_plan()
    assert result.exit_code == 0
    assert table_rows(result)[0] == ["base", "chain", "k = 16", "64", "–", "–", "–"]
    assert result.stdout.splitlines()[-1] == "Next: leash plan --pilot 4"


def test_the_papers_run_can_be_planned_without_network_engine_or_weights(
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
    assert not tables.DATA_DIR.exists()


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
def test_the_size_of_data_sets_is_known_before_they_are_fetched(dataset: dict[str, Any], count: int) -> None:
    params = write_params(Path(), small(datasets={"exam": dataset}))
    assert cost_estimate.load_problems_offline(params, "exam").count == count


@pytest.mark.usefixtures("project")
def test_a_hub_data_set_of_unknown_size_must_be_fetched_first() -> None:
    params = write_params(Path(), small(datasets={"exam": {"hub": "lab/exam", "files": "*.jsonl"}}))
    with pytest.raises(cost_estimate.UnknownSizeError, match="`leash fetch exam`") as error:
        cost_estimate.load_problems_offline(params, "exam")
    assert error.value.dataset == "exam"


@pytest.mark.usefixtures("project")
def test_a_run_of_imported_models_costs_nothing_and_needs_no_fetch() -> None:
    raw = small()
    raw["models"] = {name: {"engine": "import"} for name in ("base", "rlvr")}
    write_params(Path(), raw)
    result = run_plan()
    assert result.exit_code == 0
    assert "nothing to sample" in result.stdout


def test_given_figures_are_enough_for_the_cost_of_a_fixed_budget(project: Params) -> None:
    fixed, adaptive = cost_estimate.run(project, cost_estimate.CostAssumptions(mean_tokens=100, speed=1000))[:2]
    assert (fixed.model, fixed.dataset, fixed.budget) == ("base", "chain", "k = 16")
    assert (fixed.completions, fixed.tokens) == (4 * 16, 4 * 16 * 100)
    assert fixed.hours == pytest.approx(6400 / 1000 / 3600)
    assert (adaptive.budget, adaptive.completions) == ("stop after 1", None)


@pytest.mark.usefixtures("project")
def test_a_pilot_fetches_data_sets_and_its_samples_are_kept() -> None:
    result = run_plan("--pilot", "4")
    assert result.exit_code == 0
    assert all(tables.problems_path(dataset).exists() for dataset in ("chain", "make"))
    rows = table_rows(result)
    assert [row[3] for row in rows if row[2] == "k = 16"] == ["48", "72", "48", "72"]
    assert all("–" not in row[3:5] for row in rows if row[0] != "all")
    assert "leash plan --pilot" not in result.stdout
    params = loading.load()
    adaptive = [
        cost for cost in cost_estimate.run(params, cost_estimate.CostAssumptions()) if cost.budget.startswith("stop")
    ]
    assert all(cost.completions and 0 < cost.completions < 72 for cost in adaptive)
    assert stage.run(params, "base", "chain").samples == 4 * 12


@pytest.mark.usefixtures("project")
def test_a_pilot_does_not_start_if_any_model_cannot_be_sampled() -> None:
    write_params(Path(), small(models={"base": EMBEDDED_BASE, "rlvr": {"path": "elsewhere"}}))
    result = run_plan("--pilot", "4")
    assert result.exit_code == 2
    assert "rlvr" in result.stderr
    assert not tables.completions_folder("base", "chain").exists()


def test_the_adaptive_cost_is_unknown_if_the_grader_costs_money(project: Params) -> None:
    """There are samples, but they may not be graded, so hit rates are unknown."""
    draw_pilot(project, 2)
    path = tables.problems_path("chain")
    rows = tables.read(path, tables.PROBLEMS_SCHEMA, "").to_pylist()
    tables.write(
        path,
        tables.table_from_rows([{**row, "grader": "judge"} for row in rows], tables.PROBLEMS_SCHEMA),
        tables.PROBLEMS_SCHEMA,
    )
    fixed, adaptive = cost_estimate.run(project, cost_estimate.CostAssumptions())[:2]
    assert fixed.tokens is not None
    assert adaptive.completions is None


@pytest.mark.parametrize(
    ("n", "c", "stop", "floor"), [(4, 0, 1, 0), (4, 2, 3, 0), (4, 4, 1, 0), (4, 1, 1, 12), (0, 0, 2, 0)]
)
def test_expected_samples_agree_with_a_simulation(n: int, c: int, stop: int, floor: int) -> None:
    """Hit rates drawn from the posterior, samples drawn with these rates: 4,000 times, within 4 standard errors."""
    k, prior = 64, (0.5, 1.5)
    rng = seeds.stream("test", "plan", n, c, stop, floor)
    share = rng.beta(prior[0] + c, prior[1] + n - c, 4000)
    hits = c + (rng.random((4000, k - n)) < share[:, None]).cumsum(1)
    before = np.column_stack([np.full(4000, c), hits[:, :-1]])
    drawn = ((before < stop) | (np.arange(n, k) < floor)).sum(1)
    expected = cost_estimate.expected_more_samples(n, c, stop, k, floor, prior)
    assert abs(drawn.mean() - expected) <= 4 * drawn.std() / np.sqrt(4000) + 1e-9


def test_problems_out_of_reach_show_in_the_prior() -> None:
    """Half of the problems are always solved, half never: the prior has its weight at both ends."""
    a, b = cost_estimate.fit_hit_rate_prior([(4, 0)] * 30 + [(4, 4)] * 30)
    assert a < 0.2
    assert b < 0.2
    easy = cost_estimate.fit_hit_rate_prior([(4, 3)] * 30 + [(4, 4)] * 30)
    assert (
        cost_estimate.expected_more_samples(4, 0, 1, 1024, 0, (a, b))
        > 500
        > 20
        > cost_estimate.expected_more_samples(4, 0, 1, 1024, 0, easy)
    )

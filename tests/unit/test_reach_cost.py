"""`leash plan` on certificates: the problems that the stage will examine, what their rollouts cost, and a dash for what
is unknown."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from leash import tables
from leash.params.groups import Params
from leash.reach.cost import SampledRates, estimate_reach_costs
from leash.sampling.cost_estimate import CostAssumptions
from leash.statistics import seeds
from stages.cli import draw_pilot, main
from stages.reach.stage import find_planned_tasks
from tests import made
from tests.conftest import small, write_params

ON = {"rollouts": 512, "hits": 2}


def plan_output(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["plan", *arguments], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.stdout


def certificate_rows(output: str) -> list[list[str]]:
    """The cells of the table of certificates, without its header; none if there is no such table."""
    lines = output.partition("`reach.rollouts`):\n")[2].partition("\n\n")[0].splitlines()
    return [re.split(r"\s{2,}", line) for line in lines[1:]]


def count_by_hand(target: str, donor: str, hits: int) -> int:
    """Problems with at most this many hits of the target and one of the donor, from the files alone."""
    found = 0
    for dataset in ("chain", "make"):
        correct = {}
        for model in (target, donor):
            files = tables.shards(tables.verdicts_folder(model, dataset))
            rows = [row for file in files for row in tables.read(file, tables.VERDICTS_SCHEMA, "").to_pylist()]
            problems = {row["problem_id"] for row in rows}
            correct[model] = {p: sum(row["correct"] for row in rows if row["problem_id"] == p) for p in problems}
        found += sum(correct[target][problem] <= hits and correct[donor][problem] > 0 for problem in correct[target])
    return found


@pytest.mark.usefixtures("project")
def test_the_plan_counts_the_problems_of_the_verdicts_and_what_they_cost() -> None:
    params = write_params(Path(), small(reach=ON))
    made.sampled(params)
    problems = [count_by_hand("base", "rlvr", 2), count_by_hand("rlvr", "base", 2)]
    assert sum(problems) > 0
    rows = certificate_rows(plan_output("--mean-tokens", "50", "--tokens-per-second", "100"))
    assert [row[:4] for row in rows[:2]] == [
        ["rlvr", model, str(count), f"{count * 512:,}"] for model, count in zip(("base", "rlvr"), problems, strict=True)
    ]
    total = sum(problems) * 512
    assert rows[2] == ["all", str(sum(problems)), f"{total:,}", f"{total * 50 / 1e6:.2f}", f"{total * 50 / 360000:.2f}"]
    without_speed = certificate_rows(plan_output())
    assert without_speed[2][2] == f"{total:,}"
    assert without_speed[2][3] != "–"  # the completions on disk have a length
    assert without_speed[2][4] == "–"


@pytest.mark.usefixtures("project")
def test_a_run_without_certificates_names_the_key_once_there_are_verdicts() -> None:
    params = write_params(Path(), small(reach={"rollouts": 0}))
    assert "reach.rollouts" not in plan_output()
    made.sampled(params)
    tasks, _ = find_planned_tasks(params)
    assert tasks
    output = plan_output()
    assert "`reach.rollouts: 0`" in output
    assert f"{len(tasks) * 2048:,} rollouts" in output.replace("\n", " ")
    assert not certificate_rows(output)


@pytest.mark.usefixtures("project")
def test_without_samples_all_costs_are_unknown() -> None:
    write_params(Path(), small(reach=ON))
    rows = certificate_rows(plan_output("--mean-tokens", "50"))
    assert rows == [["rlvr", "base", *"––––"], ["rlvr", "rlvr", *"––––"], ["all", *"––––"]]


@pytest.mark.usefixtures("project")
def test_a_pilot_gives_expected_numbers() -> None:
    params = write_params(Path(), small(reach=ON))
    speeds = draw_pilot(params, 4)
    assert find_planned_tasks(params)[0] is None
    costs = estimate_reach_costs(params, None, CostAssumptions(speed=100), speeds)
    assert all(cost.problems is not None and 0 < cost.problems < 10 for cost in costs)
    assert all(cost.rollouts == pytest.approx((cost.problems or 0) * 512) for cost in costs)
    assert all(cost.hours == pytest.approx((cost.tokens or 0) / 100 / 3600) for cost in costs)


@pytest.mark.usefixtures("project")
def test_a_model_without_an_engine_is_left_out_and_the_plan_says_why() -> None:
    params = write_params(Path(), small(reach=ON))
    made.sampled(params)
    raw = small(reach=ON)
    raw["models"]["rlvr"] |= {"engine": "import"}
    write_params(Path(), raw)
    output = plan_output()
    assert certificate_rows(output)[1][1:4] == ["rlvr", "0", "0"]
    assert "rlvr has imported completions" in output


@pytest.mark.parametrize(("n", "c", "hits"), [(4, 0, 3), (4, 2, 3), (16, 3, 3), (0, 0, 0), (4, 4, 3)])
def test_expected_hits_agree_with_a_simulation(n: int, c: int, hits: int) -> None:
    """Hit rates drawn from the posterior, samples drawn with these rates: 20,000 times, within 4 standard errors."""
    k, prior, trials = 64, (0.5, 1.5), 20_000
    rng = seeds.stream("test", "reach cost", n, c, hits)
    share = rng.beta(prior[0] + c, prior[1] + n - c, trials)
    few = c + rng.binomial(k - n, share) <= hits
    [chance] = SampledRates([(n, c)], prior).chances_of_at_most(hits, k)
    assert abs(few.mean() - chance) <= 4 * np.sqrt(chance * (1 - chance) / trials) + 1e-9


def test_samples_that_are_all_graded_leave_nothing_to_chance(project: Params) -> None:
    assert project.reach.hits == 3
    rates = SampledRates([(16, 3), (16, 4)], (0.5, 0.5))
    assert rates.chances_of_at_most(3, 16) == [1.0, 0.0]

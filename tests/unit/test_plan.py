"""Plans: what is known, what is expected, and what is asked for where nothing is known."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

from stages import fetch, sample, seeds, tables
from stages.cli import main
from stages.params import Params
from stages.sample import plan


def test_without_a_pilot_or_a_given_length_there_is_a_sentence(project: Params) -> None:
    for dataset in project.run.datasets:
        fetch.run(project, dataset)
    result = CliRunner().invoke(main, ["plan"])
    assert result.exit_code == 2
    assert "leash plan --pilot 4" in result.output
    assert not tables.completions_folder("base", "chain").exists()


def test_given_figures_make_a_plan_before_anything_is_drawn(project: Params) -> None:
    for dataset in project.run.datasets:
        fetch.run(project, dataset)
    costs = plan.run(project, plan.Given(mean_tokens=100, speed=1000))
    assert [(c.model, c.dataset, c.budget) for c in costs[:2]] == [
        ("base", "chain", "k = 16"),
        ("base", "chain", "stop after 1"),
    ]
    fixed = costs[0]
    assert (fixed.completions, fixed.tokens) == (4 * 16, 4 * 16 * 100)
    assert fixed.hours == pytest.approx(6400 / 1000 / 3600)
    assert 4 <= costs[1].completions <= fixed.completions


def test_a_pilot_is_kept_and_is_the_runs_own_beginning(project: Params) -> None:
    for dataset in project.run.datasets:
        fetch.run(project, dataset)
    costs = plan.run(project, plan.Given(), pilot=4)
    assert [c.completions for c in costs if c.budget == "k = 16"] == [4 * 12, 6 * 12, 4 * 12, 6 * 12]
    assert all(c.tokens > c.completions > 0 and c.disk > 0 for c in costs if c.budget == "k = 16")
    assert sample.run(project, "base", "chain").samples == 4 * 12
    text = plan.shown(costs)
    assert text.startswith("model")
    assert "million tokens" in text.splitlines()[0]
    assert "all" in text


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

"""The power of the decision: the exact sum against enumeration, simulation with the real rule, and `leash plan`."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy import special

from leash import tables
from leash.params.groups import Params
from leash.sampling import power_plan
from leash.statistics import power
from leash.statistics.analysis import analyze_counts
from leash.statistics.array_types import BoolArray
from leash.statistics.bootstrap_weights import CATEGORY_PRIOR, AnalysisSettings
from leash.statistics.counts import Counts
from leash.statistics.extrapolation import MassDistribution
from leash.statistics.seeds import stream
from leash.statistics.testing import mcnemar_p_value
from stages.cli import draw_pilot, main
from tests.conftest import small, write_params

EMBEDDED = power_plan.PRIORS["embedded"]
ALPHA = 0.05


def run_plan(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["plan", *arguments], env={"COLUMNS": "80"})
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def pair_counts(base: BoolArray, rlvr: BoolArray, k: int) -> Counts:
    """Counts of a pair in which each model reaches these problems, by one hit."""
    size = len(base)
    names = np.array([str(i) for i in range(size)], dtype=object)
    columns = {f"n_{role}": np.full(size, k) for role in ("base", "rlvr")}
    ended = {f"ended_{role}": np.full(size, "k", dtype=object) for role in ("base", "rlvr")}
    hits = {"c_base": base.astype(int), "c_rlvr": rlvr.astype(int)}
    return Counts(names, names, **columns, **hits, **ended, k=np.full(size, k), epsilon=np.zeros(size))


@pytest.mark.parametrize("masses", [*power_plan.PRIORS.values(), MassDistribution(0.0, 0.02, 0.02)])
@pytest.mark.parametrize("k", [1, 16, 1024, 8192])
def test_the_luck_of_sampling_has_a_closed_form_at_one_hit(masses: MassDistribution, k: int) -> None:
    """Flips are E[(1 - m^k) m^k] with m = 1 - mass, so they are what a doubling of k would add to the reach."""
    luck = power.luck_of_sampling(power.mass_grid(masses), k)
    assert luck.reach == pytest.approx(float(masses.pass_at(k)), abs=2e-6)
    assert luck.flips == pytest.approx(float(masses.pass_at(2 * k) - masses.pass_at(k)), abs=2e-6)


def test_the_luck_of_sampling_with_several_hits_agrees_with_a_simulation() -> None:
    rng, k, hits = stream("test", "power", "hits"), 64, 3
    masses = np.where(rng.random(200_000) < EMBEDDED.never, 0, rng.beta(EMBEDDED.a, EMBEDDED.b, 200_000))
    first, second = (rng.binomial(k, masses) >= hits for _ in range(2))
    luck = power.luck_of_sampling(power.mass_grid(EMBEDDED), k, hits)
    assert luck.reach == pytest.approx(first.mean(), abs=0.005)
    assert luck.flips == pytest.approx((first & ~second).mean(), abs=0.003)


@pytest.mark.parametrize("alpha", [0.05, 0.0125, 0.01])
def test_the_rule_is_mcnemars_and_its_rejections_exclude_zero_from_the_interval(alpha: float) -> None:
    most_gained = power.most_gained_at(60, alpha)
    for gained, lost in product(range(31), range(31)):
        rejects = gained < lost and mcnemar_p_value(gained, lost) < alpha
        assert rejects == (gained <= most_gained[gained + lost])
        if rejects:
            # The bootstrapped weights of gained and lost problems are gamma variables: their ratio is a beta variable.
            more_gained = special.betainc(lost + CATEGORY_PRIOR[2], gained + CATEGORY_PRIOR[1], 0.5)
            assert more_gained < (1 - 0.95) / 2


@pytest.mark.parametrize(("gained", "lost"), [(0, 5), (0, 6), (1, 8), (1, 7), (3, 12), (3, 11), (5, 15), (6, 15)])
def test_the_rule_is_that_of_the_analysis(gained: int, lost: int) -> None:
    base, rlvr = np.ones(60, dtype=bool), np.ones(60, dtype=bool)
    base[:gained], rlvr[gained : gained + lost] = False, False
    decision = analyze_counts(pair_counts(base, rlvr, 64), AnalysisSettings())["decision"]
    assert (decision == "fewer") == (gained <= power.most_gained_at(gained + lost, ALPHA)[-1])


@pytest.mark.parametrize(("net", "problems"), [(0.3, 12), (0.55, 20)])
def test_the_power_is_the_sum_over_all_outcomes(net: float, problems: int) -> None:
    luck = power.LuckOfSampling(reach=0.6, flips=0.07)
    up = (1 - net / luck.reach) * luck.flips
    down = net + up
    total = 0.0
    for gained, lost in product(range(problems + 1), range(problems + 1)):
        if gained + lost <= problems and gained < lost and mcnemar_p_value(gained, lost) < ALPHA:
            ways = comb(problems, gained) * comb(problems - gained, lost)
            total += ways * up**gained * down**lost * (1 - up - down) ** (problems - gained - lost)
    assert power.decision_power(luck, net, problems, ALPHA) == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize(("problems", "net"), [(120, 0.1), (500, 0.04)])
def test_the_power_agrees_with_simulated_runs(problems: int, net: float) -> None:
    """Masses drawn, a share of them lost, k samples drawn from each, decided by McNemar: 2,000 runs, 4 standard
    errors."""
    k, runs = 64, 2000
    luck = power.luck_of_sampling(power.mass_grid(EMBEDDED), k)
    rng = stream("test", "power", problems)
    masses = np.where(
        rng.random((runs, problems)) < EMBEDDED.never, 0, rng.beta(EMBEDDED.a, EMBEDDED.b, (runs, problems))
    )
    trained = np.where(rng.random(masses.shape) < net / luck.reach, 0, masses)
    base, rlvr = (rng.binomial(k, mass) > 0 for mass in (masses, trained))
    gained, lost = (~base & rlvr).sum(axis=1), (base & ~rlvr).sum(axis=1)
    fewer = [int(e) < int(s) and mcnemar_p_value(int(e), int(s)) < ALPHA for e, s in zip(gained, lost, strict=True)]
    expected = power.decision_power(luck, net, problems, ALPHA)
    assert 0.4 < expected < 0.9
    assert np.mean(fewer) == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / runs))
    # The whole analysis decides alike, also at the edge.
    settings = AnalysisSettings()
    for run in range(4):
        counts = pair_counts(base[run], rlvr[run], k)
        assert (analyze_counts(counts, settings)["decision"] == "fewer") == fewer[run]


@pytest.mark.parametrize("flips", [0.0, 0.004, 0.06])
@pytest.mark.parametrize("net", [0.05, 0.2, 0.6])
def test_the_number_of_problems_is_the_smallest(net: float, flips: float) -> None:
    luck = power.LuckOfSampling(0.62, flips)
    found = power.problems_needed(luck, net, ALPHA, 0.8)
    assert found is not None
    enough = [n for n in range(max(found - 60, 1), found + 1) if power.decision_power(luck, net, n, ALPHA) >= 0.8]
    assert enough == [found]
    detectable = power.smallest_detectable(luck, found, ALPHA, 0.8)
    assert detectable is not None
    assert detectable <= net + 1e-5
    assert power.decision_power(luck, detectable, found, ALPHA) >= 0.8
    assert power.decision_power(luck, detectable - 2e-5, found, ALPHA) < 0.8


def test_what_cannot_be_seen_is_none() -> None:
    luck = power.LuckOfSampling(0.4, 0.01)
    assert power.problems_needed(luck, 0.41, ALPHA, 0.8) is None
    assert power.problems_needed(luck, 0.0, ALPHA, 0.8) is None
    assert power.problems_needed(power.LuckOfSampling(0.4, 0.1), 1e-5, ALPHA, 0.8) is None
    assert power.smallest_detectable(luck, 5, ALPHA, 0.8) is None  # 5 against 0 has p = 0.0625
    assert power.smallest_detectable(luck, 0, ALPHA, 0.8) is None


def test_every_prior_can_be_chosen() -> None:
    [option] = [option for option in main.commands["plan"].params if option.name == "prior"]
    assert list(getattr(option.type, "choices", ())) == list(power_plan.PRIORS)


@pytest.mark.usefixtures("project")
def test_a_plan_without_samples_states_its_prior_and_writes_nothing() -> None:
    result = run_plan("--detect", "0.03")
    assert result.exit_code == 0
    assert "a net change of 3% of the problems from base with a power of 80%" in result.stdout
    assert "the prior `aime`, since base has no graded samples on disk" in " ".join(result.stdout.split())
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert not tables.DATA_DIR.exists()
    params = write_params(tables.DATA_DIR.parent, small())
    plan = power_plan.run(params, power_plan.PowerGoal(0.03))[0]
    assert [row.k for row in plan.rows] == [16, 64, 256, 1024]
    by_k = {row.k: row.problems for row in plan.rows}
    assert by_k[64] == power.problems_needed(plan.rows[1].luck, 0.03, ALPHA, 0.8)
    assert plan.rows[1].completions == 2 * 64 * (by_k[64] or 0)
    line = next(line for line in result.stdout.splitlines() if line.split()[:1] == ["64"])
    assert f"{by_k[64]:,}" in line


def test_a_plan_uses_the_pilot(project: Params) -> None:
    draw_pilot(project, 4)
    plan = power_plan.run(project, power_plan.PowerGoal(0.1))[0]
    assert plan.source.samples == 4
    assert plan.source.distribution not in power_plan.PRIORS.values()
    text = " ".join(power_plan.format_plans(project, power_plan.PowerGoal(0.1), [plan]).split())
    assert "base's samples on disk (4 of each of 10 problems)" in text
    assert "Rows above k = 4 extrapolate" in text
    asked = power_plan.run(project, power_plan.PowerGoal(0.1, prior="math"))[0]
    assert asked.source.distribution == power_plan.PRIORS["math"]


def test_more_pairs_need_more_problems(project: Params) -> None:
    raw = small()
    raw["pairs"]["again"] = {"base": "base", "rlvr": "rlvr", "training": "other"}
    raw["run"]["pairs"] = ["rlvr", "again"]
    several = write_params(tables.DATA_DIR.parent, raw)
    goal = power_plan.PowerGoal(0.05)
    one, two = (power_plan.run(params, goal)[0].rows[0].problems for params in (project, several))
    assert one is not None
    assert two is not None
    assert two > one


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("detect", "remedy"),
    [("0", "above 0 and at most 1"), ("-0.1", "above 0"), ("3", "For 3% write 0.03"), ("nan", "above 0")],
)
def test_a_change_that_is_no_share_is_refused_in_one_sentence(detect: str, remedy: str) -> None:
    result = run_plan("--detect", detect)
    assert result.exit_code == 2
    assert remedy in result.stderr
    assert result.stdout == ""


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("detect", "remedy"), [("0.9", "choose a smaller"), ("0.00001", "choose a larger")])
def test_a_change_that_no_number_of_problems_shows_is_refused(detect: str, remedy: str) -> None:
    result = run_plan("--detect", detect)
    assert result.exit_code == 2
    assert remedy in result.stderr
    assert len(result.stderr.splitlines()) == 1

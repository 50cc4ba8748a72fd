"""Exact masses of correct completions agree with how often they were drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scipy import stats

from leash import database, tables
from leash.counting import metrics
from leash.params.groups import Params
from leash.statistics.bootstrap_weights import AnalysisSettings
from stages.categorize import stage as categorize
from stages.fetch import stage
from stages.mass import stage as mass
from stages.report import stage as report
from stages.sample import stage as sample
from stages.verify import stage as verify
from tests.conftest import ROOT, small, write_params
from tests.made import verdict_table

K = 512
# Level of the tests against sampled frequencies. Seeds are fixed, so a pass is stable.
LEVEL = 0.001
EASY = {"family": "chain", "levels": [5], "per_level": 2}


def parameters(k: int = 64, **changes: dict[str, Any]) -> Params:
    raw = small(sample={"k": k, "batch": 512} | changes.pop("sample", {}), **changes)
    raw["categorize"] = {**raw["categorize"], "units": ["problem", "completion"]} | changes.get("categorize", {})
    raw["run"]["datasets"] = ["chain"]
    raw["datasets"]["chain"] = EASY
    raw["entropy"]["samples"] = 4
    return write_params(Path(), raw)


def draw(params: Params) -> Params:
    stage.run(params, "chain")
    for model in params.run.models:
        sample.run(params, model, "chain")
        verify.run(params, model, "chain")
    return params


def masses(model: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tables.read(tables.mass_path(model, "chain"), tables.MASS_SCHEMA, "").to_pylist()
    return rows


class Agreement(NamedTuple):
    cells: int
    p_value: float


def agreement(rows: list[dict[str, Any]], nll: str) -> Agreement:
    """Pearson's test of how often the completions of a problem were drawn: one cell for each that is expected at least
    ten times, and one for all others."""
    frequent = [row for row in rows if K * math.exp(-row[nll]) >= 10]
    expected = [K * math.exp(-row[nll]) for row in frequent]
    observed = [row["hits"] for row in frequent]
    test = stats.chisquare([*observed, K - sum(observed)], [*expected, K - sum(expected)])
    return Agreement(len(frequent), float(test.pvalue))


def write_completions(texts: Mapping[str, list[str] | dict[str, list[str]]]) -> None:
    """Write completions of each model to one problem, or to several by name, all of them correct."""
    about = {"dataset": "chain", "question": "compute 3 + 4 :", "gold": ["7"], "grader": "exact", "images": None}
    by_problem = {model: found if isinstance(found, dict) else {"p": found} for model, found in texts.items()}
    names = dict.fromkeys(name for found in by_problem.values() for name in found)
    asked = [{**about, "problem_id": name, "meta": "{}"} for name in names]
    tables.write(
        tables.problems_path("chain"), tables.table_from_rows(asked, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA
    )
    for model, found in by_problem.items():
        drawn = [(name, i, text) for name, written in found.items() for i, text in enumerate(written)]
        rows = [
            {"problem_id": name, "sample": i, "text": text, "tokens": None, "finish": "stop", "logprob": None}
            for name, i, text in drawn
        ]
        verdicts = [
            {"problem_id": name, "sample": i, "answer": "7", "answer_class": "7", "correct": True, "score": 1.0}
            | {"status": "ok"}
            for name, i, _ in drawn
        ]
        place = tables.completions_folder(model, "chain") / "a.parquet"
        tables.write(place, tables.table_from_rows(rows, tables.COMPLETIONS_SCHEMA), tables.COMPLETIONS_SCHEMA)
        place = tables.verdicts_folder(model, "chain") / "a.parquet"
        tables.write(place, verdict_table(verdicts), tables.VERDICTS_SCHEMA)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Params]:
    """Masses of the embedded pair on two problems, as the working directory."""
    folder = tmp_path_factory.mktemp("scored")
    (folder / "models").symlink_to(ROOT / "models")
    with chdir(folder):
        params = draw(parameters(K))
        assert mass.run(params)[1] == []
        yield params


@pytest.mark.parametrize("model", ["base", "rlvr"])
def test_exact_masses_agree_with_sampled_frequencies(scored: Params, model: str) -> None:
    cells = 0
    for problem in sorted({row["problem_id"] for row in masses(model)}):
        found = agreement([row for row in masses(model) if row["problem_id"] == problem], "nll")
        cells += found.cells
        assert found.p_value > LEVEL
    assert cells >= 2


def test_a_mass_equals_the_log_probability_of_its_sampler(scored: Params) -> None:
    joined = database.open_database(scored).sql(
        "select distinct mass.nll, completions.logprob from mass "
        "join completions on completions.model = mass.model and completions.problem_id = mass.problem_id "
        "and completions.sample = mass.first"
    )
    rows = joined.fetchall()
    assert len(rows) > 20
    for nll, logprob in rows:
        assert -nll == pytest.approx(logprob, abs=1.5e-6)  # both are rounded on disk


def test_the_bound_is_never_far_above_the_mass_that_was_sampled(scored: Params) -> None:
    for row in report.mass_lower_bounds(scored, database.open_database(scored)).to_pylist():
        own = [each for each in masses(row["model"]) if each["hits"]]
        assert row["completions"] == len(own) < row["completions_with_partners"] == len(masses(row["model"]))
        assert row["problems"] == row["with_hits"] == 2
        high = stats.binomtest(round(row["sampled"] * 2 * K), 2 * K).proportion_ci(1 - LEVEL).high
        assert 0 < row["bound"] < row["bound_with_partners"] < high
        for name, written in (("bound", own), ("bound_with_partners", masses(row["model"]))):
            assert row[name] == pytest.approx(sum(math.exp(-each["decoding_nll"]) for each in written) / 2)


def test_own_masses_do_not_depend_on_what_partners_wrote(project: Params) -> None:
    bounds = []
    for partner in ("a", "b"):
        write_completions({"base": ["a", "a", "c"], "rlvr": [partner] * 3})
        params = parameters(3)
        mass.run(params)
        rows = report.mass_lower_bounds(params, database.open_database(params)).to_pylist()
        bounds.append(next(row for row in rows if (row["model"], row["dataset"]) == ("base", "chain")))
    first, second = bounds
    assert {first[name] == second[name] for name in ("completions", "bound", "sampled", "barely_covered")} == {True}
    assert second["bound_with_partners"] > first["bound_with_partners"] == first["bound"]


def test_each_problem_has_the_same_say_in_whether_completions_repeat(project: Params) -> None:
    """One problem whose completions repeat does not decide for 30 on which none does."""
    problems = {"p": ["a"] * 30} | {f"q{i}": [f"{j} , 7" for j in range(30)] for i in range(30)}
    write_completions({"base": problems, "rlvr": problems})
    scored, sentences = mass.run(parameters(30))
    assert (scored, len(sentences)) == (0, 1)
    assert "3.2%" in sentences[0]  # 1 of 31
    few = {name: problems[name] for name in ("p", "q0", "q1")}
    write_completions({"base": few, "rlvr": few})
    params = parameters(30)
    assert mass.run(params)[1] == []
    rows = report.mass_lower_bounds(params, database.open_database(params)).to_pylist()
    assert {(row["with_hits"], row["barely_covered"]) for row in rows} == {(3, 2)}


def test_both_models_of_a_pair_score_the_same_completions(project: Params) -> None:
    write_completions({"base": ["a", "a", "b"], "rlvr": ["b", "c", "c"]})
    params = parameters(3)
    assert mass.run(params)[0] == 6
    base, rlvr = ({row["completion"]: row for row in masses(model)} for model in ("base", "rlvr"))
    assert base.keys() == rlvr.keys()
    assert sorted((row["hits"], row["first"]) for row in base.values()) == [(0, None), (1, 2), (2, 0)]
    assert sorted((row["hits"], row["first"]) for row in rlvr.values()) == [(0, None), (1, 0), (2, 1)]
    write_completions({"base": ["a", "a", "b", "d"], "rlvr": ["b", "c", "c", "c"]})
    assert mass.run(parameters(4))[0] == 2


def test_completions_beyond_k_are_not_categorized(project: Params) -> None:
    write_completions({"base": ["a", "a", "b", "b"], "rlvr": ["a", "c", "c", "c"]})
    mass.run(parameters(4))
    for k, found in ((4, 3), (2, 2)):
        params = parameters(4, categorize={"k": k})
        assert categorize.run(params) == []
        assert tables.read(tables.support_path("rlvr", "completion"), tables.SUPPORT_SCHEMA, "").num_rows == found


def test_completions_are_counted_by_their_chance_of_being_seen(scored: Params) -> None:
    assert categorize.run(scored) == []
    support = tables.read(tables.support_path("rlvr", "completion"), tables.SUPPORT_SCHEMA, "")
    rows = support.to_pylist()
    for row in rows:
        seen = 1 - ((1 - row["mass_base"]) * (1 - row["mass_rlvr"])) ** K
        assert row["inclusion"] == pytest.approx(seen, rel=1e-6)
    support = support.append_column("pair", [["rlvr"] * support.num_rows])
    found = metrics.completion_metrics_by_epsilon(support, AnalysisSettings(), (1e-5, 1e-3, 0.01)).to_pylist()
    assert {row["epsilon"] for row in found} == {1e-3, 0.01}  # 512 samples show 0.5% of the completions of mass 1e-5
    row = next(row for row in found if row["dataset"] == "all" and row["epsilon"] == 1e-3)
    weights = {"P": 0.0, "E": 0.0, "S": 0.0}
    for each in rows:
        above = (each["mass_base"] > 1e-3, each["mass_rlvr"] > 1e-3)
        if any(above):
            weights[{(True, True): "P", (False, True): "E", (True, False): "S"}[above]] += 1 / each["inclusion"]
    assert {name: row[name] for name in "PES"} == pytest.approx(weights, rel=1e-6)
    assert row["seen"] == sum(max(each["mass_base"], each["mass_rlvr"]) > 1e-3 for each in rows) < sum(weights.values())


def test_a_tempered_run_is_weighed_and_counted_by_what_was_sampled(project: Params) -> None:
    params = draw(parameters(64, sample={"temperature": 0.7, "top_p": 0.9}, categorize={"epsilon": 0.01}))
    mass.run(params)
    assert categorize.run(params) == []
    by_key = {
        model: {(row["problem_id"], row["completion"]): row for row in masses(model)} for model in ("base", "rlvr")
    }
    support = tables.read(tables.support_path("rlvr", "completion"), tables.SUPPORT_SCHEMA, "")
    counted, moved = {"P": 0.0, "E": 0.0, "S": 0.0, "O": 0.0}, 0
    for row in support.to_pylist():
        base, rlvr = (by_key[model][row["problem_id"], row["unit_key"]] for model in ("base", "rlvr"))
        missed = math.prod(1 - math.exp(-each["decoding_nll"]) for each in (base, rlvr)) ** 64
        assert row["inclusion"] == pytest.approx(1 - missed, rel=1e-6)
        above = math.exp(-base["nll"]) > 0.01, math.exp(-rlvr["nll"]) > 0.01
        letters = {(True, True): "P", (False, True): "E", (True, False): "S", (False, False): "O"}
        assert row["category"] == letters[above]  # of the models themselves
        assert row["sampled_rlvr"] == pytest.approx(math.exp(-rlvr["decoding_nll"]), rel=1e-6)
        counted[letters[row["sampled_base"] > 0.1, row["sampled_rlvr"] > 0.1]] += 1 / row["inclusion"]
        moved += (row["mass_base"] > 0.1) != (row["sampled_base"] > 0.1)
        moved += (row["mass_rlvr"] > 0.1) != (row["sampled_rlvr"] > 0.1)
    assert moved
    support = support.append_column("pair", [["rlvr"] * support.num_rows])
    found = metrics.completion_metrics_by_epsilon(support, AnalysisSettings(), (0.1,)).to_pylist()[0]
    assert {name: found[name] for name in "PES"} == pytest.approx({name: counted[name] for name in "PES"}, rel=1e-6)


def test_an_early_stop_leaves_the_chance_of_being_seen_unknown(project: Params) -> None:
    write_completions({"base": ["a", "a", "b"], "rlvr": ["b", "c", "c"]})
    params = parameters(3, sample={"stop_after": 3})
    mass.run(params)
    assert categorize.run(params) == []
    support = tables.read(tables.support_path("rlvr", "completion"), tables.SUPPORT_SCHEMA, "")
    assert support["inclusion"].null_count == support.num_rows == 3
    assert support["category"].null_count == 0
    support = support.append_column("pair", [["rlvr"] * 3])
    for row in metrics.completion_metrics_by_epsilon(support, AnalysisSettings(), (0.1,)).to_pylist():
        assert {row[name] for name in ("P", "E", "S", "SRR", "NDR", "NSCR", "effective")} == {None}


def test_completions_that_never_repeat_are_not_scored(project: Params) -> None:
    write_completions({"base": [f"{i} , 7" for i in range(40)], "rlvr": [f"{i} + 7" for i in range(40)]})
    params = parameters(40)
    scored, sentences = mass.run(params)
    assert scored == 0
    assert len(sentences) == 1
    assert sentences[0].startswith("rlvr on chain: ")
    assert "0.0%" in sentences[0]
    assert masses("base") == masses("rlvr") == []
    assert report.mass_lower_bounds(params, database.open_database(params)).num_rows == 0
    assert ["rlvr on chain" in note for note in categorize.run(params)] == [True]


def test_scores_stay_when_the_unit_completion_is_dropped(project: Params) -> None:
    write_completions({"base": ["a", "a"], "rlvr": ["a", "a"]})
    assert mass.run(parameters(2))[0] == 2
    assert mass.run(parameters(2, categorize={"units": ["problem"]})) == (0, [])
    assert len(masses("base")) == 1
    assert mass.run(parameters(2))[0] == 0


def test_a_tempered_run_has_the_masses_of_its_decoding_distribution(project: Params) -> None:
    params = draw(parameters(K, sample={"temperature": 0.7, "top_p": 0.9}))
    mass.run(params)
    rows = masses("base")
    assert all(math.isfinite(row["decoding_nll"]) for row in rows if row["hits"])
    first = [row for row in rows if row["problem_id"] == rows[0]["problem_id"]]
    found = agreement(first, "decoding_nll")
    assert found.cells > 0
    assert found.p_value > LEVEL
    assert max(row["nll"] - row["decoding_nll"] for row in rows) > 0.3

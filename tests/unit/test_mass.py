"""Exact masses of correct completions agree with how often they were drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scipy import stats

from leash import database, tables
from leash.counting import metrics
from leash.params.groups import Params
from stages.categorize import stage as categorize
from stages.fetch import stage
from stages.mass import stage as mass
from stages.report import stage as report
from stages.sample import stage as sample
from stages.verify import stage as verify
from tests.conftest import ROOT, small, write_params

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


def write_completions(texts: dict[str, list[str]]) -> None:
    """Write completions of each model to one problem, all of them correct."""
    about = {"dataset": "chain", "question": "compute 3 + 4 :", "gold": ["7"], "grader": "exact", "images": None}
    row = {**about, "problem_id": "p", "meta": "{}"}
    tables.write(
        tables.problems_path("chain"), tables.table_from_rows([row], tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA
    )
    for model, written in texts.items():
        rows = [
            {"problem_id": "p", "sample": i, "text": text, "tokens": 4, "finish": "stop", "logprob": None}
            for i, text in enumerate(written)
        ]
        verdicts = [
            {"problem_id": "p", "sample": i, "answer": "7", "answer_class": "7", "correct": True, "score": 1.0}
            | {"status": "ok"}
            for i in range(len(written))
        ]
        place = tables.completions_folder(model, "chain") / "a.parquet"
        tables.write(place, tables.table_from_rows(rows, tables.COMPLETIONS_SCHEMA), tables.COMPLETIONS_SCHEMA)
        place = tables.verdicts_folder(model, "chain") / "a.parquet"
        tables.write(place, tables.table_from_rows(verdicts, tables.VERDICTS_SCHEMA), tables.VERDICTS_SCHEMA)


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
        assert row["completions"] == len(masses(row["model"]))
        assert row["problems"] == 2
        high = stats.binomtest(round(row["sampled"] * 2 * K), 2 * K).proportion_ci(1 - LEVEL).high
        assert 0 < row["bound"] < high
        assert row["share"] == pytest.approx(row["bound"] / row["sampled"])
        exact = sum(math.exp(-each["decoding_nll"]) for each in masses(row["model"]))
        assert row["bound"] == pytest.approx(exact / 2)


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


def test_completions_are_counted_at_any_epsilon(scored: Params) -> None:
    assert categorize.run(scored) == []
    support = tables.read(tables.support_path("rlvr", "completion"), tables.SUPPORT_SCHEMA, "")
    support = support.append_column("pair", [["rlvr"] * support.num_rows])
    found = [
        row
        for row in metrics.completion_metrics_by_epsilon(support, (0.0, 0.01)).to_pylist()
        if row["dataset"] == "all"
    ]
    assert [row["P"] for row in found] == [support.num_rows, sum(map(above, support.to_pylist()))]
    pairs = list(zip(support["mass_base"].to_pylist(), support["mass_rlvr"].to_pylist(), strict=True))
    assert found[1]["E"] == sum(base <= 0.01 < rlvr for base, rlvr in pairs)
    assert found[1]["S"] == sum(rlvr <= 0.01 < base for base, rlvr in pairs)
    assert found[1]["P"] + found[1]["E"] + found[1]["S"] + found[1]["O"] == support.num_rows
    assert found[1]["S"] + found[1]["E"] > 0


def above(row: dict[str, Any]) -> bool:
    return bool(min(row["mass_base"], row["mass_rlvr"]) > 0.01)


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

"""Certificates with rollouts from real vLLM: those of our own engine, within their intervals."""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leash import tables
from leash.engines import selection
from leash.engines.protocol import Request
from leash.params.groups import Params
from leash.problems import load_problems
from leash.prompts import build_prompt
from leash.reach import examine
from leash.reach import rows as reach_rows
from leash.reach.hits import HitChecker
from leash.reach.search import ROUNDS, Search
from leash.sampling.sampler import decoding_from_params
from leash.statistics.reachability import lower_bound, upper_bound
from stages.fetch import stage as fetch
from stages.reach import stage as reach
from stages.sample import stage as sample
from stages.verify import stage as verify
from tests.conftest import ROOT, small, write_params
from tests.vllm.conftest import BASE, engine_on

pytestmark = pytest.mark.vllm

PROBLEMS = 5
LEVEL = 0.001  # of all comparisons together


def parameters(engine: str, rollouts: int) -> Params:
    """The embedded pair in float32, which vLLM computes in."""
    raw = small(sample={"k": 64, "batch": 256, "engine": engine}, reach={"rollouts": rollouts})
    raw["run"]["datasets"] = ["make"]
    raw["datasets"]["make"] |= {"levels": [3, 4, 5], "per_level": 3}
    for name in ("base", "rlvr"):
        raw["models"][name] = {"path": f"models/embedded/{name}"}
    return write_params(Path(), raw)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples and verdicts, by the torch engine."""
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "models").symlink_to(ROOT / "models")
    with chdir(folder):
        params = parameters("torch", 0)
        fetch.run(params, "make")
        for model in params.run.models:
            sample.run(params, model, "make")
            verify.run(params, model, "make")
    return folder


def running_engine(model: str) -> Any:
    """The engine of an embedded model that all files of tests share."""
    return engine_on(replace(BASE, name=model, source=str(ROOT / "models" / "embedded" / model)))


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tables.read(tables.reach_path("rlvr"), tables.REACH_SCHEMA, "leash reach").to_pylist()
    return found


def vllm_hits(params: Params, search: Search) -> int:
    """How many of the rollouts that the certificate counts are correct if vLLM draws them."""
    place, problem = search.task.place, search.task.problem_id
    problems = load_problems(place.dataset)
    prompt = build_prompt(params, place.target, place.dataset, problems[problem]["question"])
    requests = [
        Request(problem, prompt, each.numbers, ("vllm", str(i)), each.prefix)
        for i, each in enumerate(search.planned[len(ROUNDS)])
    ]
    engine = running_engine(place.target)
    checker = HitChecker(params, problems)
    completions = list(engine.complete(requests, decoding_from_params(params, place.target, place.dataset)))
    assert len(completions) == search.rollouts
    answers = [checker.answer(problem, completion.text, completion.finish) for completion in completions]
    return sum(checker.are_correct([(problem, answer) for answer in answers if answer is not None]))


def test_vllm_gives_the_certificates_of_torch(
    in_process: None, drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the same cuts. The problems are those whose rollouts are neither all wrong nor all right, so that an engine
    that goes on from another prefix, or from none, would show."""
    searches: list[Search] = []
    build_row = reach_rows.build_row

    def keep(search: Search, *rest: Any) -> dict[str, Any]:
        searches.append(search)
        return build_row(search, *rest)

    monkeypatch.setattr(examine, "build_row", keep)
    with chdir(shutil.copytree(drawn, tmp_path / "run", symlinks=True)):
        params = parameters("torch", 256)
        reach.run(params)
        mixed = sorted(searches, key=lambda each: -min(each.hits, each.rollouts - each.hits))[:PROBLEMS]
        assert len(mixed) == PROBLEMS
        assert all(0 < search.hits < search.rollouts for search in mixed)
        for search in mixed:
            ours, theirs, rollouts = search.hits, vllm_hits(params, search), search.rollouts
            counts = np.array([[ours, rollouts - ours], [theirs, rollouts - theirs]])
            assert stats.fisher_exact(counts).pvalue > LEVEL / PROBLEMS, (search.task, ours, theirs, rollouts)
            cut = search.cut
            assert cut is not None
            certificate = lower_bound(cut.whole_mass, cut.open_mass, theirs, rollouts, 1 - LEVEL / PROBLEMS)
            assert certificate <= cut.whole_mass + cut.open_mass * upper_bound(rollouts, ours, 1 - LEVEL / PROBLEMS)


def test_the_stage_runs_on_vllm(in_process: None, drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "_load_vllm", lambda weights, settings: running_engine(weights.name))
    with chdir(shutil.copytree(drawn, tmp_path / "run", symlinks=True)):
        drawn_rollouts, sentences = reach.run(parameters("vllm", 32))
        assert sentences == []
        found = rows()
    assert drawn_rollouts == sum(row["pilot"] + row["rollouts"] for row in found) > 0
    assert Counter(row["status"] for row in found)["certified"] >= PROBLEMS
    assert all(row["certificate"] <= row["whole_mass"] + row["open_mass"] for row in found if row["certificate"])

"""Certificates with rollouts from real vLLM: those of our own engine, within their intervals."""

from __future__ import annotations

import shutil
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from leash import tables
from leash.engines import selection
from leash.params.groups import Params
from stages.fetch import stage as fetch
from stages.reach import stage as reach
from stages.sample import stage as sample
from stages.verify import stage as verify
from tests.conftest import ROOT, small, write_params
from tests.vllm.conftest import engine_on

pytestmark = pytest.mark.vllm

PROBLEMS = 5
LEVEL = 0.001  # of all comparisons together


def parameters(engine: str) -> Params:
    """The embedded pair in float32, which vLLM computes in; torch draws the samples of both runs."""
    raw = small(sample={"k": 64, "batch": 256, "engine": engine}, reach={"rollouts": 128, "hits": 3})
    raw["run"]["datasets"] = ["make"]
    raw["datasets"]["make"] |= {"levels": [3, 4, 5], "per_level": 3}
    for name in ("base", "rlvr"):
        raw["models"][name] = {"path": f"models/embedded/{name}"}
    return write_params(Path(), raw)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "models").symlink_to(ROOT / "models")
    with chdir(folder):
        params = parameters("torch")
        fetch.run(params, "make")
        for model in params.run.models:
            sample.run(params, model, "make")
            verify.run(params, model, "make")
    return folder


def certificates(folder: Path, engine: str) -> dict[tuple[str, str], dict[str, Any]]:
    with chdir(folder):
        reach.run(parameters(engine))
        rows = tables.read(tables.reach_path("rlvr"), tables.REACH_SCHEMA, "leash reach").to_pylist()
    return {(row["problem_id"], row["target"]): row for row in rows}


def interval(row: dict[str, Any], level: float) -> tuple[float, float]:
    """Where the mass behind the cut is, by its final rollouts."""
    hits, rollouts = row["hits"], row["rollouts"]
    low = stats.beta.ppf(level / 2, hits, rollouts - hits + 1) if hits else 0.0
    high = stats.beta.isf(level / 2, hits + 1, rollouts - hits) if hits < rollouts else 1.0
    return row["whole_mass"] + row["open_mass"] * float(low), row["whole_mass"] + row["open_mass"] * float(high)


def test_vllm_gives_the_certificates_of_torch(
    in_process: None, drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cuts differ, since each engine chooses its own by its own pilot, so the masses behind them may differ a
    little: compared are the problems whose cuts hold nearly the same probability of being correct."""
    monkeypatch.setattr(selection, "_load_vllm", lambda weights, settings: engine_on(weights))
    by_torch, by_vllm = (
        certificates(shutil.copytree(drawn, tmp_path / engine, symlinks=True), engine) for engine in ("torch", "vllm")
    )
    assert by_torch.keys() == by_vllm.keys()
    both = [(by_torch[key], by_vllm[key]) for key in by_torch]
    # Problems on which either engine saw enough correct rollouts for a narrow interval, the most certain first.
    both = sorted(both, key=lambda rows: -min(row["hits"] for row in rows))[:PROBLEMS]
    assert len(both) == PROBLEMS
    assert all(row["status"] == "certified" and row["hits"] >= 10 for rows in both for row in rows)
    for rows in both:
        (first_low, first_high), (second_low, second_high) = (interval(row, LEVEL / PROBLEMS) for row in rows)
        assert first_low <= second_high, rows
        assert second_low <= first_high, rows
        assert all(row["certificate"] <= row["upper"] for row in rows)

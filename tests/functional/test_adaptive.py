"""An adaptive run through all stages, compared with a run that draws everything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import made
from tests.conftest import ROOT, small, write_params
from tests.functional.test_dag import rows

COUNTS = ("k", "epsilon", "P", "E", "S", "O", "SRR", "NDR", "SDS", "NSCR")
ENTROPIES = [f"{role}_{name}" for role in ("base", "rlvr") for name in ("token_entropy", "answer_entropy")]
MetricsAndRows = tuple[dict[str, Any], list[dict[str, Any]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., MetricsAndRows]:
    """A function that runs every stage in a folder and returns the metrics and the completions."""

    def run(name: str, **changes: Any) -> MetricsAndRows:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        if not Path("models").exists():
            Path("models").symlink_to(ROOT / "models")
        params = write_params(folder, small(sample={"k": 16, "batch": 64, **changes}, entropy={"samples": 8}))
        made.sampled(params)
        made.reported(params)
        return json.loads(Path("reports/metrics.json").read_text())["pairs"]["rlvr"], rows(Path("data/completions"))

    return run


@pytest.mark.usefixtures("undrawn")
def test_an_adaptive_run_gives_the_same_categories_as_the_full_one(run: Callable[..., MetricsAndRows]) -> None:
    """At epsilon 0 one hit decides. Entropies exist if `floor` gives every problem the samples they need."""
    full, everything = run("full")
    early, drawn = run("early", stop_after=1)
    assert {name: early[name] for name in COUNTS} == {name: full[name] for name in COUNTS}
    assert [early[name] for name in ENTROPIES] == [None] * 4
    assert len(drawn) < len(everything)
    assert all(row in everything for row in drawn)

    floored, more = run("early", stop_after=1, floor=8)
    assert {name: floored[name] for name in COUNTS} == {name: full[name] for name in COUNTS}
    assert [floored[name] for name in ENTROPIES] == pytest.approx([full[name] for name in ENTROPIES])
    assert len(drawn) < len(more) < len(everything)

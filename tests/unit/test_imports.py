"""Text and statistics import without the heavy libraries, so that `leash compare` starts fast."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import leash.statistics
from tests.conftest import ROOT

STATISTICS = sorted(
    f"leash.statistics.{path.stem}"
    for path in Path(leash.statistics.__file__).parent.glob("*.py")
    if path.stem != "__init__"
)
HEAVY = ("matplotlib", "torch", "duckdb", "transformers")


def loaded_by(*modules: str) -> set[str]:
    """The names of all modules that a new process has loaded after it imported these."""
    code = f"import sys, json, {', '.join(modules)}; print(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return {*json.loads(done.stdout)}


@pytest.mark.parametrize("heavy", [*HEAVY, "pyarrow"])
def test_the_narrative_loads_no_heavy_library(heavy: str) -> None:
    loaded = loaded_by("leash.report.narrative", "leash.report.compare_text")
    assert "leash.report.narrative" in loaded
    assert heavy not in loaded


def test_the_statistics_load_no_heavy_library() -> None:
    assert len(STATISTICS) > 10
    assert loaded_by(*STATISTICS).isdisjoint(HEAVY)

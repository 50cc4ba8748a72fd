"""What tests share: the embedded models, and parameters small enough for a test."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from ruamel.yaml import YAML

from leash import half_precision, progress
from leash.params import groups, loading
from leash.scheduler.worker_plan import register_preloads

ROOT = Path(__file__).parent.parent
yaml = YAML(typ="safe", pure=True)


def small(**changes: dict[str, Any]) -> dict[str, Any]:
    """The project's own parameters on one problem a level, 16 samples, two models and one worker, since each must load
    them, and without other people's traces, exact masses and rollouts; `changes` by group."""
    raw: dict[str, Any] = yaml.load((ROOT / "params.yaml").read_text())
    raw["run"] |= {"models": ["base", "rlvr"], "pairs": ["rlvr"], "processes": 1}
    for dataset in raw["datasets"].values():
        dataset["per_level"] = 1
    raw["sample"] |= {"k": 16, "batch": 64}
    raw["categorize"] |= {"units": ["problem", "answer"]}
    raw["perplexity"] |= {"traces": None}
    raw["entropy"] |= {"samples": 4}
    raw["reach"] |= {"rollouts": 0}
    for group, values in changes.items():
        raw[group] = raw.get(group, {}) | values
    return raw


def write_params(folder: Path, raw: dict[str, Any]) -> groups.Params:
    with (folder / "params.yaml").open("w") as file:
        yaml.dump(raw, file)
    return loading.load(folder / "params.yaml")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Where models will be at work, torch is imported once for the worker processes of all tests. Where some compute in
    half precision, the CPU is asked whether it can, before torch multiplies anything in this process."""
    if (
        any(item.get_closest_marker("half_precision") for item in session.items)
        and half_precision.cap_onednn_if_needed() == "none"
    ):
        for item in session.items:
            if item.get_closest_marker("half_precision"):
                item.add_marker(pytest.mark.skip(reason="this CPU stops programs that compute in bfloat16 (SIGILL)"))
    if any("project" in getattr(item, "fixturenames", ()) for item in session.items):
        register_preloads(["leash.engines.torch_engine", "leash.scoring.torch_scorer"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The faults that were injected, whichever worker did it, with what came of each."""
    reports = [r for some in terminalreporter.stats.values() for r in some if getattr(r, "when", None) == "call"]
    told = [text for report in reports for name, text in report.user_properties if name == "fault"]
    if told:
        terminalreporter.section(f"{len(told)} faults injected")
        for number, text in enumerate(told, 1):
            terminalreporter.write_line(f"{number:3}. {text}")


@pytest.fixture(autouse=True)
def _no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command says does not depend on how busy the machine is."""
    monkeypatch.setattr(progress, "LINE_INTERVAL_S", math.inf)


@pytest.fixture(scope="session", autouse=True)
def _one_library() -> Iterator[None]:
    """The script that draws on every page is the same one: it is bundled once for the pages of all tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vl_convert, "javascript_bundle", cache(vl_convert.javascript_bundle))
        yield


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of reports say their names and no more, for tests that don't look at them: drawing takes most of the
    time of a report."""
    from leash.report.figures import drawing, style

    def named(*run: Any) -> dict[str, Any]:
        return {name: (caption, partial(style.empty_figure, name)) for name, (caption, _) in drawings(*run).items()}

    drawings = drawing.build_figure_specs
    monkeypatch.setattr(drawing, "build_figure_specs", named)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> groups.Params:
    """A folder with the embedded models and small parameters, as the working directory."""
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    return write_params(tmp_path, small())

"""vLLM's processes in real commands: one engine at a time, none left after a kill, and the cause of a failed start.

Each test runs its own process, in which vLLM starts engine and worker processes as it does for users. The other files
of this folder run the engine in the process of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from leash.engines import selection
from leash.engines.protocol import Engine
from leash.params import groups, loading
from leash.weights import Weights
from stages.cli import draw_pilot
from stages.fetch import stage
from stages.sample import stage as sample
from tests.conftest import ROOT, small, write_params
from tests.processes import descendants, running
from tests.unit.test_orphans import survivors_of_a_kill

pytestmark = pytest.mark.vllm

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
MISSING = f" of {4 * 1_000_000 - 4 * 2:,} completions"  # of four problems, after the pilot
SETTINGS = {"max_model_len": 128, "eager": True}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that samples with vLLM in its default settings, except for what shortens the start."""
    pytest.importorskip("vllm", reason="vLLM is not installed; `make test-vllm` installs it")
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    stage.run(write(tmp_path, k=4), "chain")
    return tmp_path


def write(folder: Path, k: int) -> groups.Params:
    raw = small(sample={"k": k, "engine": "vllm", "vllm": SETTINGS}, run={"datasets": ["chain"]})
    for model in raw["models"].values():
        model["dtype"] = "float32"
    return write_params(folder, raw)


def pilot_then_sample() -> None:
    """Plan with a pilot on two models, print the number of engine processes before each start, and sample until
    killed."""
    load = selection._load_vllm

    def count_and_load(weights: Weights, settings: groups.Vllm) -> Engine:
        processes = descendants(os.getpid()).values()
        print("engines", sum("VLLM::" in command or "spawn_main" in command for command in processes), flush=True)
        return load(weights, settings)

    selection._load_vllm = count_and_load
    draw_pilot(loading.load(Path("params.yaml")), 2)
    print("piloted", flush=True)
    sample.run(write(Path(), k=1_000_000), "base", "chain")


def test_engines_are_released_and_die_with_the_command(folder: Path) -> None:
    script = "from tests.vllm.test_processes import pilot_then_sample; pilot_then_sample()"
    command = [sys.executable, "-c", script]
    environment = ENVIRONMENT | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with running(subprocess.Popen(command, cwd=folder, env=environment, **streams)) as process:
        assert process.stdout
        assert process.stderr
        printed = [process.stdout.readline() for _ in range(4)]
        assert printed == ["engines 0\n", "engines 0\n", "piloted\n", "engines 0\n"], printed
        lines = iter(process.stderr.readline, "")
        errors = list(takewhile(lambda line: MISSING not in line, lines))
        assert [line for line in errors if not line.startswith(("starting vllm", "vllm for", "sample "))] == []
        assert survivors_of_a_kill(process) == []


def test_a_failed_start_reports_its_root_cause_in_one_line(folder: Path) -> None:
    """The KV cache is larger than any machine's memory."""
    environment = ENVIRONMENT | {"PYTHONPATH": str(ROOT), "VLLM_CPU_KVCACHE_SPACE": "100000", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "stages.cli", "sample", "base", "chain"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    start, message = done.stderr.splitlines()
    assert start == "starting vllm for base…"
    assert message.startswith("leash: vLLM cannot start on base: ValueError: Available memory ")
    assert not (folder / "data" / "completions" / "base" / "chain" / "manifest.json").exists()

"""vLLM's processes in real commands: one engine at a time, none left after a kill, and a failed start that says why.

Each test runs a process of its own, in which vLLM has its engine and worker processes as it has for users; the other
files of this folder keep the engine in the process of the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from stages import fetch, params, sample
from stages.models import Weights
from stages.sample import engines, plan
from stages.sample.engine import Engine
from tests.conftest import ROOT, small, write_params
from tests.processes import descendants, running
from tests.unit.test_orphans import survivors_of_a_kill

pytestmark = pytest.mark.vllm

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
MISSING = f" of {4 * 1_000_000 - 4 * 2:,} completions"  # of four problems, after the pilot
SETTINGS = {"max_model_len": 128, "eager": True}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that samples with vLLM in its default settings, but for what shortens the start."""
    pytest.importorskip("vllm", reason="vLLM is not installed; `make test-vllm` installs it")
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    fetch.run(write(tmp_path, k=4), "chain")
    return tmp_path


def write(folder: Path, k: int) -> params.Params:
    raw = small(sample={"k": k, "engine": "vllm", "vllm": SETTINGS}, run={"datasets": ["chain"]})
    for model in raw["models"].values():
        model["dtype"] = "float32"
    return write_params(folder, raw)


def pilot_then_sample() -> None:
    """Plan with a pilot on two models, tell how many engine processes are there whenever one is to start, and sample
    until killed."""
    load = engines._load_vllm

    def told(held: Weights, settings: params.Vllm) -> Engine:
        processes = descendants(os.getpid()).values()
        print("engines", sum("VLLM::" in command or "spawn_main" in command for command in processes), flush=True)
        return load(held, settings)

    engines._load_vllm = told
    plan.run(params.load(Path("params.yaml")), plan.Given(), pilot=2)
    print("piloted", flush=True)
    sample.run(write(Path(), k=1_000_000), "base", "chain")


def test_engines_are_released_and_die_with_the_command(folder: Path) -> None:
    script = "from tests.vllm.test_processes import pilot_then_sample; pilot_then_sample()"
    command = [sys.executable, "-c", script]
    surroundings = ENVIRONMENT | {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with running(subprocess.Popen(command, cwd=folder, env=surroundings, **streams)) as process:
        assert process.stdout
        assert process.stderr
        said = [process.stdout.readline() for _ in range(4)]
        assert said == ["engines 0\n", "engines 0\n", "piloted\n", "engines 0\n"], said
        lines = iter(process.stderr.readline, "")
        heard = list(takewhile(lambda line: MISSING not in line, lines))
        assert [line for line in heard if not line.startswith(("starting vllm", "vllm for", "sample "))] == []
        assert survivors_of_a_kill(process) == []


def test_a_failed_start_says_its_root_cause_in_one_sentence(folder: Path) -> None:
    """More memory for the cache than any machine has."""
    surroundings = ENVIRONMENT | {"PYTHONPATH": str(ROOT), "VLLM_CPU_KVCACHE_SPACE": "100000", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "stages.cli", "sample", "base", "chain"]
    done = subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    start, sentence = done.stderr.splitlines()
    assert start == "starting vllm for base…"
    assert sentence.startswith("leash: vLLM cannot start on base: ValueError: Available memory ")
    assert not (folder / "data" / "completions" / "base" / "chain" / "manifest.json").exists()

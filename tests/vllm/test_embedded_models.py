"""The embedded weights in real vLLM: the very folders in git, loaded and sampled, say what our engine says.

Run by `make test-vllm` in an environment of its own, with vLLM's CPU build.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from stages import models, seeds
from stages.prompts import Prompt
from stages.sample.engine import Decoding, Request
from stages.train import tasks
from tests.conftest import ROOT

pytestmark = pytest.mark.vllm

KINDS = [("chain", 5), ("chain", 8), ("make", 3), ("make", 5), ("make", 8)]


@pytest.fixture(scope="module", params=["base", "rlvr"])
def folder(request: pytest.FixtureRequest) -> str:
    return str(ROOT / "models" / request.param)


@pytest.fixture(scope="module")
def vllm(folder: str) -> Any:
    pytest.importorskip("vllm", reason="vLLM is not installed; `make test-vllm` installs it")
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    from vllm import LLM

    return LLM(folder, dtype="float32", enforce_eager=True, max_model_len=128, max_num_seqs=64)


def prompts() -> list[str]:
    rng = seeds.stream("test", "vllm")
    return [tasks.draw(rng, *kind, held_out=True).prompt for kind in KINDS for _ in range(4)]


def test_greedy_completions_are_the_torch_engines(vllm: Any, folder: str) -> None:
    from vllm import SamplingParams

    from stages.sample.torch_engine import TorchEngine

    theirs = vllm.generate(prompts(), SamplingParams(temperature=0, max_tokens=72), use_tqdm=False)
    engine = TorchEngine(*models.load(models.Weights("m", folder, None, "float32")))
    asked = [Request(str(i), Prompt(prompt), range(1), ("test",)) for i, prompt in enumerate(prompts())]
    ours = {c.problem_id: c for c in engine.complete(asked, Decoding(0.0, 1.0, 72))}
    for i, output in enumerate(theirs):
        completion = output.outputs[0]
        assert completion.text.split() == ours[str(i)].text.split()
        assert len(completion.token_ids) == ours[str(i)].tokens
        assert completion.finish_reason == ours[str(i)].finish

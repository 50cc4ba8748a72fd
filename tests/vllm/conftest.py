"""What the tests in real vLLM share: its surroundings, and the embedded weights."""

from __future__ import annotations

import os

import pytest

from stages import models
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def in_process() -> None:
    """vLLM in this very process, with little memory and no network."""
    pytest.importorskip("vllm", reason="vLLM is not installed; `make test-vllm` installs it")
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module", params=["base", "rlvr"])
def weights(request: pytest.FixtureRequest) -> models.Weights:
    return models.Weights(request.param, str(ROOT / "models" / request.param), None, "float32")

"""What the tests in real vLLM share: its surroundings, the embedded weights, and the engines, which start once."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stages import models
from stages.params import Vllm
from tests.conftest import ROOT

BASE = models.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float32")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Engines that end come last: they take with them what all engines of a process stand on."""
    items.sort(key=lambda item: item.path == Path(__file__).with_name("test_safety.py"))


@cache
def engine_on(weights: models.Weights) -> Any:
    """The engine that runs on these weights, for all files: starting it takes longer than most of their tests."""
    from stages.sample.vllm_engine import VllmEngine

    engine: Any = VllmEngine(weights, Vllm(max_model_len=128, eager=True))
    engine.close = nothing  # a stage that ends would close it
    return engine


def nothing() -> None:
    """What closing an engine does that others still use."""


@pytest.fixture(scope="session")
def in_process() -> None:
    """vLLM in this very process, with little memory and no network."""
    pytest.importorskip("vllm", reason="vLLM is not installed; `make test-vllm` installs it")
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module", params=["base", "rlvr"])
def weights(request: pytest.FixtureRequest) -> models.Weights:
    return replace(BASE, name=request.param, source=str(ROOT / "models" / "embedded" / request.param))

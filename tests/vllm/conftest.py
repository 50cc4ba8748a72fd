"""Fixtures of the tests with real vLLM: its environment, the embedded weights, and engines that start once."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from leash import weights as models
from leash.params.groups import Vllm
from tests.conftest import ROOT

BASE = models.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float32")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that close an engine run last: closing one breaks all engines of the process."""
    items.sort(key=lambda item: item.path == Path(__file__).with_name("test_safety.py"))


@cache
def engine_on(weights: models.Weights) -> Any:
    """The engine on these weights, shared by all files: starting it takes longer than most tests."""
    from leash.engines.vllm_engine import VllmEngine

    engine: Any = VllmEngine(weights, Vllm(max_model_len=128, eager=True))
    engine.close = nothing  # the stage would close it at its end
    return engine


def nothing() -> None:
    """Replaces the `close` of an engine that other tests still use."""


@pytest.fixture(scope="session")
def in_process() -> None:
    """vLLM in this process, with little memory and no network."""
    pytest.importorskip("vllm", reason="vLLM is not installed; `make test-vllm` installs it")
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module", params=["base", "rlvr"])
def weights(request: pytest.FixtureRequest) -> models.Weights:
    return replace(BASE, name=request.param, source=str(ROOT / "models" / "embedded" / request.param))

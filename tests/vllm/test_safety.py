"""vLLM runs no code that comes with a model and reads no pickles, unless the model's parameters allow it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from leash import weights
from leash.params.groups import Vllm
from tests.conftest import ROOT
from tests.unit.test_safety import with_code, with_pickle

pytestmark = [pytest.mark.vllm, pytest.mark.usefixtures("in_process")]


@pytest.fixture
def copy(tmp_path: Path) -> weights.Weights:
    return weights.Weights(
        "base", str(copytree(ROOT / "models" / "embedded" / "base", tmp_path / "model")), None, "float32"
    )


def start(copy: weights.Weights) -> object:
    from leash.engines.vllm_startup import start_engine

    return start_engine(copy, Vllm(max_model_len=128, eager=True))


def test_code_that_comes_with_a_model_is_not_run(copy: weights.Weights, tmp_path: Path) -> None:
    with_code(Path(copy.source), tmp_path / "ran")
    with pytest.raises(weights.UntrustedCodeError, match=r"`models\.base\.trust_remote_code: true`"):
        start(copy)
    assert not (tmp_path / "ran").exists()


def test_weights_in_a_pickle_are_loaded_only_if_allowed(copy: weights.Weights) -> None:
    with_pickle(Path(copy.source))
    with pytest.raises(weights.PickledWeightsError, match=r"`models\.base\.pickle: true`"):
        start(copy)
    start(replace(copy, pickle=True))

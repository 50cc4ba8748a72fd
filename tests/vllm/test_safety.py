"""vLLM runs no code that comes with a model and reads no pickles, unless the model's parameters allow it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from stages import models
from stages.errors import LeashError
from stages.params import Vllm
from tests.conftest import ROOT
from tests.unit.test_safety import with_code, with_pickle

pytestmark = [pytest.mark.vllm, pytest.mark.usefixtures("in_process")]


@pytest.fixture
def held(tmp_path: Path) -> models.Weights:
    return models.Weights(
        "base", str(copytree(ROOT / "models" / "embedded" / "base", tmp_path / "model")), None, "float32"
    )


def started(held: models.Weights) -> object:
    from stages.sample.vllm_start import new_engine

    return new_engine(held, Vllm(max_model_len=128, eager=True))


def test_code_that_comes_with_a_model_is_not_run(held: models.Weights, tmp_path: Path) -> None:
    with_code(Path(held.source), tmp_path / "ran")
    with pytest.raises(LeashError, match=r"`models\.base\.trust_remote_code: true`"):
        started(held)
    assert not (tmp_path / "ran").exists()


def test_weights_in_a_pickle_are_read_only_where_that_is_allowed(held: models.Weights) -> None:
    with_pickle(Path(held.source))
    with pytest.raises(LeashError, match=r"`models\.base\.pickle: true`"):
        started(held)
    started(replace(held, pickle=True))

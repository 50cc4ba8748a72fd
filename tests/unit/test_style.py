"""The style control on a model that differs from its base only in wording, and on one that lost a capability."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from leash.params.groups import Params
from leash.progress import Progress
from leash.report import perplexity_tables
from leash.statistics.seeds import stream
from leash.statistics.style import MIN_EFFECT
from stages.categorize import stage
from stages.perplexity import stage as perplexity
from stages.train import fit
from stages.train.model import save_model
from tests import made
from tests.conftest import ROOT, small, write_params

STEPS = 250


def reworded() -> Iterator[fit.Document]:
    """The base's training documents, half of them with colons instead of commas."""
    rng = stream("test", "wording")
    for prompt, solution in fit.generate_noisy_documents(seed=1):
        yield prompt, solution.replace(" , ", " : ") if rng.random() < 0.5 else solution


def forgetful() -> Iterator[fit.Document]:
    """The base's training documents, with random numbers in the solutions of `make` with more than three numbers."""
    rng = stream("test", "forgetful")
    for prompt, solution in fit.generate_noisy_documents(seed=2):
        if prompt.startswith("make") and len(prompt.split()) > 7:
            words = [str(rng.integers(1, 10)) if word.isdigit() else word for word in solution.split()]
            yield prompt, " ".join(words)
        else:
            yield prompt, solution


def train_from_base(folder: Path, documents: Iterator[fit.Document]) -> None:
    """Train the base on these documents for a few steps."""
    torch.set_num_threads(1)
    model = LlamaForCausalLM.from_pretrained(ROOT / "models" / "embedded" / "base")
    with Progress(STEPS, folder.name, "steps") as progress:
        fit.train_supervised(model, documents, fit.Schedule(STEPS, lr=5e-4, warmup=10), progress)
    save_model(model, folder)


def parameters() -> Params:
    raw = small(sample={"k": 8, "batch": 512})
    raw["run"] |= {"models": ["base", "worded", "forgetful"], "pairs": ["worded", "forgetful"]}
    for name in ("worded", "forgetful"):
        raw["models"][name] = {"path": name, "dtype": "float64"}
        raw["pairs"][name] = {"base": "base", "rlvr": name}
    raw["datasets"]["chain"] = {"family": "chain", "levels": [4, 5, 6, 7, 8], "per_level": 8}
    raw["datasets"]["make"] = {"family": "make", "levels": [3, 4, 5], "per_level": 24}
    return write_params(Path(), raw)


@pytest.fixture(scope="module")
def style(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], dict[str, Any]]:
    """The style table's rows on the generator's worked solutions, by pair and category."""
    folder = tmp_path_factory.mktemp("style")
    (folder / "models").symlink_to(ROOT / "models")
    with chdir(folder):
        train_from_base(Path("worded"), reworded())
        train_from_base(Path("forgetful"), forgetful())
        params = parameters()
        made.sampled(params)
        stage.run(params)
        perplexity.run(params)
        rows = perplexity_tables.compute_perplexity_tables(params)[1].to_pylist()
    return {
        (row["pair"], row["category"]): row for row in rows if row["dataset"] == "all" and row["source"] == "worked"
    }


@pytest.mark.parametrize("category", ["S", "O"])
def test_another_wording_alone_claims_nothing(style: Any, category: str) -> None:
    row = style["worded", category]
    assert row["control"] > 0.03  # the wording is less likely everywhere
    assert row["change"] > 0.03
    assert abs(row["beyond_style"]) < MIN_EFFECT
    assert row["claim"] == "none"
    assert row["withheld"] in ("interval", "small")


@pytest.mark.parametrize("category", ["S", "O"])
def test_a_lost_capability_shows_under_every_control(style: Any, category: str) -> None:
    row = style["forgetful", category]
    assert row["control"] < 0.1
    for control in ("beyond_style", "beyond_length", "beyond_order"):
        assert row[control] > 0.3
        assert row[f"{control}_low"] > 0.1
    assert (row["claim"], row["withheld"]) == ("stranger", None)

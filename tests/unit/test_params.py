"""Bad parameters: one sentence that names the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stages import params as parameters
from stages.errors import LeashError
from tests.conftest import ROOT, small, write_params

BAD: list[tuple[dict[str, dict[str, Any]], str]] = [
    ({"sample": {"kk": 3}}, "`sample.kk` is not a parameter"),
    ({"sample": {"k": "many"}}, "`sample.k` is 'many', but should be a valid integer"),
    ({"sample": {"k": 0}}, "`sample.k` is 0, but should be greater than 0"),
    ({"sample": {"k": None}}, "`sample.k` is missing; set it, or `datasets.chain.k`, to the number of samples"),
    ({"sample": {"max_tokens": None}}, "`sample.max_tokens` is missing; set it to the most tokens"),
    ({"sample": {"top_p": 1.5}}, "`sample.top_p` is 1.5, but should be less than or equal to 1"),
    (
        {"categorize": {"epsilon": -0.1}},
        "`categorize.epsilon` is -0.1, but should be greater than or equal to 0 or 'auto'",
    ),
    ({"categorize": {"epsilon": "tiny"}}, "`categorize.epsilon` is 'tiny', but should be a valid number or 'auto'"),
    ({"categorize": {"k": 17}}, "`categorize.k` is 17, but only 16 samples a problem are taken on chain"),
    ({"run": {"pairs": ["sft"]}}, "`pairs.sft` names the model sft, which is not in `run.models`"),
    ({"run": {"pairs": ["ghost"]}}, "`run.pairs` names ghost, which is not under `pairs`"),
    ({"run": {"models": ["base", "ghost"]}}, "`run.models` names ghost, which is not under `models`"),
    ({"run": {"datasets": ["ghost"]}, "categorize": {"k": 8}}, "`run.datasets` names ghost, which is not under"),
    ({"run": {"pairs": ["ghost"]}, "sample": {"stop_after": 1}}, "`run.pairs` names ghost, which is not under `pairs`"),
    ({"run": {"models": []}}, "`run.models` is []"),
    ({"models": {"base": {"path": "a", "hub": "b"}}}, "`models.base` needs one of `path`"),
    ({"models": {"a/b": {"path": "a"}}}, "`models.a/b"),
    ({"datasets": {"chain": {"family": "chain"}}}, "`datasets.chain` is generated, so it needs `levels`"),
    ({"datasets": {"all": {"path": "a.csv"}}}, "`datasets.all` must have another name"),
    ({"datasets": {"chain": {}}}, "`datasets.chain` needs a `path`"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD)
def test_bad_value_gets_a_sentence(tmp_path: Path, changes: dict[str, dict[str, Any]], sentence: str) -> None:
    with pytest.raises(LeashError) as error:
        write_params(tmp_path, small(**changes))
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["run: [", "- a\n- b\n", "", "\x00", "a: {b: c"])
def test_what_is_not_a_parameter_file_gets_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(LeashError, match=r"params\.yaml"):
        parameters.load(tmp_path / "params.yaml")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(LeashError, match="There is no"):
        parameters.load(tmp_path / "params.yaml")


def test_k_is_what_both_models_have() -> None:
    params = parameters.load(ROOT / "params.yaml")
    assert params.k("rlvr", "chain") == 1024
    assert params.k("sft", "chain") == 64
    assert params.pair_k("rlvr", "make") == 1024
    assert params.pair_k("sft", "make") == 64


def test_categorize_k_lowers_it(tmp_path: Path) -> None:
    assert write_params(tmp_path, small(categorize={"k": 8})).pair_k("rlvr", "chain") == 8


def test_the_papers_setup_is_valid() -> None:
    params = parameters.load(ROOT / "params.paper.yaml")
    assert (params.sample.temperature, params.sample.top_p, params.sample.max_tokens) == (0.6, 0.95, 32768)
    assert params.k("deepseek-1.5b", "aime24") == 8192
    assert params.k("deepseek-1.5b", "simpleqa") == 2048
    assert params.k("deepseek-14b", "aime24") == 4096
    assert params.k("deepseek-14b", "simpleqa") == 1024
    assert params.k("olmo-dpo", "math500") == 256

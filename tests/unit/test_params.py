"""Bad parameters: an error that names the place in the file. Good ones: the k of models and pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leash.errors import LeashError
from leash.params import errors
from leash.params.loading import load
from tests.conftest import ROOT, small, write_params

BAD: list[tuple[dict[str, dict[str, Any]], type[errors.ParamError], str, dict[str, Any]]] = [
    ({"sample": {"kk": 3}}, errors.UnknownKeyError, "sample.kk", {}),
    ({"sample": {"k": "many"}}, errors.BadValueError, "sample.k", {"value": "'many'", "expected": "a valid integer"}),
    ({"sample": {"k": 0}}, errors.BadValueError, "sample.k", {"value": "0", "expected": "greater than 0"}),
    ({"sample": {"k": None}}, errors.MissingKeyError, "sample.k", {}),
    ({"sample": {"max_tokens": None}}, errors.MissingKeyError, "sample.max_tokens", {}),
    ({"sample": {"top_p": 1.5}}, errors.BadValueError, "sample.top_p", {"expected": "less than or equal to 1"}),
    (
        {"categorize": {"epsilon": -0.1}},
        errors.BadValueError,
        "categorize.epsilon",
        {"value": "-0.1", "expected": "greater than or equal to 0 or 'auto'"},
    ),
    (
        {"categorize": {"epsilon": "tiny"}},
        errors.BadValueError,
        "categorize.epsilon",
        {"value": "'tiny'", "expected": "a valid number or 'auto'"},
    ),
    (
        {"categorize": {"confidence": 0.5}},
        errors.BadValueError,
        "categorize.confidence",
        {"expected": "greater than 0.5"},
    ),
    ({"categorize": {"margin": 0}}, errors.BadValueError, "categorize.margin", {"expected": "greater than 0"}),
    ({"categorize": {"margin": 1}}, errors.BadValueError, "categorize.margin", {"expected": "less than 1"}),
    ({"categorize": {"k": 17}}, errors.ConflictError, "categorize.k", {"value": 17, "limit": 16}),
    (
        {"sample": {"stop_after": 1}, "categorize": {"epsilon": 0.5}},
        errors.ConflictError,
        "sample.stop_after",
        {"value": 1, "limit": 9},
    ),
    (
        {"sample": {"temperature": 0}, "reach": {"rollouts": 64}},
        errors.ConflictError,
        "reach.rollouts",
        {"value": 64, "limit": 0},
    ),
    *[
        (
            {"sample": {"stop": stops}},
            errors.BadValueError,
            "sample.stop",
            {"expected": "a list of at most 16 texts, none of them empty or only white space"},
        )
        for stops in (["Q:", ""], ["\n\n"], ["  "], [f"Q{i}:" for i in range(17)])
    ],
    ({"sample": {"stop": "Q:"}}, errors.BadValueError, "sample.stop", {"value": "'Q:'", "expected": "a valid list"}),
    ({"sample": {"stop": [3]}}, errors.BadValueError, "sample.stop.0", {"value": "3"}),
    ({"models": {"base": {"path": "a", "stop": [""]}}}, errors.BadValueError, "models.base.stop", {}),
    ({"run": {"pairs": ["sft"]}}, errors.BadListError, "pairs.sft", {"name": "sft"}),
    ({"pairs": {"rlvr": {"base": "base", "rlvr": "base"}}}, errors.ParamError, "pairs.rlvr", {}),
    ({"run": {"pairs": ["ghost"]}}, errors.BadListError, "run.pairs", {"name": "ghost"}),
    ({"run": {"models": ["base", "ghost"]}}, errors.BadListError, "run.models", {"name": "ghost"}),
    ({"run": {"datasets": ["ghost"]}, "categorize": {"k": 8}}, errors.BadListError, "run.datasets", {"name": "ghost"}),
    ({"run": {"pairs": ["ghost"]}, "sample": {"stop_after": 1}}, errors.BadListError, "run.pairs", {"name": "ghost"}),
    ({"run": {"models": []}}, errors.BadValueError, "run.models", {"value": "[]"}),
    ({"models": {"base": {"path": "a", "hub": "b"}}}, errors.MissingSourceError, "models.base", {}),
    ({"models": {"a/b": {"path": "a"}}}, errors.BadNameError, "models.a/b", {"name": "'a/b'"}),
    ({"datasets": {"chain": {"family": "chain"}}}, errors.BadValueError, "datasets.chain.levels", {"value": "[]"}),
    ({"datasets": {"all": {"path": "a.csv"}}}, errors.ParamError, "datasets.all", {}),
    ({"datasets": {"chain": {}}}, errors.MissingSourceError, "datasets.chain", {}),
    ({"datasets": {"chain": {"hub": "a/b"}}}, errors.MissingKeyError, "datasets.chain.files", {}),
]


@pytest.mark.parametrize(("changes", "kind", "key", "facts"), BAD)
def test_a_bad_value_is_refused_by_its_place_in_the_file(
    tmp_path: Path, changes: dict[str, dict[str, Any]], kind: type[errors.ParamError], key: str, facts: dict[str, Any]
) -> None:
    with pytest.raises(kind) as error:
        write_params(tmp_path, small(**changes))
    assert (error.value.key, error.value.path) == (key, tmp_path / "params.yaml")
    assert vars(error.value) | facts == vars(error.value)
    assert str(error.value).startswith(f"{tmp_path / 'params.yaml'}: `{key}` ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["run: [", "- a\n- b\n", "", "\x00", "a: {b: c"])
def test_a_file_without_parameters_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "params.yaml").write_text(text)
    with pytest.raises(errors.BadParamsFileError) as error:
        load(tmp_path / "params.yaml")
    assert error.value.path == tmp_path / "params.yaml"


def test_a_missing_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(errors.MissingParamsFileError, match="run leash in the folder that holds it") as error:
        load(tmp_path / "params.yaml")
    assert error.value.path == tmp_path / "params.yaml"


def test_an_unknown_name_on_a_command_line_lists_the_known_ones(tmp_path: Path) -> None:
    params = write_params(tmp_path, small())
    with pytest.raises(errors.NotInParamsError) as error:
        params.known_dataset("ghost")
    assert (error.value.kind, error.value.name) == ("data set", "ghost")
    assert set(error.value.known) == set(params.datasets)
    assert isinstance(error.value, LeashError)


def test_a_pair_has_the_smaller_k_of_its_models() -> None:
    params = load(ROOT / "params.yaml")
    assert params.k("rlvr", "chain") == 1024
    assert params.k("sft", "chain") == 64
    assert params.pair_k("rlvr", "make") == 1024
    assert params.pair_k("sft", "make") == 64


def test_categorize_k_lowers_the_k_of_a_pair(tmp_path: Path) -> None:
    assert write_params(tmp_path, small(categorize={"k": 8})).pair_k("rlvr", "chain") == 8


def test_the_papers_setup_is_valid() -> None:
    params = load(ROOT / "params.paper.yaml")
    assert (params.sample.temperature, params.sample.top_p, params.sample.max_tokens) == (0.6, 0.95, 32768)
    assert params.k("deepseek-1.5b", "aime24") == 8192
    assert params.k("deepseek-1.5b", "simpleqa") == 2048
    assert params.k("deepseek-14b", "aime24") == 4096
    assert params.k("deepseek-14b", "simpleqa") == 1024
    assert params.k("olmo-dpo", "math500") == 256

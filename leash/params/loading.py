"""Load and check a parameter file: `load(Path("params.yaml")).k("rlvr", "chain")  ->  1024`."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from leash.params.checks import check
from leash.params.errors import BadParamsFileError, ParamError
from leash.params.groups import Params
from leash.params.yaml_file import read_yaml, translate_validation_error


def load(path: Path = Path("params.yaml")) -> Params:
    """Read a parameter file, or raise the first problem that it has."""
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise BadParamsFileError(
            path, f"must hold groups such as `models:` and `sample:`, but holds {type(raw).__name__}"
        )
    try:
        try:
            params = Params.model_validate(raw)
        except ValidationError as error:
            raise translate_validation_error(error) from None
        check(params)
    except ParamError as error:
        error.path = path
        raise
    return params

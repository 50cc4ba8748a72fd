"""The one reader of `params.yaml`: typed, validated, and plain about what is wrong.

    load(Path("params.yaml")).k("rlvr", "chain")  ->  1024

`groups` has the types, `checks` what no single field can know, `reading` the YAML and the sentences.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from stages.errors import LeashError
from stages.params.checks import complaints
from stages.params.groups import (
    EMBEDDED,
    LARGEST,
    NAME,
    WEIGHTLESS,
    Asking,
    Code,
    Dataset,
    Judge,
    Model,
    OpenAI,
    Params,
    Ray,
    Sample,
    ScorerName,
    Train,
    Verify,
    Vllm,
    cores,
    detectable,
    hits_above,
)
from stages.params.reading import parsed, sentence

__all__ = [
    "EMBEDDED",
    "LARGEST",
    "NAME",
    "WEIGHTLESS",
    "Asking",
    "Code",
    "Dataset",
    "Judge",
    "Model",
    "OpenAI",
    "Params",
    "Ray",
    "Sample",
    "ScorerName",
    "Train",
    "Verify",
    "Vllm",
    "cores",
    "detectable",
    "hits_above",
    "load",
]


def load(path: Path = Path("params.yaml")) -> Params:
    """Read and check a parameter file, or raise one sentence."""
    raw = parsed(path)
    if not isinstance(raw, dict):
        raise LeashError(f"{path} must hold groups such as `models:` and `sample:`, but holds {type(raw).__name__}.")
    try:
        params = Params.model_validate(raw)
    except ValidationError as error:
        raise LeashError(sentence(path, error)) from None
    for complaint in complaints(params):
        raise LeashError(f"{path}: {complaint}")
    return params

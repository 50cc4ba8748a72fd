"""Load and check a parameter file: `load(Path("params.yaml")).k("rlvr", "chain")  ->  1024`.

Messages name the place in the file and show no API key. `checks` and `security` look at the meaning of the values.
"""

from __future__ import annotations

import re
import reprlib
import warnings
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import ReusedAnchorWarning
from ruamel.yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from leash.params import errors, security
from leash.params.checks import check
from leash.params.groups import NAME_PATTERN, Params

MAX_VALUE_CHARS = 60
# Of a whole file, with its aliases written out. The paper's own parameters have a few hundred.
MAX_VALUES = 100_000
# A bounded repr, because YAML aliases of aliases may stand for more than memory holds. Strings stay whole: half of an
# API key would no longer look like one, and would not be masked.
BOUNDED_REPR = reprlib.Repr()
BOUNDED_REPR.maxstring = 10_000
# pydantic adds the members of a union to the path of an error: types, and types with constraints.
UNION_MEMBER_PATTERN = re.compile(r"(int|float|str|constrained-\w+|(literal|dict|constrained|function-\w+)\[.*)$")


def load(path: Path = Path("params.yaml")) -> Params:
    """Read a parameter file, or raise the first problem that it has."""
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        reason = f"must hold groups such as `models:` and `sample:`, but holds {type(raw).__name__}"
        raise errors.BadParamsFileError(path, reason)
    try:
        try:
            params = Params.model_validate(raw)
        except ValidationError as error:
            raise translate_validation_error(error) from None
        check(params)
    except errors.ParamError as error:
        error.path = path
        raise
    return params


def read_yaml(path: Path) -> Any:
    """Read YAML 1.2, as DVC does."""
    try:
        with warnings.catch_warnings(action="ignore", category=ReusedAnchorWarning):
            text = path.read_text(encoding="utf-8")
            _refuse_bomb(path, text)
            return YAML(typ="safe", pure=True).load(text)
    except FileNotFoundError:
        raise errors.MissingParamsFileError(path) from None
    except errors.BadParamsFileError:
        raise
    except OSError as error:
        raise errors.BadParamsFileError(path, f"can't be read ({error.strerror}); it should be a YAML file") from None
    except RecursionError:
        raise errors.BadParamsFileError(path, "is nested too deeply; no group needs more than a few levels") from None
    except Exception as error:  # ruamel also lets Python's own errors through, for example for 2024-13-45
        raise errors.BadParamsFileError(path, f"is not YAML: {_describe_yaml_error(error)}") from None


def _refuse_bomb(path: Path, text: str) -> None:
    """Refuse aliases of aliases that stand for more values than memory holds. To count them builds nothing: each alias
    counts as what its anchor stands for."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = [(None, 0)]
    for event in YAML(typ="safe", pure=True).parse(text):
        match event:
            case MappingStartEvent() | SequenceStartEvent():
                open_nodes.append((event.anchor, 1))
                continue
            case MappingEndEvent() | SequenceEndEvent():
                anchor, size = open_nodes.pop()
            case AliasEvent():
                anchor, size = None, sizes.get(event.anchor, 1)
            case ScalarEvent():
                anchor, size = event.anchor, 1
            case _:
                continue
        if anchor is not None:
            sizes[anchor] = size
        parent, total = open_nodes.pop()
        open_nodes.append((parent, total + size))
        if total + size > MAX_VALUES:
            reason = f"stands for more than {MAX_VALUES:,} values, by aliases of aliases; write out what you need"
            raise errors.BadParamsFileError(path, reason)


def translate_validation_error(error: ValidationError) -> errors.ParamError:
    """The first of pydantic's errors as ours.

    For a value that fits no member of a union, pydantic has one error per member, all at one place: they are joined.
    """
    first = error.errors()[0]
    key = _field_path(first["loc"])
    if first["type"] == "extra_forbidden":
        return errors.UnknownKeyError(key)
    if first["type"] == "missing":
        return errors.MissingKeyError(key)
    if key in ("sample.openai.key", "verify.judge.key", "reasoning.key"):  # the value may be an API key: do not show it
        return errors.ParamError(key, errors.KEY_VARIABLE_ADVICE)
    value = security.mask_keys(BOUNDED_REPR.repr(first["input"]))
    value = value if len(value) <= MAX_VALUE_CHARS else f"{value[: MAX_VALUE_CHARS - 3]}…"
    if first.get("ctx", {}).get("pattern") == NAME_PATTERN:
        return errors.BadNameError(key.removesuffix(".[key]"), value)
    expected = [e["msg"].removeprefix("Input should be ") for e in error.errors() if _field_path(e["loc"]) == key]
    return errors.BadValueError(key, value, " or ".join(dict.fromkeys(expected)))


def _describe_yaml_error(error: Exception) -> str:
    """The problem and its line number, but not the line itself, which may hold an API key."""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    return security.mask_keys(" ".join(problem.split())) + where


def _field_path(loc: tuple[int | str, ...]) -> str:
    """pydantic's path to a field in one line, without the members of unions."""
    parts = [str(part) for part in loc if not (isinstance(part, str) and UNION_MEMBER_PATTERN.match(part))]
    return security.mask_keys(" ".join(".".join(parts).split()))

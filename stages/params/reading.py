"""A parameter file as YAML holds it, and what is wrong with it as a sentence that names the place and shows no key."""

from __future__ import annotations

import re
import reprlib
import warnings
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import ReusedAnchorWarning

from stages import safety
from stages.errors import LeashError
from stages.params.groups import NAME

BRIEF = reprlib.Repr()
BRIEF.maxstring = 10_000  # whole: what is cut in two is no longer seen to be a key
# What pydantic calls the alternatives of a union: types, and types with their constraints.
ALTERNATIVE = re.compile(r"(int|float|str|constrained-\w+|(literal|dict|constrained|function-\w+)\[.*)$")


def parsed(path: Path) -> Any:
    """What a YAML file holds: YAML 1.2, as DVC reads it."""
    try:
        with warnings.catch_warnings(action="ignore", category=ReusedAnchorWarning):
            return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LeashError(f"There is no {path} here: run leash in the folder that holds it.") from None
    except OSError as error:
        raise LeashError(f"{path} can't be read ({error.strerror}); it should be a file of parameters.") from None
    except RecursionError:
        raise LeashError(f"{path} is nested too deeply; its groups hold values, not groups without end.") from None
    except Exception as error:  # beside its own, the reader lets out whatever Python says of 2024-13-45 or `!!bool x`
        raise LeashError(f"{path} is not YAML: {_trouble(error)}.") from None


def sentence(path: Path, error: ValidationError) -> str:
    """The first of pydantic's complaints as a sentence. A value that fits none of several types is one complaint
    for each of them, at one place: they are joined by "or"."""
    first = error.errors()[0]
    place = _place(first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{path}: `{place}` is not a parameter; is it misspelt? Correct it or remove it."
    if first["type"] == "missing":
        return f"{path}: `{place}` is missing; add it."
    if place in ("sample.openai.key", "verify.judge.key"):  # the value may be a key, which nobody should see
        return f"{path}: `{place}` {safety.NOT_A_KEY}."
    if first.get("ctx", {}).get("pattern") == NAME:
        return (
            f"{path}: `{place.removesuffix('.[key]')}` can't have the name {_shown(first['input'])}: names become "
            f"folders and have letters, digits, single dots, dashes and underscores; choose another."
        )
    wanted = [e["msg"].removeprefix("Input should be ") for e in error.errors() if _place(e["loc"]) == place]
    return f"{path}: `{place}` is {_shown(first['input'])}, but should be {' or '.join(dict.fromkeys(wanted))}."


def _trouble(error: Exception) -> str:
    """What is wrong and in which line, but not the line itself: it may hold what nobody should see."""
    said = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    return safety.masked(" ".join(said.split())) + where


def _place(loc: tuple[int | str, ...]) -> str:
    """Where in the file: pydantic's path without its names for the alternatives of a union, in one line."""
    parts = [str(part) for part in loc if not (isinstance(part, str) and ALTERNATIVE.match(part))]
    return safety.masked(" ".join(".".join(parts).split()))


def _shown(value: Any) -> str:
    """A value in brief, however large: aliases of aliases may stand for more than memory holds."""
    text = safety.masked(BRIEF.repr(value))
    return text if len(text) <= 60 else f"{text[:57]}…"

"""What every format becomes: a record is one problem as a file tells it, with some completions of it.

Also here: the checks that all formats share. A field that is missing or of the wrong kind is one sentence with the
place it was found at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stages.errors import LeashError
from stages.fetch.benchmark import golds as written_golds
from stages.importing.reading.rows import Row, clean, kind
from stages.params import LARGEST
from stages.verify.extract import extract

UNKNOWN = "unknown"  # how a completion ended, where the file does not tell
SAID = {
    "model": ("_model", "model", "model_name"),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "max_tokens": ("max_tokens", "max_gen_toks", "tokens_to_generate"),
}
GSM8K = re.compile(r"####\s*(\S.*?)\s*$")  # where its worked solutions put the answer


@dataclass(frozen=True)
class Recorded:
    """A completion as the file tells it; None is what it does not tell."""

    text: str
    tokens: int | None = None
    finish: str = UNKNOWN
    logprob: float | None = None
    score: float | None = None


@dataclass(frozen=True)
class Record:
    """`sample` is the number the file gives to its one completion; `says` what it tells about model and decoding."""

    where: str
    question: str | None
    gold: list[str]
    completions: list[Recorded]
    id: str | None = None
    sample: int | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    says: Mapping[str, str] = field(default_factory=dict)


def needed(row: Row, name: str) -> Any:
    if name not in row.fields:
        raise LeashError(f"{row.where} has no field {name}; it has {listing(row.fields)}.")
    return row.fields[name]


def listing(names: Any, most: int = 12) -> str:
    shown = [str(name) for name in names]
    return ", ".join(shown[:most]) + (", …" if len(shown) > most else "") or "none"


def brief(value: str) -> str:
    """The beginning of a text in one line, for a sentence."""
    line = " ".join(value.split())
    return line if len(line) <= 80 else f"{line[:79]}…"


def text(value: Any, where: str, name: str) -> str:
    if not isinstance(value, str):
        raise LeashError(f"{where}: {name} is {kind(value)}, not text; correct the row or take it out.")
    return clean(value)


def items(value: Any, where: str, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise LeashError(f"{where}: {name} is {kind(value)}, not a list of completions.")
    return value


def golds(value: Any) -> list[str]:
    """Gold answers as text. Of a worked solution only its last box or, as in GSM8K, what follows #### counts."""
    found = []
    for gold in written_golds(value):
        worked = GSM8K.search(gold)
        found.append(clean(worked[1] if worked else extract(gold) or gold))
    return found


def count(value: Any, where: str, name: str) -> int | None:
    """A number of tokens, or of a sample."""
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise LeashError(f"{where}: {name} is {brief(repr(value))}, not a whole number from 0 up.")
    return value


def number(value: Any, where: str, name: str) -> float | None:
    if value is None:
        return None
    if (real := score(value)) is None:
        raise LeashError(f"{where}: {name} is {brief(repr(value))}, not a number.")
    return real


def score(value: Any) -> float | None:
    """Recorded scores are told to the user and nothing more: one that is no number is left out."""
    if not isinstance(value, bool | int | float):
        return None
    return float(value) if -LARGEST <= value <= LARGEST else None  # a NaN is not


def scores(value: Any, size: int) -> Sequence[float | None]:
    """A score for each of some completions, if the file has that many."""
    if isinstance(value, list) and len(value) == size:
        return [score(one) for one in value]
    return [score(value)] if size == 1 else [None] * size


def said(*places: Any) -> dict[str, str]:
    """What is told about model and decoding, in the first of some mappings that tells it."""
    found: dict[str, str] = {}
    for place in places:
        for name, spellings in SAID.items() if isinstance(place, dict) else ():
            told = next((place[s] for s in spellings if isinstance(place.get(s), str | int | float)), None)
            if told is not None:
                found.setdefault(name, str(told))
    return found

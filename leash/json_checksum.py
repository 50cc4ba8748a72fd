"""A checksum inside JSON objects that Leash writes and reads again: one flipped bit must not change a number unnoticed.

The checksum is of the content, not of its spelling, so that spaces and the order of keys do not matter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from leash import atomic_io

# No data set, pair or problem can have this name.
CHECKSUM_KEY = "leash:seal"


class Checked(NamedTuple):
    """An object without its checksum. `valid` is None if it has none (an earlier version wrote it)."""

    content: dict[str, Any]
    valid: bool | None


def with_checksum(content: Mapping[Any, Any], key: str = CHECKSUM_KEY) -> dict[Any, Any]:
    """The object with its checksum as the last key."""
    return {**content, key: compute_checksum(content)}


def check(text: str | bytes, key: str = CHECKSUM_KEY) -> Checked:
    """Parse an object and compare its checksum. ValueError if it is not a JSON object."""
    try:
        content = json.loads(text)
        if not isinstance(content, dict):
            raise ValueError("not a JSON object")
        found = content.pop(key, None)
        return Checked(content, None if found is None else found == compute_checksum(content))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def compute_checksum(content: Mapping[Any, Any]) -> str:
    # As it will be read: numbers that are keys become text, which is sorted in another order.
    as_read = json.loads(json.dumps(content))
    return atomic_io.hash_strings(json.dumps(as_read, sort_keys=True))

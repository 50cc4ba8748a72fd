"""Seals: a table carries a hash of its own bytes, so that a damaged one is noticed before anyone counts with it.

The seal is a note in the footer of the Parquet file. It is the hash of the file with zeros in its place.
"""

from __future__ import annotations

from pathlib import Path

from stages import disk

NAME = "leash.seal"
BLANK = "0" * disk.HASH
MARK = NAME.encode() + b"\x18" + bytes([disk.HASH])  # in a footer: the name, and how long a text follows


def sealed(content: bytes) -> bytes:
    """The bytes of a Parquet file whose seal is blank, with the seal filled in."""
    place = _place(content)
    assert place is not None
    return _with(content, place, _hash(content, place))


def holds(path: Path) -> bool | None:
    """Whether a file is as it was written; None where it has no seal, being someone else's or cut short."""
    content = path.read_bytes()
    if (place := _place(content)) is None:
        return None
    return content[place : place + len(BLANK)] == _hash(content, place)


def _place(content: bytes) -> int | None:
    """Where the seal begins. The footer is last, so no text in the table can be taken for it."""
    mark = content.rfind(MARK)
    return mark + len(MARK) if mark >= 0 else None


def _hash(content: bytes, place: int) -> bytes:
    return disk.bytes_hash(_with(content, place, BLANK.encode())).encode()


def _with(content: bytes, place: int, seal: bytes) -> bytes:
    return content[:place] + seal + content[place + len(seal) :]

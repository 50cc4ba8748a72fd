"""A checksum inside each Parquet file, so that damage is noticed before anyone counts with the file.

The checksum is a hash of the file with zeros in the checksum's place. It is stored in the footer's metadata. Parquet's
own page checksums do not suffice: they leave out the footer, and DuckDB ignores them.
"""

from __future__ import annotations

from pathlib import Path

from leash import atomic_io

METADATA_KEY = "leash.seal"
BLANK_CHECKSUM = "0" * atomic_io.HASH_HEX_DIGITS
# How Thrift writes the key and its value in a footer: the key, the type of the next field, and the value's length.
CHECKSUM_MARKER = METADATA_KEY.encode() + b"\x18" + bytes([atomic_io.HASH_HEX_DIGITS])


def fill_checksum(content: bytes) -> bytes:
    """Replace the blank checksum in the bytes of a Parquet file by the real one."""
    offset = _checksum_offset(content)
    assert offset is not None
    return content[:offset] + _compute_checksum(content, offset) + content[offset + len(BLANK_CHECKSUM) :]


def has_valid_checksum(path: Path) -> bool | None:
    """Whether a file is as it was written; None if it has no checksum (another program wrote it, or it is cut off)."""
    content = path.read_bytes()
    if (offset := _checksum_offset(content)) is None:
        return None
    return content[offset : offset + len(BLANK_CHECKSUM)] == _compute_checksum(content, offset)


def _checksum_offset(content: bytes) -> int | None:
    # The footer comes last, so the last marker is the real one even if a text in the table contains the marker.
    marker = content.rfind(CHECKSUM_MARKER)
    return marker + len(CHECKSUM_MARKER) if marker >= 0 else None


def _compute_checksum(content: bytes, offset: int) -> bytes:
    blank = content[:offset] + BLANK_CHECKSUM.encode() + content[offset + len(BLANK_CHECKSUM) :]
    return atomic_io.bytes_hash(blank).encode()

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
    before, marker, after = content.rpartition(CHECKSUM_MARKER)
    assert marker
    return before + marker + atomic_io.bytes_hash(content).encode() + after[atomic_io.HASH_HEX_DIGITS :]


def has_valid_checksum(path: Path) -> bool | None:
    """Whether a file is as it was written; None if it has no checksum (another program wrote it, or it is cut off)."""
    return is_valid(path.read_bytes())


def is_valid(content: bytes) -> bool | None:
    """The same of the bytes of a file."""
    # The footer comes last, so the last marker is the real one even if a text in the table contains the marker.
    marker = content.rfind(CHECKSUM_MARKER)
    if marker < 0:
        return None
    begin, end = marker + len(CHECKSUM_MARKER), marker + len(CHECKSUM_MARKER) + atomic_io.HASH_HEX_DIGITS
    # A view, since slices of a large file would be copies of it.
    view = memoryview(content)
    return content[begin:end] == atomic_io.bytes_hash(view[:begin], BLANK_CHECKSUM.encode(), view[end:]).encode()

"""The images of a problem, as bytes: from the hub's own columns, or from the files that a row names.

{"decoded_image": {"bytes": b"\\x89PNG…", "path": null}}     a hub table
{"image": "images/4.jpg"}                                   a row of a local file; images/ is beside it
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stages.errors import LeashError
from stages.fetch.benchmark import Row

KINDS = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}  # by how such files begin


def images(row: Row, *columns: str) -> list[bytes]:
    """All images in the first of these columns that holds some."""
    value = row.need(*columns)
    found = [_bytes(row, item) for item in (value if isinstance(value, list) else [value])]
    if not all(kind_of(image) for image in found):
        raise LeashError(f"{row.where} has an image that is no PNG, JPEG, GIF or WebP file; convert it to one.")
    return found


def kind_of(image: bytes) -> str | None:
    return next((kind for begin, kind in KINDS.items() if image.startswith(begin)), None)


def _bytes(row: Row, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        return _bytes(row, value.get("bytes") or str(value.get("path")))
    if not isinstance(value, str):
        raise LeashError(f"{row.where} has an image that is neither bytes nor the name of a file; correct it.")
    return _file(row, value)


def _file(row: Row, path: str) -> bytes:
    """A path in a row is that of a file beside the table, and no way out of its folder."""
    folder = row.where.file.parent.absolute()
    place = Path(os.path.normpath(folder / path))  # links are followed: the hub's cache is made of them
    if not place.is_relative_to(folder):
        raise LeashError(f"{row.where} names the image {path}, which is outside the folder of the file; move it there.")
    if not place.is_file():
        raise LeashError(f"{row.where} names the image {path}, which is not in {row.where.file.parent}; put it there.")
    return place.read_bytes()

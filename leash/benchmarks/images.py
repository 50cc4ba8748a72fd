"""Load the images of a problem as bytes: from a column of the hub's table, or from the files that a row names.

{"decoded_image": {"bytes": b"\\x89PNG…", "path": null}}     a hub table
{"image": "images/4.jpg"}                                   a row of a local file; images/ is beside it
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from leash.benchmarks.benchmark import Row, RowError
from leash.image_type import detect_image_format


def load_images(row: Row, *columns: str) -> list[bytes]:
    """All images in the first of these columns that is not empty."""
    value = row.need(*columns)
    images = [_load_image(row, item) for item in (value if isinstance(value, list) else [value])]
    if not all(detect_image_format(image) for image in images):
        raise RowError(row.where, "an image is not a PNG, JPEG, GIF or WebP file; convert it to one")
    return images


def _load_image(row: Row, value: Any) -> bytes:
    if isinstance(value, dict):
        value = value.get("bytes") or str(value.get("path"))
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise RowError(row.where, "an image is neither bytes nor the name of a file; correct it")
    folder = row.where.file.parent.absolute()
    # Compare paths without resolving links, because the hub's cache consists of links into another folder.
    path = Path(os.path.normpath(folder / value))
    if not path.is_relative_to(folder):
        raise RowError(row.where, f"the image {value} is outside the folder of the file; move it there")
    if not path.is_file():
        raise RowError(row.where, f"there is no image {value} in {row.where.file.parent}; put it there")
    return path.read_bytes()

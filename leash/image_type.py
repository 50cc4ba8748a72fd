"""The format of an image, from its first bytes."""

from __future__ import annotations

IMAGE_SIGNATURES = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}


def detect_image_format(image: bytes) -> str | None:
    return next((name for begin, name in IMAGE_SIGNATURES.items() if image.startswith(begin)), None)

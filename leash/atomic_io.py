"""Atomic writes and content hashes. A file is written whole or not at all, even if the process is killed.

Writers that share a folder must not run at the same time: `delete_unfinished` would delete each other's work.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# .dvcignore lists this prefix too, so that DVC never tracks an unfinished file.
UNFINISHED_PREFIX = ".unfinished-"
HASH_HEX_DIGITS = 16
HASH_CACHE_PATH = Path("data/.hashes.json")
# Hashing a smaller file is as fast as reading the cache.
MIN_CACHED_HASH_BYTES = 1 << 24


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path` and rename it to `path` if the block succeeds.

    The temporary name begins with a dot, so nothing takes it for a shard, table or figure. A killed run leaves it
    behind for `delete_unfinished`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{UNFINISHED_PREFIX}{path.stem}-", suffix=path.suffix)
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        # The content must reach the disk before the name does: otherwise a power cut can leave an empty file.
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        # mkstemp makes files that only their owner can read. The umask can only be read by setting it.
        os.umask(umask := os.umask(0))
        unfinished.chmod(0o666 & ~umask)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write(path: Path, content: bytes | str) -> None:
    with atomic_write(path) as unfinished:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)


def delete_unfinished(folder: Path) -> None:
    """Delete the unfinished files of killed runs. No other process may be writing to the folder."""
    for unfinished in folder.rglob(f"{UNFINISHED_PREFIX}*"):
        unfinished.unlink(missing_ok=True)


def hash_strings(*parts: str) -> str:
    """Hash strings to 16 hex digits."""
    # The separator keeps ("ab", "c") and ("a", "bc") apart.
    return bytes_hash("\x1f".join(parts).encode())


def bytes_hash(*parts: bytes | memoryview) -> str:
    """Hash bytes to 16 hex digits, all parts as one."""
    content_hash = hashlib.blake2b(digest_size=HASH_HEX_DIGITS // 2)
    for part in parts:
        content_hash.update(part)
    return content_hash.hexdigest()


def file_hash(path: Path) -> str:
    """The same hash as `bytes_hash`, without reading the whole file into memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=HASH_HEX_DIGITS // 2)).hexdigest()


def cached_file_hash(path: Path) -> str:
    """`file_hash`, with the hashes of large files (weights are tens of gigabytes, and stages often need their hash)
    cached in data/.hashes.json until their size or times change."""
    stat = path.stat()
    if stat.st_size < MIN_CACHED_HASH_BYTES:
        return file_hash(path)
    key, state = str(path.resolve()), [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    cached = _load_hash_cache().get(key, [])
    # An entry ends with a hash of itself: damage to this file must not give weights another identity.
    if cached[:3] == state and cached[4] == _entry_hash(key, cached[:4]):
        return str(cached[3])
    content_hash = file_hash(path)
    entry = [*state, content_hash]
    # Hashing takes minutes, in which another process may have added its own hashes: load the cache again.
    entries = {**_load_hash_cache(), key: [*entry, _entry_hash(key, entry)]}
    write(HASH_CACHE_PATH, json.dumps(entries, indent=1, sort_keys=True))
    return content_hash


def _load_hash_cache() -> dict[str, list[Any]]:
    try:
        cache = json.loads(HASH_CACHE_PATH.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # a missing or damaged cache only costs time
        return {}
    entries = cache.items() if isinstance(cache, dict) else ()
    return {path: entry for path, entry in entries if isinstance(entry, list) and len(entry) == 5}


def _entry_hash(key: str, entry: list[Any]) -> str:
    return hash_strings(key, *map(str, entry))


def hash_in_name(file: Path) -> str | None:
    """The hash in the name of a file named `….{hash}.suffix`."""
    _, dot, named = file.stem.rpartition(".")
    return named if dot and len(named) == HASH_HEX_DIGITS else None


def matches_hash_in_name(file: Path) -> bool | None:
    """Whether a file still has the content of the hash in its name; None if its name has no hash."""
    named = hash_in_name(file)
    return None if named is None else named == file_hash(file)

"""Everything on disk is written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

UNFINISHED = ".unfinished-"  # how names of unfinished files begin; .dvcignore has it too
HASH = 16  # hex digits of a short hash
HASHES = Path("data/.hashes.json")
LARGE_BYTES = 1 << 24  # below this, hashing is as fast as looking the hash up


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its name once the block has ended well.

    The temporary name begins with a dot and so is no shard, table or figure to anyone, DVC included. A killed run
    leaves it behind, for `sweep`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{UNFINISHED}{path.stem}-", suffix=path.suffix)
    os.close(handle)
    unfinished = Path(name)
    try:
        yield unfinished
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        unfinished.chmod(0o666 & ~_umask())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write(path: Path, content: bytes | str) -> None:
    with whole(path) as unfinished:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)


def sweep(folder: Path) -> None:
    """Delete what killed runs left unfinished in a folder that nobody else writes to now."""
    for unfinished in folder.rglob(f"{UNFINISHED}*"):
        unfinished.unlink(missing_ok=True)


def hash_of(*parts: str) -> str:
    """A short hash of some text."""
    return bytes_hash("\x1f".join(parts).encode())


def bytes_hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=HASH // 2).hexdigest()


def file_hash(path: Path) -> str:
    """A short hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=HASH // 2)).hexdigest()


def remembered_hash(path: Path) -> str:
    """The same; that of a large file is kept in data/.hashes.json and computed again when its size or times change:
    weights are tens of gigabytes, and every stage that loads them asks."""
    stat = path.stat()
    if stat.st_size < LARGE_BYTES:
        return file_hash(path)
    key, seen = str(path.resolve()), [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]
    known = _remembered_hashes()
    if known.get(key, [])[:3] != seen:
        known = {**_remembered_hashes(), key: [*seen, file_hash(path)]}
        write(HASHES, json.dumps(known, indent=1, sort_keys=True))
    return str(known[key][3])


def _remembered_hashes() -> dict[str, list[Any]]:
    try:
        found = json.loads(HASHES.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # none yet, or damaged: hashes are computed again
        return {}
    entries = found.items() if isinstance(found, dict) else ()
    return {path: entry for path, entry in entries if isinstance(entry, list) and len(entry) == 4}


def intact(file: Path) -> bool | None:
    """Whether a file whose name ends in the hash of its content still has that content; None for another name."""
    _, dot, named = file.stem.rpartition(".")
    return named == file_hash(file) if dot and len(named) == HASH else None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

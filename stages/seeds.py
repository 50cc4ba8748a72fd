"""Everything random is seeded by name.

A name is a tuple such as ("sample", 0, "base", "chain", "chain-5-003", 17). Two different names give
independent streams; the same name gives the same stream on every machine, in every process and batch.
"""

import hashlib

import numpy as np

Name = str | int


def key(*name: Name) -> int:
    """The 128-bit key of a name."""
    spelled = "\x1f".join(f"{type(part).__name__}:{part}" for part in name)
    return int.from_bytes(hashlib.blake2b(spelled.encode(), digest_size=16).digest(), "little")


def seed(*name: Name) -> int:
    """A seed of 63 bits, for engines that draw from streams of their own: what a signed integer of theirs holds."""
    return key(*name) & (2**63 - 1)


def stream(*name: Name) -> np.random.Generator:
    """A random generator of its own for this name (Philox is counter-based: keys never overlap)."""
    return np.random.Generator(np.random.Philox(key=key(*name)))

"""Random streams, each seeded by its name.

A name is a tuple such as ("sample", 0, "base", "chain", "chain-5-003", 17). Different names give independent streams;
the same name gives the same stream on every machine, in every process and batch.
"""

import hashlib

import numpy as np

NamePart = str | int


def stream_key(*name: NamePart) -> int:
    """The 128-bit key of a name."""
    spelled = "\x1f".join(f"{type(part).__name__}:{part}" for part in name)
    return int.from_bytes(hashlib.blake2b(spelled.encode(), digest_size=16).digest(), "little")


def seed(*name: NamePart) -> int:
    """A seed for engines with their own random streams: 63 bits, to fit a signed 64-bit integer."""
    return stream_key(*name) & (2**63 - 1)


def stream(*name: NamePart) -> np.random.Generator:
    """The random generator of this name. Philox is counter-based, so streams of different keys never overlap."""
    return np.random.Generator(np.random.Philox(key=stream_key(*name)))

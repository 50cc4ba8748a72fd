"""The prefixes of known correct completions, level by level, and what rollouts showed about each.

    build_levels(known, depths, donors, rollouts)  ->  Levels

A *level* is a depth, a *node* of a level is a prefix of this length that at least one longer known completion begins
with and that the model can write. All sequences are sorted, so that those with a common prefix are neighbours: the
nodes of a level are the runs of neighbours that agree on its first tokens. That is fast for few long sequences
(256 of 8,000 tokens) and for many short ones, and needs no tree of objects.

Not covered: which nodes to use (prefix_tree.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leash.statistics.array_types import BoolArray, FloatArray, IntArray

Prefix = tuple[int, ...]
# A sequence's tokens as four bytes each. Bytes are compared, sorted and hashed far faster than tuples of numbers.
Packed = bytes
TOKEN_BYTES = 4


def pack(tokens: Prefix) -> Packed:
    return np.array(tokens, dtype="<i4").tobytes()


def unpack(packed: Packed, length: int | None = None) -> Prefix:
    """The tokens, or the first of them."""
    return tuple(np.frombuffer(packed, dtype="<i4")[:length].tolist())


@dataclass(frozen=True)
class Rollout:
    """A sample that began with the first `start` tokens of this completion."""

    start: int
    completion: Packed
    hit: bool


@dataclass(frozen=True)
class Level:
    """The nodes at one depth: the probability of each, the rollouts that started at it or passed through it and how
    many of them are correct, and the same of those that started at it. `donors` counts the donor's completions behind
    each node, `parent` is the node of the level above, `node_of` gives the node of each sequence (-1: none), `example`
    a sequence of each node."""

    depth: int
    mass: FloatArray
    trials: IntArray
    hits: IntArray
    starts: IntArray
    start_hits: IntArray
    donors: IntArray
    parent: IntArray
    node_of: IntArray
    example: IntArray


@dataclass(frozen=True)
class Levels:
    """`levels` from short to long prefixes. `whole` are complete sequences, each with its probability and the node that
    it hangs from: the level (-1: none, shorter than every depth) and the node."""

    sequences: list[Packed]
    levels: list[Level]
    whole: IntArray
    whole_mass: FloatArray
    whole_level: IntArray
    whole_node: IntArray

    def prefix(self, level: Level, node: int) -> Prefix:
        return unpack(self.sequences[level.example[node]], level.depth)


def build_levels(
    known: Mapping[Packed, FloatArray],
    depths: Sequence[int],
    donors: Collection[Packed],
    rollouts: Sequence[Rollout] = (),
) -> Levels:
    """The nodes of these completions at these depths. `known` gives the cumulative nll of each completion's tokens;
    `donors` are those of them that the donor wrote."""
    sequences = sorted({*known, *(rollout.completion for rollout in rollouts)})
    place = {sequence: i for i, sequence in enumerate(sequences)}
    lengths = np.array([len(sequence) // TOKEN_BYTES for sequence in sequences], dtype=np.int64)
    shared = shared_lengths(sequences)
    is_known = np.array([sequence in known for sequence in sequences], dtype=bool)
    nlls = np.full((len(sequences), len(depths) + 1), np.inf)
    for sequence, nll in known.items():
        fits = int(np.searchsorted(depths, len(nll)))  # depths that are shorter than the sequence
        nlls[place[sequence], :fits] = nll[np.asarray(depths[:fits], dtype=np.int64) - 1]
        nlls[place[sequence], -1] = nll[-1]
    masses = np.exp(-nlls)
    by_donor = np.array([place[completion] for completion in donors], dtype=np.int64)
    seq = np.array([place[rollout.completion] for rollout in rollouts], dtype=np.int64)
    start = np.array([rollout.start for rollout in rollouts], dtype=np.int64)
    hit = np.array([rollout.hit for rollout in rollouts], dtype=bool)
    levels: list[Level] = []
    for j, depth in enumerate(depths):
        node_of, example = find_nodes(shared < depth, lengths >= depth, masses[:, j] > 0)
        donor_node = np.where(lengths[by_donor] > depth, node_of[by_donor], -1)
        node = np.where(start <= depth, node_of[seq], -1)
        begun = np.where(start == depth, node, -1)
        levels.append(
            Level(
                depth=depth,
                mass=masses[example, j],
                trials=np.bincount(node[node >= 0], minlength=len(example)),
                hits=np.bincount(node[(node >= 0) & hit], minlength=len(example)),
                starts=np.bincount(begun[begun >= 0], minlength=len(example)),
                start_hits=np.bincount(begun[(begun >= 0) & hit], minlength=len(example)),
                donors=np.bincount(donor_node[donor_node >= 0], minlength=len(example)),
                parent=levels[-1].node_of[example] if levels else np.full(len(example), -1),
                node_of=node_of,
                example=example,
            )
        )
    # A model stops after a complete sequence, so none begins another. If one seems to, it is not counted: that is safe.
    begins_next = np.append(shared[1:] == lengths[:-1], False)
    whole = np.flatnonzero(is_known & (masses[:, -1] > 0) & ~begins_next)
    whole_level = np.searchsorted(depths, lengths[whole]) - 1
    whole_node = np.array([levels[j].node_of[i] if j >= 0 else -1 for j, i in zip(whole_level, whole, strict=True)])
    return Levels(sequences, levels, whole, masses[whole, -1], whole_level, whole_node.astype(np.int64))


def shared_lengths(sequences: Sequence[Packed]) -> IntArray:
    """How many first tokens each sequence has in common with the one before it; -1 for the first."""
    shared = np.full(len(sequences), -1, dtype=np.int64)
    arrays = [np.frombuffer(sequence, dtype="<i4") for sequence in sequences]
    for i in range(1, len(arrays)):
        length = min(len(arrays[i - 1]), len(arrays[i]))
        differs = arrays[i - 1][:length] != arrays[i][:length]
        shared[i] = differs.argmax() if differs.any() else length
    return shared


def find_nodes(new: BoolArray, inside: BoolArray, known: BoolArray) -> tuple[IntArray, IntArray]:
    """The node of each sequence and a known sequence of each node. A run of neighbours starts where `new`; it is a node
    if a known sequence is in it. Sequences that are too short for the level are not `inside`."""
    run = np.cumsum(new) - 1
    runs, first = np.unique(run[known], return_index=True)
    node = np.full(len(new) + 1, -1, dtype=np.int64)
    node[runs] = np.arange(len(runs))
    return np.where(inside, node[run], -1), np.flatnonzero(known)[first]

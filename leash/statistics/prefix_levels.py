"""The prefixes of known correct completions, level by level, and what rollouts showed about each.

    build_levels(known, depths, rollouts)  ->  Levels

A *level* is a depth, a *node* of a level is a prefix of this length that at least one longer known completion begins
with and that the model can write. All sequences are sorted, so that those with a common prefix are neighbours: the
nodes of a level are the runs of neighbours that agree on its first tokens. That is fast for few long sequences
(256 of 8,000 tokens) and for many short ones, and needs no tree of objects.

Not covered: which nodes to use (prefix_tree.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leash.statistics.array_types import BoolArray, FloatArray, IntArray

Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Rollout:
    """A sample that began with the first `start` tokens of this completion."""

    start: int
    completion: Prefix
    hit: bool


@dataclass(frozen=True)
class Level:
    """The nodes at one depth: the probability of each, its rollouts and how many of them are correct. `parent` is the
    node of the level above. `node_of` gives the node of each sequence (-1: none), `example` a sequence of each node."""

    depth: int
    mass: FloatArray
    trials: IntArray
    hits: IntArray
    parent: IntArray
    node_of: IntArray
    example: IntArray


@dataclass(frozen=True)
class Levels:
    """`levels` from short to long prefixes. `whole` are complete sequences, each with its probability and the node that
    it hangs from: the level (-1: none, shorter than every depth) and the node."""

    sequences: list[Prefix]
    levels: list[Level]
    whole: IntArray
    whole_mass: FloatArray
    whole_level: IntArray
    whole_node: IntArray


def build_levels(known: Mapping[Prefix, FloatArray], depths: Sequence[int], rollouts: Sequence[Rollout] = ()) -> Levels:
    """The nodes of these completions at these depths. `known` gives the cumulative nll of each completion's tokens."""
    sequences = sort_sequences([*known, *(rollout.completion for rollout in rollouts)])
    place = {sequence: i for i, sequence in enumerate(sequences)}
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
    shared = shared_lengths(sequences)
    is_known = np.array([sequence in known for sequence in sequences], dtype=bool)
    nlls = np.full((len(sequences), len(depths) + 1), np.inf)
    for sequence, nll in known.items():
        fits = int(np.searchsorted(depths, len(sequence)))  # depths that are shorter than the sequence
        nlls[place[sequence], :fits] = nll[np.asarray(depths[:fits], dtype=np.int64) - 1]
        nlls[place[sequence], -1] = nll[-1]
    masses = np.exp(-nlls)
    seq = np.array([place[rollout.completion] for rollout in rollouts], dtype=np.int64)
    start = np.array([rollout.start for rollout in rollouts], dtype=np.int64)
    hit = np.array([rollout.hit for rollout in rollouts], dtype=bool)
    levels: list[Level] = []
    for j, depth in enumerate(depths):
        node_of, example = find_nodes(shared < depth, lengths >= depth, masses[:, j] > 0)
        node = np.where(start <= depth, node_of[seq], -1)
        levels.append(
            Level(
                depth=depth,
                mass=masses[example, j],
                trials=np.bincount(node[node >= 0], minlength=len(example)),
                hits=np.bincount(node[(node >= 0) & hit], minlength=len(example)),
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


def sort_sequences(sequences: Sequence[Prefix]) -> list[Prefix]:
    """The distinct sequences, those with a common prefix side by side. Bytes sort ten times as fast as tuples."""
    return sorted(dict.fromkeys(sequences), key=lambda sequence: np.array(sequence, dtype="<i4").tobytes())


def shared_lengths(sequences: Sequence[Prefix]) -> IntArray:
    """How many first tokens each sequence has in common with the one before it; -1 for the first."""
    shared = np.full(len(sequences), -1, dtype=np.int64)
    arrays = [np.array(sequence, dtype=np.int32) for sequence in sequences]
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

"""What every engine is: prompts, sample numbers and decoding parameters in, completions out.

    engine.complete([Request("chain-5-003", Prompt("compute 3 + 4 :"), range(0, 256), stream)], decoding)

Every sample has a random stream of its own, named by (seed, model, dataset, problem, sample), so that what it
draws does not depend on its shard, batch or node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from stages import seeds
from stages.prompts import Prompt

GROUP = 16  # samples that an engine which counts seeds up (vLLM, child i of a request: seed + i) may ask for at once


@dataclass(frozen=True)
class Request:
    """Samples of one problem: which numbers, and the name their random streams begin with."""

    problem_id: str
    prompt: Prompt
    samples: range
    name: tuple[seeds.Name, ...]

    def stream_name(self, sample: int) -> tuple[seeds.Name, ...]:
        return (*self.name, self.problem_id, sample)

    def seed(self, sample: int) -> int:
        """A sample's own seed: one more than its neighbour's within a group, unrelated beyond it."""
        return seeds.seed(*self.stream_name(sample // GROUP), "group") + sample % GROUP

    def groups(self) -> Iterator[range]:
        """The samples in runs whose seeds count up."""
        begin = self.samples.start
        while begin < self.samples.stop:
            end = min(self.samples.stop, (begin // GROUP + 1) * GROUP)
            yield range(begin, end)
            begin = end


@dataclass(frozen=True)
class Decoding:
    temperature: float
    top_p: float
    max_tokens: int


@dataclass(frozen=True)
class Completion:
    """One sample. `tokens` counts the end-of-text token where there is one, and `logprob` (untempered,
    None where the engine can't tell) includes it. `tokens` is None where an imported file does not tell."""

    problem_id: str
    sample: int
    text: str
    tokens: int | None
    finish: str  # stop, length
    logprob: float | None


class Engine(Protocol):
    """`complete` may be called from several threads at once where the engine's `Kind` says so."""

    def complete(self, requests: Iterable[Request], decoding: Decoding) -> Iterator[Completion]: ...

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
        """A sample's own seed, for engines that draw from streams of their own."""
        return seeds.seed(*self.stream_name(sample))


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
    def complete(self, requests: Iterable[Request], decoding: Decoding) -> Iterator[Completion]: ...

    def close(self) -> None:
        """Give back what the engine holds: memory, connections, processes. It completes nothing afterwards."""

"""The interface of all engines: prompts, sample numbers and decoding parameters in, completions out.

    engine.complete([Request("chain-5-003", Prompt("compute 3 + 4 :"), range(0, 256), name)], decoding)

Every sample has its own random stream, named by (seed, model, dataset, problem, sample). What it draws therefore does
not depend on its shard, batch or node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from leash.prompts import Prompt
from leash.statistics import seeds


@dataclass(frozen=True)
class Request:
    """Samples to draw for one problem. `name` is the beginning of the names of their random streams."""

    problem_id: str
    prompt: Prompt
    samples: range
    name: tuple[seeds.NamePart, ...]

    def stream_name(self, sample: int) -> tuple[seeds.NamePart, ...]:
        return (*self.name, self.problem_id, sample)

    def seed(self, sample: int) -> int:
        """The seed of a sample, for engines with their own random number generator."""
        return seeds.seed(*self.stream_name(sample))


@dataclass(frozen=True)
class Decoding:
    temperature: float
    top_p: float
    max_tokens: int
    stop: tuple[str, ...] = ()  # strings that end a completion (stop_strings.py)


@dataclass(frozen=True)
class Completion:
    """One sample. `text` ends before a stop string, and `tail` is all that was drawn from there on; it is None if there
    is no stop string. Everything else is of text and tail together.

    `tokens` counts the end-of-text token if there is one, and is None if an imported file does not give it. `logprob`
    is untempered, includes the end-of-text token, and is None if the engine does not know it.
    `token_ids` are the drawn tokens where the text does not split into them again, and None everywhere else."""

    problem_id: str
    sample: int
    text: str
    tokens: int | None
    finish: str  # stop: an end-of-text token was drawn; length; stop_string: neither, but there is a tail
    logprob: float | None
    token_ids: list[int] | None = None
    tail: str | None = None

    @property
    def drawn_text(self) -> str:
        """What the drawn tokens say."""
        return self.text + (self.tail or "")


class Engine(Protocol):
    def complete(self, requests: Iterable[Request], decoding: Decoding) -> Iterator[Completion]: ...

    def close(self) -> None:
        """Release memory, connections and processes. The engine cannot be used afterwards."""

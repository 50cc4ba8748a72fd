"""The interface of all engines: prompts, sample numbers and decoding parameters in, completions out.

    engine.complete([Request("chain-5-003", Prompt("compute 3 + 4 :"), range(0, 256), name)], decoding)

Every sample has its own random stream, named by (seed, model, dataset, problem, sample). What it draws therefore does
not depend on its shard, batch or node.

A request can have a prefix: the first tokens of its completions, which the engine continues. Its completions are whole,
prefix included, and always have their token ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from leash.errors import LeashError
from leash.formatting import replace_surrogates
from leash.prompts import Prompt
from leash.statistics import seeds


class PrefixTooLongError(LeashError):
    """The prefix of a completion leaves no token to draw."""

    def __init__(self, problem_id: str, tokens: int, max_tokens: int) -> None:
        self.problem_id, self.tokens, self.max_tokens = problem_id, tokens, max_tokens
        super().__init__(
            f"A prefix of problem {problem_id} has {tokens} tokens, and a completion may have only {max_tokens}: raise "
            f"`sample.max_tokens`, or use a shorter prefix."
        )


class PrefixNotSupportedError(LeashError):
    """The engine cannot continue the prefix of a request."""

    def __init__(self, engine: str, reason: str, remedy: str) -> None:
        self.engine = engine
        super().__init__(f"The engine {engine} cannot continue the beginning of a completion: {reason}. {remedy}.")


@dataclass(frozen=True)
class Request:
    """Samples to draw for one problem. `name` is the beginning of the names of their random streams. All samples begin
    with the tokens of `prefix`, which count towards `Decoding.max_tokens`."""

    problem_id: str
    prompt: Prompt
    samples: range
    name: tuple[seeds.NamePart, ...]
    prefix: tuple[int, ...] = ()

    def tokens_to_draw(self, max_tokens: int) -> int:
        """How many tokens may follow the prefix; raise if there is no room for any."""
        left = max_tokens - len(self.prefix)
        if self.prefix and left <= 0:
            raise PrefixTooLongError(self.problem_id, len(self.prefix), max_tokens)
        return left

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
    `token_ids` are the drawn tokens where the text does not split into them again, and None everywhere else.

    After a prefix, everything but `logprob` is of prefix and drawn tokens together, and there are always
    `token_ids`."""

    problem_id: str
    sample: int
    text: str
    tokens: int | None
    finish: str  # leash/finish.py
    logprob: float | None
    token_ids: list[int] | None = None
    tail: str | None = None

    def __post_init__(self) -> None:
        """No table can store half a character, and one must not take the other completions of its file with it."""
        for name in ("text", "tail", "finish"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, replace_surrogates(value))

    @property
    def drawn_text(self) -> str:
        """What the drawn tokens say."""
        return self.text + (self.tail or "")


class Engine(Protocol):
    def complete(self, requests: Iterable[Request], decoding: Decoding) -> Iterator[Completion]: ...

    def close(self) -> None:
        """Release memory, connections and processes. The engine cannot be used afterwards."""

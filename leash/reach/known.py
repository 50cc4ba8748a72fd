"""Correct completions as token sequences.

A completion is the tokens that were drawn where they are stored, else those that its text splits into. Two samples of
the same tokens are one completion. What a model would not have ended there is not complete: see `decoding_nlls`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from leash.statistics.array_types import FloatArray
from leash.statistics.prefix_tree import Prefix
from leash.token_ids import tokenize_texts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Completion:
    """`token_ids` is None if the text splits into exactly these tokens. `cut`: a stop string ended it. `answer` is what
    the grader accepted."""

    tokens: Prefix
    text: str
    ended: bool
    token_ids: Prefix | None = None
    cut: bool = False
    answer: str = field(default="", compare=False)
    times: Counter[str] = field(default_factory=Counter, compare=False)  # how often each model wrote it

    def decoding_nlls(self, nlls: FloatArray, max_tokens: int, ends: frozenset[int]) -> FloatArray:
        """The nll of each token if sampling stops at `max_tokens` and at the tokens `ends`. A completion that was
        longer, or that no end of text, stop string or limit ended, as imported ones may be, is impossible; its
        beginning is not. Nor can a model go on behind an end of text, or end where another model does."""
        limited = nlls.copy()
        inside = next((i for i, token in enumerate(self.tokens[:-1]) if token in ends), None)
        if inside is not None:
            limited[inside:] = np.inf
        if self.ended and self.tokens[-1] not in ends:
            limited[-1] = np.inf
        if len(limited) > max_tokens:
            limited[max_tokens - 1 :] = np.inf
        elif not self.ended and not self.cut and 0 < len(limited) < max_tokens:
            limited[-1] = np.inf
        return limited


def build_completions(rows: Sequence[Mapping[str, Any]], tokenizer: PreTrainedTokenizerBase) -> list[Completion]:
    """The completion of each row with text, ended, cut, token_ids and answer."""
    splits = tokenize_texts([row["text"] for row in rows], [row["ended"] for row in rows], tokenizer)
    found = []
    for row, split in zip(rows, splits, strict=True):
        tokens = tuple(split if row["token_ids"] is None else row["token_ids"])
        token_ids = None if tokens == tuple(split) else tokens
        found.append(Completion(tokens, row["text"], row["ended"], token_ids, row["cut"], row["answer"]))
    return found


def count_distinct(completions: Iterable[tuple[Completion, str, int]]) -> list[Completion]:
    """Distinct completions in the order in which they come, each with how often (`times`) each model wrote it."""
    distinct: dict[Prefix, Completion] = {}
    for completion, model, times in completions:
        distinct.setdefault(completion.tokens, completion).times[model] += times
    return [completion for completion in distinct.values() if completion.tokens]

"""The types of scoring: a `Trace` is scored as a `ScoringSpec` says, which gives a `Score`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leash import atomic_io
from leash.params.groups import ScorerName
from leash.prompts import Prompt

PROFILE_BINS = 10
SCORE_DECIMALS = 6  # further decimals depend on the batch in which a trace happened to be scored
Float32Array = NDArray[np.float32]


@dataclass(frozen=True)
class Trace:
    """A text after a prompt. If it `ended`, the end-of-text token is part of it. `token_ids` are its tokens, end of
    text included, where splitting the text would give others; they must be of the scoring model's tokenizer."""

    prompt: Prompt
    text: str
    ended: bool
    token_ids: tuple[int, ...] | None = None

    @property
    def key(self) -> str:
        """16 hex digits that identify the content. Scores are stored under it, so changing it discards them all."""
        return atomic_io.hash_strings(json.dumps(trace_to_dict(self)))

    @property
    def size(self) -> int:
        """Characters of prompt and text."""
        return len(self.prompt.plain) + len(self.text)


def trace_to_dict(trace: Trace) -> dict[str, Any]:
    """The content of a trace without images, which are never scored."""
    prompt = {"user": trace.prompt.user, "system": trace.prompt.system, "chat": trace.prompt.chat}
    content = {"prompt": prompt, "text": trace.text, "ended": trace.ended}
    # Left out if there are none, so that scores from before there were ids keep their keys.
    return content if trace.token_ids is None else {**content, "token_ids": list(trace.token_ids)}


@dataclass(frozen=True)
class ScoringSpec:
    """What to compute for each trace, and with which engine (vLLM computes no entropies). `temperature` and `top_p`
    define the decoding distribution. A step with an entropy of at least `forking` nats is a fork. The field names and
    values are stored with the scores: changing one makes everybody score again."""

    engine: ScorerName = "torch"
    entropies: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    forking: float = 0.693
    per_token: bool = False  # also keep each token's values

    @property
    def plain(self) -> bool:
        """Whether the decoding distribution is the model's own."""
        return self.temperature == 1 and self.top_p == 1


@dataclass(frozen=True)
class Score:
    """A trace under a model, in nats: negative log-likelihoods are sums over tokens, entropies are means over steps.
    Entropies are None if the specification has none. All but `tokens` is None if the trace is longer than the model's
    context window."""

    key: str
    tokens: int
    nll: float | None = None
    decoding_nll: float | None = None  # infinite if a token is outside top_p; None from vLLM if decoding is not plain
    token_entropy: float | None = None
    decoding_entropy: float | None = None
    forks: float | None = None
    profile: list[float | None] | None = None  # token entropy by tenths of the trace; None for a tenth without steps
    token_nlls: Float32Array | None = None  # of each token, rounded
    token_decoding_nlls: Float32Array | None = None  # None from vLLM, and where decoding is plain
    token_entropies: Float32Array | None = None


def round_tokens(values: NDArray[np.float64]) -> Float32Array:
    """The values of tokens as they are stored."""
    return np.round(values, SCORE_DECIMALS).astype(np.float32)

"""What logits say about the tokens that came next, step by step: pure functions of tensors.

    steps_of(logits, tokens, Reading(entropies=True))  ->  Steps(logprob, decoding_logprob, entropy, decoding_entropy)

A step's own distribution is the softmax of its logits. The decoding distribution is what is sampled from: logits over
temperature, then the smallest set of tokens whose mass reaches top_p, the one that crosses it included. Where tokens
are equally likely at that border, each of them counts as in the set. Everything is in nats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from stages.scoring import Reading

Reals = NDArray[np.float64]
NUCLEUS = 512  # tokens that are sorted first: a nucleus that is larger is rare, and only then all are


@dataclass(frozen=True)
class Steps:
    """One number a step; entropies are None where they were not asked for."""

    logprob: Reals
    decoding_logprob: Reals
    entropy: Reals | None
    decoding_entropy: Reals | None


def joined(parts: Sequence[Steps]) -> Steps:
    """The steps of some parts, one after the other."""

    def column(name: str) -> Reals | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)

    logprob, decoding_logprob = column("logprob"), column("decoding_logprob")
    assert logprob is not None
    assert decoding_logprob is not None
    return Steps(logprob, decoding_logprob, column("entropy"), column("decoding_entropy"))


def steps_of(logits: torch.Tensor, tokens: torch.Tensor, reading: Reading) -> Steps:
    """What is asked of each step. The logits, steps by vocabulary in float32 or float64, are used up."""
    as_is = reading.temperature == 1 and reading.top_p == 1
    if as_is:
        logprob, entropy = _softmax(logits, tokens, reading.entropies)
        return Steps(_numbers(logprob), _numbers(logprob), _numbers_of(entropy), _numbers_of(entropy))
    decoding_logprob, decoding_entropy = _decoding(logits, tokens, reading)
    logprob, entropy = _softmax(logits, tokens, reading.entropies)
    return Steps(
        _numbers(logprob),
        _numbers(decoding_logprob),
        _numbers_of(entropy),
        _numbers(decoding_entropy) if reading.entropies else None,
    )


def _softmax(logits: torch.Tensor, tokens: torch.Tensor, entropies: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities of the tokens, and entropies if asked for; in place, in the fewest passes over the logits."""
    logits -= logits.amax(1, keepdim=True)
    chosen = logits.gather(1, tokens[:, None])[:, 0]
    if not entropies:
        return chosen - logits.exp_().sum(1).log(), None
    weights = logits.exp()
    total = weights.sum(1)
    entropy = total.log() - logits.mul_(weights).sum(1) / total
    return chosen - total.log(), entropy.clamp(min=0)


def _decoding(logits: torch.Tensor, tokens: torch.Tensor, reading: Reading) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of the tokens and entropies under temperature and top_p; the logits stay as they are."""
    if reading.temperature == 0:
        chosen = logits.gather(1, tokens[:, None])[:, 0]
        entropy = torch.zeros_like(chosen)
        return entropy.where(chosen >= logits.amax(1), -torch.inf), entropy
    tempered = (logits / reading.temperature).log_softmax(1)
    chosen = tempered.gather(1, tokens[:, None])[:, 0]
    if reading.top_p == 1:
        return chosen, -(tempered.exp() * tempered).sum(1)
    return _within(tempered, chosen, reading.top_p)


def _within(logprobs: torch.Tensor, chosen: torch.Tensor, top_p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The same within the nucleus of each step."""
    ordered = logprobs.topk(min(NUCLEUS, logprobs.shape[1]), dim=1).values
    short = ordered.exp().sum(1) < top_p
    logprob, entropy = _of_nucleus(ordered, chosen, top_p)
    if ordered.shape[1] < logprobs.shape[1] and bool(short.any()):
        whole = logprobs[short].sort(dim=1, descending=True).values
        logprob[short], entropy[short] = _of_nucleus(whole, chosen[short], top_p)
    return logprob, entropy


def _of_nucleus(ordered: torch.Tensor, chosen: torch.Tensor, top_p: float) -> tuple[torch.Tensor, torch.Tensor]:
    masses = ordered.exp()
    kept = masses.cumsum(1) - masses < top_p
    masses *= kept
    total = masses.sum(1)
    last = ordered.where(kept, torch.inf).amin(1)
    entropy = total.log() - (masses * ordered.where(kept, 0.0)).sum(1) / total
    return (chosen - total.log()).clamp(max=0).where(chosen >= last, -torch.inf), entropy.clamp(min=0)


def _numbers(values: torch.Tensor) -> Reals:
    return values.double().cpu().numpy()


def _numbers_of(values: torch.Tensor | None) -> Reals | None:
    return None if values is None else _numbers(values)

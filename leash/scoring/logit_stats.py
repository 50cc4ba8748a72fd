"""Log-probabilities and entropies from logits, step by step: pure functions of tensors.

A step's own distribution is the softmax of its logits. The decoding distribution is the one that is sampled from:
logits divided by the temperature, then the nucleus: the smallest set of most likely tokens whose mass reaches top_p.
If more tokens are equally likely at its border than fit inside (common with bfloat16 logits), they share the mass of
those that fit: which of them a sampler keeps is arbitrary, and this way probabilities sum to one. All values are in
nats.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from leash.scoring.traces import ScoringSpec

FloatArray = NDArray[np.float64]
# Only this many tokens are sorted at first. A larger nucleus is rare; its steps are then sorted whole.
TOP_P_PRESORT_TOKENS = 512


class StepStats(NamedTuple):
    """One number per step; entropies are None if the specification has none."""

    logprob: FloatArray
    decoding_logprob: FloatArray
    entropy: FloatArray | None
    decoding_entropy: FloatArray | None


def compute_steps(logits: torch.Tensor, tokens: torch.Tensor, spec: ScoringSpec) -> StepStats:
    """Compute the statistics of each step. The logits (steps by vocabulary, float32 or float64) are overwritten."""
    decoding = None
    if not spec.plain:
        # First: `_softmax_stats` overwrites the logits.
        decoding = _decoding_stats(logits, tokens, spec)
    logprob, entropy = _softmax_stats(logits, tokens, spec.entropies)
    decoding_logprob, decoding_entropy = decoding or (logprob, entropy)
    tensors = (logprob, decoding_logprob, entropy, decoding_entropy if spec.entropies else None)
    columns: list[Any] = [None if values is None else values.double().cpu().numpy() for values in tensors]
    return StepStats(*columns)


def _softmax_stats(
    logits: torch.Tensor, tokens: torch.Tensor, entropies: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Log-probabilities of the tokens and, if wanted, entropies. In place, with few passes over the logits: memory
    bandwidth decides the speed."""
    logits -= logits.amax(1, keepdim=True)
    chosen = logits.gather(1, tokens[:, None])[:, 0]
    if not entropies:
        return chosen - logits.exp_().sum(1).log(), None
    weights = logits.exp()
    total = weights.sum(1)
    entropy = total.log() - logits.mul_(weights).sum(1) / total
    return chosen - total.log(), entropy.clamp(min=0)


def _decoding_stats(logits: torch.Tensor, tokens: torch.Tensor, spec: ScoringSpec) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of the tokens and entropies under temperature and top_p. The logits are not changed."""
    if spec.temperature == 0:  # greedy: all mass on the most likely token
        chosen = logits.gather(1, tokens[:, None])[:, 0]
        entropy = torch.zeros_like(chosen)
        return entropy.where(chosen >= logits.amax(1), -torch.inf), entropy
    tempered = (logits / spec.temperature).log_softmax(1)
    chosen = tempered.gather(1, tokens[:, None])[:, 0]
    if spec.top_p == 1:
        return chosen, -(tempered.exp() * tempered).sum(1)
    ordered = tempered.topk(min(TOP_P_PRESORT_TOKENS, tempered.shape[1]), dim=1).values
    # Steps whose sorted tokens do not reach top_p have a larger nucleus.
    short = ordered.exp().sum(1) < spec.top_p
    logprob, entropy = _nucleus_stats(ordered, tempered, chosen, spec.top_p)
    if ordered.shape[1] < tempered.shape[1] and bool(short.any()):
        whole = tempered[short].sort(dim=1, descending=True).values
        logprob[short], entropy[short] = _nucleus_stats(whole, tempered[short], chosen[short], spec.top_p)
    return logprob, entropy


def _nucleus_stats(
    ordered: torch.Tensor, tempered: torch.Tensor, chosen: torch.Tensor, top_p: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same within the nucleus of each step, given the log-probabilities at the temperature: the largest in
    descending order, and all of them."""
    masses = ordered.exp()
    # A token is inside if the tokens before it have not reached top_p yet.
    kept = masses.cumsum(1) - masses < top_p
    masses *= kept
    total = masses.sum(1)
    last = ordered.where(kept, torch.inf).amin(1)
    entropy = total.log() - (masses * ordered.where(kept, 0.0)).sum(1) / total
    # The share of the tokens at the border that fit inside: 1 if there are no ties.
    fitting, tied = (kept & (ordered == last[:, None])).sum(1), (tempered == last[:, None]).sum(1)
    share = fitting.to(chosen.dtype) / tied.to(chosen.dtype)
    logprob = (chosen - total.log() + share.log().where(chosen == last, 0.0)).clamp(max=0)
    return logprob.where(chosen >= last, -torch.inf), entropy.clamp(min=0)

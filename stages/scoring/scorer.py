"""The scorer: one forward pass through transformers over prompt and text, batched by length.

The prompt's own tokens are not scored. Entropies are over the full vocabulary, in nats, untempered.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stages.prompts import token_ids
from stages.scoring import Score, Trace

ROWS = 128  # traces in one forward pass
UNSCORED = -1


class Scorer:
    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model, self.tokenizer = model, tokenizer

    def score(self, traces: Sequence[Trace]) -> list[Score]:
        """Scores in the order of the traces; they are computed in the order of their length."""
        rows = [self._ids(trace) for trace in traces]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]) + len(rows[i][1]))
        scores: dict[int, Score] = {}
        for begin in range(0, len(order), ROWS):
            part = order[begin : begin + ROWS]
            scores.update(zip(part, self._forward([rows[i] for i in part]), strict=True))
        return [scores[i] for i in range(len(rows))]

    def _ids(self, trace: Trace) -> tuple[list[int], list[int]]:
        asked = token_ids(trace.prompt, self.tokenizer)
        told = self.tokenizer(trace.text, add_special_tokens=False)["input_ids"]
        return asked, told + ([self.tokenizer.eos_token_id] if trace.ended else [])

    @torch.inference_mode()
    def _forward(self, rows: Sequence[tuple[list[int], list[int]]]) -> list[Score]:
        """Rows are padded on the right, which causal attention never sees. The step that predicts a token stands
        one place before it, so the last step of a row predicts nothing."""
        inputs = _padded([asked + told for asked, told in rows], fill=0)
        targets = _padded([[UNSCORED] * len(asked) + told for asked, told in rows], fill=UNSCORED)[:, 1:]
        logprobs = self.model(input_ids=inputs, use_cache=False).logits[:, :-1].double().log_softmax(-1)
        counted = targets != UNSCORED
        chosen = logprobs.gather(2, targets.clamp(min=0)[:, :, None])[:, :, 0]
        entropies = -(logprobs.exp() * logprobs).sum(-1)
        tokens = counted.sum(1)
        nll = -(chosen * counted).sum(1)
        mean_entropy = (entropies * counted).sum(1) / tokens.clamp(min=1)
        return [Score(*row) for row in zip(tokens.tolist(), nll.tolist(), mean_entropy.tolist(), strict=True)]


def _padded(rows: Sequence[list[int]], fill: int) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows])

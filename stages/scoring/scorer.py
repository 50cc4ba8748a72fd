"""The scorer: one forward pass through transformers over prompt and text, batched by length.

The prompt's own tokens are not scored. Entropies are over the full vocabulary, in nats, untempered.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stages.scoring import Score, Trace

ROWS = 128  # traces in one forward pass


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
        asked = self.tokenizer(trace.prompt)["input_ids"]
        told = self.tokenizer(trace.text, add_special_tokens=False)["input_ids"]
        return asked, told + ([self.tokenizer.eos_token_id] if trace.ended else [])

    @torch.inference_mode()
    def _forward(self, rows: Sequence[tuple[list[int], list[int]]]) -> list[Score]:
        """Rows are padded on the right, which causal attention never sees."""
        width = max(len(asked) + len(told) for asked, told in rows)
        inputs = torch.zeros((len(rows), width), dtype=torch.long)
        for i, (asked, told) in enumerate(rows):
            inputs[i, : len(asked) + len(told)] = torch.tensor(asked + told)
        logprobs = self.model(input_ids=inputs, use_cache=False).logits.double().log_softmax(-1)
        return [
            _score(logprobs[i, len(asked) - 1 : len(asked) + len(told) - 1], torch.tensor(told, dtype=torch.long))
            for i, (asked, told) in enumerate(rows)
        ]


def _score(logprobs: torch.Tensor, told: torch.Tensor) -> Score:
    if len(told) == 0:
        return Score(0, 0.0, 0.0)
    nll = -logprobs.gather(1, told[:, None]).sum()
    entropies = -(logprobs.exp() * logprobs).sum(-1)
    return Score(len(told), float(nll), float(entropies.mean()))

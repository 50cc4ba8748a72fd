"""Log-probabilities from vLLM, for the same tokens that `torch_scorer` scores.

vLLM gives no entropies and no decoding distribution other than the model's own. Each request must draw one token, which
is thrown away, so the context window is one token shorter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from leash.engines import vllm_startup
from leash.errors import UnsupportedDtypeError
from leash.params.groups import Vllm
from leash.scoring.torch_scorer import TokenizedTrace, tokenize_traces
from leash.scoring.traces import Score, ScoringSpec, Trace, round_tokens
from leash.weights import Weights, load_tokenizer

GPU_TOKENS_PER_STEP = 2048  # vLLM keeps the logits of all tokens of a step in memory at once


@dataclass
class PendingBatch:
    """The scores so far of traces that were started together, and how many requests are still running."""

    scores: list[Score]
    plain: bool  # the decoding distribution is the model's own
    per_token: bool
    left: int = 0

    def fill(self, index: int, token_nlls: list[float]) -> None:
        nll = math.fsum(token_nlls)
        score = replace(self.scores[index], nll=nll, decoding_nll=nll if self.plain else None)
        self.scores[index] = replace(score, token_nlls=round_tokens(np.array(token_nlls))) if self.per_token else score


class VllmScorer:
    def __init__(self, weights: Weights, settings: Vllm) -> None:
        if weights.dtype == "float64":
            raise UnsupportedDtypeError(weights.name, weights.dtype)
        self._tokenizer = load_tokenizer(weights)
        self._engine = vllm_startup.start_engine(weights, settings, gpu_tokens_per_step=GPU_TOKENS_PER_STEP)
        self.window: int = self._engine.model_config.max_model_len - 1
        self._sent = 0
        self._batches: dict[int, PendingBatch] = {}  # by ticket
        self._running: dict[str, tuple[int, int, TokenizedTrace]] = {}  # by request id: ticket, index, tokens

    def start(self, traces: Sequence[Trace], spec: ScoringSpec) -> int:
        """Start scoring traces; return a ticket, which `step` returns with the scores."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        ticket = self._sent
        self._sent += 1
        rows = tokenize_traces(traces, self._tokenizer)
        scores = [Score(trace.key, len(text)) for trace, (_, text) in zip(traces, rows, strict=True)]
        batch = self._batches[ticket] = PendingBatch(scores, spec.plain, spec.per_token)
        for index, (prompt, text) in enumerate(rows):
            if not text:
                batch.fill(index, [])
            elif len(prompt) + len(text) <= self.window:
                request_id = str(self._sent)
                tokens = self._engine.renderer.render_cmpl([{"prompt_token_ids": prompt + text}])[0]
                # With prompt_logprobs, vLLM never takes the prompt from its prefix cache, which has none.
                sampling = SamplingParams(max_tokens=1, prompt_logprobs=0, output_kind=RequestOutputKind.FINAL_ONLY)
                self._engine.add_request(request_id, tokens, sampling)
                self._running[request_id] = ticket, index, (prompt, text)
                self._sent += 1
                batch.left += 1
        return ticket

    def step(self) -> list[tuple[int, list[Score]]]:
        """Advance the engine by one step; return the tickets that are finished, with their scores."""
        if any(batch.left for batch in self._batches.values()):
            for output in vllm_startup.step_engine(self._engine):
                if output.finished:
                    ticket, index, (prompt, text) = self._running.pop(output.request_id)
                    steps = zip(text, output.prompt_logprobs[len(prompt) :], strict=True)
                    batch = self._batches[ticket]
                    batch.fill(index, [0.0 - step[token].logprob for token, step in steps])
                    batch.left -= 1
        finished = [ticket for ticket, batch in self._batches.items() if not batch.left]
        return [(ticket, self._batches.pop(ticket).scores) for ticket in finished]

    def score(self, traces: Sequence[Trace], spec: ScoringSpec) -> list[Score]:
        """Score traces while nothing else is running."""
        self.start(traces, spec)
        while not (finished := self.step()):
            pass
        return finished[0][1]

    def close(self) -> None:
        vllm_startup.close_engine(self._engine)

"""Log-probabilities from vLLM: it is given the tokens of prompt and text and says how likely each of them was.

It scores the very tokens that the scorer does. It has no entropies and no decoding distribution. Each request draws
one token that nobody wants, for which the window must have room.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from stages.errors import LeashError
from stages.models import Weights, load_tokenizer
from stages.params import Vllm
from stages.sample import vllm_start
from stages.scoring import Reading, Score, Trace
from stages.scoring.scorer import Row, rows_of, too_long, width

PREFILLED = 2048  # tokens that a GPU computes at a time: vLLM has the logits of all of them at once


@dataclass
class Batch:
    """Traces that were asked for together: their scores so far, and how many of them are left."""

    scores: list[Score]
    plain: bool  # the decoding distribution is the model's own
    left: int = 0

    def fill(self, place: int, nll: float) -> None:
        self.scores[place] = replace(self.scores[place], nll=nll, decoding_nll=nll if self.plain else None)


class VllmScorer:
    def __init__(self, weights: Weights, settings: Vllm) -> None:
        if weights.dtype == "float64":
            raise LeashError(
                f"`models.{weights.name}.dtype` is float64, which vLLM does not have; set it to float32 or bfloat16."
            )
        self._tokenizer = load_tokenizer(weights)
        self._engine = vllm_start.new_engine(weights, settings, gpu_tokens_per_step=PREFILLED)
        self.window: int = self._engine.model_config.max_model_len - 1
        self._sent = 0
        self._batches: dict[int, Batch] = {}  # by ticket
        self._running: dict[str, tuple[int, int, Row]] = {}  # by vLLM's name: ticket, place, tokens

    def start(self, traces: Sequence[Trace], reading: Reading) -> int:
        """Begin on some traces; the ticket says when they are finished."""
        ticket = self._sent
        self._sent += 1
        rows = rows_of(traces, self._tokenizer)
        scores = [too_long(trace, row) for trace, row in zip(traces, rows, strict=True)]
        batch = self._batches[ticket] = Batch(scores, reading.temperature == 1 and reading.top_p == 1)
        for place, row in enumerate(rows):
            if not row[1]:
                batch.fill(place, 0.0)
            elif width(row) <= self.window:
                self._send(ticket, place, row)
        return ticket

    def step(self) -> list[tuple[int, list[Score]]]:
        """One step of the engine; the tickets that are finished with it."""
        if any(batch.left for batch in self._batches.values()):
            for output in self._outputs():
                ticket, place, row = self._running.pop(output.request_id)
                batch = self._batches[ticket]
                batch.fill(place, _nll(row, output.prompt_logprobs))
                batch.left -= 1
        done = [ticket for ticket, batch in self._batches.items() if not batch.left]
        return [(ticket, self._batches.pop(ticket).scores) for ticket in done]

    def score(self, traces: Sequence[Trace], reading: Reading) -> list[Score]:
        """The scores of some traces, where nothing else is under way."""
        self.start(traces, reading)
        while not (finished := self.step()):
            pass
        return finished[0][1]

    def _send(self, ticket: int, place: int, row: Row) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        name = str(self._sent)
        tokens = self._engine.renderer.render_cmpl([{"prompt_token_ids": row[0] + row[1]}])[0]
        # vLLM never takes a prompt out of its prefix cache whose log-probabilities are asked for.
        asked = SamplingParams(max_tokens=1, prompt_logprobs=0, output_kind=RequestOutputKind.FINAL_ONLY)
        self._engine.add_request(name, tokens, asked)
        self._running[name] = ticket, place, row
        self._batches[ticket].left += 1
        self._sent += 1

    def close(self) -> None:
        vllm_start.close(self._engine)

    def _outputs(self) -> list[Any]:
        return [output for output in vllm_start.step(self._engine) if output.finished]


def _nll(row: Row, logprobs: Sequence[Any]) -> float:
    """The sum over a text's tokens, of which each stands with its log-probability at its place in the prompt."""
    asked, told = row
    steps = zip(told, logprobs[len(asked) :], strict=True)
    return -math.fsum(step[token].logprob for token, step in steps)

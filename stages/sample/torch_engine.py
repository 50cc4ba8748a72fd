"""The `torch` engine: any causal language model that transformers loads, on a CPU, one thread a process.

Built for many samples of few prompts: a prompt is computed once and its cache shared out to the samples,
finished rows leave the batch, and prompts of equal length share one, so that nothing is padded or masked.
A sample's tokens are drawn by inverting the cumulative distribution at numbers from its own stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stages import seeds
from stages.prompts import token_ids
from stages.sample.engine import Completion, Decoding, Request
from stages.sample.rows import GROUPED, row_cache

BLOCK = 64  # random numbers drawn at a time per stream


@dataclass(frozen=True)
class Row:
    """A sample to draw: which prompt of the batch, and the name of its random stream."""

    prompt: int
    stream: tuple[seeds.Name, ...]


@dataclass(frozen=True)
class Drawn:
    """Token ids with the end of text in them where it was reached, and their untempered log-probability."""

    ids: list[int]
    finish: str
    logprob: float


class TorchEngine:
    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: int = 1024) -> None:
        self.model, self.tokenizer, self.rows = model, tokenizer, rows
        if model.config._attn_implementation == "sdpa":
            model.set_attn_implementation(GROUPED)
        ends = model.generation_config.eos_token_id
        self.ends = torch.tensor(ends if isinstance(ends, list) else [ends])

    def complete(self, requests: Iterable[Request], decoding: Decoding) -> Iterator[Completion]:
        for prompts, asked in _equal_lengths(self.tokenizer, requests, self.rows):
            rows = [Row(prompt, request.stream_name(sample)) for prompt, request, sample in asked]
            drawn = self.draw(prompts, rows, decoding)
            texts = self.tokenizer.batch_decode([d.ids for d in drawn], skip_special_tokens=True)
            for (_, request, sample), d, text in zip(asked, drawn, texts, strict=True):
                yield Completion(request.problem_id, sample, text, len(d.ids), d.finish, d.logprob)

    def close(self) -> None:
        """The model's memory goes with the worker process that has it."""

    @torch.inference_mode()
    def draw(self, prompts: Sequence[Sequence[int]], rows: Sequence[Row], decoding: Decoding) -> list[Drawn]:
        """Complete prompts of one length; all rows advance together, and leave when they end."""
        asked = torch.tensor(prompts)
        cache = row_cache(self.model.config, asked.shape[1] + decoding.max_tokens)
        logits = self.model(input_ids=asked, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        share = torch.tensor([row.prompt for row in rows])
        cache.batch_select_indices(share)
        logits = logits[share]

        uniforms = Uniforms([row.stream for row in rows])
        ids = torch.zeros((len(rows), decoding.max_tokens), dtype=torch.long)
        logprobs = torch.zeros(len(rows), dtype=torch.float64)
        lengths = torch.full((len(rows),), decoding.max_tokens)
        stopped = torch.zeros(len(rows), dtype=torch.bool)
        live = torch.arange(len(rows))
        for step in range(decoding.max_tokens):
            plain = logits[:, -1].double().log_softmax(-1)
            chosen = choose(plain, uniforms.at(step, live), decoding)
            ids[live, step] = chosen
            logprobs[live] += plain.gather(1, chosen[:, None])[:, 0]
            ended = torch.isin(chosen, self.ends)
            lengths[live[ended]], stopped[live[ended]] = step + 1, True
            stay = _closed_up(ended)
            if len(stay) == 0 or step + 1 == decoding.max_tokens:
                break
            if len(stay) < len(live):
                live, chosen = live[stay], chosen[stay]
                cache.batch_select_indices(stay)
            logits = self.model(input_ids=chosen[:, None], past_key_values=cache, use_cache=True).logits
        return [
            # Rounded, so that another batch, which may tip the last bits of a sum, gives the same table.
            Drawn(row[:n].tolist(), "stop" if done else "length", round(float(logprob), 6))
            for row, n, done, logprob in zip(ids, lengths, stopped, logprobs, strict=True)
        ]


class Uniforms:
    """Numbers in [0, 1) for every row and step, each row's from its own stream."""

    def __init__(self, names: Sequence[tuple[seeds.Name, ...]]) -> None:
        self._streams = [seeds.stream(*name) for name in names]
        self._block = np.empty((len(names), BLOCK))

    def at(self, step: int, live: torch.Tensor) -> torch.Tensor:
        if step % BLOCK == 0:
            for row in live.tolist():
                self._streams[row].random(out=self._block[row])
        return torch.from_numpy(self._block[live.numpy(), step % BLOCK])


def choose(plain: torch.Tensor, uniforms: torch.Tensor, decoding: Decoding) -> torch.Tensor:
    """A token for each row: the first whose cumulative probability exceeds the row's number."""
    if decoding.temperature == 0:
        return plain.argmax(-1)
    tempered = plain if decoding.temperature == 1 else (plain / decoding.temperature).log_softmax(-1)
    probabilities = tempered.exp()
    if decoding.top_p < 1:
        probabilities = nucleus(probabilities, decoding.top_p)
    cumulative = probabilities.cumsum(-1)
    thresholds = uniforms[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, thresholds, right=True)[:, 0].clamp(max=plain.shape[1] - 1)


def nucleus(probabilities: torch.Tensor, top_p: float) -> torch.Tensor:
    """Zero but for the fewest most likely tokens whose mass reaches top_p."""
    ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(probabilities).scatter(-1, order, ordered.where(before < top_p, 0.0))


def _closed_up(ended: torch.Tensor) -> torch.Tensor:
    """Which row goes where when the ended ones leave: rows from the end fill the holes, the others stay."""
    left = int((~ended).sum())
    stay = torch.arange(left)
    stay[ended[:left]] = left + (~ended[left:]).nonzero().flatten()
    return stay


def _equal_lengths(
    tokenizer: PreTrainedTokenizerBase, requests: Iterable[Request], rows: int
) -> Iterator[tuple[list[list[int]], list[tuple[int, Request, int]]]]:
    """Batches of at most `rows` samples whose prompts have one length: the prompts, and (prompt, request,
    sample) for each row."""
    by_length: dict[int, list[tuple[list[int], Request]]] = {}
    for request in requests:
        ids = token_ids(request.prompt, tokenizer)
        by_length.setdefault(len(ids), []).append((ids, request))
    for group in by_length.values():
        waiting = [(ids, request, sample) for ids, request in group for sample in request.samples]
        for begin in range(0, len(waiting), rows):
            batch = waiting[begin : begin + rows]
            prompts = list(dict.fromkeys(tuple(ids) for ids, _, _ in batch))
            place = {ids: i for i, ids in enumerate(prompts)}
            yield [list(p) for p in prompts], [(place[tuple(ids)], r, s) for ids, r, s in batch]

"""The `torch` engine: any causal language model that transformers loads, on a CPU, one thread per process.

It is built for many samples of few prompts. A prompt is computed once and its cache is copied to the samples, finished
rows leave the batch, and only prompts of equal length share a batch, so nothing is padded or masked. A sample's tokens
are drawn by inverting the cumulative distribution at numbers from its own random stream.

It shows no images, and it does not use a GPU: vLLM does both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from leash.engines.kv_cache import GROUPED_ATTENTION_NAME, build_kv_cache
from leash.engines.protocol import Completion, Decoding, Request
from leash.engines.stop_strings import STOP_STRING, StopWatcher, split_at_stop
from leash.prompts import tokenize_prompt
from leash.statistics import seeds
from leash.token_ids import ids_to_store

# Random numbers drawn at a time per stream.
UNIFORMS_PER_BLOCK = 64
# Another batch can change the last bits of a sum; rounded log-probabilities give the same table.
LOGPROB_DECIMALS = 6


@dataclass(frozen=True)
class SampleRow:
    """A sample to draw: the index of its prompt in the batch, and the name of its random stream."""

    prompt: int
    stream: tuple[seeds.NamePart, ...]


@dataclass(frozen=True)
class SampledTokens:
    """Token ids, including the end-of-text token if it was drawn, and their untempered log-probability."""

    ids: list[int]
    finish: str
    logprob: float


class TorchEngine:
    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: int = 1024) -> None:
        self.model, self.tokenizer, self.rows = model, tokenizer, rows
        if model.config._attn_implementation == "sdpa":
            model.set_attn_implementation(GROUPED_ATTENTION_NAME)
        ends = model.generation_config.eos_token_id
        self.end_tokens = torch.tensor(ends if isinstance(ends, list) else [ends])

    def complete(self, requests: Iterable[Request], decoding: Decoding) -> Iterator[Completion]:
        by_length: dict[int, list[tuple[tuple[int, ...], Request, int]]] = {}  # tokens of the prompt, request, sample
        for request in requests:
            prompt = tuple(tokenize_prompt(request.prompt, self.tokenizer))
            by_length.setdefault(len(prompt), []).extend((prompt, request, sample) for sample in request.samples)
        for samples in by_length.values():
            for begin in range(0, len(samples), self.rows):
                batch = samples[begin : begin + self.rows]
                index = {prompt: i for i, prompt in enumerate(dict.fromkeys(prompt for prompt, _, _ in batch))}
                rows = [SampleRow(index[prompt], request.stream_name(sample)) for prompt, request, sample in batch]
                drawn = self.draw(list(index), rows, decoding)
                ids = [tokens.ids for tokens in drawn]
                texts = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
                kept = ids_to_store(texts, [tokens.finish == "stop" for tokens in drawn], ids, self.tokenizer)
                for (_, request, sample), tokens, drawn_text, own in zip(batch, drawn, texts, kept, strict=True):
                    text, tail, finish = split_at_stop(drawn_text, tokens.finish, decoding.stop)
                    facts = text, len(tokens.ids), finish, tokens.logprob, own, tail
                    yield Completion(request.problem_id, sample, *facts)

    def close(self) -> None:
        """Nothing to do: the model's memory is freed when its worker process ends."""

    @torch.inference_mode()
    def draw(
        self, prompts: Sequence[Sequence[int]], rows: Sequence[SampleRow], decoding: Decoding
    ) -> list[SampledTokens]:
        """Complete prompts of equal length. All rows advance together; a row leaves the batch when it ends."""
        prompt_ids = torch.tensor(prompts)
        cache = build_kv_cache(self.model.config, prompt_ids.shape[1] + decoding.max_tokens)
        logits = self.model(input_ids=prompt_ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
        # From here on, the cache and the logits have a row per sample instead of a row per prompt.
        prompt_of_row = torch.tensor([row.prompt for row in rows])
        cache.batch_select_indices(prompt_of_row)
        logits = logits[prompt_of_row]

        uniforms = UniformStreams([row.stream for row in rows])
        ids = torch.zeros((len(rows), decoding.max_tokens), dtype=torch.long)
        logprobs = torch.zeros(len(rows), dtype=torch.float64)
        lengths = torch.full((len(rows),), decoding.max_tokens)
        finishes = ["length"] * len(rows)
        watchers = [StopWatcher(decoding.stop) for _ in rows] if decoding.stop else []
        live = torch.arange(len(rows))  # row i of the batch is sample live[i]
        for step in range(decoding.max_tokens):
            untempered = logits[:, -1].double().log_softmax(-1)
            chosen = sample_tokens(untempered, uniforms.at(step, live), decoding)
            ids[live, step] = chosen
            logprobs[live] += untempered.gather(1, chosen[:, None])[:, 0]
            ended = torch.isin(chosen, self.end_tokens)
            for row in live[ended].tolist():
                finishes[row] = "stop"
            if watchers:
                reached = self._reach_stop_strings(ids[live, : step + 1], [watchers[row] for row in live.tolist()])
                for row in live[reached & ~ended].tolist():
                    finishes[row] = STOP_STRING
                ended |= reached
            lengths[live[ended]] = step + 1
            stay = _compact_rows(ended)
            if len(stay) == 0 or step + 1 == decoding.max_tokens:
                break
            if len(stay) < len(live):
                live, chosen = live[stay], chosen[stay]
                cache.batch_select_indices(stay)
            logits = self.model(input_ids=chosen[:, None], past_key_values=cache, use_cache=True).logits
        return [
            SampledTokens(row[:n].tolist(), finish, round(float(logprob), LOGPROB_DECIMALS))
            for row, n, finish, logprob in zip(ids, lengths, finishes, logprobs, strict=True)
        ]

    def _reach_stop_strings(self, ids: torch.Tensor, watchers: Sequence[StopWatcher]) -> torch.Tensor:
        """Which rows of token ids have reached a stop string. A row's answer depends on its own tokens alone."""
        texts = self.tokenizer.batch_decode(ids.tolist(), skip_special_tokens=True)
        return torch.tensor([watcher.reached(text) for watcher, text in zip(watchers, texts, strict=True)])


class UniformStreams:
    """Numbers in [0, 1) for every row and step. Each row has its own stream, whatever the other rows do."""

    def __init__(self, names: Sequence[tuple[seeds.NamePart, ...]]) -> None:
        self._streams = [seeds.stream(*name) for name in names]
        self._block = np.empty((len(names), UNIFORMS_PER_BLOCK))

    def at(self, step: int, live: torch.Tensor) -> torch.Tensor:
        if step % UNIFORMS_PER_BLOCK == 0:
            for row in live.tolist():
                self._streams[row].random(out=self._block[row])
        return torch.from_numpy(self._block[live.numpy(), step % UNIFORMS_PER_BLOCK])


def sample_tokens(logprobs: torch.Tensor, uniforms: torch.Tensor, decoding: Decoding) -> torch.Tensor:
    """A token for each row: the first whose cumulative probability exceeds the row's uniform number."""
    if decoding.temperature == 0:
        return logprobs.argmax(-1)
    tempered = logprobs if decoding.temperature == 1 else (logprobs / decoding.temperature).log_softmax(-1)
    probabilities = tempered.exp()
    if decoding.top_p < 1:
        probabilities = apply_top_p(probabilities, decoding.top_p)
    cumulative = probabilities.cumsum(-1)
    # With top_p the probabilities sum to less than 1, and rounding can miss 1 as well: scale by the actual sum.
    thresholds = uniforms[:, None] * cumulative[:, -1:]
    return torch.searchsorted(cumulative, thresholds, right=True)[:, 0].clamp(max=logprobs.shape[1] - 1)


def apply_top_p(probabilities: torch.Tensor, top_p: float) -> torch.Tensor:
    """Keep the fewest most likely tokens whose mass reaches `top_p`, and set all others to zero."""
    ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
    mass_before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(probabilities).scatter(-1, order, ordered.where(mass_before < top_p, 0.0))


def _compact_rows(ended: torch.Tensor) -> torch.Tensor:
    """Row indices without the ended rows: live rows from the end fill the gaps, all other rows keep their place.

    ended    [no, yes, no, no, yes]
    returns  [0, 3, 2]               only row 3 moves, so the cache copies one row
    """
    live = int((~ended).sum())
    stay = torch.arange(live)
    stay[ended[:live]] = live + (~ended[live:]).nonzero().flatten()
    return stay

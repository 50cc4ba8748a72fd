"""The `torch` engine: any causal language model that transformers loads, on a CPU, one thread per process.

It is built for many samples of few prompts. A prompt is computed once and its cache is copied to the samples, finished
rows leave the batch, and all rows of a batch are at the same position, so nothing is padded or masked. Prompts of
different lengths have batches of their own. Prompts with prefixes share batches: a row joins when the batch reaches the
end of its prefix. A sample's tokens are drawn by inverting the cumulative distribution at numbers from its own random
stream.

It shows no images, and it does not use a GPU: vLLM does both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from leash.engines.cut_thoughts import mark_cut_thought
from leash.engines.kv_cache import GROUPED_ATTENTION_NAME, append_rows, build_kv_cache, can_append_rows
from leash.engines.protocol import Completion, Decoding, Request
from leash.engines.stop_strings import STOP_STRING, StopWatcher, split_at_stop
from leash.prompts import tokenize_prompts
from leash.statistics import seeds
from leash.token_ids import ids_to_store

# Random numbers drawn at a time per stream.
UNIFORMS_PER_BLOCK = 64
# Another batch can change the last bits of a sum; rounded log-probabilities give the same table.
LOGPROB_DECIMALS = 6

BatchSample = tuple[tuple[int, ...], Request, int]  # tokens of the prompt, request, sample


@dataclass(frozen=True)
class SampleRow:
    """A sample to draw: the index of its prompt in the batch, the name of its random stream, and its first tokens."""

    prompt: int
    stream: tuple[seeds.NamePart, ...]
    prefix: tuple[int, ...] = ()


@dataclass(frozen=True)
class SampledTokens:
    """Token ids, including the prefix and the end-of-text token if it was drawn, and the untempered log-probability of
    those after the prefix."""

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
        for batch in self._batches(list(requests), decoding):
            index = {prompt: i for i, prompt in enumerate(dict.fromkeys(prompt for prompt, _, _ in batch))}
            rows = [SampleRow(index[prompt], r.stream_name(sample), r.prefix) for prompt, r, sample in batch]
            drawn = self.draw(list(index), rows, decoding)
            ids = [tokens.ids for tokens in drawn]
            texts = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
            kept = ids_to_store(texts, [tokens.finish == "stop" for tokens in drawn], ids, self.tokenizer)
            for (_, request, sample), tokens, drawn_text, own in zip(batch, drawn, texts, kept, strict=True):
                text, tail, finish = split_at_stop(drawn_text, tokens.finish, decoding.stop)
                finish = mark_cut_thought(finish, text, request.prompt, self.tokenizer)
                facts = text, len(tokens.ids), finish, tokens.logprob, tokens.ids if request.prefix else own, tail
                yield Completion(request.problem_id, sample, *facts)

    def close(self) -> None:
        """Nothing to do: the model's memory is freed when its worker process ends."""

    def _batches(self, requests: Sequence[Request], decoding: Decoding) -> Iterator[list[BatchSample]]:
        """The samples that are drawn together. Those without a prefix share a batch if their prompts have the same
        length; so they stay byte for byte what they were before there were prefixes."""
        prompts = tokenize_prompts((request.prompt for request in requests), self.tokenizer)
        groups: dict[int | None, list[BatchSample]] = {}
        can_join = can_append_rows(self.model.config)
        for request in requests:
            request.tokens_to_draw(decoding.max_tokens)  # refuses a prefix that leaves no room
            prompt = tuple(prompts[request.prompt])
            group = None if request.prefix and can_join else len(prompt) + len(request.prefix)
            groups.setdefault(group, []).extend((prompt, request, sample) for sample in request.samples)
        for samples in groups.values():
            samples.sort(key=lambda each: len(each[0]) + len(each[1].prefix))
            for begin in range(0, len(samples), self.rows):
                yield samples[begin : begin + self.rows]

    @torch.inference_mode()
    def draw(
        self, prompts: Sequence[Sequence[int]], rows: Sequence[SampleRow], decoding: Decoding
    ) -> list[SampledTokens]:
        """Complete prompts. All rows advance together: a row joins the batch when the others reach its length of prompt
        and prefix, and leaves it when it ends."""
        batch = RowBatch(self.model, prompts, rows, decoding.max_tokens)
        uniforms = UniformStreams([row.stream for row in rows])
        prompt_lengths = torch.tensor([len(prompts[row.prompt]) for row in rows])
        prefix_lengths = torch.tensor([len(row.prefix) for row in rows])
        ids = torch.zeros((len(rows), decoding.max_tokens), dtype=torch.long)
        for i, row in enumerate(rows):
            ids[i, : len(row.prefix)] = torch.tensor(row.prefix, dtype=torch.long)
        logprobs = torch.zeros(len(rows), dtype=torch.float64)
        lengths = torch.full((len(rows),), decoding.max_tokens)
        finishes = ["length"] * len(rows)
        watchers = [StopWatcher(decoding.stop) for _ in rows] if decoding.stop else []
        while (logits := batch.next_logits()) is not None:
            live = batch.live
            steps = batch.position - prompt_lengths[live]  # how many tokens of each completion there are
            untempered = logits.double().log_softmax(-1)
            chosen = sample_tokens(untempered, uniforms.at(steps - prefix_lengths[live], live), decoding)
            ids[live, steps] = chosen
            logprobs[live] += untempered.gather(1, chosen[:, None])[:, 0]
            ended = torch.isin(chosen, self.end_tokens)
            for i in live[ended].tolist():
                finishes[i] = "stop"
            if watchers:
                texts = [ids[i, : step + 1] for i, step in zip(live.tolist(), steps.tolist(), strict=True)]
                reached = self._reach_stop_strings(texts, [watchers[i] for i in live.tolist()])
                for i in live[reached & ~ended].tolist():
                    finishes[i] = STOP_STRING
                ended |= reached
            lengths[live[ended]] = steps[ended] + 1
            batch.advance(chosen, ended | (steps + 1 == decoding.max_tokens))
        return [
            SampledTokens(row[:n].tolist(), finish, round(float(logprob), LOGPROB_DECIMALS))
            for row, n, finish, logprob in zip(ids, lengths, finishes, logprobs, strict=True)
        ]

    def _reach_stop_strings(self, ids: Sequence[torch.Tensor], watchers: Sequence[StopWatcher]) -> torch.Tensor:
        """Which rows of token ids have reached a stop string. A row's answer depends on its own tokens alone."""
        texts = self.tokenizer.batch_decode([row.tolist() for row in ids], skip_special_tokens=True)
        return torch.tensor([watcher.reached(text) for watcher, text in zip(watchers, texts, strict=True)])


class RowBatch:
    """The rows that are being drawn, with one cache. Row i of the batch is sample `live[i]`, and every row has read
    `position` tokens of prompt and completion."""

    def __init__(
        self, model: PreTrainedModel, prompts: Sequence[Sequence[int]], rows: Sequence[SampleRow], max_tokens: int
    ) -> None:
        self._model = model
        # By length of prompt and prefix: the rows that share both, which are read once.
        self._waiting: dict[int, dict[tuple[int, tuple[int, ...]], list[int]]] = {}
        for i, row in enumerate(rows):
            alike = self._waiting.setdefault(len(prompts[row.prompt]) + len(row.prefix), {})
            alike.setdefault((row.prompt, row.prefix), []).append(i)
        self._prompts = prompts
        self._capacity = max((len(prompts[row.prompt]) for row in rows), default=0) + max_tokens
        self._cache = build_kv_cache(model.config, self._capacity)
        self.position = 0
        self.live = self._chosen = torch.empty(0, dtype=torch.long)

    def next_logits(self) -> torch.Tensor | None:
        """The logits of the next token of every live row, after those have joined whose turn it is; None if no row is
        left."""
        parts = []
        if len(self.live):
            network = self._model(input_ids=self._chosen[:, None], past_key_values=self._cache, use_cache=True)
            parts.append(network.logits[:, -1])
            self.position += 1
        elif self._waiting:
            self.position = min(self._waiting)
        if self.position in self._waiting:
            parts.append(self._join(self._waiting.pop(self.position)))
        return torch.cat(parts) if len(parts) > 1 else parts[0] if parts else None

    def advance(self, chosen: torch.Tensor, ended: torch.Tensor) -> None:
        """Give every live row its next token, and drop those that ended."""
        stay = _compact_rows(ended)
        if 0 < len(stay) < len(self.live):
            self._cache.batch_select_indices(stay)
        self.live, self._chosen = self.live[stay], chosen[stay]

    def _join(self, rows_of: dict[tuple[int, tuple[int, ...]], list[int]]) -> torch.Tensor:
        """Read prompts and prefixes, each once, and add their rows. Return the logits of their first tokens."""
        read = torch.tensor([[*self._prompts[prompt], *prefix] for prompt, prefix in rows_of])
        cache = build_kv_cache(self._model.config, self.position if len(self.live) else self._capacity)
        output: Any = self._model(input_ids=read, past_key_values=cache, use_cache=True, logits_to_keep=1)
        # From here on, the cache and the logits have a row per sample instead of a row per prompt and prefix.
        by_sample = sorted((row, place) for place, rows in enumerate(rows_of.values()) for row in rows)
        joined, place_of_row = torch.tensor(by_sample).T
        if len(self.live):
            append_rows(self._cache, cache, place_of_row)
        else:
            cache.batch_select_indices(place_of_row)
            self._cache = cache
        self.live = torch.cat([self.live, joined])
        logits: torch.Tensor = output.logits[place_of_row, -1]
        return logits


class UniformStreams:
    """Numbers in [0, 1) for every row and draw. Each row has its own stream, whatever the other rows do."""

    def __init__(self, names: Sequence[tuple[seeds.NamePart, ...]]) -> None:
        self._streams = [seeds.stream(*name) for name in names]
        self._block = np.empty((len(names), UNIFORMS_PER_BLOCK))

    def at(self, draws: torch.Tensor, live: torch.Tensor) -> torch.Tensor:
        """The number of each live row for its draw of this number. A row must ask for its draws in order."""
        columns = draws % UNIFORMS_PER_BLOCK
        for row in live[columns == 0].tolist():
            self._streams[row].random(out=self._block[row])
        return torch.from_numpy(self._block[live.numpy(), columns.numpy()])


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

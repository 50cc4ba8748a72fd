"""The scorer: one forward pass through transformers over prompt and text, batched by length.

The prompt's own tokens are not scored. The backbone sees a batch whole; of its hidden states, those of scored steps go
through the LM head a few at a time, so that logits never take more memory than a small constant, whatever the length
and the vocabulary. `Head` knows how a family's logits follow from hidden states, and a short probe at the start checks
that: where it fails, the model's own logits are used, whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from stages.prompts import tokens_of
from stages.scoring import TENTHS, Reading, Score, Trace
from stages.scoring.distribution import Reals, Steps, joined, steps_of

# What is computed on at a time, by device: on a CPU it should stay in the caches, a GPU wants more to do.
ROWS = 128  # traces in one forward pass at most,
TOKENS = {"cpu": 1 << 11, "cuda": 1 << 14}  # and so many tokens with their padding, unless it is one trace
ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}  # of logits; beyond 32 MB, a CPU gets fresh memory each time, slowly
PROBE = 8  # tokens that the head is checked on
CLOSE = {torch.float64: 1e-9, torch.float32: 1e-4}  # to the model's own logits, relative to the largest
CLOSE_IN_HALF = 2e-2
PLAIN = Reading()

Row = tuple[list[int], list[int]]  # the prompt's tokens, and those that are scored


@dataclass(frozen=True)
class Head:
    """How hidden states become logits: the LM head, then what a family does to its outcome."""

    project: torch.nn.Module
    factor: float = 1.0
    cap: float | None = None

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.project(hidden)
        if self.factor != 1:
            logits *= self.factor
        if self.cap is not None:
            logits = (logits / self.cap).tanh_().mul_(self.cap)
        return logits


def head_of(model: PreTrainedModel) -> Head | None:
    """The head of a model; None where it has none that gives the model's own logits."""
    config = model.config.get_text_config()
    project = model.get_output_embeddings()
    if project is None:
        return None
    factor = (getattr(config, "logit_scale", None) or 1.0) / (getattr(config, "logits_scaling", None) or 1.0)
    head = Head(project, factor, getattr(config, "final_logit_softcapping", None))
    return head if _gives_its_logits(model, head) else None


@torch.inference_mode()
def _gives_its_logits(model: PreTrainedModel, head: Head) -> bool:
    embedded: Any = model.get_input_embeddings()
    ids = torch.arange(PROBE, device=model.device)[None] % embedded.num_embeddings
    theirs = model(input_ids=ids, use_cache=False).logits
    try:
        ours = head(model.base_model(input_ids=ids, use_cache=False).last_hidden_state)
    except (AttributeError, RuntimeError, TypeError):  # a backbone that gives something else
        return False
    if ours.shape != theirs.shape:
        return False
    error = (ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-30)
    return float(error) <= CLOSE.get(theirs.dtype, CLOSE_IN_HALF)


class Scorer:
    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.window: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self.head = head_of(model)

    def score(self, traces: Sequence[Trace], reading: Reading = PLAIN) -> list[Score]:
        """Scores in the order of the traces; they are computed in the order of their length."""
        rows = rows_of(traces, self.tokenizer)
        fits = [i for i, row in enumerate(rows) if self.window is None or width(row) <= self.window]
        told = {i: too_long(traces[i], rows[i]) for i in set(range(len(rows))) - set(fits)}
        for part in batches(fits, [width(row) for row in rows], TOKENS[self.model.device.type]):
            batch = [rows[i] for i in part]
            steps = self.steps(batch, reading)
            keys = [traces[i].key for i in part]
            told.update(zip(part, scores_of(keys, batch, steps, reading), strict=True))
        return [told[i] for i in range(len(rows))]

    @torch.inference_mode()
    def steps(self, rows: Sequence[Row], reading: Reading) -> Steps:
        """Every scored step of some rows. They are padded on the right, which causal attention never sees; the step
        that predicts a token stands one place before it."""
        longest = max(map(width, rows))
        inputs = torch.tensor([asked + told + [0] * (longest - width((asked, told))) for asked, told in rows])
        places = torch.tensor(
            [
                i * longest + place
                for i, (asked, told) in enumerate(rows)
                for place in range(len(asked) - 1, len(asked) + len(told) - 1)
            ],
            dtype=torch.long,
        )
        tokens = torch.tensor([token for _, told in rows for token in told], dtype=torch.long)
        device = self.model.device
        parts = self._logits(inputs.to(device), places.to(device))
        return joined([steps_of(logits, tokens[begin:end].to(device), reading) for begin, end, logits in parts])

    def _logits(self, inputs: torch.Tensor, places: torch.Tensor) -> Iterator[tuple[int, int, torch.Tensor]]:
        """The logits at some places of a batch, a few places at a time, in at least float32."""
        seen = self.model.base_model if self.head else self.model
        output: Any = seen(input_ids=inputs, use_cache=False)
        states = (output.last_hidden_state if self.head else output.logits).flatten(0, 1)
        del output
        vocabulary = self.model.config.get_text_config().vocab_size
        most = max(1, ELEMENTS[inputs.device.type] // vocabulary)
        for begin in range(0, max(1, len(places)), most):
            some = states[places[begin : begin + most]]
            logits = self.head(some) if self.head else some
            yield begin, begin + most, logits if logits.dtype == torch.float64 else logits.float()


def rows_of(traces: Sequence[Trace], tokenizer: PreTrainedTokenizerBase) -> list[Row]:
    """The tokens of some traces. After a prompt of none, no step predicts the first token, which then is not scored."""
    if not traces:
        return []
    asked = tokens_of((trace.prompt for trace in traces), tokenizer)
    texts = tokenizer([trace.text for trace in traces], add_special_tokens=False)["input_ids"]
    rows = []
    for trace, text in zip(traces, texts, strict=True):
        told = text + ([tokenizer.eos_token_id] if trace.ended else [])
        rows.append((asked[trace.prompt], told) if asked[trace.prompt] else (told[:1], told[1:]))
    return rows


def width(row: Row) -> int:
    return len(row[0]) + len(row[1])


def batches(which: Sequence[int], widths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Rows of about one length together, no more than a forward pass may have."""
    part: list[int] = []
    for i in sorted(which, key=lambda i: widths[i]):
        if part and (len(part) == ROWS or (len(part) + 1) * widths[i] > tokens):
            yield part
            part = []
        part.append(i)
    if part:
        yield part


def too_long(trace: Trace, row: Row) -> Score:
    return Score(trace.key, len(row[1]), None, None, None, None, None, None)


def scores_of(keys: Sequence[str], rows: Sequence[Row], steps: Steps, reading: Reading) -> list[Score]:
    """The steps of some rows, one row after the other, summed up for each."""
    lengths = np.array([len(told) for _, told in rows])
    row = np.repeat(np.arange(len(rows)), lengths)
    nll, decoding_nll = (np.abs(_sums(values, row, len(rows))) for values in (steps.logprob, steps.decoding_logprob))
    told = [
        Score(key, tokens, own, decoding, None, None, None, None)
        for key, tokens, own, decoding in zip(keys, lengths.tolist(), nll.tolist(), decoding_nll.tolist(), strict=True)
    ]
    if steps.entropy is None or steps.decoding_entropy is None:
        return told
    some = np.maximum(lengths, 1)
    columns = [
        _sums(values, row, len(rows)) / some
        for values in (steps.entropy, steps.decoding_entropy, (steps.entropy >= reading.forking).astype(float))
    ]
    return [
        replace(score, token_entropy=own, decoding_entropy=decoding, forks=forks, profile=profile)
        for score, own, decoding, forks, profile in zip(
            told, *(column.tolist() for column in columns), profiles_of(steps.entropy, lengths), strict=True
        )
    ]


def profiles_of(values: Reals, lengths: NDArray[np.int64]) -> list[list[float | None]]:
    """For each row the mean of its values by tenths: step i of n belongs to tenth 10 * i // n."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    step = np.arange(len(values)) - np.repeat(lengths.cumsum() - lengths, lengths)
    place = row * TENTHS + TENTHS * step // lengths[row]
    counts = np.bincount(place, minlength=len(lengths) * TENTHS)
    means = _sums(values, place, len(counts)) / np.maximum(counts, 1)
    numbers = [mean if count else None for mean, count in zip(means.tolist(), counts.tolist(), strict=True)]
    return [numbers[begin : begin + TENTHS] for begin in range(0, len(numbers), TENTHS)]


def _sums(values: Reals, place: NDArray[np.int64], places: int) -> Reals:
    return np.bincount(place, weights=values, minlength=places).astype(np.float64)

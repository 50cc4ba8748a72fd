"""Score traces with transformers: one forward pass over prompt and text, in batches of similar length.

In: traces and a `ScoringSpec`. Out: a `Score` per trace. The tokens of the prompt are not scored.

The backbone sees a whole batch. Only the hidden states of scored steps go through the LM head, a few at a time, so
logits take little memory whatever the length and the vocabulary. `LMHead` repeats what a model family does to its
logits. A short probe compares it with the model's own logits; if they differ, the model's own logits are used, whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from leash.prompts import tokenize_prompts
from leash.scoring.logit_stats import FloatArray, StepStats, compute_steps
from leash.scoring.traces import PROFILE_BINS, Score, ScoringSpec, Trace, round_tokens
from leash.token_ids import tokenize_texts

# Limits of one forward pass, by device: on a CPU the data should fit the caches, a GPU needs more to be busy. Tokens
# include padding. A trace that exceeds the limit is a batch by itself.
MAX_BATCH_TRACES = 128
MAX_BATCH_TOKENS = {"cpu": 1 << 11, "cuda": 1 << 14}
# Beyond 32 MB of logits, the CPU's allocator gets fresh memory from the system each time, which is slow.
MAX_LOGIT_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}
HEAD_PROBE_TOKENS = 8
# Largest difference to the model's own logits, relative to the largest logit.
LOGIT_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
HALF_LOGIT_TOLERANCE = 2e-2
DEFAULT_SPEC = ScoringSpec()

TokenizedTrace = tuple[list[int], list[int]]  # tokens of the prompt, and tokens that are scored


@dataclass(frozen=True)
class LMHead:
    """How hidden states become logits: the LM head, then the scaling and the soft cap of some model families."""

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


@torch.inference_mode()
def find_lm_head(model: PreTrainedModel) -> LMHead | None:
    """The head of a model; None if no head of this form gives the model's own logits."""
    config = model.config.get_text_config()
    if (project := model.get_output_embeddings()) is None:
        return None
    factor = (getattr(config, "logit_scale", None) or 1.0) / (getattr(config, "logits_scaling", None) or 1.0)
    head = LMHead(project, factor, getattr(config, "final_logit_softcapping", None))
    embedded: Any = model.get_input_embeddings()
    ids = torch.arange(HEAD_PROBE_TOKENS, device=model.device)[None] % embedded.num_embeddings
    theirs = model(input_ids=ids, use_cache=False).logits
    try:
        ours = head(model.base_model(input_ids=ids, use_cache=False).last_hidden_state)
    except (AttributeError, RuntimeError, TypeError):  # a backbone with another interface
        return None
    if ours.shape != theirs.shape:
        return None
    error = (ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-30)
    return head if float(error) <= LOGIT_TOLERANCE.get(theirs.dtype, HALF_LOGIT_TOLERANCE) else None


class Scorer:
    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.window: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self.head = find_lm_head(model)

    def score(self, traces: Sequence[Trace], spec: ScoringSpec = DEFAULT_SPEC) -> list[Score]:
        """Score traces; the result has their order."""
        rows = tokenize_traces(traces, self.tokenizer)
        # What a trace that is longer than the context window keeps: only its number of tokens.
        scores = [Score(trace.key, len(text)) for trace, (_, text) in zip(traces, rows, strict=True)]
        fitting = [i for i, row in enumerate(rows) if self.window is None or token_count(row) <= self.window]
        max_tokens = MAX_BATCH_TOKENS[self.model.device.type]
        for batch in batch_by_length(fitting, [token_count(row) for row in rows], max_tokens):
            batch_rows = [rows[i] for i in batch]
            summaries = summarize_steps([traces[i].key for i in batch], batch_rows, self.steps(batch_rows, spec), spec)
            for i, score in zip(batch, summaries, strict=True):
                scores[i] = score
        return scores

    @torch.inference_mode()
    def steps(self, rows: Sequence[TokenizedTrace], spec: ScoringSpec) -> StepStats:
        """The statistics of every scored step, row by row."""
        device, longest = self.model.device, max(map(token_count, rows))
        # Padding on the right needs no mask: causal attention never looks at later tokens.
        padded = [prompt + text + [0] * (longest - len(prompt) - len(text)) for prompt, text in rows]
        # The step that predicts a token is one position before it.
        starts = [i * longest + len(prompt) - 1 for i, (prompt, _) in enumerate(rows)]
        steps = [start + i for start, (_, text) in zip(starts, rows, strict=True) for i in range(len(text))]
        positions = torch.tensor(steps, dtype=torch.long).to(device)
        tokens = torch.tensor([token for _, text in rows for token in text], dtype=torch.long)
        network = self.model.base_model if self.head else self.model
        output: Any = network(input_ids=torch.tensor(padded).to(device), use_cache=False)
        states = (output.last_hidden_state if self.head else output.logits).flatten(0, 1)
        del output  # frees what `states` does not share
        # The logits of a few positions at a time, in at least float32.
        chunk = max(1, MAX_LOGIT_ELEMENTS[device.type] // self.model.config.get_text_config().vocab_size)
        parts = []
        for begin in range(0, max(1, len(positions)), chunk):
            selected = states[positions[begin : begin + chunk]]
            logits = self.head(selected) if self.head else selected
            logits = logits if logits.dtype == torch.float64 else logits.float()
            parts.append(compute_steps(logits, tokens[begin : begin + chunk].to(device), spec))
        columns: list[Any] = [
            None if values[0] is None else np.concatenate(values) for values in zip(*parts, strict=True)
        ]
        return StepStats(*columns)


def tokenize_traces(traces: Sequence[Trace], tokenizer: PreTrainedTokenizerBase) -> list[TokenizedTrace]:
    """The tokens of traces: their ids, or those that their texts split into. After an empty prompt no step predicts the
    first token, so that token is not scored."""
    if not traces:
        return []
    prompts = tokenize_prompts((trace.prompt for trace in traces), tokenizer)
    texts = tokenize_texts([trace.text for trace in traces], [trace.ended for trace in traces], tokenizer)
    rows = []
    for trace, split in zip(traces, texts, strict=True):
        prompt, text = prompts[trace.prompt], split if trace.token_ids is None else list(trace.token_ids)
        rows.append((prompt, text) if prompt else (text[:1], text[1:]))
    return rows


def token_count(row: TokenizedTrace) -> int:
    return len(row[0]) + len(row[1])


def batch_by_length(which: Sequence[int], widths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Group rows of similar length into batches within the limits of a forward pass."""
    batch: list[int] = []
    for i in sorted(which, key=lambda i: widths[i]):
        # Rows come in order of length, so row i has the width of the padded batch.
        if batch and (len(batch) == MAX_BATCH_TRACES or (len(batch) + 1) * widths[i] > max_tokens):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def summarize_steps(
    keys: Sequence[str], rows: Sequence[TokenizedTrace], steps: StepStats, spec: ScoringSpec
) -> list[Score]:
    """Sum and average the steps of each row; `steps` has the rows one after the other."""
    lengths = np.array([len(text) for _, text in rows])
    row = np.repeat(np.arange(len(rows)), lengths)
    # abs instead of a minus sign: a text without tokens must give 0.0, not -0.0.
    logprobs = (steps.logprob, steps.decoding_logprob)
    sums = [np.abs(np.bincount(row, values, len(rows))).tolist() for values in logprobs]
    scores = [Score(*values) for values in zip(keys, lengths.tolist(), *sums, strict=True)]
    if spec.per_token:
        scores = add_token_values(scores, lengths, steps, spec)
    if steps.entropy is None or steps.decoding_entropy is None:
        return scores
    is_fork = (steps.entropy >= spec.forking).astype(float)
    means = [
        (np.bincount(row, values, len(rows)) / np.maximum(lengths, 1)).tolist()
        for values in (steps.entropy, steps.decoding_entropy, is_fork)
    ]
    names = ("token_entropy", "decoding_entropy", "forks", "profile")
    measured = zip(*means, mean_by_tenths(steps.entropy, lengths), strict=True)
    return [replace(s, **dict(zip(names, values, strict=True))) for s, values in zip(scores, measured, strict=True)]


def add_token_values(
    scores: Sequence[Score], lengths: NDArray[np.int64], steps: StepStats, spec: ScoringSpec
) -> list[Score]:
    """The scores with the values of each of their tokens."""
    columns = {"token_nlls": np.abs(steps.logprob)}
    if not spec.plain:
        columns["token_decoding_nlls"] = np.abs(steps.decoding_logprob)
    if steps.entropy is not None:
        columns["token_entropies"] = steps.entropy
    split: dict[str, list[Any]] = {
        name: np.split(round_tokens(values), lengths.cumsum()[:-1]) for name, values in columns.items()
    }
    return [replace(score, **{name: values[i] for name, values in split.items()}) for i, score in enumerate(scores)]


def mean_by_tenths(values: FloatArray, lengths: NDArray[np.int64]) -> list[list[float | None]]:
    """The mean of each row's values by tenths: step i of n belongs to tenth 10 * i // n."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    step = np.arange(len(values)) - np.repeat(lengths.cumsum() - lengths, lengths)
    tenth = row * PROFILE_BINS + PROFILE_BINS * step // lengths[row]
    counts = np.bincount(tenth, minlength=len(lengths) * PROFILE_BINS)
    means = np.bincount(tenth, values, len(counts)) / np.maximum(counts, 1)
    profile = [mean if count else None for mean, count in zip(means.tolist(), counts.tolist(), strict=True)]
    return [profile[begin : begin + PROFILE_BINS] for begin in range(0, len(profile), PROFILE_BINS)]

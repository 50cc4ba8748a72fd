"""Supervised training on written solutions: the base model from scratch, and the SFT model from the base.

In:  a model and an endless iterator of (prompt, solution). Out: the same model, trained in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from transformers import LlamaForCausalLM

from leash.datasets import embedded_tasks
from leash.progress import Progress
from leash.statistics import seeds
from stages.train.model import BOS, EOS, PAD, VOCABULARY

TOKEN_IDS = {word: i for i, word in enumerate(VOCABULARY)}
IGNORED_LABEL = -100  # torch's cross entropy skips this label

# The share of each level in the base's training data: mostly short problems, few long ones, none of level 8, so that
# RLVR has something to improve.
LEVEL_WEIGHTS = {
    "chain": {2: 0.08, 3: 0.12, 4: 0.10, 5: 0.07, 6: 0.03, 7: 0.01},
    "make": {2: 0.08, 3: 0.26, 4: 0.17, 5: 0.06, 6: 0.015, 7: 0.005},
}
SLIP_RATES = {"chain": 0.15, "make": 0.35}
WORKED_SHARE = 0.4


@dataclass(frozen=True)
class Schedule:
    """Learning rate: warm-up, a plateau, then linear decay to zero over the last `decay` share of the steps."""

    steps: int
    lr: float
    warmup: int = 100
    decay: float = 0.7

    def rate(self, step: int) -> float:
        left = (self.steps - step) / (self.decay * self.steps)
        return self.lr * min(1.0, (step + 1) / self.warmup, left)


Document = tuple[str, str]  # prompt, solution
EncodedDocument = tuple[list[int], list[int]]  # the same as token ids


def generate_noisy_documents(seed: int) -> Iterator[Document]:
    """The base's training data: worked and direct solutions, some of them wrong, of problems that are not held out."""
    rng = seeds.stream("train", "base", seed)
    kinds = [(family, level) for family in LEVEL_WEIGHTS for level in LEVEL_WEIGHTS[family]]
    weights = np.array([LEVEL_WEIGHTS[family][level] for family, level in kinds])
    while True:
        family, level = kinds[rng.choice(len(kinds), p=weights / weights.sum())]
        problem = embedded_tasks.draw_problem(rng, family, level, held_out=False)
        worked, slip = rng.random() < WORKED_SHARE, rng.random() < SLIP_RATES[family]
        yield problem.prompt, embedded_tasks.write_solution(rng, problem, worked=worked, slip=slip)


def make_batches(documents: Iterator[Document], tokens: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs and labels of about `tokens` tokens per batch. Documents are sorted by length within a pool of about
    thirty batches, so that there is little padding."""
    shuffle = seeds.stream("train", "shuffle")
    while pool := sorted(map(encode_document, islice(documents, tokens)), key=document_length):
        batches: list[list[EncodedDocument]] = [[]]
        for row in pool:
            if sum(map(document_length, batches[-1])) + document_length(row) > tokens:
                batches.append([])
            batches[-1].append(row)
        for i in shuffle.permutation(len(batches)):
            yield pad_batch(batches[i])


def encode_document(document: Document) -> EncodedDocument:
    return encode_prompt(document[0]), [*(TOKEN_IDS[word] for word in document[1].split()), TOKEN_IDS[EOS]]


def encode_prompt(prompt: str) -> list[int]:
    return [TOKEN_IDS[BOS], *(TOKEN_IDS[word] for word in prompt.split())]


def pad_batch(rows: Sequence[EncodedDocument]) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs, and labels without the prompts. Rows are padded on the right and attention is causal, so no real token
    sees the padding and no mask is needed."""
    width = max(map(document_length, rows))
    inputs = torch.full((len(rows), width), TOKEN_IDS[PAD])
    labels = torch.full((len(rows), width), IGNORED_LABEL)
    for i, (prompt, solution) in enumerate(rows):
        inputs[i, : len(prompt) + len(solution)] = torch.tensor(prompt + solution)
        labels[i, len(prompt) : len(prompt) + len(solution)] = torch.tensor(solution)
    return inputs, labels


def document_length(row: EncodedDocument) -> int:
    return len(row[0]) + len(row[1])


def train_supervised(
    model: LlamaForCausalLM, documents: Iterator[Document], schedule: Schedule, progress: Progress, tokens: int = 1024
) -> None:
    """Minimise the cross entropy of the solutions given their prompts."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, betas=(0.9, 0.98), weight_decay=0.05)
    model.train()
    for step, (inputs, labels) in zip(range(schedule.steps), make_batches(documents, tokens), strict=False):
        loss = model(input_ids=inputs, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        step_optimizer(model, optimizer, schedule.rate(step))
        progress.add(1, loss=f"{loss.item():.3f}")
    model.eval()


def step_optimizer(model: torch.nn.Module, optimizer: torch.optim.Optimizer, rate: float) -> None:
    """One optimizer step with a clipped gradient."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()

"""Supervised training on worked solutions: the base model from scratch, and the SFT model from the base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from transformers import LlamaForCausalLM

from stages import seeds
from stages.progress import Progress
from stages.train import tasks
from stages.train.model import BOS, EOS, PAD, VOCABULARY

IDS = {word: i for i, word in enumerate(VOCABULARY)}
IGNORED = -100  # the label that torch's cross entropy leaves out

# How often the base's training meets each level: mostly short problems, few long ones, none of level 8.
LEVELS = {
    "chain": {2: 0.08, 3: 0.12, 4: 0.10, 5: 0.07, 6: 0.03, 7: 0.01},
    "make": {2: 0.08, 3: 0.26, 4: 0.17, 5: 0.06, 6: 0.015, 7: 0.005},
}
SLIPS = {"chain": 0.15, "make": 0.35}
WORKED = 0.4


@dataclass(frozen=True)
class Schedule:
    """Warm-up, a plateau, then linear decay to zero over the last `decay` of the steps."""

    steps: int
    lr: float
    warmup: int = 100
    decay: float = 0.7

    def rate(self, step: int) -> float:
        left = (self.steps - step) / (self.decay * self.steps)
        return self.lr * min(1.0, (step + 1) / self.warmup, left)


Document = tuple[str, str]  # prompt, solution
Encoded = tuple[list[int], list[int]]  # the same as token ids


def noisy_documents(seed: int) -> Iterator[Document]:
    """What the base reads: worked and direct solutions, some of them wrong, of problems not held out."""
    rng = seeds.stream("train", "base", seed)
    kinds = [(family, level) for family in LEVELS for level in LEVELS[family]]
    weights = np.array([LEVELS[family][level] for family, level in kinds])
    while True:
        family, level = kinds[rng.choice(len(kinds), p=weights / weights.sum())]
        problem = tasks.draw(rng, family, level, held_out=False)
        worked, slip = rng.random() < WORKED, rng.random() < SLIPS[family]
        yield problem.prompt, tasks.solution(rng, problem, worked=worked, slip=slip)


def batches(documents: Iterator[Document], tokens: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Inputs and labels of about `tokens` tokens a batch.

    Documents are sorted by length within a pool of some thirty batches, so that little is padding.
    """
    shuffle = seeds.stream("train", "shuffle")
    while pool := sorted(map(encode, islice(documents, tokens)), key=length):
        cut: list[list[Encoded]] = [[]]
        for row in pool:
            if sum(map(length, cut[-1])) + length(row) > tokens:
                cut.append([])
            cut[-1].append(row)
        for i in shuffle.permutation(len(cut)):
            yield padded(cut[i])


def encode(document: Document) -> Encoded:
    prompt, solution = document
    return encode_prompt(prompt), [*(IDS[word] for word in solution.split()), IDS[EOS]]


def encode_prompt(prompt: str) -> list[int]:
    return [IDS[BOS], *(IDS[word] for word in prompt.split())]


def padded(rows: Sequence[Encoded]) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs, and labels that leave out the prompts. Rows are padded on the right and attention is causal:
    no real token ever sees the padding."""
    width = max(map(length, rows))
    inputs = torch.full((len(rows), width), IDS[PAD])
    labels = torch.full((len(rows), width), IGNORED)
    for i, (asked, told) in enumerate(rows):
        inputs[i, : len(asked) + len(told)] = torch.tensor(asked + told)
        labels[i, len(asked) : len(asked) + len(told)] = torch.tensor(told)
    return inputs, labels


def length(row: Encoded) -> int:
    return len(row[0]) + len(row[1])


def fit(
    model: LlamaForCausalLM,
    documents: Iterator[Document],
    schedule: Schedule,
    progress: Progress,
    *,
    tokens: int = 1024,
) -> None:
    """Minimise the cross entropy of the solutions given their prompts."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, betas=(0.9, 0.98), weight_decay=0.05)
    model.train()
    for step, (inputs, labels) in zip(range(schedule.steps), batches(documents, tokens), strict=False):
        loss = model(input_ids=inputs, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        update(model, optimizer, schedule.rate(step))
        progress.add(1, loss=f"{loss.item():.3f}")
    model.eval()


def update(model: torch.nn.Module, optimizer: torch.optim.Optimizer, rate: float) -> None:
    """One step along the clipped gradient."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()

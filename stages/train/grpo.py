"""GRPO: the shortest honest RLVR there is.

Every step: draw prompts, sample a group of completions each from the model as it is now, give each a
reward of 1 if it verifies and 0 if not, and move the model towards the completions that beat their group.
No KL term, no reference model, no second epoch: on-policy, one update a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaForCausalLM, PreTrainedModel

from stages import seeds
from stages.progress import Progress
from stages.sample.engine import Decoding
from stages.sample.torch_engine import Row, TorchEngine
from stages.train import tasks
from stages.train.fit import encode_prompt, padded, update
from stages.train.model import new_tokenizer
from stages.verify.extract import extract
from stages.verify.graders import load

LEVELS = [("chain", level) for level in (4, 5, 6)] + [("make", level) for level in (3, 4, 5, 6)]
PROMPTS, GROUP, LR, WARMUP = 32, 16, 5e-4, 10
PART = 64  # completions in one backward pass
DECODING = Decoding(temperature=1.0, top_p=1.0, max_tokens=72)
GRADERS = {"chain": load("exact"), "make": load("make")}


@dataclass(frozen=True)
class Rollout:
    """A completion of a prompt, as token ids, with its advantage over its group."""

    prompt: list[int]
    completion: list[int]
    advantage: float


def problems(seed: int, step: int) -> Iterator[tasks.Problem]:
    """The prompts of one step; the SFT model learns from the same ones."""
    rng = seeds.stream("train", "grpo", seed, step)
    for i in rng.integers(len(LEVELS), size=PROMPTS):
        yield tasks.draw(rng, *LEVELS[i], held_out=False)


def tune(model: LlamaForCausalLM, seed: int, steps: int, progress: Progress, checkpoint: Callable[[int], None]) -> None:
    """Tune the model in place; `checkpoint` is called after every step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.98), weight_decay=0.0)
    engine = TorchEngine(model, new_tokenizer())
    for step in range(steps):
        rollouts, reward = roll_out(engine, list(problems(seed, step)), ("train", "grpo", seed, step))
        if rollouts:
            policy_gradient(model, optimizer, rollouts)
            update(model, optimizer, LR * min(1.0, (step + 1) / WARMUP))
        progress.add(1, reward=f"{reward:.3f}")
        checkpoint(step + 1)


def roll_out(
    engine: TorchEngine, asked: list[tasks.Problem], name: tuple[seeds.Name, ...]
) -> tuple[list[Rollout], float]:
    """Sample and reward every group. Groups that all pass or all fail teach nothing and are left out."""
    rollouts, rewards = [], []
    for problem, prompt, completions in sampled(engine, asked, name):
        texts = engine.tokenizer.batch_decode(completions, skip_special_tokens=True)
        scores = torch.tensor([reward(problem, text) for text in texts])
        rewards.append(scores.mean().item())
        if scores.std() > 0:
            advantages = (scores - scores.mean()) / scores.std()
            rollouts += [Rollout(prompt, c, a) for c, a in zip(completions, advantages.tolist(), strict=True)]
    return rollouts, sum(rewards) / len(rewards)


def sampled(
    engine: TorchEngine, asked: list[tasks.Problem], name: tuple[seeds.Name, ...]
) -> Iterator[tuple[tasks.Problem, list[int], list[list[int]]]]:
    """Each problem with its prompt's ids and a group of completions. Prompts of equal length share a batch."""
    by_length = sorted(asked, key=lambda problem: len(encode_prompt(problem.prompt)))
    for size, group in groupby(by_length, key=lambda problem: len(encode_prompt(problem.prompt))):
        together = list(group)
        prompts = [encode_prompt(problem.prompt) for problem in together]
        rows = [Row(p, (*name, size, p, i)) for p in range(len(prompts)) for i in range(GROUP)]
        drawn = engine.draw(prompts, rows, DECODING)
        for p, problem in enumerate(together):
            yield problem, prompts[p], [d.ids for d in drawn[p * GROUP : (p + 1) * GROUP]]


def reward(problem: tasks.Problem, text: str) -> float:
    """1 if the boxed answer verifies, else 0: the very graders of the verify stage."""
    answer = extract(text)
    if answer is None:
        return 0.0
    return GRADERS[problem.family].grade(answer, [problem.gold], {"numbers": problem.numbers})


def policy_gradient(model: PreTrainedModel, optimizer: torch.optim.Optimizer, rollouts: list[Rollout]) -> None:
    """The gradient of minus advantage times log-probability, averaged over all completion tokens.

    Summed over parts of like length, so that little of the work is padding.
    """
    optimizer.zero_grad()
    rollouts = sorted(rollouts, key=lambda r: len(r.prompt) + len(r.completion))
    tokens = sum(len(r.completion) for r in rollouts)
    for begin in range(0, len(rollouts), PART):
        part = rollouts[begin : begin + PART]
        inputs, labels = padded([(r.prompt, r.completion) for r in part])
        logits = model(input_ids=inputs).logits[:, :-1]
        losses = cross_entropy(logits.transpose(1, 2), labels[:, 1:], reduction="none")
        advantages = torch.tensor([r.advantage for r in part])[:, None]
        ((advantages * losses).sum() / tokens).backward()

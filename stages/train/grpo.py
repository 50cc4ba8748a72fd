"""GRPO in its simplest form.

Every step draws prompts, samples a group of completions for each from the current model, rewards a completion with 1 if
it verifies and 0 if not, and moves the model towards the completions that beat the mean of their group. There is no KL
term, no reference model and no second epoch: training is on-policy, with one update per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaForCausalLM, PreTrainedModel

from leash.datasets import embedded_tasks
from leash.engines.protocol import Decoding
from leash.engines.torch_engine import SampleRow, TorchEngine
from leash.grading.extraction import extract
from leash.grading.graders.registry import load_grader
from leash.progress import Progress
from leash.statistics import seeds
from stages.train.fit import encode_prompt, pad_batch, step_optimizer
from stages.train.model import new_tokenizer

TRAINING_LEVELS = [("chain", level) for level in (4, 5, 6)] + [("make", level) for level in (3, 4, 5, 6)]
PROMPTS_PER_STEP, GROUP_SIZE, LEARNING_RATE, WARMUP_STEPS = 32, 16, 5e-4, 10
BACKWARD_BATCH_SIZE = 64  # completions per backward pass
DECODING = Decoding(temperature=1.0, top_p=1.0, max_tokens=72)
GRADERS = {"chain": load_grader("exact"), "make": load_grader("make")}


@dataclass(frozen=True)
class Rollout:
    """A prompt and its completion as token ids, with the advantage of the completion over its group."""

    prompt: list[int]
    completion: list[int]
    advantage: float


def draw_problems(seed: int, step: int) -> Iterator[embedded_tasks.Problem]:
    """The problems of one step; the SFT model learns from the same ones."""
    rng = seeds.stream("train", "grpo", seed, step)
    for i in rng.integers(len(TRAINING_LEVELS), size=PROMPTS_PER_STEP):
        yield embedded_tasks.draw_problem(rng, *TRAINING_LEVELS[i], held_out=False)


def generate_clean_documents(seed: int, steps: int) -> Iterator[tuple[str, str]]:
    """Correct step-by-step solutions of the prompts that GRPO trains on, so that SFT and RLVR see the same problems."""
    rng = seeds.stream("train", "sft", seed)
    for step in range(steps):
        for problem in draw_problems(seed, step):
            yield problem.prompt, embedded_tasks.write_solution(rng, problem, worked=True, slip=False)


def train_grpo(
    model: LlamaForCausalLM, seed: int, steps: int, progress: Progress, checkpoint: Callable[[int], None]
) -> None:
    """Train the model in place, and call `checkpoint` after every step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.0)
    engine = TorchEngine(model, new_tokenizer())
    for step in range(steps):
        rollouts, reward = sample_rollouts(engine, list(draw_problems(seed, step)), ("train", "grpo", seed, step))
        if rollouts:
            accumulate_policy_gradient(model, optimizer, rollouts)
            step_optimizer(model, optimizer, LEARNING_RATE * min(1.0, (step + 1) / WARMUP_STEPS))
        progress.add(1, reward=f"{reward:.3f}")
        checkpoint(step + 1)


def sample_rollouts(
    engine: TorchEngine, problems: list[embedded_tasks.Problem], stream: tuple[seeds.NamePart, ...]
) -> tuple[list[Rollout], float]:
    """Sample and reward a group per problem; return the rollouts and the mean reward. Prompts of equal length share a
    batch. A group in which all pass or all fail has no advantages, so it is dropped."""
    rollouts, rewards = [], []
    encoded = sorted(((encode_prompt(problem.prompt), problem) for problem in problems), key=lambda pair: len(pair[0]))
    for size, batch in groupby(encoded, key=lambda pair: len(pair[0])):
        prompts, batch_problems = zip(*batch, strict=True)
        rows = [SampleRow(p, (*stream, size, p, i)) for p in range(len(prompts)) for i in range(GROUP_SIZE)]
        drawn = engine.draw(prompts, rows, DECODING)
        for p, (prompt, problem) in enumerate(zip(prompts, batch_problems, strict=True)):
            completions = [d.ids for d in drawn[p * GROUP_SIZE : (p + 1) * GROUP_SIZE]]
            texts = engine.tokenizer.batch_decode(completions, skip_special_tokens=True)
            scores = torch.tensor([compute_reward(problem, text) for text in texts])
            rewards.append(scores.mean().item())
            if scores.std() > 0:
                advantages = (scores - scores.mean()) / scores.std()
                rollouts += [Rollout(prompt, c, a) for c, a in zip(completions, advantages.tolist(), strict=True)]
    return rollouts, sum(rewards) / len(rewards)


def compute_reward(problem: embedded_tasks.Problem, text: str) -> float:
    """1 if the boxed answer verifies, else 0, with the graders of the verify stage."""
    if (answer := extract(text)) is None:
        return 0.0
    return GRADERS[problem.family].grade(answer, [problem.gold], {"numbers": problem.numbers})


def accumulate_policy_gradient(
    model: PreTrainedModel, optimizer: torch.optim.Optimizer, rollouts: list[Rollout]
) -> None:
    """The gradient of minus advantage times log-probability, averaged over all completion tokens. It is accumulated
    over batches of similar length, so that there is little padding."""
    optimizer.zero_grad()
    rollouts = sorted(rollouts, key=lambda r: len(r.prompt) + len(r.completion))
    tokens = sum(len(r.completion) for r in rollouts)
    for begin in range(0, len(rollouts), BACKWARD_BATCH_SIZE):
        part = rollouts[begin : begin + BACKWARD_BATCH_SIZE]
        inputs, labels = pad_batch([(r.prompt, r.completion) for r in part])
        logits = model(input_ids=inputs).logits[:, :-1]
        losses = cross_entropy(logits.transpose(1, 2), labels[:, 1:], reduction="none")
        advantages = torch.tensor([r.advantage for r in part])[:, None]
        ((advantages * losses).sum() / tokens).backward()

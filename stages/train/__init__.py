"""train: a base model from scratch, its RLVR version by GRPO with checkpoints on the way, and an SFT version.

In:  nothing but a seed and numbers of steps.
Out: models/embedded/{base,rlvr,rlvr-050,…,sft}, plain Hugging Face folders of 0.76 MB each.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from stages import seeds
from stages.params import Train
from stages.progress import Progress

FOLDER = Path("models/embedded")
SFT_STEPS = 500


def run(params: Train, folder: Path) -> None:
    import torch

    from stages.train import fit, grpo
    from stages.train.model import new_model, save

    torch.set_num_threads(1)
    model = new_model(params.seed)
    with Progress(params.base_steps, "base", "steps") as progress:
        fit.fit(model, fit.noisy_documents(params.seed), fit.Schedule(params.base_steps, lr=4e-3), progress)
    save(model, folder / "base")

    tuned = copy.deepcopy(model)
    with Progress(SFT_STEPS, "sft", "steps") as progress:
        clean = cycle(list(clean_documents(params.seed, params.grpo_steps)))
        fit.fit(tuned, clean, fit.Schedule(SFT_STEPS, lr=5e-4, warmup=10), progress)
    save(tuned, folder / "sft")

    def checkpoint(step: int) -> None:
        if step == params.grpo_steps:
            save(model, folder / "rlvr")
        elif step % params.checkpoint_every == 0:
            save(model, folder / f"rlvr-{step:03d}")

    with Progress(params.grpo_steps, "rlvr", "steps") as progress:
        grpo.tune(model, params.seed, params.grpo_steps, progress, checkpoint)


def clean_documents(seed: int, steps: int) -> Iterator[tuple[str, str]]:
    """Correct step-by-step solutions of the very prompts that GRPO trains on."""
    from stages.train import grpo, tasks

    rng = seeds.stream("train", "sft", seed)
    for step in range(steps):
        for problem in grpo.problems(seed, step):
            yield problem.prompt, tasks.solution(rng, problem, worked=True, slip=False)

"""train: train a base model from scratch, its RLVR version by GRPO with checkpoints, and its SFT version.

In:  a seed and numbers of steps.
Out: models/embedded/{base,rlvr,rlvr-050,…,sft}, plain Hugging Face folders of 0.76 MB each.
"""

from __future__ import annotations

import copy
from itertools import cycle
from pathlib import Path

from leash.params.groups import Train
from leash.progress import Progress

EMBEDDED_MODELS_DIR = Path("models/embedded")
SFT_STEPS = 500


def run(params: Train, folder: Path) -> None:
    import torch

    from stages.train import fit, grpo
    from stages.train.model import new_model, save_model

    torch.set_num_threads(1)  # sums in a fixed order, so that every machine gets the same weights
    model = new_model(params.seed)
    with Progress(params.base_steps, "base", "steps") as progress:
        noisy = fit.generate_noisy_documents(params.seed)
        fit.train_supervised(model, noisy, fit.Schedule(params.base_steps, lr=4e-3), progress)
    save_model(model, folder / "base")

    tuned = copy.deepcopy(model)
    with Progress(SFT_STEPS, "sft", "steps") as progress:
        clean = cycle(list(grpo.generate_clean_documents(params.seed, params.grpo_steps)))
        fit.train_supervised(tuned, clean, fit.Schedule(SFT_STEPS, lr=5e-4, warmup=10), progress)
    save_model(tuned, folder / "sft")

    def checkpoint(step: int) -> None:
        if step == params.grpo_steps:
            save_model(model, folder / "rlvr")
        elif step % params.checkpoint_every == 0:
            save_model(model, folder / f"rlvr-{step:03d}")

    with Progress(params.grpo_steps, "rlvr", "steps") as progress:
        grpo.train_grpo(model, params.seed, params.grpo_steps, progress, checkpoint)

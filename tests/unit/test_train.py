"""Training on a small scale: it writes models that load, it learns, and it is deterministic."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from leash import weights
from leash.datasets import embedded_tasks
from leash.engines.torch_engine import TorchEngine
from leash.params.groups import Train
from leash.progress import Progress
from leash.statistics import seeds
from stages.train import fit, grpo
from stages.train.model import new_model, new_tokenizer
from stages.train.stage import run
from tests.conftest import ROOT

TINY = Train(seed=1, base_steps=3, grpo_steps=2, checkpoint_every=1)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.train.stage.SFT_STEPS", 2)
    monkeypatch.setattr(grpo, "PROMPTS_PER_STEP", 4)


@pytest.mark.usefixtures("short")
def test_training_writes_the_same_models_twice(tmp_path: Path) -> None:
    for once in ("a", "b"):
        run(TINY, tmp_path / once)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["base", "rlvr", "rlvr-001", "sft"]
    for name in names:
        assert weights.folder_hash(tmp_path / "a" / name) == weights.folder_hash(tmp_path / "b" / name)
        model, tokenizer = weights.load_model(weights.Weights(name, str(tmp_path / "a" / name), None, "float32"))
        assert sum(p.numel() for p in model.parameters()) < 200_000
        assert tokenizer("compute 3 + 4 :")["input_ids"][0] == tokenizer.bos_token_id


def test_fit_learns() -> None:
    model = new_model(0)
    inputs, labels = next(fit.make_batches(fit.generate_noisy_documents(7), 1024))

    def loss() -> float:
        with torch.inference_mode():
            return float(model(input_ids=inputs, labels=labels).loss)

    before = loss()
    fit.train_supervised(
        model, fit.generate_noisy_documents(0), fit.Schedule(40, lr=4e-3, warmup=5), Progress(40, "test")
    )
    assert loss() < before - 1


def test_schedule_warms_up_and_decays_to_nothing() -> None:
    schedule = fit.Schedule(steps=1000, lr=2.0)
    assert schedule.rate(0) == pytest.approx(0.02)
    assert schedule.rate(200) == 2.0
    assert schedule.rate(650) == pytest.approx(1.0)
    assert schedule.rate(999) == pytest.approx(0.0, abs=0.003)


def test_the_policy_gradient_favours_completions_that_beat_their_group() -> None:
    """One update on real rollouts raises their advantage-weighted log-probability."""
    model, tokenizer = weights.load_model(
        weights.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float32")
    )
    engine = TorchEngine(model, tokenizer)
    rollouts, reward = grpo.sample_rollouts(engine, list(grpo.draw_problems(3, 0)), ("test",))
    assert 0 < reward < 1
    by_group = sum(r.advantage for r in rollouts)
    assert by_group == pytest.approx(0, abs=1e-3)

    def objective() -> float:
        inputs, labels = fit.pad_batch([(r.prompt, r.completion) for r in rollouts])
        with torch.inference_mode():
            logits = model(input_ids=inputs).logits[:, :-1]
        losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels[:, 1:], reduction="none")
        return float(-(losses.sum(1) * torch.tensor([r.advantage for r in rollouts])).sum())

    before = objective()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    grpo.accumulate_policy_gradient(model, optimizer, rollouts)
    fit.step_optimizer(model, optimizer, rate=0.01)
    assert objective() > before


def test_the_reward_is_that_of_the_verifier() -> None:
    problem = embedded_tasks.draw_problem(seeds.stream("test", "reward"), "chain", 4, held_out=True)
    assert grpo.compute_reward(problem, embedded_tasks.format_box(problem.gold)) == 1
    assert grpo.compute_reward(problem, embedded_tasks.format_box("0" if problem.gold != "0" else "1")) == 0
    assert grpo.compute_reward(problem, problem.gold) == 0


def test_tokenizer_and_training_agree_on_ids() -> None:
    tokenizer = new_tokenizer()
    prompt = "make 21 from 3 8 1 :"
    assert fit.encode_prompt(prompt) == tokenizer(prompt)["input_ids"]

"""The scorer agrees with a direct, unbatched computation over the full logits."""

from __future__ import annotations

import pytest
import torch

from stages import fetch, models, perplexity, tables
from stages.params import Params
from stages.prompts import Prompt
from stages.scoring import Trace, keep_scores
from stages.scoring.scorer import Scorer
from stages.work import Crew
from tests.conftest import ROOT

TRACES = [
    Trace(Prompt("compute 3 + 4 :"), r"3 + 4 = 7 , \boxed{ 7 }", ended=True),
    Trace(Prompt("compute 3 + 4 :"), r"\boxed{ 7 }", ended=False),
    Trace(Prompt("make 21 from 3 8 1 :"), r"\boxed{ ( 8 - 1 ) * 3 }", ended=True),
    Trace(Prompt("make 21 from 3 8 1 :"), "", ended=True),
    Trace(Prompt("make 21 from 3 8 1 :"), "", ended=False),
]


@pytest.mark.parametrize("model", ["base", "rlvr"])
def test_scores_equal_the_direct_computation(model: str) -> None:
    weights = models.Weights(model, str(ROOT / "models" / model), None, "float32")
    network, tokenizer = models.load(weights)
    for trace, score in zip(TRACES, Scorer(network, tokenizer).score(TRACES), strict=True):
        asked = tokenizer(trace.prompt.user)["input_ids"]
        told = tokenizer(trace.text, add_special_tokens=False)["input_ids"]
        told += [tokenizer.eos_token_id] if trace.ended else []
        with torch.inference_mode():
            steps = network(torch.tensor([asked + told])).logits[0, len(asked) - 1 : -1].log_softmax(-1)
        nll = -sum(float(steps[i, token]) for i, token in enumerate(told))
        entropies = [float(-(step.exp() * step).sum()) for step in steps[: len(told)]]
        assert score.tokens == len(told)
        assert score.nll == pytest.approx(nll, abs=1e-5)
        assert score.token_entropy == pytest.approx(sum(entropies) / max(len(told), 1), abs=1e-5)


def test_scores_are_kept_until_something_changes(project: Params) -> None:
    fetch.run(project, "chain")
    job = perplexity.job(project, "base", "chain")
    assert keep_scores([job], tables.PERPLEXITY, "test", Crew()) == 8
    assert keep_scores([job], tables.PERPLEXITY, "test", Crew()) == 0
    other = perplexity.job(project, "rlvr", "chain")
    assert other.made_from != job.made_from
    instructed = project.datasets["chain"].model_copy(update={"instruction": "Think first."})
    asked = project.model_copy(update={"datasets": {**project.datasets, "chain": instructed}})
    assert not perplexity.job(asked, "base", "chain").done
    assert tables.read(job.path, tables.PERPLEXITY, "").num_rows == 8

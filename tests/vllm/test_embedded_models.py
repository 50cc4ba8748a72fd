"""The embedded weights in real vLLM: the very folders in git, sampled by the vllm engine, say what our own engine says.

Run by `make test-vllm` in an environment of its own, with vLLM's CPU build.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from stages import models, params, sample, seeds
from stages.prompts import Prompt
from stages.sample import engines
from stages.sample.engine import Completion, Decoding, Request
from stages.train import tasks
from stages.verify.extract import extract
from tests.conftest import ROOT, small, write_params
from tests.vllm.conftest import engine_on

pytestmark = pytest.mark.vllm

KINDS = [("chain", 5), ("chain", 8), ("make", 3), ("make", 5), ("make", 8)]
PLAIN = Decoding(temperature=1.0, top_p=1.0, max_tokens=72)
SAMPLES = 256
LEVEL = 0.001  # of all tests on a model together


@pytest.fixture(scope="module")
def vllm(in_process: None, weights: models.Weights) -> Any:
    return engine_on(weights)


@pytest.fixture(scope="module")
def torch_engine(weights: models.Weights) -> Any:
    from stages.sample.torch_engine import TorchEngine

    return TorchEngine(*models.load(weights), rows=2048)


def requests(samples: range, each: int) -> list[Request]:
    rng = seeds.stream("test", "vllm")
    prompts = [tasks.draw(rng, *kind, held_out=True).prompt for kind in KINDS for _ in range(each)]
    return [Request(f"p{i:02d}", Prompt(prompt), samples, ("test",)) for i, prompt in enumerate(prompts)]


def by_key(completions: Iterator[Completion]) -> dict[tuple[str, int], Completion]:
    return {(c.problem_id, c.sample): c for c in completions}


def test_greedy_completions_are_the_torch_engines(vllm: Any, torch_engine: Any) -> None:
    asked, greedy = requests(range(1), 4), Decoding(0.0, 1.0, 72)
    theirs, ours = by_key(vllm.complete(asked, greedy)), by_key(torch_engine.complete(asked, greedy))
    assert theirs.keys() == ours.keys()
    for key, completion in theirs.items():
        assert completion.text.split() == ours[key].text.split()
        assert (completion.tokens, completion.finish) == (ours[key].tokens, ours[key].finish)
        assert completion.logprob == pytest.approx(ours[key].logprob, abs=1e-3)


def test_samples_are_of_the_same_distribution(vllm: Any, torch_engine: Any) -> None:
    """On every problem: a χ² test that both engines' answers come from one distribution, answers seen fewer than ten
    times taken together. The level of 0.001 is shared out over the problems (Bonferroni)."""
    asked = requests(range(SAMPLES), 3)
    answers: dict[str, list[Counter[str | None]]] = {request.problem_id: [] for request in asked}
    for engine in (vllm, torch_engine):
        drawn: dict[str, Counter[str | None]] = {problem: Counter() for problem in answers}
        for completion in engine.complete(asked, PLAIN):
            drawn[completion.problem_id][extract(completion.text)] += 1
        for problem, counts in drawn.items():
            assert counts.total() == SAMPLES
            answers[problem].append(counts)
    p_values = {problem: same(*both) for problem, both in answers.items()}
    assert min(p_values.values()) > LEVEL / len(p_values), p_values
    # A model that answered otherwise would be found: the first problem's answers against the second's.
    first, second = list(answers.values())[:2]
    assert same(first[0], second[1]) < LEVEL / len(p_values)


def same(one: Counter[str | None], other: Counter[str | None]) -> float:
    """The p-value of a χ² test that two counts of answers are of one distribution."""
    total = one + other
    frequent = [answer for answer, times in total.items() if times >= 10]
    table = np.array([[counts[answer] for answer in frequent] for counts in (one, other)])
    table = np.column_stack([table, SAMPLES - table.sum(1)])
    table = table[:, table.sum(0) > 0]
    return float(stats.chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0


def test_a_sample_depends_on_its_number_alone(vllm: Any) -> None:
    """Drawn again in another order and company: the same samples, but for a rare token that another batch tips."""
    whole = by_key(vllm.complete(requests(range(64), 4), PLAIN))
    part = by_key(vllm.complete(list(reversed(requests(range(13, 40), 4))), PLAIN))
    assert len(part) == 20 * 27
    differing = [key for key, completion in part.items() if completion.text != whole[key].text]
    assert len(differing) <= 3
    assert len({c.text for c in whole.values()}) > 300


def test_a_prompt_too_long_is_refused_in_a_sentence(vllm: Any) -> None:
    from stages.errors import LeashError

    long = Request("p0", Prompt("compute " + "3 + " * 100 + "4 :"), range(1), ("test",))
    with pytest.raises(LeashError, match="vLLM refuses problem p0"):
        list(vllm.complete([long], PLAIN))
    assert len(list(vllm.complete(requests(range(1), 1), PLAIN))) == 5  # and the engine goes on


def test_the_stage_samples_with_vllm_and_stops_early(
    vllm: Any, weights: models.Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the stage, engine and all: what an adaptive run draws is a prefix of what a full one draws."""
    from stages import fetch, verify
    from stages.sample.ledger import Ledger

    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engines, "_load_vllm", lambda *_: vllm)  # the one that is running
    raw = small(sample={"k": 48, "engine": "vllm", "vllm": {"max_model_len": 128, "eager": True, "max_num_seqs": 16}})
    raw["models"][weights.name]["dtype"] = "float32"
    full = write_params(tmp_path, raw)
    fetch.run(full, "make")
    fetch.run(full, "chain")
    sample.run(full, weights.name, "chain")
    texts = {(r["problem_id"], r["sample"]): r["text"] for r in _rows("chain", weights.name)}
    assert len(texts) == 4 * 48

    raw["sample"]["stop_after"] = 1
    adaptive: params.Params = write_params(tmp_path, raw)
    drawn = sample.run(adaptive, weights.name, "make")
    check = verify.checker(verify.problems_of("make"), full.verify)
    held = Ledger(Path("data/completions") / weights.name / "make").have()
    hits = Counter(r["problem_id"] for r in _rows("make", weights.name) if check(r["problem_id"], r["text"]))
    for problem, samples in held.items():
        assert samples.tolist() == list(range(len(samples)))
        assert len(samples) == 48 or hits[problem] >= 1
    assert drawn.samples < 6 * 48
    assert Ledger(Path("data/completions") / weights.name / "make").manifest()["engines"][0].startswith("vllm ")


def _rows(dataset: str, model: str) -> list[dict[str, Any]]:
    from stages.sample.ledger import Ledger

    return list(Ledger(Path("data/completions") / model / dataset).texts())

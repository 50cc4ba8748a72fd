"""The embedded weights in real vLLM: the very folders in git, sampled by the vllm engine, say what our own engine says.

Run by `make test-vllm` in an environment of its own, with vLLM's CPU build.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leash import weights as models
from leash.datasets import embedded_tasks
from leash.engines import selection
from leash.engines.protocol import Completion, Decoding, Request
from leash.engines.stop_strings import STOP_STRING, find_stop
from leash.grading.extraction import extract
from leash.params import groups
from leash.prompts import Prompt
from leash.statistics import seeds
from stages.sample import stage as sample
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
    from leash.engines.torch_engine import TorchEngine

    return TorchEngine(*models.load_model(weights), rows=2048)


def requests(samples: range, each: int) -> list[Request]:
    rng = seeds.stream("test", "vllm")
    prompts = [embedded_tasks.draw_problem(rng, *kind, held_out=True).prompt for kind in KINDS for _ in range(each)]
    return [Request(f"p{i:02d}", Prompt(prompt), samples, ("test",)) for i, prompt in enumerate(prompts)]


def by_key(completions: Iterator[Completion]) -> dict[tuple[str, int], Completion]:
    return {(c.problem_id, c.sample): c for c in completions}


def test_greedy_completions_are_the_torch_engines(vllm: Any, torch_engine: Any) -> None:
    batch, greedy = requests(range(1), 4), Decoding(0.0, 1.0, 72)
    theirs, ours = by_key(vllm.complete(batch, greedy)), by_key(torch_engine.complete(batch, greedy))
    assert theirs.keys() == ours.keys()
    for key, completion in theirs.items():
        assert completion.text.split() == ours[key].text.split()
        assert (completion.tokens, completion.finish) == (ours[key].tokens, ours[key].finish)
        assert completion.logprob == pytest.approx(ours[key].logprob, abs=1e-3)


def test_samples_are_of_the_same_distribution(vllm: Any, torch_engine: Any) -> None:
    """On every problem: a χ² test that both engines' answers come from one distribution, answers seen fewer than ten
    times taken together. The level of 0.001 is shared out over the problems (Bonferroni)."""
    batch = requests(range(SAMPLES), 3)
    answers: dict[str, list[Counter[str | None]]] = {request.problem_id: [] for request in batch}
    for engine in (vllm, torch_engine):
        drawn: dict[str, Counter[str | None]] = {problem: Counter() for problem in answers}
        for completion in engine.complete(batch, PLAIN):
            drawn[completion.problem_id][extract(completion.text)] += 1
        for problem, counts in drawn.items():
            assert counts.total() == SAMPLES
            answers[problem].append(counts)
    p_values = {problem: same(*both) for problem, both in answers.items()}
    assert min(p_values.values()) > LEVEL / len(p_values), p_values
    # The test finds a difference if there is one: the answers of the first problem against those of the second.
    first, second = list(answers.values())[:2]
    assert same(first[0], second[1]) < LEVEL / len(p_values)


def same(one: Counter[str | None], other: Counter[str | None]) -> float:
    """The p-value of a χ² test that two counts of answers come from one distribution."""
    total = one + other
    frequent = [answer for answer, times in total.items() if times >= 10]
    table = np.array([[counts[answer] for answer in frequent] for counts in (one, other)])
    table = np.column_stack([table, SAMPLES - table.sum(1)])
    table = table[:, table.sum(0) > 0]
    return float(stats.chi2_contingency(table).pvalue) if table.shape[1] > 1 else 1.0


def test_a_sample_depends_on_its_number_only(vllm: Any) -> None:
    """Another order and batch give the same samples, except for a rare token that another batch changes."""
    whole = by_key(vllm.complete(requests(range(64), 4), PLAIN))
    part = by_key(vllm.complete(list(reversed(requests(range(13, 40), 4))), PLAIN))
    assert len(part) == 20 * 27
    differing = [key for key, completion in part.items() if completion.text != whole[key].text]
    assert len(differing) <= 3
    assert len({c.text for c in whole.values()}) > 300


def test_stop_strings_end_samples_as_in_the_torch_engine(vllm: Any, torch_engine: Any) -> None:
    """Greedy: the same texts, tails and log-probabilities. Sampled: each is the beginning of the sample without stop
    strings, whatever else runs."""
    stops, greedy = (", 3", "+ 4", " * "), Decoding(0.0, 1.0, 72)
    batch = requests(range(1), 4)
    theirs, ours = (by_key(e.complete(batch, replace(greedy, stop=stops))) for e in (vllm, torch_engine))
    for key, completion in theirs.items():
        assert completion.text.split() == ours[key].text.split()
        assert (completion.tail or "").split() == (ours[key].tail or "").split()
        assert (completion.tokens, completion.finish) == (ours[key].tokens, ours[key].finish)
        assert completion.logprob == pytest.approx(ours[key].logprob, abs=1e-3)

    batch = requests(range(32), 4)
    whole, stopped = (by_key(vllm.complete(batch, d)) for d in (PLAIN, replace(PLAIN, stop=stops)))
    assert stopped.keys() == whole.keys()
    # Another batch can change a rare token.
    assert sum(c.text != whole[key].text[: find_stop(whole[key].text, stops)] for key, c in stopped.items()) <= 3
    assert sum(not whole[key].text.startswith(c.drawn_text) for key, c in stopped.items()) <= 3
    ended = [c for c in stopped.values() if c.finish == STOP_STRING]
    assert len(ended) > 50
    assert sum(c.tokens or 0 for c in ended) < sum(whole[c.problem_id, c.sample].tokens or 0 for c in ended)
    assert not vllm._engine.has_unfinished_requests()


def test_a_prompt_that_is_too_long_is_refused_and_the_engine_continues(vllm: Any) -> None:
    from leash.engines.vllm_engine import RefusedPromptError

    long = Request("p0", Prompt("compute " + "3 + " * 100 + "4 :"), range(1), ("test",))
    with pytest.raises(RefusedPromptError) as error:
        list(vllm.complete([long], PLAIN))
    assert error.value.problem_id == "p0"
    assert len(list(vllm.complete(requests(range(1), 1), PLAIN))) == 5


def test_decoding_that_vllm_refuses_is_one_sentence_and_the_engine_continues(vllm: Any) -> None:
    from leash.engines.vllm_engine import RefusedDecodingError

    with pytest.raises(RefusedDecodingError, match="temperature"):
        list(vllm.complete(requests(range(1), 1), replace(PLAIN, temperature=2.5)))
    assert len(list(vllm.complete(requests(range(1), 1), PLAIN))) == 5


def test_the_stage_samples_with_vllm_and_stops_early(
    vllm: Any, weights: models.Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the stage: an adaptive run draws a prefix of what a full run draws."""
    from leash import problems
    from leash.grading.grade_answers import build_checker
    from leash.sample_ledger import Ledger
    from stages.fetch import stage

    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selection, "_load_vllm", lambda *_: vllm)  # the running engine
    raw = small(sample={"k": 48, "engine": "vllm", "vllm": {"max_model_len": 128, "eager": True, "max_num_seqs": 16}})
    raw["models"][weights.name]["dtype"] = "float32"
    full = write_params(tmp_path, raw)
    stage.run(full, "make")
    stage.run(full, "chain")
    sample.run(full, weights.name, "chain")
    texts = {(r["problem_id"], r["sample"]): r["text"] for r in _rows("chain", weights.name)}
    assert len(texts) == 4 * 48

    raw["sample"]["stop_after"] = 1
    adaptive: groups.Params = write_params(tmp_path, raw)
    drawn = sample.run(adaptive, weights.name, "make")
    check = build_checker(problems.load_problems("make"), full.verify)
    on_disk = Ledger(Path("data/completions") / weights.name / "make").have()
    hits = Counter(
        r["problem_id"] for r in _rows("make", weights.name) if check(r["problem_id"], r["text"], r["finish"])
    )
    for problem, samples in on_disk.items():
        assert samples.tolist() == list(range(len(samples)))
        assert len(samples) == 48 or hits[problem] >= 1
    assert drawn.samples < 6 * 48
    assert Ledger(Path("data/completions") / weights.name / "make").manifest()["engines"][0].startswith("vllm ")


def _rows(dataset: str, model: str) -> list[dict[str, Any]]:
    from leash.sample_ledger import Ledger

    return list(Ledger(Path("data/completions") / model / dataset).texts())

"""vLLM's log-probabilities of the embedded models are the scorer's.

Run by `make test-vllm` in an environment of its own, with vLLM's CPU build.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leash import tables
from leash import weights as models
from leash.datasets import embedded_tasks
from leash.errors import LeashError
from leash.params.groups import Vllm
from leash.prompts import Prompt
from leash.scheduler.worker_plan import WorkerPlan
from leash.scoring import score_tables
from leash.scoring.score_tables import ScoringJob, update_score_tables
from leash.scoring.torch_scorer import Scorer, tokenize_traces
from leash.scoring.traces import ScoringSpec, Trace
from leash.statistics import seeds
from tests.vllm.conftest import engine_on, nothing

pytestmark = pytest.mark.vllm

KINDS = [("chain", 5), ("chain", 8), ("make", 3), ("make", 5)]
SETTINGS = Vllm(max_model_len=128, max_num_seqs=16, eager=True)
VLLM = ScoringSpec("vllm")


@pytest.fixture(scope="module")
def vllm(in_process: None, weights: models.Weights) -> Any:
    """A scorer on the running engine."""
    from leash.engines import vllm_startup
    from leash.scoring.vllm_scorer import VllmScorer

    running = engine_on(weights)._engine  # before the patch, which replaces the same function
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vllm_startup, "start_engine", lambda *_, **__: running)
        scorer: Any = VllmScorer(weights, SETTINGS)
    scorer.close = nothing  # other tests still use the engine
    return scorer


@pytest.fixture(scope="module")
def scorer(weights: models.Weights) -> Scorer:
    return Scorer(*models.load_model(weights))


def traces(each: int) -> list[Trace]:
    """Solutions right and wrong, ended and not, several to a prompt, and one without a token."""
    rng = seeds.stream("test", "vllm scoring")
    found = [Trace(Prompt("compute 3 + 4 :"), "", ended=False)]
    for problem in [embedded_tasks.draw_problem(rng, *kind, held_out=True) for kind in KINDS for _ in range(each)]:
        for slip in (False, True):
            text = embedded_tasks.write_solution(rng, problem, worked=True, slip=slip)
            found += [Trace(Prompt(problem.prompt), text, ended) for ended in (True, False)]
    return found


def test_log_probabilities_equal_those_of_the_torch_scorer(vllm: Any, scorer: Scorer) -> None:
    wanted = traces(8)
    for _ in range(2):  # the second time, vLLM has all of them in its prefix cache
        for theirs, ours in zip(vllm.score(wanted, VLLM), scorer.score(wanted), strict=True):
            assert (theirs.key, theirs.tokens) == (ours.key, ours.tokens)
            assert theirs.nll == pytest.approx(ours.nll, abs=1e-3)
            assert theirs.decoding_nll == theirs.nll
            assert theirs.token_entropy is None


def test_a_decoding_distribution_is_not_made_up(vllm: Any) -> None:
    tempered = vllm.score(traces(1), replace(VLLM, temperature=0.6))
    assert all(score.nll is not None for score in tempered)
    assert {score.decoding_nll for score in tempered if score.tokens} == {None}


def test_a_trace_longer_than_the_window_has_no_score(vllm: Any, scorer: Scorer) -> None:
    """vLLM needs one token more than the scorer."""
    lengths = []
    for words in range(120, 126):
        trace = Trace(Prompt("compute 3 + 4 :"), "3 " * words, ended=False)
        lengths.append(length := sum(map(len, tokenize_traces([trace], scorer.tokenizer)[0])))
        [ours], [theirs] = scorer.score([trace]), vllm.score([trace], VLLM)
        assert (ours.nll is None) == (length > 128)
        assert (theirs.nll is None) == (length > 127)
        assert theirs.nll is None or theirs.nll == pytest.approx(ours.nll, abs=1e-3)
    assert {127, 128, 129} <= set(lengths)


def test_score_tables_equal_those_of_the_other_engine(
    vllm: Any, weights: models.Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several units, two at a time."""
    monkeypatch.setattr(score_tables, "_load_vllm_scorer", lambda *_: vllm)  # the running engine
    monkeypatch.setattr(score_tables, "MAX_UNIT_TRACES", 5)
    wanted = traces(2)
    labels = [{"problem_id": "p", "completion": str(i), "hits": 1, "first": 0} for i in range(len(wanted))]
    crew = WorkerPlan(at_once=2, stepping=True)
    tables_made = []
    for name, workers, reading in (("theirs", crew, VLLM), ("ours", WorkerPlan(), ScoringSpec())):
        job = ScoringJob(tmp_path / f"{name}.parquet", weights, labels, wanted)
        scored = update_score_tables([job], tables.MASS_SCHEMA, "test", workers, reading, SETTINGS)
        assert scored == len({trace.key for trace in wanted})
        tables_made.append(tables.read(job.path, tables.MASS_SCHEMA, "").to_pylist())
    for theirs, ours in zip(*tables_made, strict=True):
        assert {**theirs, "nll": 0, "decoding_nll": 0} == {**ours, "nll": 0, "decoding_nll": 0}
        assert theirs["nll"] == pytest.approx(ours["nll"], abs=1e-3)


def test_entropies_are_refused(weights: models.Weights, tmp_path: Path) -> None:
    job = ScoringJob(tmp_path / "t.parquet", weights, [{}], traces(1)[:1])
    with pytest.raises(LeashError, match="entropies"):
        update_score_tables(
            [job], tables.ENTROPY_SCHEMA, "test", WorkerPlan(stepping=True), ScoringSpec("vllm", entropies=True)
        )


def test_float64_is_refused(weights: models.Weights) -> None:
    pytest.importorskip("vllm", reason="vLLM is not installed; `make test-vllm` installs it")
    from leash.scoring.vllm_scorer import VllmScorer

    with pytest.raises(LeashError, match="float64"):
        VllmScorer(replace(weights, dtype="float64"), SETTINGS)

"""vLLM's log-probabilities of the embedded models are the scorer's.

Run by `make test-vllm` in an environment of its own, with vLLM's CPU build.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stages import models, scoring, seeds, tables
from stages.errors import LeashError
from stages.params import Vllm
from stages.prompts import Prompt
from stages.scoring import Job, Reading, Trace, VllmCrew, keep_scores
from stages.scoring.scorer import Scorer, rows_of
from stages.train import tasks
from stages.work import Crew
from tests.vllm.conftest import engine_on, nothing

pytestmark = pytest.mark.vllm

KINDS = [("chain", 5), ("chain", 8), ("make", 3), ("make", 5)]
SETTINGS = Vllm(max_model_len=128, max_num_seqs=16, eager=True)
VLLM = Reading("vllm")


@pytest.fixture(scope="module")
def vllm(in_process: None, weights: models.Weights) -> Any:
    """A scorer in the engine that is running."""
    from stages.sample import vllm_start
    from stages.scoring.vllm_scorer import VllmScorer

    running = engine_on(weights)._engine  # before the patch: it starts the same way
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(vllm_start, "new_engine", lambda *_, **__: running)
        scorer: Any = VllmScorer(weights, SETTINGS)
    scorer.close = nothing  # other tests go on with the engine
    return scorer


@pytest.fixture(scope="module")
def scorer(weights: models.Weights) -> Scorer:
    return Scorer(*models.load(weights))


def traces(each: int) -> list[Trace]:
    """Solutions right and wrong, ended and not, several to a prompt, and one without a token."""
    rng = seeds.stream("test", "vllm scoring")
    found = [Trace(Prompt("compute 3 + 4 :"), "", ended=False)]
    for problem in [tasks.draw(rng, *kind, held_out=True) for kind in KINDS for _ in range(each)]:
        for slip in (False, True):
            text = tasks.solution(rng, problem, worked=True, slip=slip)
            found += [Trace(Prompt(problem.prompt), text, ended) for ended in (True, False)]
    return found


def test_log_probabilities_are_the_scorers(vllm: Any, scorer: Scorer) -> None:
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


def test_a_trace_without_room_in_the_window_has_no_score(vllm: Any, scorer: Scorer) -> None:
    """vLLM wants room for one token more than the scorer does."""
    lengths = []
    for words in range(120, 126):
        trace = Trace(Prompt("compute 3 + 4 :"), "3 " * words, ended=False)
        lengths.append(length := sum(map(len, rows_of([trace], scorer.tokenizer)[0])))
        [ours], [theirs] = scorer.score([trace]), vllm.score([trace], VLLM)
        assert (ours.nll is None) == (length > 128)
        assert (theirs.nll is None) == (length > 127)
        assert theirs.nll is None or theirs.nll == pytest.approx(ours.nll, abs=1e-3)
    assert {127, 128, 129} <= set(lengths)


def test_tables_are_made_through_the_crew(
    vllm: Any, weights: models.Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In several units, of which two are under way at a time: the table is that of the other engine."""
    monkeypatch.setattr(scoring, "_load_vllm", lambda *_: vllm)  # the one that is running
    monkeypatch.setattr(scoring, "UNIT", 5)
    wanted = traces(2)
    labels = [{"problem_id": "p", "completion": str(i), "hits": 1, "first": 0} for i in range(len(wanted))]
    crew = VllmCrew(at_once=2, stepping=True, settings=SETTINGS)
    tables_made = []
    for name, workers, reading in (("theirs", crew, VLLM), ("ours", Crew(), Reading())):
        job = Job(tmp_path / f"{name}.parquet", weights, labels, wanted)
        assert keep_scores([job], tables.MASS, "test", workers, reading) == len({trace.key for trace in wanted})
        tables_made.append(tables.read(job.path, tables.MASS, "").to_pylist())
    for theirs, ours in zip(*tables_made, strict=True):
        assert {**theirs, "nll": 0, "decoding_nll": 0} == {**ours, "nll": 0, "decoding_nll": 0}
        assert theirs["nll"] == pytest.approx(ours["nll"], abs=1e-3)


def test_entropies_are_refused_in_a_sentence(weights: models.Weights, tmp_path: Path) -> None:
    job = Job(tmp_path / "t.parquet", weights, [{}], traces(1)[:1])
    with pytest.raises(LeashError, match=r"^vLLM gives log-probabilities but no entropies"):
        keep_scores([job], tables.ENTROPY, "test", VllmCrew(stepping=True), Reading("vllm", entropies=True))


def test_float64_is_refused_in_a_sentence(weights: models.Weights) -> None:
    pytest.importorskip("vllm", reason="vLLM is not installed; `make test-vllm` installs it")
    from stages.scoring.vllm_scorer import VllmScorer

    with pytest.raises(LeashError, match="float64, which vLLM does not have"):
        VllmScorer(replace(weights, dtype="float64"), SETTINGS)

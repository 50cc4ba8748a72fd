"""Tables of scores: new traces are scored, others are not scored again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leash import tables, weights
from leash.params.groups import Params
from leash.prompts import Prompt
from leash.scheduler.worker_plan import WorkerPlan
from leash.scoring import score_tables
from leash.scoring.score_tables import ScoringJob, plan_scoring_workers, update_score_tables
from leash.scoring.torch_scorer import Scorer
from leash.scoring.traces import ScoringSpec, Trace
from tests.conftest import small, write_params
from tests.unit.test_scoring import ENTROPIES, PLAIN, PROMPT, SCHEMA, TRACES, weights_of


def many(count: int) -> list[Trace]:
    """Different traces of different lengths."""
    return [Trace(PROMPT, "3 + 4 = 7 , " * (i % 5) + f"{i % 50} , {i // 50}", ended=bool(i % 2)) for i in range(count)]


def job_of(folder: Path, traces: Sequence[Trace], model: weights.Weights | None = None) -> ScoringJob:
    labels = [{"problem_id": f"p{i}"} for i in range(len(traces))]
    return ScoringJob(folder / "chain.parquet", model or weights_of(), labels, traces)


def update(job: ScoringJob, spec: ScoringSpec = PLAIN, workers: WorkerPlan | None = None) -> int:
    return update_score_tables([job], SCHEMA, "test", workers or WorkerPlan(), spec)


def rows(job: ScoringJob) -> list[dict[str, Any]]:
    return list(tables.read(job.path, SCHEMA, "").to_pylist())


def folder_is_clean(folder: Path) -> bool:
    return [path.name for path in folder.iterdir()] == ["chain.parquet"]


def test_a_table_has_a_row_for_every_label_in_order(tmp_path: Path) -> None:
    job = job_of(tmp_path, [*TRACES, TRACES[0]])
    assert update(job, ENTROPIES) == len(TRACES)  # two traces are equal
    scores = Scorer(*weights.load_model(weights_of())).score(job.traces, ENTROPIES)
    for i, (row, score) in enumerate(zip(rows(job), scores, strict=True)):
        assert (row["problem_id"], row["key"], row["tokens"]) == (f"p{i}", score.key, score.tokens)
        assert row["decoding_nll"] == pytest.approx(score.decoding_nll, abs=1e-6)
        assert row["profile"] == pytest.approx(score.profile, abs=1e-6)
    assert folder_is_clean(tmp_path)


def test_a_current_table_is_not_written_again(tmp_path: Path) -> None:
    job = job_of(tmp_path, TRACES)
    assert update(job) == len(TRACES)
    written = job.path.stat()
    assert update(job) == 0
    assert (job.path.stat().st_ino, job.path.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_a_growing_table_scores_only_new_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_tables, "MAX_UNIT_TRACES", 4)
    traces = many(20)
    assert update(job_of(tmp_path, traces[5:15])) == 10
    assert update(job_of(tmp_path, traces)) == 10
    grown = rows(job_of(tmp_path, traces))
    assert update(job_of(tmp_path, traces[:3])) == 0  # a shrinking table scores nothing
    assert rows(job_of(tmp_path, traces[:3])) == grown[:3]
    assert [row["key"] for row in grown] == [trace.key for trace in traces]


def test_new_labels_are_written_without_scoring(tmp_path: Path) -> None:
    job = job_of(tmp_path, TRACES)
    update(job)
    renamed = replace(job, labels=[{"problem_id": f"q{i}"} for i in range(len(TRACES))])
    assert update(renamed) == 0
    assert rows(renamed)[0]["problem_id"] == "q0"


def test_another_specification_or_other_weights_score_again(tmp_path: Path) -> None:
    assert update(job_of(tmp_path, TRACES)) == 6
    assert update(job_of(tmp_path, TRACES), ScoringSpec(temperature=0.6)) == 6
    assert update(job_of(tmp_path, TRACES, weights_of("rlvr")), ScoringSpec(temperature=0.6)) == 6
    assert update(job_of(tmp_path, TRACES, weights_of("rlvr", "float32")), ScoringSpec(temperature=0.6)) == 6
    assert update(job_of(tmp_path, TRACES, weights_of("rlvr", "float32")), ScoringSpec(temperature=0.6)) == 0


def test_a_table_of_an_older_schema_is_made_again(tmp_path: Path) -> None:
    job = job_of(tmp_path, TRACES)
    narrow = pa.schema([field for field in SCHEMA if field.name != "nll"])
    assert update_score_tables([job], narrow, "test", WorkerPlan(), PLAIN) == 6
    assert update(job) == 6
    assert rows(job)[0]["nll"] > 0


def stop_after(job: ScoringJob, count: int, spec: ScoringSpec = PLAIN) -> None:
    """Update a job's table, and interrupt it after `count` units."""

    def run_units(units: Sequence[Any], prepare: Any, act: Any, workers: WorkerPlan) -> Iterator[tuple[Any, Any]]:
        for unit in units[:count]:
            yield unit, act(prepare(), unit)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(score_tables, "run_units", run_units)
        with pytest.raises(KeyboardInterrupt):
            update(job, spec)


def test_a_stopped_run_continues_from_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_tables, "MAX_UNIT_TRACES", 4)
    job = job_of(tmp_path / "a", many(20))
    stop_after(job, 2)
    assert not job.path.exists()
    stop_after(job, 1)
    assert len(list(score_tables.parts_folder(job.path).iterdir())) == 3
    assert update(job) == 20 - 3 * 4
    assert folder_is_clean(tmp_path / "a")
    whole = job_of(tmp_path / "b", many(20))
    assert update(whole) == 20
    for row, other in zip(rows(job), rows(whole), strict=True):
        assert row == {**other, "nll": pytest.approx(other["nll"]), "decoding_nll": pytest.approx(other["nll"])}


def test_the_old_table_stays_until_the_new_one_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_tables, "MAX_UNIT_TRACES", 4)
    old = job_of(tmp_path, many(8))
    update(old)
    before = rows(old)
    stop_after(job_of(tmp_path, many(20)), 1)
    assert rows(old) == before
    assert update(job_of(tmp_path, many(20))) == 8


def test_parts_of_another_specification_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_tables, "MAX_UNIT_TRACES", 4)
    job = job_of(tmp_path, many(20))
    stop_after(job, 2)
    stop_after(job, 1, ScoringSpec(top_p=0.5))
    assert len(list(score_tables.parts_folder(job.path).iterdir())) == 1
    assert update(job, ScoringSpec(top_p=0.5)) == 16


def test_two_workers_write_the_same_bytes_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_tables, "MAX_UNIT_TRACES", 4)
    one, two = job_of(tmp_path / "one", many(20)), job_of(tmp_path / "two", many(20))
    assert update(one, ENTROPIES, WorkerPlan(1)) == update(two, ENTROPIES, WorkerPlan(2)) == 20
    assert one.path.read_bytes() == two.path.read_bytes()


def test_batches_do_not_change_a_table_in_float64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the traces that were scored together nor those that were scored before matter."""
    traces = many(20)
    at_once = job_of(tmp_path / "at once", traces, weights_of())
    update(at_once, ENTROPIES)
    monkeypatch.setattr(score_tables, "MAX_UNIT_TRACES", 3)
    update(job_of(tmp_path / "in turn", traces[7:12], weights_of()), ENTROPIES)
    in_turn = job_of(tmp_path / "in turn", traces, weights_of())
    update(in_turn, ENTROPIES)
    assert in_turn.path.read_bytes() == at_once.path.read_bytes()


def test_units_are_bounded_in_traces_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_tables, "MAX_UNIT_TRACES", 3)
    monkeypatch.setattr(score_tables, "MAX_UNIT_CHARS", 100)
    sizes = [300, 60, 50, 40, 10, 5, 5, 5, 5]
    traces = [Trace(Prompt(""), "x" * size, ended=False) for size in sizes]
    units = list(score_tables._split_into_units(0, weights_of(), PLAIN, traces))
    assert [[t.size for t in unit.traces] for unit in units] == [[300], [60], [50, 40, 10], [5, 5, 5], [5]]


def test_jobs_of_several_models_are_scored_together(tmp_path: Path) -> None:
    jobs = [job_of(tmp_path / model, TRACES, weights_of(model)) for model in ("base", "rlvr")]
    assert update_score_tables(jobs, SCHEMA, "test", WorkerPlan(2), PLAIN) == 12
    for job in jobs:
        scores = Scorer(*weights.load_model(job.weights)).score(TRACES)
        assert [row["nll"] for row in rows(job)] == pytest.approx([score.nll for score in scores], abs=1e-6)


def test_a_job_without_traces_makes_an_empty_table(tmp_path: Path) -> None:
    assert update(job_of(tmp_path, [])) == 0
    assert rows(job_of(tmp_path, [])) == []


def test_vllm_gives_no_entropies(tmp_path: Path) -> None:
    with pytest.raises(score_tables.NoEntropiesError, match="engine `torch`"):
        update(job_of(tmp_path, TRACES), ScoringSpec("vllm", entropies=True))


def test_workers_fit_the_engine_and_the_machine(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    run = {**project.run.model_dump(), "processes": 2}
    local = write_params(Path(), small(run=run))
    monkeypatch.setattr(score_tables, "has_gpu", lambda: False)
    assert plan_scoring_workers(local, PLAIN).workers == 2
    monkeypatch.setattr(score_tables, "has_gpu", lambda: True)
    assert plan_scoring_workers(local, PLAIN).workers == 1
    remote = write_params(Path(), small(run={"on": "ray"}, sample={"vllm": {"tensor_parallel": 4}}))
    assert (plan_scoring_workers(remote, PLAIN).ray, plan_scoring_workers(remote, PLAIN).gpus) == (remote.ray, 1)
    vllm = plan_scoring_workers(remote, ScoringSpec("vllm"))
    assert (vllm.stepping, vllm.gpus) == (True, 4)


def test_a_gpu_scores_in_bfloat16_unless_a_dtype_is_set(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    given = weights.find_weights(project, "base")
    raw = small()
    del raw["models"]["base"]["dtype"]
    free = weights.find_weights(write_params(Path(), raw), "base")
    assert (given.dtype, free.dtype) == ("float64", "float32")
    monkeypatch.setattr(weights, "has_gpu", lambda: False)
    assert weights.with_scoring_dtype(free).dtype == "float32"
    monkeypatch.setattr(weights, "has_gpu", lambda: True)
    assert (weights.with_scoring_dtype(free).dtype, weights.with_scoring_dtype(given).dtype) == ("bfloat16", "float64")

"""Tables of scores: what is scored, and what is not scored again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stages import models, scoring, tables
from stages.errors import LeashError
from stages.params import Params
from stages.prompts import Prompt
from stages.scoring import Job, Reading, Trace, crew_for, keep_scores, parts
from stages.scoring.scorer import Scorer
from stages.work import Crew
from tests.conftest import small, write_params
from tests.unit.test_scoring import ENTROPIES, PLAIN, PROMPT, SCHEMA, TRACES, held


def many(count: int) -> list[Trace]:
    """Traces that differ, with lengths that do."""
    return [Trace(PROMPT, "3 + 4 = 7 , " * (i % 5) + f"{i % 50} , {i // 50}", ended=bool(i % 2)) for i in range(count)]


def job_of(folder: Path, traces: Sequence[Trace], weights: models.Weights | None = None) -> Job:
    labels = [{"problem_id": f"p{i}"} for i in range(len(traces))]
    return Job(folder / "chain.parquet", weights or held(), labels, traces)


def keep(job: Job, reading: Reading = PLAIN, crew: Crew | None = None) -> int:
    return keep_scores([job], SCHEMA, "test", crew or Crew(), reading)


def rows(job: Job) -> list[dict[str, Any]]:
    return list(tables.read(job.path, SCHEMA, "").to_pylist())


def folder_is_clean(folder: Path) -> bool:
    return [path.name for path in folder.iterdir()] == ["chain.parquet"]


def test_a_table_has_a_row_for_every_label_in_order(tmp_path: Path) -> None:
    job = job_of(tmp_path, [*TRACES, TRACES[0]])
    assert keep(job, ENTROPIES) == len(TRACES)  # equal traces are scored once
    scores = Scorer(*models.load(held())).score(job.traces, ENTROPIES)
    for i, (row, score) in enumerate(zip(rows(job), scores, strict=True)):
        assert (row["problem_id"], row["key"], row["tokens"]) == (f"p{i}", score.key, score.tokens)
        assert row["decoding_nll"] == pytest.approx(score.decoding_nll, abs=1e-6)
        assert row["profile"] == pytest.approx(score.profile, abs=1e-6)
    assert folder_is_clean(tmp_path)


def test_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    job = job_of(tmp_path, TRACES)
    assert keep(job) == len(TRACES)
    written = job.path.stat()
    assert keep(job) == 0
    assert (job.path.stat().st_ino, job.path.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_growing_scores_only_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "UNIT", 4)
    traces = many(20)
    assert keep(job_of(tmp_path, traces[5:15])) == 10
    assert keep(job_of(tmp_path, traces)) == 10
    grown = rows(job_of(tmp_path, traces))
    assert keep(job_of(tmp_path, traces[:3])) == 0  # and shrinking nothing
    assert rows(job_of(tmp_path, traces[:3])) == grown[:3]
    assert [row["key"] for row in grown] == [trace.key for trace in traces]


def test_other_labels_are_written_without_scoring(tmp_path: Path) -> None:
    job = job_of(tmp_path, TRACES)
    keep(job)
    renamed = replace(job, labels=[{"problem_id": f"q{i}"} for i in range(len(TRACES))])
    assert keep(renamed) == 0
    assert rows(renamed)[0]["problem_id"] == "q0"


def test_another_reading_or_other_weights_score_anew(tmp_path: Path) -> None:
    assert keep(job_of(tmp_path, TRACES)) == 6
    assert keep(job_of(tmp_path, TRACES), Reading(temperature=0.6)) == 6
    assert keep(job_of(tmp_path, TRACES, held("rlvr")), Reading(temperature=0.6)) == 6
    assert keep(job_of(tmp_path, TRACES, held("rlvr", "float32")), Reading(temperature=0.6)) == 6
    assert keep(job_of(tmp_path, TRACES, held("rlvr", "float32")), Reading(temperature=0.6)) == 0


def test_a_table_of_an_older_schema_is_made_anew(tmp_path: Path) -> None:
    job = job_of(tmp_path, TRACES)
    narrow = pa.schema([field for field in SCHEMA if field.name != "nll"])
    assert keep_scores([job], narrow, "test", Crew(), PLAIN) == 6
    assert keep(job) == 6
    assert rows(job)[0]["nll"] > 0


class Power:
    """Fails after so many units, as when the machine goes down."""

    def __init__(self, units: int) -> None:
        self.left = units

    def spread(self, units: Sequence[Any], prepare: Any, act: Any, crew: Crew) -> Iterator[tuple[Any, Any]]:
        for unit in units:
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            yield unit, act(prepare(), unit)


def stopped(job: Job, units: int, reading: Reading = PLAIN) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "spread", Power(units).spread)
        with pytest.raises(KeyboardInterrupt):
            keep(job, reading)


def test_a_run_that_was_stopped_goes_on_from_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "UNIT", 4)
    job = job_of(tmp_path / "a", many(20))
    stopped(job, 2)
    assert not job.path.exists()
    stopped(job, 1)
    assert len(list(parts.folder_of(job.path).iterdir())) == 3
    assert keep(job) == 20 - 3 * 4
    assert folder_is_clean(tmp_path / "a")
    whole = job_of(tmp_path / "b", many(20))
    assert keep(whole) == 20
    for row, other in zip(rows(job), rows(whole), strict=True):
        assert row == {**other, "nll": pytest.approx(other["nll"]), "decoding_nll": pytest.approx(other["nll"])}


def test_the_old_table_stays_until_the_new_one_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "UNIT", 4)
    old = job_of(tmp_path, many(8))
    keep(old)
    before = rows(old)
    stopped(job_of(tmp_path, many(20)), 1)
    assert rows(old) == before
    assert keep(job_of(tmp_path, many(20))) == 8


def test_parts_of_another_reading_are_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "UNIT", 4)
    job = job_of(tmp_path, many(20))
    stopped(job, 2)
    stopped(job, 1, Reading(top_p=0.5))
    assert len(list(parts.folder_of(job.path).iterdir())) == 1
    assert keep(job, Reading(top_p=0.5)) == 16


def test_two_workers_score_as_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "UNIT", 4)
    one, two = job_of(tmp_path / "one", many(20)), job_of(tmp_path / "two", many(20))
    assert keep(one, ENTROPIES, Crew(1)) == keep(two, ENTROPIES, Crew(2)) == 20
    assert one.path.read_bytes() == two.path.read_bytes()


def test_the_company_of_a_trace_does_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64, what a table holds does not depend on what was scored together, or before."""
    traces = many(20)
    at_once = job_of(tmp_path / "at once", traces, held())
    keep(at_once, ENTROPIES)
    monkeypatch.setattr(scoring, "UNIT", 3)
    keep(job_of(tmp_path / "in turn", traces[7:12], held()), ENTROPIES)
    in_turn = job_of(tmp_path / "in turn", traces, held())
    keep(in_turn, ENTROPIES)
    assert in_turn.path.read_bytes() == at_once.path.read_bytes()


def test_units_are_bounded_in_traces_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "UNIT", 3)
    monkeypatch.setattr(scoring, "CHARACTERS", 100)
    sizes = [300, 60, 50, 40, 10, 5, 5, 5, 5]
    traces = [Trace(Prompt(""), "x" * size, ended=False) for size in sizes]
    units = list(scoring._units(0, held(), PLAIN, traces))
    assert [[t.size for t in unit.traces] for unit in units] == [[300], [60], [50, 40, 10], [5, 5, 5], [5]]


def test_jobs_of_several_models_are_scored_together(tmp_path: Path) -> None:
    jobs = [job_of(tmp_path / model, TRACES, held(model)) for model in ("base", "rlvr")]
    assert keep_scores(jobs, SCHEMA, "test", Crew(2), PLAIN) == 12
    for job in jobs:
        scores = Scorer(*models.load(job.weights)).score(TRACES)
        assert [row["nll"] for row in rows(job)] == pytest.approx([score.nll for score in scores], abs=1e-6)


def test_a_job_without_traces_makes_an_empty_table(tmp_path: Path) -> None:
    assert keep(job_of(tmp_path, [])) == 0
    assert rows(job_of(tmp_path, [])) == []


def test_vllm_gives_no_entropies(tmp_path: Path) -> None:
    with pytest.raises(LeashError, match=r"^vLLM gives log-probabilities but no entropies; "):
        keep(job_of(tmp_path, TRACES), Reading("vllm", entropies=True))


def test_the_crew_is_what_the_engine_needs(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    run = {**project.run.model_dump(), "processes": 2}
    here = write_params(Path(), small(run=run))
    monkeypatch.setattr(scoring, "has_gpu", lambda: False)
    assert crew_for(here, PLAIN).workers == 2
    monkeypatch.setattr(scoring, "has_gpu", lambda: True)
    assert crew_for(here, PLAIN).workers == 1
    there = write_params(Path(), small(run={"on": "ray"}, sample={"vllm": {"tensor_parallel": 4}}))
    assert (crew_for(there, PLAIN).ray, crew_for(there, PLAIN).gpus) == (there.ray, 1)
    many_at_once = crew_for(there, Reading("vllm"))
    assert (many_at_once.stepping, many_at_once.gpus) == (True, 4)


def test_a_gpu_scores_in_bfloat16_unless_told_otherwise(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    given = models.weights(project, "base")
    raw = small()
    del raw["models"]["base"]["dtype"]
    free = models.weights(write_params(Path(), raw), "base")
    assert (given.dtype, free.dtype) == ("float64", "float32")
    monkeypatch.setattr(models, "has_gpu", lambda: False)
    assert models.for_scoring(free).dtype == "float32"
    monkeypatch.setattr(models, "has_gpu", lambda: True)
    assert (models.for_scoring(free).dtype, models.for_scoring(given).dtype) == ("bfloat16", "float64")

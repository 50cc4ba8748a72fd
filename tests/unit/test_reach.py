"""The stage `reach` with the embedded models: it examines the problems with few hits, proves what it says, and draws
nothing twice."""

from __future__ import annotations

import json
import logging
import math
import shutil
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import chdir, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from leash import database, tables
from leash.engines import selection
from leash.engines.openai_engine import ServerUnavailableError, ServerUnreachableError
from leash.engines.protocol import Completion as Drawn
from leash.engines.protocol import Decoding, PrefixNotSupportedError, Request
from leash.engines.selection import EngineSpec, build_engine_spec
from leash.engines.torch_engine import TorchEngine
from leash.grading.graders import registry
from leash.params.errors import ConflictError
from leash.params.groups import Params, Reach
from leash.problems import Problem, load_problems
from leash.prompts import Prompt
from leash.reach import examine, known_scores, tasks
from leash.reach.hits import HitChecker
from leash.reach.known import Completion, build_completions, count_distinct
from leash.reach.known_scores import TokenScores, score_completions
from leash.reach.rollouts import RolloutStore, draw_rollouts, plan_rollouts
from leash.reach.rows import build_row, find_cut_token
from leash.reach.search import MAX_NEW_COMPLETIONS, KnownCompletion, Search
from leash.sample_ledger import Ledger
from leash.scheduler.worker_plan import WorkerPlan
from leash.scoring.score_tables import MADE_WITH_KEY
from leash.statistics.prefix_tree import Prefix
from leash.weights import Weights, find_weights, load_end_tokens, load_model, load_tokenizer
from stages.cli import main
from stages.fetch import stage as fetch
from stages.mass import stage as mass
from stages.reach import stage as reach
from stages.sample import stage as sample
from stages.verify import stage as verify
from tests.conftest import ROOT, small, write_params
from tests.served import Fault, Served

SETTINGS = {"rollouts": 64}
MODELS = small()["models"]


def parameters(**changes: dict[str, Any]) -> Params:
    drawing = {"k": 32, "batch": 256} | changes.pop("sample", {})
    raw = small(sample=drawing, reach=SETTINGS | changes.pop("reach", {}), **changes)
    raw["run"]["datasets"] = ["make"]
    raw["datasets"]["make"] |= {"levels": [3, 4, 5], "per_level": 2}
    return write_params(Path(), raw)


def draw(params: Params) -> Params:
    fetch.run(params, "make")
    for model in params.run.models:
        sample.run(params, model, "make")
        verify.run(params, model, "make")
    return params


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples and verdicts of the embedded pair on six problems."""
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "models").symlink_to(ROOT / "models")
    with chdir(folder):
        draw(parameters())
    return folder


@pytest.fixture(scope="module")
def examined(drawn: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same after the stage has run."""
    folder = shutil.copytree(drawn, tmp_path_factory.mktemp("examined") / "run", symlinks=True)
    with chdir(folder):
        assert reach.run(parameters()) == (sum(row["pilot"] + row["rollouts"] for row in rows()), [])
    return folder


@pytest.fixture
def run(drawn: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the samples, as the working directory."""
    with chdir(shutil.copytree(drawn, tmp_path / "run", symlinks=True)):
        yield tmp_path / "run"


@pytest.fixture
def again(examined: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of the finished run, as the working directory."""
    with chdir(shutil.copytree(examined, tmp_path / "again", symlinks=True)):
        yield tmp_path / "again"


def rows(pair: str = "rlvr") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tables.read(tables.reach_path(pair), tables.REACH_SCHEMA, "leash reach").to_pylist()
    return found


def files(folder: Path) -> dict[str, bytes]:
    """What the stage made, apart from the note of its settings."""
    made = (file for name in ("reach", "rollouts") for file in (folder / "data" / name).rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in made if file.name != "settings.json"}


def test_the_problems_with_few_hits_are_examined_in_both_directions(examined: Path) -> None:
    with chdir(examined):
        counted = database.open_database(parameters(), only=["verdicts"]).sql(
            "select problem_id, count(*) filter (where correct and model = 'base') as base, "
            "count(*) filter (where correct and model = 'rlvr') as rlvr from verdicts group by all"
        )
        expected = {
            (problem, target, own, other)
            for problem, base, rlvr in counted.fetchall()
            for target, own, other in (("base", base, rlvr), ("rlvr", rlvr, base))
            if own <= 3 and other
        }
        found = {(row["problem_id"], row["target"], row["c_target"], row["c_donor"]) for row in rows()}
    assert {target for _, target, _, _ in expected} == {"base", "rlvr"}
    assert found == expected
    assert {(row["n_target"], row["n_donor"]) for row in _rows_of(examined)} == {(32, 32)}


def _rows_of(folder: Path) -> list[dict[str, Any]]:
    with chdir(folder):
        return rows()


def test_bounds_are_in_order_and_the_trace_is_a_completion_of_the_donor(examined: Path) -> None:
    certified = [row for row in _rows_of(examined) if row["status"] == "certified"]
    assert certified
    with chdir(examined):
        found = tables.read(tables.traces_path("rlvr"), tables.TRACES_SCHEMA, "leash reach").to_pylist()
    traces = {(row["dataset"], row["problem_id"], row["target"]): row["trace_tokens"] for row in found}
    for row in certified:
        assert 0 < row["whole_mass"] + row["open_mass"] <= 1
        assert row["whole_mass"] <= row["certificate"] <= row["whole_mass"] + row["open_mass"]
        assert row["certificate"] <= row["upper"]
        assert row["estimate"] >= row["c_target"] / row["n_target"] - row["open_mass"] - row["whole_mass"]
        assert row["hits"] <= row["rollouts"] <= 32 == row["pilot"] * 2 or row["pilot"] <= 32
        tokens = traces[row["dataset"], row["problem_id"], row["target"]]
        assert tokens[-1] == "</s>"
        assert len(row["trace_nlls"]) == len(row["trace_donor_nlls"]) == len(tokens)
        assert math.exp(-sum(row["trace_nlls"])) <= row["untempered"] + 1e-9
        assert all(hits <= trials for trials, hits in zip(row["profile_trials"], row["profile_hits"], strict=True))
        assert 0 <= row["cut_token"] < len(tokens)
        assert row["amplification_low"] < row["amplification"] < row["amplification_high"]
        donor_mass = row["c_donor"] / row["n_donor"]
        masses = (donor_mass, row["estimate"]) if row["target"] == "base" else (row["estimate"], donor_mass)
        assert row["amplification"] == pytest.approx(masses[0] / masses[1])  # trained over base
    assert {row["target"] for row in certified} == {"base", "rlvr"}
    assert any(row["hits"] and row["depth"] > 0 for row in certified)


def test_every_certificate_shows_what_it_counts(examined: Path) -> None:
    with chdir(examined):
        found = tables.read(tables.traces_path("rlvr"), tables.TRACES_SCHEMA, "leash reach").to_pylist()
        verdicts = database.open_database(parameters(), only=["verdicts"]).sql(
            "select problem_id, answer from verdicts where correct"
        )
        correct = set(verdicts.fetchall())
        stored = {(row["problem_id"].split()[0], row["sample"]): row["text"] for row in _stored()}
    traces = {(row["problem_id"], row["target"]): row for row in found}
    whole = 0
    for row in _rows_of(examined):
        shown = traces[row["problem_id"], row["target"]]
        audited = [shown[f"hit_{name}"] for name in ("rollouts", "shares", "answers", "texts")]
        assert bool(audited[0]) == (row["status"] == "certified")
        assert sum(number is not None for number in audited[0]) == min(3, row["hits"])
        assert 0 <= sum(audited[1]) <= len(audited[1])
        assert audited[1] == sorted(audited[1], reverse=True)
        for number, share, answer, text in zip(*audited, strict=True):
            assert 0 < share <= 1
            assert answer in text
            if number is None:
                whole += 1
                own = {theirs for problem, theirs in correct if problem == row["problem_id"]}
                assert answer in own or text in stored.values()
            else:
                assert number >= 32
    assert whole


def test_certificates_count_rollouts_of_the_target_alone(examined: Path) -> None:
    """The ledger has exactly the rollouts of the table, each from a prefix, within the limit of tokens."""
    with chdir(examined):
        for target, name in (("base", "base"), ("rlvr", "rlvr")):
            stored = list(Ledger(tables.rollouts_folder("rlvr", name, "make")).texts())
            counted = [row for row in rows() if row["target"] == target]
            assert len(stored) == sum(row["pilot"] + row["rollouts"] for row in counted) > 0
            assert all(len(row["token_ids"]) == row["tokens"] <= 72 for row in stored)
            drawn_tokens = sum(row["tokens"] for row in counted)
            assert 0 < drawn_tokens < sum(row["tokens"] for row in stored)


def test_the_same_run_gives_the_same_files(run: Path, examined: Path) -> None:
    reach.run(parameters(run={"processes": 2}))
    assert files(run) == files(examined)


def test_rollouts_on_ray_are_the_same(run: Path) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    problems = load_problems("make")
    place = tasks.Place("rlvr", "make", "rlvr", "rlvr", "base", 32)
    prefix = tuple(
        load_tokenizer(find_weights(parameters(), "rlvr"))("\\boxed{ 3", add_special_tokens=False)["input_ids"]
    )
    planned = plan_rollouts(tasks.Task(place, min(problems), 32, 0, 32, 1, False), [prefix] * 12, 0)

    def drawn_on(where: str) -> list[dict[str, Any]]:
        params = parameters(run={"on": where, "processes": 1}, ray={"workers": 1})
        store = RolloutStore(params, place, problems)
        with closing(store.ledger):
            store.open("torch")
            assert draw_rollouts(build_engine_spec(params, "rlvr"), [store], planned, "test") == 12
            found = sorted((row for _, row in store.read(planned)), key=lambda row: int(row["sample"]))
            store.ledger.clear()
        return found

    ray.init("local", num_cpus=1, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        on_ray = drawn_on("ray")
    finally:
        ray.shutdown()
    assert [tuple(row["token_ids"][: len(prefix)]) for row in on_ray] == [prefix] * 12
    assert on_ray == drawn_on("local")


def test_a_second_run_draws_nothing(again: Path, examined: Path) -> None:
    assert reach.run(parameters()) == (0, [])
    assert files(again) == files(examined)


def test_a_run_that_lost_half_of_its_rollouts_draws_only_these_again(again: Path, examined: Path) -> None:
    ledger = Ledger(tables.rollouts_folder("rlvr", "base", "make"))
    keys = sorted((row["problem_id"], row["sample"]) for row in ledger.texts())
    ledger.retain(set(keys[::2]))
    tables.reach_path("rlvr").unlink()
    shutil.rmtree("data/rollouts/scores/base")
    assert reach.run(parameters())[0] == len(keys) // 2
    assert files(again) == files(examined)


def test_a_kill_in_any_round_leaves_what_was_drawn(run: Path, examined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stage dies after each round of each model; the next run goes on from there."""
    grade = examine.grade_round
    died = 0

    def die_after(number: int, *rest: Any) -> Any:
        nonlocal died
        if number == died % 3 + 1:
            died += 1
            raise KeyboardInterrupt
        return grade(number, *rest)

    monkeypatch.setattr(examine, "grade_round", die_after)
    before = 0
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            reach.run(parameters())
        stored = sum(1 for _ in _stored())
        assert stored > before
        before = stored
    monkeypatch.undo()
    total = sum(row["pilot"] + row["rollouts"] for row in _rows_of(examined))
    assert reach.run(parameters())[0] == total - before
    assert files(run) == files(examined)


class Unsteady:
    """An engine whose call of this number fails."""

    def __init__(self, weights: Weights, error: Exception, failing: int) -> None:
        self._engine = TorchEngine(*load_model(weights))
        self._lock, self._error, self._calls, self._failing = threading.Lock(), error, 0, failing

    def complete(self, requests: Iterable[Request], decoding: Decoding) -> Iterator[Drawn]:
        with self._lock:
            self._calls += 1
            if self._calls == self._failing:
                raise self._error
            yield from list(self._engine.complete(requests, decoding))

    def close(self) -> None:
        self._engine.close()


def fail_once(monkeypatch: pytest.MonkeyPatch, error: Exception, failing: int, *, reproducible: bool = False) -> None:
    """One run with an engine that fails and, unless it is `reproducible`, cannot draw the same rollout again."""

    def build(params: Params, model: str, **_: bool) -> EngineSpec:
        make = partial(Unsteady, find_weights(params, model), error, failing)
        return EngineSpec("torch", "torch", make, 8, WorkerPlan(at_once=2), reproducible)

    with monkeypatch.context() as patched:
        patched.setattr(examine, "build_engine_spec", build)
        with pytest.raises(type(error)):
            reach.run(parameters())


def test_rollouts_that_were_underway_count_as_wrong_if_the_engine_cannot_draw_them_again(
    run: Path, examined: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The long ones are underway when a run dies: drawn anew, some would be short and correct."""
    fail_once(monkeypatch, ServerUnavailableError("server", "The connection broke."), 4)
    done = {(row["problem_id"], row["sample"]) for row in _stored()}
    assert done
    reach.run(parameters())
    assert "count as wrong" in capsys.readouterr().err
    lost = [row for row in _stored() if row["finish"] == "lost"]
    assert 8 <= len(lost) <= 2 * 2 * 8
    assert not done & {(row["problem_id"], row["sample"]) for row in lost}
    assert {(row["text"], row["tokens"] - len(row["token_ids"])) for row in lost} == {("", 0)}
    assert sum(1 for _ in _stored()) == sum(row["pilot"] + row["rollouts"] for row in rows())
    assert not list(Path("data/rollouts").rglob(".started*"))
    assert reach.run(parameters()) == (0, [])


def test_rollouts_that_another_engine_began_count_as_wrong(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each engine draws the same again from a seed, but not the same as the other."""
    fail_once(monkeypatch, ServerUnavailableError("server", "The connection broke."), 4, reproducible=True)
    done = {(row["problem_id"], row["sample"]) for row in _stored()}
    assert done

    def build(params: Params, model: str, **prefixes: bool) -> EngineSpec:
        return replace(build_engine_spec(params, model, **prefixes), package="numpy")  # another version

    with monkeypatch.context() as patched:
        patched.setattr(examine, "build_engine_spec", build)
        reach.run(parameters())
    lost = {(row["problem_id"], row["sample"]) for row in _stored() if row["finish"] == "lost"}
    assert 8 <= len(lost) <= 2 * 2 * 8
    assert not done & lost
    assert not list(Path("data/rollouts").rglob(".started*"))


def test_nothing_is_lost_if_the_same_engine_draws_the_same_again(
    run: Path, examined: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch, ServerUnavailableError("server", "The connection broke."), 4, reproducible=True)
    assert list(Path("data/rollouts").rglob(".started*"))
    reach.run(parameters())
    assert files(run) == files(examined)


def test_lost_rollouts_stay_lost_if_the_plan_changes_and_changes_back(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short ones are still on disk: without the note, others would take the place of the long ones."""
    fail_once(monkeypatch, ServerUnavailableError("server", "The connection broke."), 4)
    with monkeypatch.context() as patched:
        patched.setattr(RolloutStore, "settle", interrupt)
        with pytest.raises(KeyboardInterrupt):
            reach.run(parameters(reach={"depths": [3]}))
    reach.run(parameters())
    assert sum(row["finish"] == "lost" for row in _stored()) >= 8
    assert not list(Path("data/rollouts").rglob(".started*"))


def test_a_note_that_a_kill_cut_off_stops_no_later_run(run: Path) -> None:
    problems = load_problems("make")
    store = RolloutStore(parameters(), tasks.Place("rlvr", "make", "rlvr", "rlvr", "base", 32), problems)
    with closing(store.ledger):
        store.open("torch")
        for name in ("first", "second"):
            store.note_started([Request(name, Prompt("?"), range(3), ("test",))])
            (notes,) = Path("data/rollouts").rglob(".started*")
            with notes.open("a") as file:
                file.write('["cut')
            assert store.requests_for_missing([]) == []
    assert [json.loads(line) for line in notes.read_text().splitlines()] == [
        [name, 0, 3, None] for name in ("first", "second")
    ]


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_lost_rollout_is_wrong_even_if_the_grader_accepts_an_empty_answer(
    project: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grader of the user that reads the whole text, and wants no forbidden word in it."""
    problem: Problem = {"grader": "anything", "gold": [""], "question": "?", "meta": {}}
    monkeypatch.setattr(registry, "get_extractor", lambda _: lambda text: text)
    checker = HitChecker(project, {"p": problem})
    assert checker.answer("p", "", "stop") == ""
    assert checker.answer("p", "", "lost") is None


def test_nothing_is_lost_if_the_server_was_not_there(
    run: Path, examined: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch, ServerUnreachableError("server", "No server answers."), 1)
    reach.run(parameters())
    assert files(run) == files(examined)


def test_vllm_continues_prefixes_with_a_seed_for_each(monkeypatch: pytest.MonkeyPatch, project: Params) -> None:
    monkeypatch.setattr(selection, "find_spec", lambda _: True)
    monkeypatch.setattr(selection, "version", lambda _: "1")

    def build(dtype: str, **prefixes: bool) -> tuple[bool, bool]:
        models = {"base": MODELS["base"] | {"dtype": dtype}}
        params = parameters(sample={"engine": "vllm", "vllm": {"seeds": False}}, models=models)
        spec = selection.build_engine_spec(params, "base", **prefixes)
        assert isinstance(spec.make, partial)
        return spec.make.args[1].seeds, spec.reproducible

    assert build("float32") == (False, False)
    assert build("float32", prefixes=True) == (True, True)
    assert build("bfloat16", prefixes=True) == (True, False)


def _stored() -> Iterator[dict[str, Any]]:
    for model in ("base", "rlvr"):
        yield from Ledger(tables.rollouts_folder("rlvr", model, "make")).texts()


def test_another_budget_has_rollouts_of_its_own_and_back_again(again: Path, examined: Path) -> None:
    before = {(row["problem_id"], row["target"]): row for row in rows()}
    reach.run(parameters(reach={"rollouts": 128}))
    after = {(row["problem_id"], row["target"]): row for row in rows()}
    assert before.keys() == after.keys()
    assert max(row["pilot"] for row in after.values()) == 64
    assert max(row["rollouts"] for row in after.values()) in (0, 64)
    reach.run(parameters())
    assert files(again) == files(examined)


def test_another_seed_drops_the_rollouts_with_a_note(again: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = {(row["problem_id"], row["sample"], row["text"]) for row in _stored()}
    assert reach.run(parameters(reach={"seed": 1}))[0] > 0
    assert "drawn with another seed" in capsys.readouterr().err
    assert {(row["problem_id"], row["sample"], row["text"]) for row in _stored()} != kept


def test_rollouts_that_lost_their_manifest_are_those_that_their_files_state(
    again: Path, examined: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifests = [file for file in files(examined) if file.endswith("manifest.json")]
    for number, file in enumerate(manifests):
        Path(file).unlink() if number else Path(file).write_text("{}")
    assert reach.run(parameters()) == (0, [])
    assert capsys.readouterr().err.count("is written again") == len(manifests) > 0
    for file in manifests:
        Path(file).unlink()
    assert reach.run(parameters(reach={"seed": 1}))[0] > 0
    assert "drawn with another seed" in capsys.readouterr().err


def test_a_completion_that_no_longer_counts_changes_only_its_own_problem(again: Path) -> None:
    """A donor's verdict changes, as after a new grader: the rollouts of all other problems stay."""
    first, other = (next(row for row in rows() if row["target"] == target) for target in ("base", "rlvr"))
    for file in tables.shards(tables.verdicts_folder("rlvr", "make")):
        content = tables.read(file, tables.VERDICTS_SCHEMA, "").to_pylist()
        for row in content:
            row["correct"] = row["correct"] and (row["problem_id"] != first["problem_id"] or row["sample"] % 2 == 0)
        table = tables.table_from_rows(content, tables.VERDICTS_SCHEMA)
        tables.write(file, table, tables.VERDICTS_SCHEMA)
    drawn = reach.run(parameters())[0]
    assert drawn <= 64 * 2
    kept = next(row for row in rows() if row["problem_id"] == other["problem_id"] and row["target"] == "rlvr")
    assert other == kept or other["problem_id"] == first["problem_id"]


@pytest.mark.parametrize("stage", ["reach", "mass"])
def test_probabilities_of_what_was_sampled_are_in_the_dtype_of_sampling(
    again: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """Where no dtype is set, engines sample in float32, also beside a GPU."""
    monkeypatch.setattr("leash.weights.has_gpu", lambda: True)
    models = {name: {key: value for key, value in model.items() if key != "dtype"} for name, model in MODELS.items()}
    params = parameters(models=models, categorize={"units": ["completion"]})
    if stage == "reach":
        problem = rows()[0]["problem_id"]
        completion = Completion(tuple(load_tokenizer(find_weights(params, "base"))("7")["input_ids"]), "7", False)
        score_completions(params, [("base", "make", problem, completion)], "known")
        made = tables.rollout_scores_path("base", "make", "known")
    else:
        monkeypatch.setattr(mass, "MIN_COVERAGE", 0.0)
        assert mass.run(params)[0] > 0
        made = tables.mass_path("base", "make")
    _, dtype, *_ = json.loads(tables.read_metadata(made)[MADE_WITH_KEY])
    assert dtype == "float32"


def test_off_by_default_writes_empty_tables(run: Path) -> None:
    raw = small(sample={"k": 32, "batch": 256})
    del raw["reach"]
    params = write_params(Path(), raw)
    assert params.reach.rollouts == 0
    assert reach.run(params) == (0, [])
    assert rows() == []
    assert not Path("data/rollouts/drawn").exists()


def test_greedy_decoding_has_no_certificates_and_all_else(project: Params) -> None:
    """Where two tokens are equally likely, the scorer gives each of them probability 1, and an engine draws one."""
    greedy = {"k": 1, "batch": 64, "temperature": 0}
    with pytest.raises(ConflictError) as refused:
        parameters(sample=greedy)
    assert refused.value.key == "reach.rollouts"
    done = CliRunner().invoke(main, ["reach"])
    assert done.exit_code == 2
    assert "`reach.rollouts` is 64" in done.stderr
    params = draw(parameters(sample=greedy, reach={"rollouts": 0}, categorize={"k": "all"}))
    assert reach.run(params) == (0, [])
    assert rows() == []
    assert reach.find_planned_tasks(params) == ([], [])  # so `leash plan` advises no rollouts


def test_pairs_that_cannot_be_examined_are_left_out_with_a_sentence(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def left_out(params: Params, *words: str) -> None:
        drawn, sentences = reach.run(params)
        assert (drawn, rows(), len(sentences)) == (0, [], 1)
        assert all(word in sentences[0] for word in words)

    models = small()["models"]
    left_out(parameters(models={"rlvr": models["rlvr"] | {"stop": ["Q:"]}}), "rlvr on make", "stop strings")
    left_out(parameters(models={"rlvr": {"engine": "openai", "served": "mine"}}), "rlvr has no weights here")
    with monkeypatch.context() as patched:
        patched.setattr(tasks, "tokenizer_key", lambda weights: weights.name)
        left_out(parameters(), "different tokenizers")
    with monkeypatch.context() as patched:
        patched.setattr(registry, "is_paid", lambda grader: True)
        left_out(parameters(), "costs money", "sample.paid_graders")
        assert tasks.find_places(parameters(sample={"paid_graders": True}))[1] == []


def test_a_server_that_continues_no_tokens_refuses_before_anything_is_scored(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Served(TorchEngine(*load_model(find_weights(parameters(), "rlvr")))) as served:
        params = parameters(sample={"engine": "openai", "openai": {"url": served.url, "retries": 0}})
        served.faults.append(Fault(404))
        with pytest.raises(PrefixNotSupportedError):
            reach.run(params)
        assert len(served.seen) == 1
        assert not list(Path("data").rglob("rollouts/scores/**/*.parquet"))
        assert not list(Path("data").rglob("rollouts/drawn/**/*.parquet"))
        drawn, _ = reach.run(params)
        # Each target is asked for one token, and a second run needs no server.
        targets = {row["target"] for row in rows()}
        assert len(served.seen) == 1 + drawn + len(targets)
        assert [body["max_tokens"] for body in served.bodies[1 : 1 + len(targets)]] == [1] * len(targets)
        assert reach.run(params) == (0, [])
        assert len(served.seen) == 1 + drawn + len(targets)


def test_an_imported_model_is_a_donor_but_no_target(run: Path) -> None:
    models = small()["models"]
    places, sentences = tasks.find_places(parameters(models={"base": models["base"] | {"engine": "import"}}))
    assert [(place.role, place.target, place.donor) for place in places] == [("rlvr", "rlvr", "base")]
    assert len(sentences) == 1
    assert "base has imported completions" in sentences[0]


def test_under_a_nucleus_what_lies_outside_has_probability_0(tmp_path: Path) -> None:
    (tmp_path / "models").symlink_to(ROOT / "models")
    with chdir(tmp_path):
        params = draw(parameters(sample={"temperature": 0.7, "top_p": 0.9}, reach={"hits": 8}))
        assert reach.run(params)[1] == []
        outside = [row for row in rows() if row["outside"]]
        assert outside
        for row in outside:
            if row["status"] == "unreachable":
                assert not row["certificate"]
                assert row["untempered"] > 0
            if row["trace_nlls"]:
                impossible = np.flatnonzero(np.isinf(row["trace_nlls"])).tolist()
                assert not impossible or (row["outside"] and max(row["profile_depths"], default=0) <= impossible[0])


def test_a_problem_whose_known_completions_are_all_impossible_is_unreachable(project: Params) -> None:
    tokenizer = load_tokenizer(find_weights(project, "base"))
    place = tasks.Place("rlvr", "make", "rlvr", "rlvr", "base", 100)

    def row(c_target: int, excluded: bool = True) -> dict[str, Any]:
        completion = Completion((5, 6), "a", True, times=Counter(base=3))
        known = KnownCompletion(completion, np.array([np.inf, 0.1]), np.array([0.1, 0.1]), 9.0, excluded)
        search = Search(tasks.Task(place, "p", 100, c_target, 100, 3, False), [known], Reach(rollouts=64))
        assert [search.plan(number) for number in (1, 2, 3)] == [[], [], []]
        return build_row(search, tokenizer)

    found = row(0)
    assert (found["status"], found["completions"], found["outside"], found["pooled"]) == ("unreachable", 1, 1, 0.0)
    assert found["untempered"] == pytest.approx(math.exp(-9))
    assert found["upper"] == pytest.approx(1 - 0.05 ** (1 / 100))
    assert row(1)["status"] == "no_hit"  # by a completion of its own it is reached
    assert row(0, excluded=False)["status"] == "no_hit"  # too long, say: the settings exclude no token
    tables.table_from_rows([found], tables.REACH_SCHEMA).validate(full=True)


@pytest.mark.parametrize("writer", ["base", "rlvr"])
def test_no_mass_is_pooled_if_a_model_wrote_what_scoring_calls_impossible(project: Params, writer: str) -> None:
    """The model's window does not hold the completion, say: then the scores are not those of the model that wrote."""
    tokenizer = load_tokenizer(find_weights(project, "base"))

    def pooled(nll: float, donor_nll: float, times: Counter[str]) -> Any:
        known = KnownCompletion(Completion((5,), "a", True, times=times), np.array([nll]), np.array([donor_nll]), 30.0)
        return build_row(search_with([known]), tokenizer)["pooled"]

    nlls = {"rlvr": 30.0, "base": 1.0}
    assert pooled(nlls["rlvr"], nlls["base"], Counter({writer: 42})) < 1e-9
    nlls[writer] = np.inf
    assert pooled(nlls["rlvr"], nlls["base"], Counter({writer: 42})) is None
    # The other model never wrote it, so it may well be impossible there.
    assert pooled(nlls["rlvr"], nlls["base"], Counter({"base" if writer == "rlvr" else "rlvr": 1})) is not None


def test_beginnings_of_impossible_completions_are_prefixes(project: Params) -> None:
    """Each of the donor's completions has one token that the target never draws. What comes before it may still lead to
    a correct answer."""
    tokenizer = load_tokenizer(find_weights(project, "base"))

    def examined(*correct: int) -> tuple[Search, dict[str, Any]]:
        """After rollouts that are correct in these rounds."""
        known = []
        for first, chance in ((5, 1e-3), (6, 1e-4)):
            completion = Completion((first, 7, 8), "a", True, times=Counter(base=2))
            nlls = np.array([-math.log(chance), 0.1, np.inf])
            known.append(KnownCompletion(completion, nlls, np.full(3, 0.1), 9.0, excluded=True))
        search = search_with(known)
        for number in (1, 2, 3):
            for each in search.plan(number):
                for rollout in each.numbers:
                    search.record(number, each.prefix, (*each.prefix, 9, rollout), number in correct)
        return search, build_row(search, tokenizer)

    search, found = examined(1, 2, 3)
    assert (found["status"], found["pilot"], found["rollouts"], found["hits"]) == ("certified", 32, 32, 32)
    assert set(search.cut.prefixes if search.cut else ()) == {(5,), (6,)}
    assert 0.9 * 1.1e-3 < found["certificate"] < 1.1e-3
    assert found["outside"] == found["completions"] == 2
    assert found["trace_nlls"] == [pytest.approx(-math.log(1e-3)), 0.1, math.inf]
    assert found["profile_depths"] == [1, 2]
    tables.table_from_rows([found], tables.REACH_SCHEMA).validate(full=True)
    _, found = examined()
    assert (found["status"], found["pilot"], found["certificate"]) == ("unreachable", 16, 0)
    assert found["cut_token"] == 2  # the excluded one
    _, found = examined(1)
    assert (found["status"], found["certificate"]) == ("no_hit", 0)  # it was reached, though by no rollout that counts


def test_a_completion_that_was_not_scored_has_no_excluded_token(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is longer than the model's context window. At top_p 1 no token of any other is excluded."""
    params = parameters()
    connection = database.open_database(params, only=["completions", "verdicts"])
    found = reach.find_tasks(params, tasks.find_places(params)[0], connection)[:1]
    written = reach.load_correct(connection, found)
    target = found[0].place.target
    tokenizers = {target: load_tokenizer(find_weights(params, target))}

    def start() -> Search:
        [search] = examine.start_searches(params, found, written, tokenizers)
        return search

    assert not start().never_drawn

    def fit_nothing(content: Any, nlls: str) -> Iterator[TokenScores]:
        without = [None] * len(content)
        for name in ("nll", "token_nlls"):
            place = content.schema.get_field_index(name)
            content = content.set_column(place, name, pa.array(without, content.schema.field(name).type))
        yield from read_scores(content, nlls)

    read_scores = known_scores._read_scores
    monkeypatch.setattr(known_scores, "_read_scores", fit_nothing)
    search = start()
    assert all(each.logp == -math.inf for each in search.known)
    assert not search.never_drawn
    assert search.plan(1) == []
    row = build_row(search, tokenizers[target])
    assert (row["status"], row["pooled"], row["untempered"]) == ("no_hit", None, 0)


def search_of(*known: tuple[Prefix, list[float], str]) -> Search:
    """A search whose donor wrote these completions: the tokens, the chance of each under the target, the text."""
    place = tasks.Place("rlvr", "make", "rlvr", "rlvr", "base", 100)
    completions = []
    for tokens, chances, text in known:
        completion = Completion(tokens, text, True, answer=f"answer of {text}", times=Counter(base=1))
        completions.append(KnownCompletion(completion, -np.log(chances), np.full(len(tokens), 0.1), 1.0))
    task = tasks.Task(place, "p", 100, 0, 100, len(known), False)
    return Search(task, completions, Reach(rollouts=64))


def planned_search() -> Search:
    """Eight prefixes of very different mass, and every rollout from them is correct. Their order by token ids is the
    reverse of that by mass."""
    chances = [(10 + i, 0.4 / 2 ** (7 - i)) for i in range(8)]
    search = search_of(*(((token, 9, token), [chance, 0.01, 0.5], f"{token}") for token, chance in chances))
    for number in (1, 2):
        for each in search.plan(number):
            for rollout in each.numbers:
                search.record(number, each.prefix, (*each.prefix, 99, rollout), True)
    return search


def test_the_audit_shows_rollouts_from_the_likeliest_prefixes_in_whatever_order_they_come() -> None:
    shown = []
    for order in range(4):
        search = planned_search()
        rollouts = [(each.prefix, number) for each in search.plan(3) for number in each.numbers]
        np.random.default_rng(order).shuffle(rollouts)
        for prefix, number in rollouts:
            search.record(3, prefix, (*prefix, 99, number), True)
            search.keep_for_audit(prefix, number, "1", f"{prefix}")
        shown.append([hit for hit in search.audited() if hit.rollout is not None])
    assert search.cut is not None
    assert len(search.cut.prefixes) > 3
    heaviest = sorted(zip(search.cut.masses.tolist(), search.cut.prefixes, strict=True), reverse=True)[:3]
    assert {hit.text for hit in shown[0]} == {f"{prefix}" for _, prefix in heaviest}
    first = {f"{each.prefix}": min(each.numbers) for each in search.planned[3]}
    assert all(hit.rollout == first[hit.text] for hit in shown[0])
    assert all(each == shown[0] for each in shown)
    assert 0.5 < sum(hit.share for hit in shown[0]) <= 1


def test_few_prefixes_show_several_rollouts_each() -> None:
    search = search_of(((5, 6, 7), [0.1, 0.5, 0.5], "a"))
    for number in (1, 2, 3):
        for each in search.plan(number):
            for rollout in each.numbers:
                search.record(number, each.prefix, (*each.prefix, 9, rollout), True)
                if number == 3:
                    search.keep_for_audit(each.prefix, rollout, "1", "a text")
    assert search.cut is not None
    assert len(search.cut.prefixes) == 1
    assert len([hit for hit in search.audited() if hit.rollout is not None]) == 3


def test_the_audit_shows_complete_solutions_that_count_without_a_rollout(project: Params) -> None:
    known = [
        ((token, 6), [chance, 0.5], f"text {token}") for token, chance in ((5, 1e-3), (6, 1e-2), (7, 1e-4), (8, 1e-5))
    ]
    search = search_of(*known)
    for number in (1, 2, 3):  # no rollout is correct: all that is left is what the donor wrote
        for each in search.plan(number):
            for rollout in each.numbers:
                search.record(number, each.prefix, (*each.prefix, 9, rollout), False)
    found = build_row(search, load_tokenizer(find_weights(project, "base")))
    assert (found["status"], found["rollouts"], found["hits"]) == ("certified", 0, 0)
    assert found["hit_rollouts"] == [None] * 3
    assert found["hit_texts"] == ["text 6", "text 5", "text 7"]
    assert found["hit_answers"] == ["answer of text 6", "answer of text 5", "answer of text 7"]
    assert found["hit_shares"] == pytest.approx([1e-2 / 1.111e-2, 1e-3 / 1.111e-2, 1e-4 / 1.111e-2])


def test_a_prefix_too_improbable_for_a_float_proves_nothing_and_stops_nothing(project: Params) -> None:
    """At the depth that the user wants, 800 nats deep, all masses are 0."""
    nlls = np.full(1000, 1.0)
    completion = Completion(tuple(range(4, 1004)), "a", True, times=Counter(base=3))
    search = search_with([KnownCompletion(completion, nlls, nlls / 1000, 1000.0)], depths=[800])
    assert [search.plan(number) for number in (1, 2, 3)] == [[], [], []]
    found = build_row(search, load_tokenizer(find_weights(project, "base")))
    assert (found["status"], found["completions"], found["rollouts"], found["cut_token"]) == ("no_hit", 1, 0, None)
    assert found.get("certificate") is None
    assert found["upper"] == pytest.approx(1 - 0.05 ** (1 / 100))


def test_no_more_correct_rollouts_are_held_than_are_scored() -> None:
    """Those with the lowest numbers, whatever order they are read in."""
    known = KnownCompletion(Completion((5, 6), "a", True, times=Counter(base=3)), np.ones(2), np.ones(2), 2.0)
    numbers = list(range(MAX_NEW_COMPLETIONS + 9))
    for order in (numbers, numbers[::-1]):
        search = search_with([known])
        for number in order:
            search.keep_hit(number, Completion((5, 7, number // 2), "a", True))
            search.keep_hit(number, Completion((5, 6), "a", True))  # the donor wrote that
        assert len(search.new_hits) == MAX_NEW_COMPLETIONS // 2 + 5
        search = search_with([known])
        for number in order:
            search.keep_hit(number, Completion((5, 7, number), "a", True))
            assert len(search.new_hits) <= MAX_NEW_COMPLETIONS
        first = [(5, 7, number) for number in range(MAX_NEW_COMPLETIONS)]
        assert [each.tokens for each in search.take_new()] == first
        assert search.take_new() == []


def search_with(known: list[KnownCompletion], **settings: Any) -> Search:
    place = tasks.Place("rlvr", "make", "rlvr", "rlvr", "base", 100)
    return Search(tasks.Task(place, "p", 100, 0, 100, 3, False), known, Reach(**{"rollouts": 64, **settings}))


def test_a_problem_that_stopped_at_its_last_hit_is_no_target(run: Path) -> None:
    params = parameters(sample={"stop_after": 2})
    connection = database.open_database(params, only=["verdicts"])
    places, _ = tasks.find_places(params)
    found = reach.find_tasks(params, places, connection)
    assert found
    assert all(task.c_target < 2 for task in found)
    stopped = {
        (problem, model)
        for problem, model, hits in connection.sql(
            "select problem_id, model, count(*) filter (where correct) from verdicts group by all"
        ).fetchall()
        if hits == 2
    }
    for task in found:
        assert (task.problem_id, task.place.target) not in stopped
        assert task.donor_stopped == ((task.problem_id, task.place.donor) in stopped)


def test_equal_tokens_are_one_completion(project: Params) -> None:
    tokenizer = load_tokenizer(find_weights(project, "base"))
    text = r"\boxed{3*2+9}"
    split = tokenizer(text, add_special_tokens=False)["input_ids"]
    rows = [
        {"text": text, "ended": ended, "cut": False, "token_ids": token_ids, "answer": "3*2+9"}
        for ended, token_ids in ((True, None), (True, [*split, tokenizer.eos_token_id]), (False, None))
    ]
    built = build_completions(rows, tokenizer)
    assert [each.token_ids for each in built] == [None, None, None]
    distinct = count_distinct(zip(built, ("base", "rlvr", "base"), (2, 1, 4), strict=True))
    assert [dict(each.times) for each in distinct] == [{"base": 2, "rlvr": 1}, {"base": 4}]


def test_what_the_target_would_not_have_ended_there_is_impossible() -> None:
    nlls, inf = np.array([0.5, 0.5, 0.5]), np.inf

    def limited(max_tokens: int, *ends: int, ended: bool = False, cut: bool = False) -> list[float]:
        completion = Completion((5, 6, 7), "a", ended, cut=cut)
        return list(completion.decoding_nlls(nlls, max_tokens, frozenset(ends or (7,))).tolist())

    assert limited(8, ended=True) == limited(8, cut=True) == limited(3) == [0.5, 0.5, 0.5]
    assert limited(8) == [0.5, 0.5, inf]
    assert limited(2, ended=True) == [0.5, inf, inf]
    # The target ends at 6 too, so nothing follows it, not even a rollout; or it does not end at 7.
    assert limited(8, 6, 7, ended=True) == [0.5, inf, inf]
    assert limited(8, 9, ended=True) == [0.5, 0.5, inf]


def test_the_ends_are_those_of_the_engine(project: Params) -> None:
    assert load_end_tokens(find_weights(project, "base"), "torch") == {2}
    # vLLM also ends at the tokenizer's end of text, which the generation config may not have.
    folder = shutil.copytree(Path("models/embedded/base").resolve(), Path("other"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"eos_token": "+"}))
    params = parameters(models={"base": MODELS["base"] | {"path": "other"}})
    plus = load_tokenizer(find_weights(params, "base")).convert_tokens_to_ids("+")
    ends = {engine: load_end_tokens(find_weights(params, "base"), engine) for engine in ("torch", "vllm", "openai")}
    assert ends == {"torch": {2}, "vllm": {2, plus}, "openai": {2, plus}}


def test_the_leash_is_cut_at_the_least_likely_token_of_the_steepest_rise() -> None:
    nlls = [0.1, 4.0, 0.2, 5.0, 0.1, 0.1]
    profile = [(1, 100, 0), (3, 100, 1), (4, 100, 98)]
    assert find_cut_token(nlls, profile, 1e-5) == 1
    assert find_cut_token(nlls, profile, 4e-3) == 3
    assert find_cut_token(nlls, [(2, 3, 3)], 1e-3) == 1
    assert find_cut_token(nlls, [], 1e-3) is None

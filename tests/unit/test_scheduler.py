"""The scheduler on processes, threads, a stepping engine and a Ray cluster: every unit is done once, few are taken
ahead, and an error in a worker reaches the caller as it is."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leash import tables
from leash.errors import LeashError, MissingVerdictsError, NotInstalledError
from leash.grading.grade_answers import create_grading_pool
from leash.grading.graders.types import GradeRequest
from leash.params.groups import Params, Ray
from leash.scheduler.ray_cluster import NoRayClusterError, RayWorkersDiedError
from leash.scheduler.run import WorkerDiedError, run_units
from leash.scheduler.worker_plan import WorkerPlan, register_preloads
from stages.entropy import stage as entropy
from stages.fetch import stage
from stages.sample import stage as sample
from stages.verify import stage as verify
from tests.conftest import ROOT, small, write_params
from tests.unit import squares
from tests.unit.squares import Squares, die, die_once, killed, raise_facts, surroundings, unready

PROCESSES = WorkerPlan(workers=2)
THREADS = WorkerPlan(at_once=3)
STEPS = WorkerPlan(at_once=3, stepping=True)
ACTORS = WorkerPlan(ray=Ray(workers=2))
STEPPING_ACTORS = WorkerPlan(at_once=3, stepping=True, ray=Ray(workers=2))
GROWN = [(unit, unit * unit) for unit in range(1, 32)]
HERE = pytest.mark.parametrize("plan", [PROCESSES, THREADS, STEPS], ids=["processes", "threads", "steps"])
ON_RAY = pytest.mark.parametrize("plan", [ACTORS, STEPPING_ACTORS], ids=["plain", "stepping"])

register_preloads([squares.__name__])  # otherwise every worker imports it


def act_for(plan: WorkerPlan) -> Callable[[Squares, int], Any]:
    return Squares.start if plan.stepping else Squares.square


def surroundings_after_a_pool(module: str) -> tuple[bool, str | None]:
    """The surroundings of a worker that preloads a module, if the fork server was started by a grading pool."""
    register_preloads([module])
    with create_grading_pool(["exact"], workers=1, timeout=60, memory=512) as pool:
        assert pool.result((0, GradeRequest("p", "7", ("7",), {})))["correct"]
    [(_, found)] = run_units([module], Squares, surroundings, WorkerPlan(workers=1))
    return found


def run_growing(plan: WorkerPlan) -> list[tuple[int, int]]:
    """Units with their results. The result of each unit below 16 gives two more units."""
    ready, pending = deque([1]), 1

    def units() -> Iterator[int | None]:
        while pending:
            yield ready.popleft() if ready else None

    found = []
    for unit, result in run_units(units(), Squares, act_for(plan), plan):
        found.append((unit, result))
        more = [child for child in (2 * unit, 2 * unit + 1) if child < 32]
        ready.extend(more)
        pending += len(more) - 1
    return sorted(found)


def max_taken_ahead(plan: WorkerPlan) -> int:
    """Of a hundred units, the largest number that were taken and not done."""
    taken = 0

    def units() -> Iterator[int]:
        nonlocal taken
        for unit in range(100):
            taken += 1
            yield unit

    ahead = [taken - done for done, _ in enumerate(run_units(units(), Squares, act_for(plan), plan))]
    assert len(ahead) == 100
    return max(ahead)


@HERE
def test_every_unit_is_done_once(plan: WorkerPlan) -> None:
    units = [*range(20), 7, 7]
    found = list(run_units(units, Squares, act_for(plan), plan))
    assert sorted(found) == sorted((unit, unit * unit) for unit in units)


@HERE
def test_units_may_depend_on_results(plan: WorkerPlan) -> None:
    assert run_growing(plan) == GROWN


@pytest.mark.parametrize(("plan", "most"), [(PROCESSES, 4), (THREADS, 3), (STEPS, 3)])
def test_only_a_few_units_are_taken_ahead(plan: WorkerPlan, most: int) -> None:
    assert max_taken_ahead(plan) == most


@HERE
def test_an_error_in_a_worker_reaches_the_caller(plan: WorkerPlan) -> None:
    with pytest.raises(LeashError, match=r"^-1 is below zero; give another\.$"):
        list(run_units([1, 2, -1, *range(50)], Squares, act_for(plan), plan))


@HERE
def test_an_error_in_prepare_reaches_the_caller(plan: WorkerPlan) -> None:
    with pytest.raises(LeashError, match=r"^The squares are not there; fetch them\.$"):
        list(run_units(range(9), unready, act_for(plan), plan))


@pytest.mark.parametrize("units", [[], [None]])
@pytest.mark.parametrize("plan", [PROCESSES, THREADS, STEPS, replace(ACTORS, ray=Ray(address="nowhere"))])
def test_no_worker_starts_without_units(plan: WorkerPlan, units: list[int | None]) -> None:
    assert list(run_units(units, unready, act_for(plan), plan)) == []


def test_threads_run_at_the_same_time() -> None:
    """Each unit waits until three are running."""

    def together(barrier: threading.Barrier, unit: int) -> int:
        barrier.wait(timeout=60)
        return unit

    found = list(run_units(range(9), lambda: threading.Barrier(3), together, THREADS))
    assert sorted(found) == [(unit, unit) for unit in range(9)]


def test_a_worker_process_that_dies_is_an_error_with_its_exit_code() -> None:
    with pytest.raises(WorkerDiedError, match=r"ended with exit code 3\. .* run the command again") as error:
        list(run_units(range(9), Squares, die, PROCESSES))
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(signal.SIGKILL, "`sample.batch`"), (signal.SIGILL, "float32"), (signal.SIGSEGV, "")],
)
def test_a_killed_worker_process_is_an_error_with_its_signal(number: signal.Signals, remedy: str) -> None:
    with pytest.raises(WorkerDiedError) as error:
        list(run_units([number] * 9, Squares, killed, PROCESSES))
    assert error.value.exit_code == -number
    assert number.name in str(error.value)
    assert remedy in str(error.value)
    assert ("memory" in str(error.value)) == (number == signal.SIGKILL)


def test_an_error_from_a_worker_process_keeps_its_facts() -> None:
    """It is pickled on the way. An error that cannot be unpickled would break the pool."""
    with pytest.raises(MissingVerdictsError) as error:
        list(run_units(["base"], Squares, raise_facts, PROCESSES))
    assert (error.value.model, error.value.dataset) == ("base", "chain")
    assert "`leash verify base chain`" in str(error.value)


class Closing(Squares):
    """Squares that record when they are closed."""

    def __init__(self, closed: list[str]) -> None:
        super().__init__()
        self.closed = closed

    def close(self) -> None:
        self.closed.append("closed")


@pytest.mark.parametrize("plan", [THREADS, STEPS], ids=["threads", "steps"])
@pytest.mark.parametrize("ending", ["finished", "failed", "stopped"])
def test_an_engine_in_this_process_is_closed_however_the_work_ends(plan: WorkerPlan, ending: str) -> None:
    closed: list[str] = []
    units = [1, 2, -1] if ending == "failed" else [1, 2, 3]
    with closing(run_units(units, lambda: Closing(closed), act_for(plan), plan)) as results:
        if ending == "failed":
            with pytest.raises(LeashError, match="below zero"):
                list(results)
        elif ending == "stopped":
            next(results)
            assert closed == []
        else:
            list(results)
    assert closed == ["closed"]


def test_worker_processes_have_preloaded_modules_after_a_grading_pool() -> None:
    """In a separate process, since this one may already have a fork server."""
    script = "from tests.unit.test_scheduler import surroundings_after_a_pool; print(surroundings_after_a_pool('wave'))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "(True, '1')\n"


def test_a_missing_ray_is_an_error_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NotInstalledError) as error:
        list(run_units(range(9), Squares, Squares.square, ACTORS))
    assert (error.value.what, error.value.install) == ("Ray", "`pip install -e '.[ray]'`")


def test_a_missing_cluster_is_an_error_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed")

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", unreachable)  # the real one takes minutes to give up
    monkeypatch.setenv("RAY_ADDRESS", "nowhere:6379")
    with pytest.raises(NoRayClusterError) as error:
        list(run_units(range(9), Squares, Squares.square, ACTORS))
    assert error.value.address == "nowhere:6379"


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray on this machine with two CPUs, separate from the clusters of other tests."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    ray.init("local", num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


@ON_RAY
@pytest.mark.usefixtures("cluster")
def test_ray_does_every_unit_once_and_takes_few_ahead(plan: WorkerPlan) -> None:
    assert run_growing(plan) == GROWN
    assert 1 < max_taken_ahead(plan) <= 2 * plan.in_flight  # one worker may be ready before the other


@pytest.mark.usefixtures("cluster")
def test_errors_of_ray_workers_reach_the_caller() -> None:
    with pytest.raises(LeashError, match=r"^-1 is below zero; give another\.$"):
        list(run_units([1, 2, -1, *range(50)], Squares, Squares.start, STEPPING_ACTORS))
    with pytest.raises(LeashError, match=r"^The squares are not there; fetch them\.$"):
        list(run_units(range(9), unready, Squares.square, ACTORS))
    with pytest.raises(MissingVerdictsError) as error:
        list(run_units(["base"], Squares, raise_facts, ACTORS))
    assert error.value.model == "base"


@pytest.mark.usefixtures("cluster")
def test_the_units_of_a_dead_ray_worker_are_done_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units = [tmp_path / name for name in "abcd"]
    units[1].touch()
    units[3].touch()
    assert sorted(run_units(units, Squares, die_once, ACTORS)) == [(unit, unit.name) for unit in units]
    monkeypatch.setattr("leash.scheduler.ray_cluster.MAX_CONSECUTIVE_DEATHS", 1)
    with pytest.raises(RayWorkersDiedError) as error:
        list(run_units(range(9), Squares, die, ACTORS))
    assert error.value.deaths == 2


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("cluster")
def test_verdicts_and_entropies_of_ray_are_byte_identical_to_those_of_this_machine(
    project: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = {"datasets": ["chain"], "processes": 2}
    local = write_params(Path(), small(run=run))
    monkeypatch.setattr("leash.sample_ledger.ROW_GROUP_ROWS", 16)  # several units of verify
    monkeypatch.setattr("leash.scoring.score_tables.MAX_UNIT_TRACES", 4)
    stage.run(local, "chain")
    for model in ("base", "rlvr"):
        sample.run(local, model, "chain")

    def measured(params: Params) -> dict[str, bytes]:
        assert [verify.run(params, model, "chain") for model in ("base", "rlvr")] == [64, 64]
        assert entropy.run(params) == (30, [])  # two were drawn twice
        made = {**files(tables.DATA_DIR / "verdicts"), **files(tables.DATA_DIR / "entropy")}
        for folder in ("verdicts", "entropy"):
            for path in (tables.DATA_DIR / folder).rglob("*.parquet"):
                path.unlink()
        return made

    here = measured(local)
    monkeypatch.setattr("leash.scheduler.run.run_in_processes", None)  # from here on, only Ray can work
    there = measured(write_params(Path(), small(run=run | {"on": "ray"})))
    assert len(here) == 2 * 2 + 6
    assert there == here

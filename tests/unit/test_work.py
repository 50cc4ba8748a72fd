"""Work is spread over processes, threads, steps or a Ray cluster: every unit is done once, few are taken ahead, and
what goes wrong in a worker is the sentence that it is."""

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

from stages import entropy, fetch, sample, tables, verify
from stages.errors import LeashError
from stages.params import Params, Ray
from stages.verify.graders import Asked
from stages.verify.grading import pool_of
from stages.work import Crew, expect, spread
from tests.conftest import ROOT, small, write_params
from tests.unit import squares
from tests.unit.squares import Squares, die, die_once, killed, surroundings, unready

PROCESSES = Crew(workers=2)
THREADS = Crew(at_once=3)
STEPS = Crew(at_once=3, stepping=True)
ACTORS = Crew(ray=Ray(workers=2))
STEPPING_ACTORS = Crew(at_once=3, stepping=True, ray=Ray(workers=2))
GROWN = [(unit, unit * unit) for unit in range(1, 32)]
HERE = pytest.mark.parametrize("crew", [PROCESSES, THREADS, STEPS], ids=["processes", "threads", "steps"])
ON_RAY = pytest.mark.parametrize("crew", [ACTORS, STEPPING_ACTORS], ids=["plain", "stepping"])

expect([squares.__name__])  # or every worker would import it anew


def act_of(crew: Crew) -> Callable[[Squares, int], Any]:
    return Squares.start if crew.stepping else Squares.square


def after_a_pool(module: str) -> tuple[bool, str | None]:
    """The surroundings of a worker that expects a module, when the first processes were those of a pool."""
    expect([module])
    with pool_of(["exact"], workers=1, timeout=60, memory=512) as pool:
        assert pool.result((0, Asked("p", "7", ("7",), {})))["correct"]
    [(_, found)] = spread([module], Squares, surroundings, Crew(workers=1))
    return found


def grown(crew: Crew) -> list[tuple[int, int]]:
    """Units with their results. Each below 16 gives two more units; until it is there, there is nothing to do."""
    ready, pending = deque([1]), 1

    def units() -> Iterator[int | None]:
        while pending:
            yield ready.popleft() if ready else None

    found = []
    for unit, result in spread(units(), Squares, act_of(crew), crew):
        found.append((unit, result))
        more = [child for child in (2 * unit, 2 * unit + 1) if child < 32]
        ready.extend(more)
        pending += len(more) - 1
    return sorted(found)


def taken_ahead(crew: Crew) -> int:
    """The most units of a hundred that were taken and not done at a time."""
    taken = 0

    def units() -> Iterator[int]:
        nonlocal taken
        for unit in range(100):
            taken += 1
            yield unit

    ahead = [taken - done for done, _ in enumerate(spread(units(), Squares, act_of(crew), crew))]
    assert len(ahead) == 100
    return max(ahead)


@HERE
def test_every_unit_is_done_once(crew: Crew) -> None:
    units = [*range(20), 7, 7]
    found = list(spread(units, Squares, act_of(crew), crew))
    assert sorted(found) == sorted((unit, unit * unit) for unit in units)


@HERE
def test_units_may_depend_on_results(crew: Crew) -> None:
    assert grown(crew) == GROWN


@pytest.mark.parametrize(("crew", "most"), [(PROCESSES, 4), (THREADS, 3), (STEPS, 3)])
def test_memory_is_bounded_whatever_the_number_of_units(crew: Crew, most: int) -> None:
    assert taken_ahead(crew) == most


@HERE
def test_a_sentence_from_a_worker_comes_through_as_itself(crew: Crew) -> None:
    with pytest.raises(LeashError, match=r"^-1 is below zero; give another\.$"):
        list(spread([1, 2, -1, *range(50)], Squares, act_of(crew), crew))


@HERE
def test_a_sentence_from_preparing_comes_through_as_itself(crew: Crew) -> None:
    with pytest.raises(LeashError, match=r"^The squares are not there; fetch them\.$"):
        list(spread(range(9), unready, act_of(crew), crew))


@pytest.mark.parametrize("units", [[], [None]])
@pytest.mark.parametrize("crew", [PROCESSES, THREADS, STEPS, replace(ACTORS, ray=Ray(address="nowhere"))])
def test_nothing_is_prepared_for_no_units(crew: Crew, units: list[int | None]) -> None:
    assert list(spread(units, unready, act_of(crew), crew)) == []


def test_threads_work_at_the_same_time() -> None:
    """Each unit waits until three are being worked on."""

    def together(barrier: threading.Barrier, unit: int) -> int:
        barrier.wait(timeout=60)
        return unit

    found = list(spread(range(9), lambda: threading.Barrier(3), together, THREADS))
    assert sorted(found) == [(unit, unit) for unit in range(9)]


def test_a_worker_process_that_dies_is_a_sentence() -> None:
    with pytest.raises(
        LeashError, match=r"^A worker process died: it ended with exit code 3\. .* run the command again"
    ):
        list(spread(range(9), Squares, die, PROCESSES))


@pytest.mark.parametrize(
    ("number", "told", "untold"),
    [
        (signal.SIGKILL, r"SIGKILL \(.*out of memory.*`sample\.batch`", "illegal"),
        (signal.SIGILL, r"SIGILL \(illegal instruction.*float32", "memory"),
        (signal.SIGSEGV, r"SIGSEGV\. Finished work is kept", "memory"),
    ],
)
def test_a_worker_that_is_killed_names_the_signal(number: signal.Signals, told: str, untold: str) -> None:
    with pytest.raises(LeashError, match=told) as caught:
        list(spread([number] * 9, Squares, killed, PROCESSES))
    assert untold not in str(caught.value)


class Closing(Squares):
    """Squares that note when they are closed."""

    def __init__(self, closed: list[str]) -> None:
        super().__init__()
        self.closed = closed

    def close(self) -> None:
        self.closed.append("closed")


@pytest.mark.parametrize("crew", [THREADS, STEPS], ids=["threads", "steps"])
@pytest.mark.parametrize("ending", ["finished", "failed", "stopped"])
def test_an_engine_in_this_process_is_closed_however_the_work_ends(crew: Crew, ending: str) -> None:
    closed: list[str] = []
    units = [1, 2, -1] if ending == "failed" else [1, 2, 3]
    with closing(spread(units, lambda: Closing(closed), act_of(crew), crew)) as results:
        if ending == "failed":
            with pytest.raises(LeashError, match="below zero"):
                list(results)
        elif ending == "stopped":
            next(results)
            assert closed == []
        else:
            list(results)
    assert closed == ["closed"]


def test_workers_have_what_was_expected_whoever_came_first() -> None:
    """In a process of its own: this one may have had workers before."""
    script = "from tests.unit.test_work import after_a_pool; print(after_a_pool('wave'))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "(True, '1')\n"


def test_ray_that_is_not_installed_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(LeashError, match=r"install it with `pip install -e '\.\[ray\]'`\.$"):
        list(spread(range(9), Squares, Squares.square, ACTORS))


def test_a_cluster_that_is_not_there_is_named_whoever_named_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed")

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", unreachable)  # the real one takes minutes to give up
    monkeypatch.setenv("RAY_ADDRESS", "nowhere:6379")
    with pytest.raises(LeashError, match=r"^There is no Ray cluster at nowhere:6379 \(`ray\.address`"):
        list(spread(range(9), Squares, Squares.square, ACTORS))


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray on this machine, with room for two workers, whatever cluster another test has at the same time."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    ray.init("local", num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


@ON_RAY
@pytest.mark.usefixtures("cluster")
def test_ray_does_every_unit_once_and_takes_few_ahead(crew: Crew) -> None:
    assert grown(crew) == GROWN
    assert 1 < taken_ahead(crew) <= 2 * crew.in_flight  # one worker may be ready long before the other


@pytest.mark.usefixtures("cluster")
def test_sentences_come_through_from_ray() -> None:
    with pytest.raises(LeashError, match=r"^-1 is below zero; give another\.$"):
        list(spread([1, 2, -1, *range(50)], Squares, Squares.start, STEPPING_ACTORS))
    with pytest.raises(LeashError, match=r"^The squares are not there; fetch them\.$"):
        list(spread(range(9), unready, Squares.square, ACTORS))


@pytest.mark.usefixtures("cluster")
def test_a_worker_of_ray_that_dies_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units = [tmp_path / name for name in "abcd"]
    units[1].touch()
    units[3].touch()
    assert sorted(spread(units, Squares, die_once, ACTORS)) == [(unit, unit.name) for unit in units]
    monkeypatch.setattr("stages.cluster.MOST_DEATHS", 1)
    with pytest.raises(LeashError, match=r"^2 workers of the Ray cluster died one after the other"):
        list(spread(range(9), Squares, die, ACTORS))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("cluster")
def test_verdicts_and_entropies_of_ray_are_those_of_this_machine(
    project: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File by file, to the byte."""
    run = {"models": ["base"], "datasets": ["chain"], "pairs": ["self"], "processes": 2}
    pairs = {"self": {"base": "base", "rlvr": "base"}}
    local = write_params(Path(), small(run=run, pairs=pairs))
    monkeypatch.setattr("stages.sample.ledger.SHARD", 16)  # several units of verify
    monkeypatch.setattr("stages.scoring.UNIT", 4)
    fetch.run(local, "chain")
    sample.run(local, "base", "chain")

    def measured(params: Params) -> dict[str, bytes]:
        assert verify.run(params, "base", "chain") == 64
        assert entropy.run(params) == (15, [])  # one was drawn twice
        made = {**files(tables.DATA / "verdicts"), **files(tables.DATA / "entropy")}
        for folder in ("verdicts", "entropy"):
            for path in (tables.DATA / folder).rglob("*.parquet"):
                path.unlink()
        return made

    here = measured(local)
    monkeypatch.setattr("stages.work.over_processes", None)  # from here on, all is Ray's
    there = measured(write_params(Path(), small(run=run | {"on": "ray"}, pairs=pairs)))
    assert len(here) == 4 + 5
    assert there == here

"""The worker pool: every item gets a result, whatever it does to its worker, and workers never outlive their pool."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from leash.grading.worker_pool import MAX_BATCH_ITEMS, MAX_CONSECUTIVE_DEATHS, DyingWorkersError, Pool
from tests.conftest import ROOT

NEVER_S = 10**6


def recurse() -> None:
    recurse()


def swallow_everything() -> None:
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue


def disable_the_alarm() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.alarm(0)
    while True:
        pass


def take_all_memory() -> None:
    blocks = []
    while True:
        blocks.append(bytearray(2**30))


ACTS = {
    "stuck in C": lambda: sum(range(10**15)),  # holds the interpreter: no alarm interrupts it
    "recursion": recurse,
    "swallows everything": swallow_everything,
    "disables the alarm": disable_the_alarm,
    "sleep": lambda: time.sleep(NEVER_S),
    "loop": lambda: [None for _ in iter(int, 1)],
    "power tower": lambda: 9**9**9**9,
    "factorial": lambda: math.factorial(10**8),
    "gigabytes": lambda: bytearray(2**40),
    "all memory": take_all_memory,
    "sys.exit": lambda: sys.exit(3),
    "os._exit": lambda: os._exit(0),
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exception": lambda: 1 / 0,
}
TIMEOUTS = {"stuck in C", "swallows everything", "disables the alarm", "sleep", "loop", "power tower", "factorial"}


class ScriptedJob:
    """Doubles a number; performs the act with a name."""

    def run(self, item: int | str) -> Any:
        return 2 * item if isinstance(item, int) else ACTS[item]()

    def failure_result(self, item: int | str, status: Literal["timeout", "error"]) -> Any:
        return status

    def time_limit(self, item: int | str, timeout: float) -> float:
        return timeout

    def weight(self, item: int | str) -> int:
        return 1


def create_pool(workers: int = 2) -> Pool[int | str, Any]:
    return Pool(ScriptedJob(), workers=workers, timeout=0.5, memory=256)


def expected(item: int | str) -> Any:
    return 2 * item if isinstance(item, int) else "timeout" if item in TIMEOUTS else "error"


def test_every_item_is_run_once_and_the_pool_can_be_used_again() -> None:
    with create_pool() as pool:
        assert sorted(pool.results(range(5000))) == [(i, 2 * i) for i in range(5000)]
        assert pool.result(21) == 42
        assert list(pool.results([])) == []


@pytest.mark.parametrize("act", ACTS)
def test_a_bad_item_fails_alone(act: str) -> None:
    """Items before and after it in the same batch get their results."""
    items: list[int | str] = [*range(5), act, *range(5, 100)]
    with create_pool(workers=1) as pool:
        assert dict(pool.results(items)) == {item: expected(item) for item in items}


def test_all_bad_items_together_and_twice() -> None:
    items: list[int | str] = [item for i, act in enumerate(ACTS) for item in (act, i, act)]
    with create_pool() as pool:
        results = list(pool.results(items))
    assert sorted(str(item) for item, _ in results) == sorted(map(str, items))
    assert [(item, result) for item, result in results if result != expected(item)] == []


def test_few_items_are_taken_ahead() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(20_000):
            taken += 1
            yield item

    with create_pool() as pool:
        ahead = [taken - done for done, _ in enumerate(pool.results(items()))]
    assert len(ahead) == 20_000
    assert max(ahead) <= 2 * MAX_BATCH_ITEMS + 1


def test_items_may_depend_on_earlier_results() -> None:
    """None means that there is nothing to do for now: the second item exists only once the first is done."""
    results: list[int] = []

    def items() -> Iterator[int | None]:
        yield 1
        while not results:
            yield None
        yield results[0] + 40

    with create_pool() as pool:
        for _, result in pool.results(items()):
            results.append(result)
    assert results == [2, 84]


class FatalJob(ScriptedJob):
    """Ends every worker that unpickles it, before it can begin."""

    def __reduce__(self) -> Any:
        return os._exit, (1,)


def test_workers_that_all_die_at_their_start_raise_an_error() -> None:
    pool: Pool[int | str, Any] = Pool(FatalJob(), workers=1, timeout=1, memory=256)
    with pool, pytest.raises(DyingWorkersError, match=r"with fewer `run.processes`") as error:
        list(pool.results([1]))
    assert (error.value.deaths, error.value.exit_code) == (MAX_CONSECUTIVE_DEATHS + 1, 1)


def test_closing_the_results_stops_the_work_and_the_pool_can_be_used_again() -> None:
    with create_pool() as pool:
        results = pool.results([1, *["sleep"] * 50])
        assert next(results) == (1, 2)
        results.close()  # type: ignore[attr-defined]
        assert pool.result(4) == 8


class PrintingJob(ScriptedJob):
    """Prints an item before it runs it. What a worker prints goes to standard error."""

    def run(self, item: int | str) -> Any:
        print(item, flush=True)
        return super().run(item)


SCRIPT = """
import sys
from leash.grading.worker_pool import Pool
from tests.unit.test_pool import PrintingJob

if __name__ == "__main__":
    with Pool(PrintingJob(), workers=1, timeout=float(sys.argv[2]), memory=256) as pool:
        pool.result(sys.argv[1])
"""


# No alarm and no thread ends the first one, only the kernel, by its limit on CPU time; so its timeout is short.
@pytest.mark.parametrize(("act", "timeout"), [("stuck in C", 0.5), ("sleep", NEVER_S), ("loop", NEVER_S)])
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_the_process_of_the_pool(
    tmp_path: Path, act: str, timeout: float, sent: signal.Signals
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), act, str(timeout)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
    assert process.stderr
    assert process.stderr.readline().decode() == f"{act}\n"
    process.send_signal(sent)
    # The workers share its standard error, so this returns when the last of them is gone.
    process.communicate(timeout=60)

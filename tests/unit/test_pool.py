"""The pool: every item has a result, whatever it does to its worker, and workers never outlive whoever wanted them."""

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

from stages.errors import LeashError
from stages.verify.pool import Pool
from tests.conftest import ROOT

NEVER = 10**6  # seconds


def deaf() -> None:
    """C code that holds the interpreter: no alarm is heard before it ends."""
    sum(range(10**15))


def deep() -> None:
    deep()


def swallowing() -> None:
    """A library that catches everything, again and again."""
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue


def with_another_alarm() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.alarm(0)
    while True:
        pass


def hungry() -> None:
    held = []
    while True:
        held.append(bytearray(2**30))


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


ACTS = {
    "deaf": deaf,
    "deep": deep,
    "swallowing": swallowing,
    "another alarm": with_another_alarm,
    "sleeping": lambda: time.sleep(NEVER),
    "looping": lambda: [None for _ in iter(int, 1)],
    "power tower": lambda: 9**9**9**9,
    "factorial": lambda: math.factorial(10**8),
    "gigabytes": lambda: bytearray(2**40),
    "hungry": hungry,
    "leaving": lambda: sys.exit(3),
    "gone": lambda: os._exit(0),
    "crash": crash,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "failing": lambda: 1 / 0,
}
TIMEOUTS = {"deaf", "swallowing", "another alarm", "sleeping", "looping", "power tower", "factorial"}


class Deeds:
    """A number is doubled; a word is done."""

    def done(self, item: int | str) -> Any:
        return 2 * item if isinstance(item, int) else ACTS[item]()

    def failed(self, item: int | str, status: Literal["timeout", "error"]) -> Any:
        return status

    def seconds(self, item: int | str, timeout: float) -> float:
        return timeout

    def weight(self, item: int | str) -> int:
        return 1


def pool(workers: int = 2, timeout: float = 0.5) -> Pool[int | str, Any]:
    return Pool(Deeds(), workers=workers, timeout=timeout, memory=256)


def test_every_item_is_done_once() -> None:
    with pool() as two:
        assert sorted(two.results(range(5000))) == [(i, 2 * i) for i in range(5000)]
        assert two.result(21) == 42  # the same workers, again
        assert list(two.results([])) == []


@pytest.mark.parametrize("deed", ACTS)
def test_a_deed_costs_itself_and_nothing_else(deed: str) -> None:
    """Items before and after it, in the same batch, have their results."""
    items: list[int | str] = [*range(5), deed, *range(5, 100)]
    with pool(workers=1) as one:
        found = dict(one.results(items))
        assert found.pop(deed) == ("timeout" if deed in TIMEOUTS else "error")
        assert found == {i: 2 * i for i in range(100)}


def test_all_deeds_at_once_and_twice() -> None:
    items: list[int | str] = [item for i, deed in enumerate(ACTS) for item in (deed, i, deed)]
    with pool() as two:
        found = list(two.results(items))
    assert sorted(str(item) for item, _ in found) == sorted(map(str, items))
    for item, result in found:
        assert result == (2 * item if isinstance(item, int) else "timeout" if item in TIMEOUTS else "error")


def test_few_items_are_taken_ahead() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for item in range(20_000):
            taken += 1
            yield item

    with pool() as two:
        ahead = [taken - done for done, _ in enumerate(two.results(items()))]
    assert len(ahead) == 20_000
    assert max(ahead) <= 2 * 512 + 1


def test_items_may_wait_for_results() -> None:
    """None says that there is nothing for now: the second item is there once the first is done."""
    results: list[int] = []

    def items() -> Iterator[int | None]:
        yield 1
        while not results:
            yield None
        yield results[0] + 40

    with pool() as two:
        for _, result in two.results(items()):
            results.append(result)
    assert results == [2, 84]


class Unready(Deeds):
    """A job that no worker survives to begin."""

    def __reduce__(self) -> Any:
        return os._exit, (1,)


def test_workers_that_all_die_are_a_sentence() -> None:
    broken: Pool[int | str, Any] = Pool(Unready(), workers=1, timeout=1, memory=256)
    with broken, pytest.raises(LeashError, match=r"died one after the other .* with fewer `run.processes`\.$"):
        list(broken.results([1]))


def test_results_that_nobody_wants_any_more_stop_the_work() -> None:
    with pool() as two:
        results = two.results([1, *["sleeping"] * 50])
        assert next(results) == (1, 2)
        results.close()  # type: ignore[attr-defined]
        assert two.result(4) == 8


class Loud(Deeds):
    """Says what it does before it does it; what a worker prints goes to standard error."""

    def done(self, item: int | str) -> Any:
        print(item, flush=True)
        return super().done(item)


ORPHANS = """
import sys
from stages.verify.pool import Pool
from tests.unit.test_pool import Loud

if __name__ == "__main__":
    with Pool(Loud(), workers=1, timeout=float(sys.argv[2]), memory=256) as pool:
        pool.result(sys.argv[1])
"""


# An alarm would end the second and the third soon; only the kernel ends the first, by the processor time it uses.
@pytest.mark.parametrize(("deed", "timeout"), [("deaf", 0.5), ("sleeping", NEVER), ("looping", NEVER)])
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_workers_do_not_outlive_whoever_wanted_them(
    tmp_path: Path, deed: str, timeout: float, sent: signal.Signals
) -> None:
    script = tmp_path / "orphans.py"
    script.write_text(ORPHANS)
    command = [sys.executable, str(script), deed, str(timeout)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
    assert process.stderr
    assert process.stderr.readline().decode() == f"{deed}\n"
    process.send_signal(sent)
    process.communicate(timeout=60)  # its standard error is shared by the workers: it ends when the last is gone

"""A worker of the pool, in its own process: it runs batches of items under the limits that it sets itself.

It writes the current item and its deadline to memory that it shares with the pool (`worker_pool.py`), which kills it
after the deadline. It ends when the pool's process ends, even by SIGKILL.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import resource
import signal
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from leash.scheduler.parent_death import end_with_parent

KILL_GRACE_S = 1.0  # between the alarm and the kill
ALARM_REPEAT_S = 0.25  # the alarm repeats, for libraries that swallow the first one
FLUSH_INTERVAL_S = 0.02  # results wait this long for others: many small messages cost more than the work
# A batch should take this long: enough to hide the cost of sending it, and short enough to share the last items.
TARGET_BATCH_S = 0.1
# After this time a worker gives back the rest of its batch, because other workers may be idle.
MAX_BATCH_S = 5 * TARGET_BATCH_S
NO_ITEM = -1.0

JobItem = TypeVar("JobItem", contravariant=True)
JobResult = TypeVar("JobResult", covariant=True)


class Job(Protocol[JobItem, JobResult]):
    """What to do with items. Each worker gets one copy. The pool calls `failure_result` for workers that it kills."""

    def run(self, item: JobItem, /) -> JobResult: ...

    def failure_result(self, item: JobItem, status: Literal["timeout", "error"], /) -> JobResult: ...

    def time_limit(self, item: JobItem, timeout: float, /) -> float:
        """Seconds that `run` may take; `timeout` is the pool's default."""

    def weight(self, item: JobItem, /) -> int:
        """About the number of characters of an item: limits the size of a batch."""


class OutOfTime(BaseException):
    """Not an Exception: libraries that catch everything must not swallow it."""


class Alarm:
    """Raises OutOfTime in the main thread after some seconds, repeatedly until it is cleared."""

    def __init__(self) -> None:
        self._armed = False

    def set(self, seconds: float) -> None:
        signal.signal(signal.SIGALRM, self._ring)  # every time: a library may have installed its own handler
        self._armed = True
        signal.setitimer(signal.ITIMER_REAL, seconds, ALARM_REPEAT_S)

    def clear(self) -> None:
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, *_: object) -> None:
        if self._armed:  # a signal can still be pending when the timer is cleared
            raise OutOfTime


def serve(
    pipe: Connection, current: Any, job: Job[Any, Any], timeout: float, memory: int, preload: Sequence[str]
) -> None:
    """The worker's main function: set up the process, then run batch after batch until the pipe closes."""
    os.setsid()  # its own process group, so that the pool can kill it with all that it starts
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(2, 1)  # what a grader prints must not mix with the command's output
    # Libraries log a line for every answer they cannot parse.
    warnings.simplefilter("ignore")
    logging.disable()
    end_with_parent()
    for name in preload:
        with contextlib.suppress(ImportError):  # the grader that needs it reports it
            import_module(name)
    # The limit is on top of what the imports have mapped. Systems without /proc do not enforce it anyway.
    statm = Path("/proc/self/statm")
    if statm.exists():
        mapped = int(statm.read_text().split()[0]) * resource.getpagesize()
        _set_soft_rlimit(resource.RLIMIT_AS, mapped + memory * 2**20)
    _set_soft_rlimit(resource.RLIMIT_CORE, 0)

    alarm = Alarm()
    with contextlib.suppress(EOFError, OSError):  # the pool is gone
        pipe.send(None)  # ready; only from here on can an item be to blame for a death
        while _run_batch(pipe, current, job, timeout, alarm):
            pass


def _run_batch(pipe: Connection, current: Any, job: Job[Any, Any], timeout: float, alarm: Alarm) -> bool:
    """Run a batch, or as much of it as fits in MAX_BATCH_S. Return whether the worker can run another one."""
    batch = pipe.recv()
    results: list[tuple[int, Any]] = []
    out_of_memory = False
    started = flushed = time.monotonic()
    for number, item in batch:
        # First the deadline, then the number, so that the pool never sees a new number with an old deadline.
        current[1] = math.inf
        current[0] = number
        result, out_of_memory = _run_item(job, item, current, timeout, alarm)
        results.append((number, result))
        now = time.monotonic()
        if out_of_memory or now - started > MAX_BATCH_S:
            break
        if now - flushed > FLUSH_INTERVAL_S:
            pipe.send((results, False))
            results, flushed = [], now
    current[:] = [NO_ITEM, math.inf]
    pipe.send((results, True))
    return not out_of_memory  # what took the memory may still hold it, so a new worker takes over


def _run_item(job: Job[Any, Any], item: Any, current: Any, timeout: float, alarm: Alarm) -> tuple[Any, bool]:
    """Run one item. Return its result, and whether it ran out of memory."""
    try:
        seconds = job.time_limit(item, timeout)
        # If the pool is gone and cannot kill this process, the kernel does it a little later.
        _set_soft_rlimit(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds + 4 * KILL_GRACE_S))
        current[1] = time.monotonic() + seconds + KILL_GRACE_S
        alarm.set(seconds)
        try:
            return job.run(item), False
        finally:
            alarm.clear()
    except OutOfTime:
        alarm.clear()
        return job.failure_result(item, "timeout"), False
    except MemoryError:
        return job.failure_result(item, "error"), True
    except BaseException:  # also SystemExit, which is the item's and must not end the worker
        return job.failure_result(item, "error"), False


def _set_soft_rlimit(kind: int, value: int) -> None:
    # The hard limit stays: programs that a grader starts may have limits of their own.
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))

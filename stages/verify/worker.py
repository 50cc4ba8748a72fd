"""A worker of the pool, in its own process: what it does with a batch of items, and the limits it sets itself.

It says what it is at and how long it may take in memory that its owner (`pool.py`) sees too, who kills it when that is
over. It leaves when its owner is gone, however that ended.
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

from stages.orphans import end_with_parent

GRACE = 1.0  # seconds between the alarm and the kill
AGAIN = 0.25  # seconds between alarms, for libraries that swallow the first
FLUSH = 0.02  # seconds that results wait in a worker: many small messages cost more than the work
TURN = 0.1  # seconds that a batch should take: long enough to hide the sending, short enough to share out the rest
LONG = 5 * TURN  # seconds after which a worker gives back what is left of its batch: others may have time for it
NOBODY = -1.0  # the number of the item at hand, where there is none

Takes = TypeVar("Takes", contravariant=True)
Gives = TypeVar("Gives", covariant=True)


class Job(Protocol[Takes, Gives]):
    """What is done with items. It is sent to every worker once."""

    def done(self, item: Takes, /) -> Gives: ...

    def failed(self, item: Takes, status: Literal["timeout", "error"], /) -> Gives: ...

    def seconds(self, item: Takes, timeout: float, /) -> float: ...

    def weight(self, item: Takes, /) -> int: ...


class OutOfTime(BaseException):
    """Not an Exception: libraries that catch everything must not swallow it."""


class Alarm:
    """Raises OutOfTime in the main thread once its time is over, again and again until it is cleared."""

    def __init__(self) -> None:
        self._armed = False

    def set(self, seconds: float) -> None:
        signal.signal(signal.SIGALRM, self._ring)  # each time: a library may have put its own in place
        self._armed = True
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)

    def clear(self) -> None:
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, *_: object) -> None:
        if self._armed:
            raise OutOfTime


def serve(
    pipe: Connection, at_hand: Any, job: Job[Any, Any], timeout: float, memory: int, preload: Sequence[str]
) -> None:
    """A worker's life: batch after batch, until the pipe closes."""
    _settle(preload)
    _limit_memory(memory)
    alarm = Alarm()
    with contextlib.suppress(EOFError, OSError):  # its owner is gone
        pipe.send(None)  # ready: importing is no item's fault
        while _worked(pipe, at_hand, job, timeout, alarm):
            pass


def _worked(pipe: Connection, at_hand: Any, job: Job[Any, Any], timeout: float, alarm: Alarm) -> bool:
    """Do a batch, or as much of it as fits in its time. Whether this worker is still good for another: not after it ran
    out of memory."""
    batch = pipe.recv()
    finished: list[tuple[int, Any]] = []
    spent = False
    began = flushed = time.monotonic()
    for number, item in batch:
        at_hand[1] = math.inf  # in this order: a new number never meets an old deadline
        at_hand[0] = number
        result, spent = _result(job, item, at_hand, timeout, alarm)
        finished.append((number, result))
        now = time.monotonic()
        if spent or now - began > LONG:
            break
        if now - flushed > FLUSH:
            pipe.send((finished, False))
            finished, flushed = [], now
    at_hand[:] = [NOBODY, math.inf]
    pipe.send((finished, True))
    return not spent


def _result(job: Job[Any, Any], item: Any, at_hand: Any, timeout: float, alarm: Alarm) -> tuple[Any, bool]:
    """An item's result, and whether it took all memory there was."""
    try:
        seconds = job.seconds(item, timeout)
        _limit_processor(seconds)
        at_hand[1] = time.monotonic() + seconds + GRACE
        alarm.set(seconds)
        try:
            return job.done(item), False
        finally:
            alarm.clear()
    except OutOfTime:
        alarm.clear()
        return job.failed(item, "timeout"), False
    except MemoryError:
        return job.failed(item, "error"), True
    except BaseException:  # SystemExit too: it is the item's, not ours
        return job.failed(item, "error"), False


def _settle(preload: Sequence[str]) -> None:
    """Become a worker: a group of its own that its owner can kill, quiet, and gone when its owner is."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(2, 1)  # what a grader prints is not the command's output
    # Libraries write a line for every answer they can't read.
    warnings.simplefilter("ignore")
    logging.disable()
    end_with_parent()
    for name in preload:
        with contextlib.suppress(ImportError):  # said by the grader that needs it
            import_module(name)


def _limit_memory(megabytes: int) -> None:
    """So much more than what the imports have taken."""
    statm = Path("/proc/self/statm")
    if statm.exists():  # elsewhere than on Linux the limit does not hold anyway
        mapped = int(statm.read_text().split()[0]) * resource.getpagesize()
        _limit(resource.RLIMIT_AS, mapped + megabytes * 2**20)
    _limit(resource.RLIMIT_CORE, 0)


def _limit_processor(seconds: float) -> None:
    """The kernel ends what nobody is left to kill, some time after that would have been due."""
    _limit(resource.RLIMIT_CPU, math.ceil(time.process_time() + seconds + 4 * GRACE))


def _limit(kind: int, wanted: int) -> None:
    """The soft limit alone: what a grader starts may have limits of its own."""
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))

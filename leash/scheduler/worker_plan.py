"""Units of work and the workers that do them: the worker plan, the queue of units, and how worker processes start."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from types import FrameType
from typing import Generic, TypeVar

from leash.params.groups import Params, Ray

Unit = TypeVar("Unit")
Result = TypeVar("Result")
Prepared = TypeVar("Prepared")
# A dict as an ordered set: the fork server imports modules in the order in which they were registered.
_preload_modules: dict[str, None] = {}
# Assumed number of Ray workers before the cluster is known (`ray.workers: auto`). It only decides how small units are.
ASSUMED_RAY_WORKERS = 16


@dataclass(frozen=True)
class WorkerPlan:
    """How many workers there are, what they are, and how many units each works on at a time (`at_once`).

    - By default workers are processes, and each works on one unit.
    - With `at_once` > 1 there is one worker, this process: with threads, or with an engine that is `stepping`.
    - With `ray`, workers are actors on a cluster. Each takes `gpus` GPUs, or CPUs if the cluster has no GPU.
    """

    workers: int = 1
    at_once: int = 1
    stepping: bool = False
    ray: Ray | None = None
    gpus: int = 0

    @property
    def slots(self) -> int:
        """How many units all workers together work on at a time."""
        workers = self.ray.workers if self.ray else self.workers
        return (ASSUMED_RAY_WORKERS if workers == "auto" else workers) * self.at_once

    @property
    def in_flight(self) -> int:
        """How many units one worker holds: at least two, so that it never waits for the next."""
        return max(2, self.at_once)


def plan_workers(params: Params, preload: tuple[str, ...] = ()) -> WorkerPlan:
    """The workers of this run for single-threaded work. Local worker processes start with `preload` imported."""
    if params.run.on == "ray":
        return WorkerPlan(params.run.workers, ray=params.ray)
    register_preloads(preload)
    return WorkerPlan(params.run.workers)


def register_preloads(modules: Iterable[str]) -> None:
    """Register modules that worker processes need and that import slowly. Call it before the first process starts."""
    _preload_modules.update(dict.fromkeys(modules))


def forkserver_context() -> ForkServerContext:
    """The multiprocessing context of all worker processes on this machine.

    A server process starts with the first worker, imports the registered modules once, and forks every worker. Workers
    therefore have the server's environment, not the current one.
    """
    # Several processes of one thread each are faster than one process with several threads.
    os.environ["OMP_NUM_THREADS"] = "1"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_preload_modules))
    return context


@contextmanager
def defer_sigterm() -> Iterator[None]:
    """Delay SIGTERM until the end of the block. A process whose start is interrupted gets half of its instructions and
    fails with a traceback."""
    # Only the main thread may set signal handlers, and only it receives signals.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    handler = signal.signal(signal.SIGTERM, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
        if received and callable(handler):
            handler(*received[0])
        elif received and handler == signal.SIG_DFL:
            signal.raise_signal(signal.SIGTERM)


class UnitQueue(Generic[Unit]):
    """The units still to do, taken one by one, so that an endless iterator needs no memory."""

    def __init__(self, units: Iterable[Unit | None]) -> None:
        self._units = iter(units)
        self._returned: deque[Unit] = deque()

    def take(self) -> Unit | None:
        """The next unit, or None if there is none, now or ever."""
        return self._returned.popleft() if self._returned else next(self._units, None)

    def take_up_to(self, count: int) -> Iterator[Unit]:
        while count > 0 and (unit := self.take()) is not None:
            count -= 1
            yield unit

    def put_back(self, *units: Unit) -> None:
        """Return units that were not done; the next `take` gives the last of them."""
        self._returned.extendleft(units)

    def has_next(self) -> bool:
        """Whether `take` would give a unit now."""
        if (unit := self.take()) is not None:
            self.put_back(unit)
        return unit is not None

"""A pool of worker processes whose time and memory limits hold, whatever an item does.

    with Pool(job, workers=2, timeout=5, memory=4096) as pool:
        for item, result in pool.results(items): ...

`job.run(item)` runs in a worker. At the time limit the worker gets an alarm, which interrupts Python code. Code that
does not react (such as a power of integers, computed in C) is killed with its worker one second later. A dying worker
fails only the item it worked on; the rest of its batch goes to other workers. So every item gets a result, in the order
they finish: its own, or `job.failure_result(item, status)` with status `timeout` or `error`. Few items are taken ahead,
and `items` may yield None if it has nothing to do until more results are in.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from multiprocessing.connection import wait as wait_for
from typing import Any, Generic, TypeVar

from leash.errors import LeashError, describe_exit
from leash.grading.pool_worker import KILL_GRACE_S, NO_ITEM, TARGET_BATCH_S, Job, serve
from leash.scheduler.worker_plan import UnitQueue, defer_sigterm, forkserver_context, register_preloads

FIRST_BATCH_ITEMS, MAX_BATCH_ITEMS = 8, 512
MAX_BATCH_CHARS = 4_000_000  # a single item may be longer
MAX_CONSECUTIVE_DEATHS = 8  # of workers, without a result in between and without an item to blame

Item = TypeVar("Item")
Result = TypeVar("Result")


class DyingWorkersError(LeashError):
    """Workers die before they begin, so no item is to blame. `exit_code` is that of the last one."""

    def __init__(self, deaths: int, exit_code: int) -> None:
        self.deaths, self.exit_code = deaths, exit_code
        super().__init__(
            f"{deaths} grading processes died one after the other before they could begin; the last "
            f"{describe_exit(exit_code)}. Finished work is kept: run the command again with fewer `run.processes`."
        )


class Worker(Generic[Item]):
    """A worker seen from the pool: its process, the items it has by number, and the size of its next batch."""

    def __init__(self, job: Job[Item, Any], timeout: float, memory: int, preload: Sequence[str]) -> None:
        context = forkserver_context()
        self.pipe, child_pipe = context.Pipe()
        # The number of the current item and the time to kill the worker at. In shared memory, because a worker that is
        # stuck in C sends no messages.
        self._current = context.RawArray("d", [NO_ITEM, math.inf])
        arguments = (child_pipe, self._current, job, timeout, memory, tuple(preload))
        self.process = context.Process(target=serve, args=arguments, daemon=True)
        with defer_sigterm():
            self.process.start()
        child_pipe.close()
        self.items: dict[int, Item] = {}
        self.ready = self.busy = False
        self.batch_size = FIRST_BATCH_ITEMS
        self._batch_items, self._batch_start = 0, 0.0

    @property
    def idle(self) -> bool:
        return self.ready and not self.busy

    def send_batch(self, items: dict[int, Item]) -> None:
        self.items, self.busy = items, True
        self._batch_items, self._batch_start = len(items), time.monotonic()
        with contextlib.suppress(OSError):  # the worker is dead, which the pool notices when it waits for results
            self.pipe.send(list(items.items()))

    def end_batch(self) -> list[Item]:
        """Return the items that the worker gave back, and size the next batch by the speed of this one."""
        unfinished, done_count = list(self.items.values()), self._batch_items - len(self.items)
        elapsed = max(time.monotonic() - self._batch_start, 1e-6)
        target = done_count * TARGET_BATCH_S / elapsed
        self.batch_size = int(min(max(target, 1), 4 * self.batch_size, MAX_BATCH_ITEMS))
        self.items, self.busy = {}, False
        return unfinished

    def current(self) -> tuple[int, float]:
        """The number of the item it works on, and the time (monotonic) to kill it at."""
        number, kill_at = self._current
        return int(number), kill_at

    def kill(self) -> int:
        """Kill the worker and what it started, if they live. Return its exit code."""
        if self.process.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()  # it may not have its own process group yet
        self.process.join()
        self.pipe.close()
        return self.process.exitcode or 0


class Pool(Generic[Item, Result]):
    """Workers for one job. The pool starts them as there is work. `timeout` is in seconds, `memory` in MB."""

    def __init__(
        self, job: Job[Item, Result], *, workers: int, timeout: float, memory: int, preload: Sequence[str] = ()
    ) -> None:
        self._job, self._max_workers = job, workers
        register_preloads([__name__, *preload])
        self._start_worker: Callable[[], Worker[Item]] = lambda: Worker(job, timeout, memory, preload)
        self._workers: list[Worker[Item]] = []
        self._numbers = count()
        self._deaths = 0

    def __enter__(self) -> Pool[Item, Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self._workers:
            self._workers.pop().kill()

    def result(self, item: Item) -> Result:
        [(_, result)] = self.results([item])
        return result

    def results(self, items: Iterable[Item | None]) -> Iterator[tuple[Item, Result]]:
        queue = UnitQueue(items)
        try:
            while self._assign_batches(queue):
                yield from self._wait_for_results(queue)
        finally:
            # The caller stopped early or an error ended the loop: no later call may see these results.
            if any(worker.busy for worker in self._workers):
                self.close()

    def _assign_batches(self, queue: UnitQueue[Item]) -> bool:
        """Give batches to idle workers, and start one worker if items remain. Return whether to wait for results."""
        for worker in self._workers:
            if worker.idle and (batch := self._take_batch(queue, worker.batch_size)):
                worker.send_batch(batch)
        busy = any(worker.busy for worker in self._workers)
        starting = any(not worker.ready for worker in self._workers)
        idle = any(worker.idle for worker in self._workers)
        # An idle worker means that the queue is empty for now. A starting worker will take what is left.
        if idle or starting or len(self._workers) == self._max_workers:
            return busy or (starting and queue.has_next())
        if queue.has_next():
            self._workers.append(self._start_worker())
            return True
        return busy

    def _take_batch(self, queue: UnitQueue[Item], size: int) -> dict[int, Item]:
        batch: dict[int, Item] = {}
        weight = 0
        while len(batch) < size and weight < MAX_BATCH_CHARS and (item := queue.take()) is not None:
            batch[next(self._numbers)] = item
            weight += self._job.weight(item)
        return batch

    def _wait_for_results(self, queue: UnitQueue[Item]) -> list[tuple[Item, Result]]:
        """Wait for a message, a death or a deadline of any worker, and return the results that are there by then."""
        until_kill = min(worker.current()[1] for worker in self._workers) - time.monotonic()
        watched: list[Any] = [end for worker in self._workers for end in (worker.pipe, worker.process.sentinel)]
        signaled = set(wait_for(watched, min(max(until_kill, 0), KILL_GRACE_S)))
        results: list[tuple[Item, Result]] = []
        for worker in list(self._workers):
            number, kill_at = worker.current()
            if worker.pipe in signaled or worker.process.sentinel in signaled:
                results += self._receive(worker, queue)
            # An overdue number without an item is one whose result is already here.
            elif time.monotonic() >= kill_at and number in worker.items:
                results += self._remove(worker, number, queue, overdue=True)
        return results

    def _receive(self, worker: Worker[Item], queue: UnitQueue[Item]) -> list[tuple[Item, Result]]:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            return self._remove(worker, worker.current()[0], queue)
        if message is None:
            worker.ready = True
            return []
        self._deaths = 0
        numbered, batch_ended = message
        results = [(worker.items.pop(number), result) for number, result in numbered]
        if batch_ended:
            queue.put_back(*worker.end_batch())
        return results

    def _remove(
        self, worker: Worker[Item], number: int, queue: UnitQueue[Item], *, overdue: bool = False
    ) -> list[tuple[Item, Result]]:
        """Remove a dead or overdue worker, and fail the item with this number, which it worked on. If there is none,
        the worker died between items: only count that."""
        item = worker.items.pop(number, None)
        queue.put_back(*worker.items.values())
        self._workers.remove(worker)
        exit_code = worker.kill()
        if item is not None:
            # SIGXCPU: the kernel's limit on CPU time was faster than the pool.
            timed_out = overdue or exit_code == -signal.SIGXCPU
            return [(item, self._job.failure_result(item, "timeout" if timed_out else "error"))]
        self._deaths += 1
        if self._deaths > MAX_CONSECUTIVE_DEATHS:
            raise DyingWorkersError(self._deaths, exit_code)
        return []

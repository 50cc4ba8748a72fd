"""A pool of worker processes with limits that hold, whatever an item does.

    with Pool(job, workers=2, timeout=5, memory=4096) as pool:
        for item, result in pool.results(items): ...

`job.done(item)` runs in a worker. One that takes too long gets an alarm, which Python code hears; what does not hear it
(a power of whole numbers in C) is killed with its process a second later. A worker that dies costs the item it was at;
what else it had goes to others. So every item has a result, in the order they finish: its own, or `job.failed(item,
status)` with status `timeout` or `error`. Few items are taken ahead, and `items` may yield None, as in `stages.work`.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from multiprocessing.connection import wait as wait_for
from types import TracebackType
from typing import Any, Generic, TypeVar

from stages.errors import LeashError, describe_exit
from stages.verify.worker import GRACE, NOBODY, TURN, Job, serve
from stages.work import Feed, expect, forked, undisturbed

FIRST, MOST = 8, 512  # items in a worker's first batch, and at most
HEAVIEST = 4_000_000  # characters in a batch, unless one item alone has more
MOST_DEATHS = 8  # of workers, one after the other with no result and no item to blame

Item = TypeVar("Item")
Result = TypeVar("Result")


class Worker(Generic[Item]):
    """A worker as its owner sees it: the items it has by their number, and how many it should get next."""

    def __init__(self, job: Job[Item, Any], timeout: float, memory: int, preload: Sequence[str]) -> None:
        context = forked()
        self.pipe, theirs = context.Pipe()
        # The number of the item at hand and the moment at which patience ends: no message needs to be read for them.
        self._at_hand = context.RawArray("d", [NOBODY, math.inf])
        given = (theirs, self._at_hand, job, timeout, memory, tuple(preload))
        self.process = context.Process(target=serve, args=given, daemon=True)
        with undisturbed():
            self.process.start()
        theirs.close()
        self.items: dict[int, Item] = {}
        self.ready = self.busy = False
        self.size = FIRST
        self._done, self._began = 0, 0.0

    @property
    def idle(self) -> bool:
        return self.ready and not self.busy

    def take(self, items: dict[int, Item]) -> None:
        self.items, self.busy = items, True
        self._done, self._began = 0, time.monotonic()
        with contextlib.suppress(OSError):  # it has died: that is seen where results are awaited
            self.pipe.send(list(items.items()))

    def give(self, finished: list[tuple[int, Any]]) -> list[tuple[Item, Any]]:
        """Results with their items."""
        self._done += len(finished)
        return [(self.items.pop(number), result) for number, result in finished]

    def give_back(self) -> list[Item]:
        """What is left of the batch that it has ended. The next is sized by how long this one took."""
        wanted = self._done * TURN / max(time.monotonic() - self._began, 1e-6)
        self.size = int(min(max(wanted, 1), 4 * self.size, MOST))
        left, self.items, self.busy = list(self.items.values()), {}, False
        return left

    def at_hand(self) -> tuple[float, float]:
        """The number of the item that it is at, and the moment at which it has had its time and some grace."""
        number, deadline = self._at_hand
        return number, deadline

    def end(self) -> int | None:
        """Kill it, if it lives, with what it may have started; return its exit code."""
        if self.process.pid:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
        self.process.join()
        self.pipe.close()
        return self.process.exitcode


class Pool(Generic[Item, Result]):
    """Workers for one job. They are started as there is something to do for them."""

    def __init__(
        self, job: Job[Item, Result], *, workers: int, timeout: float, memory: int, preload: Sequence[str] = ()
    ) -> None:
        self._job, self._most = job, workers
        expect([__name__, *preload])
        self._hire: Callable[[], Worker[Item]] = lambda: Worker(job, timeout, memory, preload)
        self._workers: list[Worker[Item]] = []
        self._again: deque[Item] = deque()
        self._numbers = count()
        self._deaths = 0

    def __enter__(self) -> Pool[Item, Result]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        while self._workers:
            self._workers.pop().end()

    def result(self, item: Item) -> Result:
        """The result of one item."""
        [(_, result)] = self.results([item])
        return result

    def results(self, items: Iterable[Item | None]) -> Iterator[tuple[Item, Result]]:
        feed = Feed(items)
        try:
            while self._hand_out(feed):
                yield from self._collected()
        finally:
            if any(worker.busy for worker in self._workers) or self._again:
                self._again.clear()
                self.close()  # nobody wants these results any more

    def _hand_out(self, feed: Feed[Item]) -> bool:
        """Give idle workers something to do, and start one more if that leaves something; is anything going on?"""
        for item in self._again:
            feed.put_back(item)
        self._again.clear()
        for worker in self._workers:
            if worker.idle and (batch := self._batch(feed, worker.size)):
                worker.take(batch)
        busy = any(worker.busy for worker in self._workers)
        starting = any(not worker.ready for worker in self._workers)
        idle = any(worker.idle for worker in self._workers)
        if idle or starting or len(self._workers) == self._most:
            return busy or (starting and self._waits(feed))
        if self._waits(feed):
            self._workers.append(self._hire())
            return True
        return busy

    def _batch(self, feed: Feed[Item], size: int) -> dict[int, Item]:
        batch: dict[int, Item] = {}
        weight = 0
        while len(batch) < size and weight < HEAVIEST and (item := feed.take()) is not None:
            batch[next(self._numbers)] = item
            weight += self._job.weight(item)
        return batch

    @staticmethod
    def _waits(feed: Feed[Item]) -> bool:
        """Is there an item for which nobody has time?"""
        if (item := feed.take()) is not None:
            feed.put_back(item)
        return item is not None

    def _collected(self) -> list[tuple[Item, Result]]:
        """Wait until something happens, and return what is finished by then."""
        overdue = min(worker.at_hand()[1] for worker in self._workers) - time.monotonic()
        watched: list[Any] = [end for worker in self._workers for end in (worker.pipe, worker.process.sentinel)]
        heard = set(wait_for(watched, min(max(overdue, 0), GRACE)))
        finished: list[tuple[Item, Result]] = []
        for worker in list(self._workers):
            if worker.pipe in heard or worker.process.sentinel in heard:
                finished += self._heard(worker)
            else:
                finished += self._missed(worker)
        return finished

    def _heard(self, worker: Worker[Item]) -> list[tuple[Item, Result]]:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            return self._buried(worker)
        if message is None:
            worker.ready = True
            return []
        self._deaths = 0
        finished, ended = message
        given = worker.give(finished)
        if ended:
            self._again.extend(worker.give_back())
        return given

    def _missed(self, worker: Worker[Item]) -> list[tuple[Item, Result]]:
        """The item of a worker that heard no alarm, and so must die."""
        number, deadline = worker.at_hand()
        if time.monotonic() < deadline or number not in worker.items:
            return []
        item = worker.items.pop(int(number))
        self._dismiss(worker)
        return [(item, self._job.failed(item, "timeout"))]

    def _buried(self, worker: Worker[Item]) -> list[tuple[Item, Result]]:
        """The item at which a worker died; none where it died between two."""
        number, _ = worker.at_hand()
        item = worker.items.pop(int(number), None)
        code = self._dismiss(worker)
        if item is not None:
            return [(item, self._job.failed(item, "timeout" if code == -signal.SIGXCPU else "error"))]
        self._deaths += 1
        if self._deaths > MOST_DEATHS:
            raise LeashError(
                f"{self._deaths} grading processes died one after the other before they could begin; the last "
                f"{describe_exit(code or 0)}. Finished work is kept: run the command again with fewer `run.processes`."
            )
        return []

    def _dismiss(self, worker: Worker[Item]) -> int | None:
        self._again.extend(worker.items.values())
        self._workers.remove(worker)
        return worker.end()

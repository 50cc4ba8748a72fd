"""The one place that maps units of work to workers: processes of this machine, threads, or a Ray cluster.

    for unit, result in spread(units, prepare, act, Crew(workers=2)): ...

Each worker calls `prepare()` once, keeps what it gives (an engine, a grader), and calls `act(prepared, unit)` for
every unit it gets. Results come back to the caller, who alone writes to disk. `units` is asked for more only as
workers become free; it may yield None to say that there is nothing to do until more results are in.

What `prepare` gives may work on many units at a time, a step at a time (vLLM): then `act` only starts a unit and gives
a ticket for it, and `prepared.step()` gives the tickets that are finished, with their results.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from multiprocessing.context import ForkServerContext
from queue import SimpleQueue
from types import FrameType
from typing import Any, Generic, TypeVar

from stages.errors import LeashError, describe_exit
from stages.orphans import end_with_parent
from stages.params import Params, Ray

Unit = TypeVar("Unit")
Result = TypeVar("Result")
Prepared = TypeVar("Prepared")

_expected: dict[str, None] = {}  # modules, each once and in the order they were named
_prepared: Callable[[], Any]  # in a worker process: what it holds, made when it is first asked for


@dataclass(frozen=True)
class Crew:
    """Who does the work: so many workers, each with `at_once` units at a time. Workers are processes; one that takes
    several units at once is this process itself, with threads or, `stepping`, without. With `ray`, workers are actors
    on a cluster, each with so many GPUs."""

    workers: int = 1
    at_once: int = 1
    stepping: bool = False
    ray: Ray | None = None
    gpus: int = 0

    @property
    def slots(self) -> int:
        """Units that are worked on at a time, all workers together, as far as that is known before a cluster is."""
        size = self.ray.workers if self.ray else self.workers
        return (16 if size == "auto" else size) * self.at_once

    @property
    def in_flight(self) -> int:
        """Units a worker has: what it works on, and one more where that is one, so that it never waits."""
        return max(2, self.at_once)


def crew(params: Params, preload: tuple[str, ...] = ()) -> Crew:
    """The workers of this run for work that goes on in processes of one thread, which need these modules."""
    if params.run.on == "ray":
        return Crew(params.run.workers, ray=params.ray)
    expect(preload)
    return Crew(params.run.workers)


def expect(modules: Iterable[str]) -> None:
    """Say early which modules worker processes will need and take long to import: see `forked`."""
    _expected.update(dict.fromkeys(modules))


def forked() -> ForkServerContext:
    """Where the worker processes of this machine come from, whoever wants them. A server starts with the first of them
    and imports, once for all, what is expected by then; each is forked from it, and has its environment."""
    os.environ["OMP_NUM_THREADS"] = "1"  # several processes of one thread each beat one process of several threads
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_expected))
    return context


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hold SIGTERM back for a moment, such as the start of a process, which must get its instructions whole or never be
    born; it takes effect at the end."""
    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if came and callable(before):
            before(*came[0])
        elif came and before == signal.SIG_DFL:
            signal.raise_signal(signal.SIGTERM)


def spread(
    units: Iterable[Unit | None],
    prepare: Callable[[], Prepared],
    act: Callable[[Prepared, Unit], Result],
    crew: Crew,
) -> Generator[tuple[Unit, Result], None, None]:
    """Yield every unit with its result, in the order they finish. Only a few units are in flight at a time, so that
    memory is bounded whatever their number. Whoever may stop before the end wraps this in `contextlib.closing`: an
    engine is released when the iterator ends or is closed."""
    feed = Feed(units)
    first = feed.take()
    if first is None:
        return  # no worker is started for nothing
    feed.put_back(first)
    if crew.ray:
        from stages.cluster import over_actors

        yield from over_actors(feed, prepare, act, crew)
    elif crew.stepping:
        yield from over_steps(feed, prepare, act, crew)
    elif crew.at_once > 1:
        yield from over_threads(feed, prepare, act, crew)
    else:
        yield from over_processes(feed, prepare, act, crew)


class Feed(Generic[Unit]):
    """Units, as room for them comes up."""

    def __init__(self, units: Iterable[Unit | None]) -> None:
        self._units = iter(units)
        self._returned: deque[Unit] = deque()

    def take(self) -> Unit | None:
        """The next unit; None where there is none, for now or for good."""
        return self._returned.popleft() if self._returned else next(self._units, None)

    def put_back(self, unit: Unit) -> None:
        self._returned.appendleft(unit)

    def up_to(self, room: int) -> Iterator[Unit]:
        while room > 0 and (unit := self.take()) is not None:
            room -= 1
            yield unit


def over_processes(
    feed: Feed[Unit], prepare: Callable[[], Prepared], act: Callable[[Prepared, Unit], Result], crew: Crew
) -> Iterator[tuple[Unit, Result]]:
    with ProcessPoolExecutor(crew.workers, forked(), initializer=_begin, initargs=(prepare,)) as pool:
        running: dict[Future[Result], Unit] = {}
        try:
            while True:
                room = crew.workers * crew.in_flight - len(running)
                for unit in feed.up_to(room):
                    with undisturbed():  # a process may start here
                        running[pool.submit(_act, act, unit)] = unit
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BaseException as error:
            workers = list(pool._processes.values())
            # A broken pool ends its other workers itself; waiting for that makes the exit codes final.
            broken = isinstance(error, BrokenProcessPool)  # seen where a result is awaited, or the next unit sent
            pool.shutdown(wait=broken, cancel_futures=True)
            if broken:
                raise LeashError(_death_of([worker.exitcode for worker in workers])) from None
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _death_of(codes: Iterable[int | None]) -> str:
    """A sentence on the first worker that died, by the exit codes of all: the pool ended the others with SIGTERM."""
    code = next((code for code in codes if code not in (None, 0, -signal.SIGTERM)), -signal.SIGTERM)
    advice = {
        -signal.SIGKILL: "with a smaller `sample.batch` or `run.processes` if it happens again",
        -signal.SIGILL: "with `dtype: float32` for the models of this run if they are in bfloat16 or float16",
    }
    told = advice.get(code or 0)
    return (
        f"A worker process died: it {describe_exit(code or 0)}. Finished work is kept: run the command again to go on"
        + (f", {told}." if told else ".")
    )


class Desk:
    """Units on a worker's desk, done one after the other."""

    def __init__(self, prepared: Any, act: Callable[[Any, Any], Any]) -> None:
        self._prepared, self._act = prepared, act
        self._waiting: deque[tuple[int, Any]] = deque()

    def take(self, number: int, unit: Any) -> None:
        self._waiting.append((number, unit))

    def finish(self) -> list[tuple[int, Any]]:
        """What is finished next; nothing where there is nothing to do."""
        if not self._waiting:
            return []
        number, unit = self._waiting.popleft()
        return [(number, self._act(self._prepared, unit))]


class SteppingDesk:
    """Units on the desk of a worker that does many at a time."""

    def __init__(self, prepared: Any, act: Callable[[Any, Any], Any]) -> None:
        self._prepared, self._act = prepared, act
        self._numbers: dict[Any, int] = {}

    def take(self, number: int, unit: Any) -> None:
        self._numbers[self._act(self._prepared, unit)] = number

    def finish(self) -> list[tuple[int, Any]]:
        while self._numbers:
            if finished := self._prepared.step():
                return [(self._numbers.pop(ticket), result) for ticket, result in finished]
        return []


def over_steps(
    feed: Feed[Unit], prepare: Callable[[], Any], act: Callable[[Any, Unit], Any], crew: Crew
) -> Iterator[tuple[Unit, Any]]:
    """One worker, this very thread: nothing passes from hand to hand."""
    with _released(prepare()) as prepared:
        desk = SteppingDesk(prepared, act)
        units: dict[int, Unit] = {}
        numbers = count()
        while True:
            for unit in feed.up_to(crew.at_once - len(units)):
                units[number := next(numbers)] = unit
                desk.take(number, unit)
            if not units:
                return
            for number, result in desk.finish():
                yield units.pop(number), result


@contextmanager
def _released(prepared: Prepared) -> Iterator[Prepared]:
    """Close what a worker in this process held (an engine with its memory and processes), however the work ends. What
    worker processes and Ray's actors hold ends with them."""
    try:
        yield prepared
    finally:
        if close := getattr(prepared, "close", None):
            close()


def over_threads(
    feed: Feed[Unit], prepare: Callable[[], Prepared], act: Callable[[Prepared, Unit], Result], crew: Crew
) -> Iterator[tuple[Unit, Result]]:
    """One worker, this process. Its threads are daemons: they keep nobody from leaving."""
    with _released(prepare()) as prepared:
        yield from _with_threads(feed, prepared, act, crew)


def _with_threads(
    feed: Feed[Unit], prepared: Prepared, act: Callable[[Prepared, Unit], Result], crew: Crew
) -> Iterator[tuple[Unit, Result]]:
    asked: SimpleQueue[Unit | None] = SimpleQueue()
    results: SimpleQueue[tuple[Unit, Result | None, BaseException | None]] = SimpleQueue()

    def work() -> None:
        while (unit := asked.get()) is not None:
            try:
                results.put((unit, act(prepared, unit), None))
            except BaseException as error:
                results.put((unit, None, error))

    for _ in range(crew.at_once):
        threading.Thread(target=work, daemon=True).start()
    try:
        yield from _answered(feed, asked, results, crew.at_once)
    finally:
        for _ in range(crew.at_once):
            asked.put(None)


def _answered(
    feed: Feed[Unit],
    asked: SimpleQueue[Unit | None],
    results: SimpleQueue[tuple[Unit, Result | None, BaseException | None]],
    at_once: int,
) -> Iterator[tuple[Unit, Result]]:
    running = 0
    while True:
        for unit in feed.up_to(at_once - running):
            asked.put(unit)
            running += 1
        if not running:
            return
        unit, result, error = results.get()
        running -= 1
        if error:
            raise error
        yield unit, result  # type: ignore[misc]  # without an error there is a result


def _begin(prepare: Callable[[], Any]) -> None:
    """Begin as a worker. It prepares with its first unit, so that an error in that comes back as itself, and leaves
    when the process that wants its results is gone, however that ended."""
    global _prepared
    end_with_parent()
    _prepared = cache(prepare)


def _act(act: Callable[[Any, Any], Any], unit: Any) -> Any:
    return act(_prepared(), unit)

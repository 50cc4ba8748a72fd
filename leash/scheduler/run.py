"""Run units of work on workers and yield their results: the only scheduler of Leash.

    for unit, result in run_units(units, prepare, act, WorkerPlan(workers=2)):
        ...

Each worker calls `prepare()` once, keeps what that returns (an engine, a grader), and calls `act(prepared, unit)` for
every unit it gets. Results come back to the caller, who alone writes to disk.

In:  an iterable of units. It advances only when a worker is free. It may yield None if there is nothing to do until
     more results are back, so units may depend on earlier results.
Out: (unit, result) pairs in the order in which units finish.

An engine that works on many units at a time (vLLM) is `stepping`: `act` starts a unit and returns a ticket, and
`prepared.step()` returns finished tickets with their results.
"""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from typing import Any

from leash.errors import LeashError, describe_exit
from leash.scheduler.parent_death import end_with_parent
from leash.scheduler.worker_plan import Prepared, Result, Unit, UnitQueue, WorkerPlan, defer_sigterm, forkserver_context

_prepare_once: Callable[[], Any]  # set in each worker process


class WorkerDiedError(LeashError):
    """A worker process ended before its unit was done. `exit_code` is negative for a signal, as in subprocess."""

    def __init__(self, exit_code: int) -> None:
        self.exit_code = exit_code
        remedy = {
            -signal.SIGKILL: " If it happens again, lower `sample.batch` or `run.processes`.",
            -signal.SIGILL: " If a model of this run is in bfloat16 or float16, set its `dtype` to float32.",
        }.get(exit_code, "")
        super().__init__(
            f"A worker process died: it {describe_exit(exit_code)}. Finished work is kept: run the command again to "
            f"continue.{remedy}"
        )


def run_units(
    units: Iterable[Unit | None],
    prepare: Callable[[], Prepared],
    act: Callable[[Prepared, Unit], Result],
    plan: WorkerPlan,
) -> Generator[tuple[Unit, Result], None, None]:
    """Do every unit on the workers of the plan, and yield it with its result as soon as it is finished.

        units ──► UnitQueue ──► executor ──► (unit, result) ──► caller
          ▲           ▲            │                              │
          │           └─ put back ─┘ a Ray worker died            │
          └────────────── results may add units ──────────────────┘

        plan                executor            a worker is        runs act()
        ──────────────────  ──────────────────  ─────────────────  ─────────────────────────────
        ray                 run_on_ray          an actor           in actors, any node
        stepping            run_stepwise        this thread        once a unit, then step()
        at_once > 1         run_in_threads      this process       in `at_once` threads
        otherwise           run_in_processes    a forked process   in `workers` processes

    Only `plan.in_flight` units per worker are taken ahead, so memory is bounded whatever the number of units. A caller
    that may stop early wraps this in `contextlib.closing`: engines are released when the generator ends or is closed.
    """
    queue = UnitQueue(units)
    if not queue.has_next():
        return  # starts no worker if there is nothing to do
    if plan.ray:
        # Ray is an extra, and its module is needed on clusters only.
        from leash.scheduler.ray_cluster import run_on_ray

        yield from run_on_ray(queue, prepare, act, plan)
    elif plan.stepping:
        yield from run_stepwise(queue, prepare, act, plan)
    elif plan.at_once > 1:
        yield from run_in_threads(queue, prepare, act, plan)
    else:
        yield from run_in_processes(queue, prepare, act, plan)


def run_in_processes(
    queue: UnitQueue[Unit], prepare: Callable[[], Prepared], act: Callable[[Prepared, Unit], Result], plan: WorkerPlan
) -> Iterator[tuple[Unit, Result]]:
    context = forkserver_context()
    with ProcessPoolExecutor(plan.workers, context, initializer=_init_worker, initargs=(prepare,)) as pool:
        running: dict[Future[Result], Unit] = {}
        try:
            while True:
                for unit in queue.take_up_to(plan.workers * plan.in_flight - len(running)):
                    with defer_sigterm():  # `submit` may start a process
                        running[pool.submit(_act_on_unit, act, unit)] = unit
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BrokenProcessPool:
            # The pool terminates its other workers. After a waiting shutdown their exit codes are final.
            workers = list(pool._processes.values())
            pool.shutdown(wait=True, cancel_futures=True)
            codes = [worker.exitcode for worker in workers]
            culprit = next((code for code in codes if code not in (None, 0, -signal.SIGTERM)), None)
            raise WorkerDiedError(culprit or -signal.SIGTERM) from None
        except BaseException:
            # Without this, leaving the `with` block would wait until the units in flight are done.
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _init_worker(prepare: Callable[[], Any]) -> None:
    """Run in each new worker process. It prepares with its first unit, not here: an error in an initializer would only
    show as a broken pool."""
    global _prepare_once
    end_with_parent()
    _prepare_once = cache(prepare)


def _act_on_unit(act: Callable[[Any, Any], Any], unit: Any) -> Any:
    return act(_prepare_once(), unit)


def run_in_threads(
    queue: UnitQueue[Unit], prepare: Callable[[], Prepared], act: Callable[[Prepared, Unit], Result], plan: WorkerPlan
) -> Iterator[tuple[Unit, Result]]:
    submitted: SimpleQueue[Unit | None] = SimpleQueue()
    finished: SimpleQueue[tuple[Unit, Result | None, BaseException | None]] = SimpleQueue()

    def work(prepared: Prepared) -> None:
        while (unit := submitted.get()) is not None:
            try:
                finished.put((unit, act(prepared, unit), None))
            except BaseException as error:
                finished.put((unit, None, error))

    with _close_on_exit(prepare()) as prepared:
        # Daemon threads: a request that hangs must not keep the process from ending.
        for _ in range(plan.at_once):
            threading.Thread(target=work, args=(prepared,), daemon=True).start()
        running = 0
        try:
            while True:
                for unit in queue.take_up_to(plan.at_once - running):
                    submitted.put(unit)
                    running += 1
                if not running:
                    return
                unit, result, error = finished.get()
                running -= 1
                if error:
                    raise error
                yield unit, result  # type: ignore[misc]  # without an error there is a result
        finally:
            for _ in range(plan.at_once):
                submitted.put(None)


def run_stepwise(
    queue: UnitQueue[Unit], prepare: Callable[[], Any], act: Callable[[Any, Unit], Any], plan: WorkerPlan
) -> Iterator[tuple[Unit, Any]]:
    with _close_on_exit(prepare()) as prepared:
        running: dict[Any, Unit] = {}  # by ticket
        while True:
            for unit in queue.take_up_to(plan.at_once - len(running)):
                running[act(prepared, unit)] = unit
            if not running:
                return
            while not (finished := prepared.step()):
                pass
            for ticket, result in finished:
                yield running.pop(ticket), result


@contextmanager
def _close_on_exit(prepared: Prepared) -> Iterator[Prepared]:
    """Close what `prepare` returned (an engine with its memory and processes), however the work ends. Worker processes
    and Ray actors do not need this: what they hold ends with them."""
    try:
        yield prepared
    finally:
        if close := getattr(prepared, "close", None):
            close()

"""The one place that maps units of work to processes.

    for unit, result in spread(units, prepare, act, workers=2): ...

Each worker process calls `prepare()` once, keeps what it gives (an engine, a grader), and calls
`act(prepared, unit)` for every unit it gets. Results come back to the caller, who alone writes to disk.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar

from stages.errors import LeashError

Unit = TypeVar("Unit")
Result = TypeVar("Result")
Prepared = TypeVar("Prepared")

_prepared: Any = None


def spread(
    units: Iterable[Unit],
    prepare: Callable[[], Prepared],
    act: Callable[[Prepared, Unit], Result],
    *,
    workers: int,
    preload: tuple[str, ...] = (),
) -> Iterator[tuple[Unit, Result]]:
    """Yield every unit with its result, in the order they finish. Only a few units are in flight at a time, so that
    memory is bounded whatever their number. `preload` names modules worth importing only once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    # Inherited by the workers: several processes of one thread each beat one process of several threads.
    os.environ["OMP_NUM_THREADS"] = "1"
    waiting = iter(units)
    with ProcessPoolExecutor(max(workers, 1), context, initializer=_prepare, initargs=(prepare,)) as pool:
        try:
            running = {pool.submit(_act, act, unit): unit for unit in islice(waiting, 2 * workers)}
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    unit = running.pop(future)
                    running.update((pool.submit(_act, act, u), u) for u in islice(waiting, 1))
                    yield unit, _result(future)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _prepare(prepare: Callable[[], Any]) -> None:
    global _prepared
    _prepared = prepare()


def _act(act: Callable[[Any, Any], Any], unit: Any) -> Any:
    return act(_prepared, unit)


def _result(future: Future[Result]) -> Result:
    try:
        return future.result()
    except BrokenProcessPool:
        raise LeashError(
            "A worker process died (out of memory?); what was finished is kept: run the command again to go on, "
            "with a smaller `sample.batch` or `run.processes` if it happens again."
        ) from None

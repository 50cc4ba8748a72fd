"""Run units of work on a Ray cluster.

Each worker is an actor with a GPU or some CPUs. It keeps what `prepare` returned and holds a few units at a time.
Results come back to the driver, so no shared file system is needed. When a node dies, its units go back to the queue
and a new worker starts as soon as the cluster has resources for it, if necessary on a node that joins later.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from leash import install_hints
from leash.errors import LeashError, NotInstalledError
from leash.scheduler.worker_plan import Result, Unit, UnitQueue, WorkerPlan

# After this many deaths of workers without a result in between, the cause is not bad luck.
MAX_CONSECUTIVE_DEATHS = 8


class RayWorkersDiedError(LeashError):
    """Too many workers of the cluster died without a result in between."""

    def __init__(self, deaths: int) -> None:
        self.deaths = deaths
        super().__init__(
            f"{deaths} workers of the Ray cluster died one after the other. Finished work is kept. Read the logs of "
            f"their nodes (`ray logs`), then run the command again. If they ran out of memory, lower `ray.workers`."
        )


class NoRayClusterError(LeashError):
    """No cluster answers at the given address."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"There is no Ray cluster at {address} (from `ray.address` or RAY_ADDRESS). Start one with `ray start "
            f"--head`."
        )


class RayWorker:
    """The actor: one worker on a node of the cluster."""

    def __init__(self, prepare: Callable[[], Any], act: Callable[[Any, Any], Any], stepping: bool) -> None:
        self._prepare, self._act, self._stepping = prepare, act, stepping
        self._waiting: deque[tuple[int, Any]] = deque()
        self._numbers: dict[Any, int] = {}  # of the units in a stepping engine, by ticket

    def ready(self) -> None:
        # Not in the constructor: Ray reports an error there as the actor's death, without the error itself.
        self._prepared = self._prepare()

    def work(self, new_units: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """Accept numbered units, and work until one of this worker's units, new or old, is finished."""
        if not self._stepping:
            self._waiting += new_units
            if not self._waiting:
                return []
            number, unit = self._waiting.popleft()
            return [(number, self._act(self._prepared, unit))]
        for number, unit in new_units:
            self._numbers[self._act(self._prepared, unit)] = number
        while self._numbers:
            if finished := self._prepared.step():
                return [(self._numbers.pop(ticket), result) for ticket, result in finished]
        return []


@dataclass
class WorkerHandle:
    """A worker as the driver sees it: the units it holds, by number, and how many calls of `work` have not returned."""

    actor: Any
    units: dict[int, Any] = field(default_factory=dict)
    calls: int = 0
    dead: bool = False


def run_on_ray(
    queue: UnitQueue[Unit], prepare: Callable[[], Any], act: Callable[[Any, Unit], Result], plan: WorkerPlan
) -> Iterator[tuple[Unit, Result]]:
    """The driver's loop: hand out units, wait for the next call that returns, yield its results, replace the dead."""
    assert plan.ray
    with _connect_ray(plan) as ray:
        cluster = ray.cluster_resources()
        on_gpu = plan.gpus and cluster.get("GPU", 0)
        resources = {"num_gpus": plan.gpus, "num_cpus": 1} if on_gpu else {"num_cpus": plan.ray.cpus}
        actor_class = ray.remote(RayWorker).options(**resources)

        def start_worker() -> tuple[Any, WorkerHandle]:
            worker = WorkerHandle(actor_class.remote(prepare, act, plan.stepping))
            return worker.actor.ready.remote(), worker

        fit = cluster["GPU"] // plan.gpus if on_gpu else cluster.get("CPU", 1) // plan.ray.cpus
        workers = max(1, int(fit)) if plan.ray.workers == "auto" else plan.ray.workers
        # All calls whose results the driver waits for. A call of `ready` returns None, a call of `work` a list.
        calls: dict[Any, WorkerHandle] = dict(start_worker() for _ in range(workers))
        ready: list[WorkerHandle] = []
        numbers = count()
        deaths = 0
        while True:
            for worker, new_units in _assign_units(queue, ready, plan.in_flight, numbers):
                calls[worker.actor.work.remote(new_units)] = worker
            if ready and not any(worker.units for worker in ready):
                return
            [call], _ = ray.wait(list(calls), num_returns=1)
            worker = calls.pop(call)
            try:
                finished = ray.get(call)
            except ray.exceptions.RayTaskError as error:
                # An error in `prepare` or `act`. The user sees Leash's own errors as they are.
                raise (error.cause if isinstance(error.cause, LeashError) else error) from None
            except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError):
                if worker.dead:
                    continue  # a second call to the same worker: its death is already dealt with
                worker.dead = True
                deaths += 1
                if deaths > MAX_CONSECUTIVE_DEATHS:
                    raise RayWorkersDiedError(deaths) from None
                ready = [other for other in ready if other is not worker]
                queue.put_back(*worker.units.values())
                calls.update([start_worker()])
                continue
            if finished is None:
                ready.append(worker)
                continue
            worker.calls -= 1
            for number, result in finished:
                deaths = 0
                yield worker.units.pop(number), result


def _assign_units(
    queue: UnitQueue[Unit], workers: list[WorkerHandle], max_units: int, numbers: Iterator[int]
) -> Iterator[tuple[WorkerHandle, list[tuple[int, Unit]]]]:
    """Give new units to the least busy workers, and yield the calls of `work` to make.

    A worker with two or more units has two calls under way. While the driver handles the result of one, the worker
    is already at the other, so that it never waits for the network.
    """
    new_units: dict[int, list[tuple[int, Unit]]] = {id(worker): [] for worker in workers}
    while workers and len((idlest := min(workers, key=lambda w: len(w.units))).units) < max_units:
        if (unit := queue.take()) is None:
            break
        number = next(numbers)
        idlest.units[number] = unit
        new_units[id(idlest)].append((number, unit))
    for worker in workers:
        while worker.calls < min(2, len(worker.units)) or new_units[id(worker)]:
            worker.calls += 1
            yield worker, new_units[id(worker)]
            new_units[id(worker)] = []


@contextmanager
def _connect_ray(plan: WorkerPlan) -> Iterator[Any]:
    """Connect to the cluster at `ray.address` or RAY_ADDRESS, or start one on this machine. An existing connection of
    this process is used and stays open."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise NotInstalledError("Ray", install_hints.install_command("ray"), "set `run.on` to local") from None
    assert plan.ray
    if ray.is_initialized():
        yield ray
        return
    address = plan.ray.address or os.environ.get("RAY_ADDRESS", "local")
    size: dict[str, Any] = {"num_cpus": plan.workers * plan.ray.cpus} if address == "local" else {}
    try:
        ray.init(address, logging_level=logging.ERROR, log_to_driver=False, **size)
    except ConnectionError:
        raise NoRayClusterError(address) from None
    try:
        yield ray
    finally:
        ray.shutdown()

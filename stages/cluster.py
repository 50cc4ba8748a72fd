"""Ray: work on the machines of a cluster.

Each worker is an actor with a GPU or some CPUs; it holds what `prepare` made and takes a few units at a time.
Results come back to the driver, so no shared file system is needed. When a node dies, its units go to other
workers and a new worker is asked for, which starts wherever there is room, now or once a node joins.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stages.errors import LeashError
from stages.work import Crew, Feed, Prepared, Result, Unit

MOST_DEATHS = 8  # of workers, one after the other with no result between: then it is not bad luck


class Worker:
    """What runs in an actor."""

    def __init__(self, prepare: Callable[[], Any]) -> None:
        self._prepare = prepare

    def ready(self) -> None:
        """Apart from the constructor, so that an error in it comes back as itself."""
        self._prepared = self._prepare()

    def act(self, act: Callable[[Any, Any], Any], unit: Any) -> Any:
        return act(self._prepared, unit)


@dataclass
class Hand:
    """A worker as the driver sees it."""

    actor: Any
    units: int = 0
    dead: bool = False


def over_actors(
    feed: Feed[Unit], prepare: Callable[[], Prepared], act: Callable[[Prepared, Unit], Result], crew: Crew
) -> Iterator[tuple[Unit, Result]]:
    with _connected(crew) as ray:
        lost = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError)
        hire = _hirer(ray, crew, prepare)
        ready: list[Hand] = []
        waiting: dict[Any, tuple[Hand, Unit | None]] = dict(hire() for _ in range(_size(ray, crew)))
        deaths = 0
        while True:
            for free, given in _assigned(feed, ready, crew.in_flight):
                waiting[free.actor.act.remote(act, given)] = free, given
            if ready and not any(hand.units for hand in ready):
                return
            [ref], _ = ray.wait(list(waiting), num_returns=1)
            hand, unit = waiting.pop(ref)
            try:
                result = _result(ray, ref)
            except lost:
                deaths += not hand.dead
                if deaths > MOST_DEATHS:
                    raise LeashError(
                        f"{deaths} workers of the Ray cluster died one after the other (out of memory?); what was "
                        f"finished is kept: run the command again to go on, with fewer `ray.workers`."
                    ) from None
                if not hand.dead:
                    hand.dead = True
                    ready = [other for other in ready if other is not hand]
                    waiting.update([hire()])
                if unit is not None:
                    feed.put_back(unit)
                continue
            if unit is None:
                ready.append(hand)
            else:
                deaths, hand.units = 0, hand.units - 1
                yield unit, result


def _assigned(feed: Feed[Unit], ready: list[Hand], most: int) -> Iterator[tuple[Hand, Unit]]:
    """Units for workers that have room, the least busy first."""
    while ready and (hand := min(ready, key=lambda h: h.units)).units < most and (unit := feed.take()) is not None:
        hand.units += 1
        yield hand, unit


def _hirer(ray: Any, crew: Crew, prepare: Callable[[], Any]) -> Callable[[], tuple[Any, tuple[Hand, None]]]:
    """A function that starts a worker and gives what to wait for until it is ready."""
    assert crew.ray
    share = {"num_gpus": crew.gpus, "num_cpus": 1} if crew.gpus else {"num_cpus": crew.ray.cpus}
    remote = ray.remote(Worker).options(max_concurrency=crew.at_once, **share)

    def hire() -> tuple[Any, tuple[Hand, None]]:
        hand = Hand(remote.remote(prepare))
        return hand.actor.ready.remote(), (hand, None)

    return hire


def _size(ray: Any, crew: Crew) -> int:
    assert crew.ray
    if crew.ray.workers != "auto":
        return crew.ray.workers
    there = ray.cluster_resources()
    fit = there.get("GPU", 0) // crew.gpus if crew.gpus else there.get("CPU", 1) // crew.ray.cpus
    return max(1, int(fit))


def _result(ray: Any, ref: Any) -> Any:
    try:
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        raise (error.cause if isinstance(error.cause, LeashError) else error) from None


@contextmanager
def _connected(crew: Crew) -> Iterator[Any]:
    """Ray, joined to the cluster, or to one started here; left again if it was joined here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise LeashError(
            "`run.on` is ray, but Ray is not installed; install it with `pip install 'leash[ray]'`."
        ) from None
    assert crew.ray
    joined = ray.is_initialized()
    if not joined:
        there = crew.ray.address or "RAY_ADDRESS" in os.environ
        size: dict[str, Any] = {} if there else {"num_cpus": crew.workers * crew.ray.cpus}
        try:
            ray.init(crew.ray.address, logging_level=logging.ERROR, log_to_driver=False, **size)
        except ConnectionError:
            raise LeashError(
                f"There is no Ray cluster at {crew.ray.address} (`ray.address`); start one with `ray start --head`."
            ) from None
    try:
        yield ray
    finally:
        if not joined:
            ray.shutdown()

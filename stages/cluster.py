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
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from stages import hints
from stages.errors import LeashError
from stages.work import Crew, Desk, Feed, Result, SteppingDesk, Unit

MOST_DEATHS = 8  # of workers, one after the other with no result between: then it is not bad luck


class Worker:
    """What runs in an actor."""

    def __init__(self, prepare: Callable[[], Any], act: Callable[[Any, Any], Any], stepping: bool) -> None:
        self._prepare, self._act, self._stepping = prepare, act, stepping

    def ready(self) -> None:
        """Apart from the constructor, so that an error in it comes back as itself."""
        prepared = self._prepare()
        self._desk = SteppingDesk(prepared, self._act) if self._stepping else Desk(prepared, self._act)

    def work(self, new: list[tuple[int, Any]]) -> list[tuple[int, Any]]:
        """Take some units, by number, and work until one of those taken, now or before, is finished."""
        for number, unit in new:
            self._desk.take(number, unit)
        return self._desk.finish()


@dataclass
class Hand:
    """A worker as the driver sees it: the units it has by their number, and the calls to it that are not back."""

    actor: Any
    units: dict[int, Any] = field(default_factory=dict)
    calls: int = 0
    dead: bool = False


def over_actors(
    feed: Feed[Unit], prepare: Callable[[], Any], act: Callable[[Any, Unit], Result], crew: Crew
) -> Iterator[tuple[Unit, Result]]:
    with _connected(crew) as ray:
        lost = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError)
        hire = _hirer(ray, crew, prepare, act)
        ready: list[Hand] = []
        calls: dict[Any, Hand] = dict(hire() for _ in range(_size(ray, crew)))
        numbers = count()
        deaths = 0
        while True:
            for hand, new in _shared_out(feed, ready, crew.in_flight, numbers):
                calls[hand.actor.work.remote(new)] = hand
            if ready and not any(hand.units for hand in ready):
                return
            [ref], _ = ray.wait(list(calls), num_returns=1)
            hand = calls.pop(ref)
            try:
                finished = _result(ray, ref)
            except lost:
                if not hand.dead:
                    deaths += 1
                    _give_up_after(deaths)
                    hand.dead = True
                    ready = [other for other in ready if other is not hand]
                    for unit in hand.units.values():
                        feed.put_back(unit)
                    calls.update([hire()])
                continue
            if finished is None:
                ready.append(hand)
                continue
            hand.calls -= 1
            for number, result in finished:
                deaths = 0
                yield hand.units.pop(number), result


def _shared_out(
    feed: Feed[Unit], ready: list[Hand], most: int, numbers: Iterator[int]
) -> Iterator[tuple[Hand, list[tuple[int, Unit]]]]:
    """The calls to make: new units go to the least busy, and whoever has units has two calls, so that none waits for
    the next."""
    new: dict[int, list[tuple[int, Unit]]] = {id(hand): [] for hand in ready}
    while ready and len((hand := min(ready, key=lambda h: len(h.units))).units) < most:
        if (unit := feed.take()) is None:
            break
        number = next(numbers)
        hand.units[number] = unit
        new[id(hand)].append((number, unit))
    for hand in ready:
        while hand.calls < min(2, len(hand.units)) or new[id(hand)]:
            hand.calls += 1
            yield hand, new[id(hand)]
            new[id(hand)] = []


def _give_up_after(deaths: int) -> None:
    if deaths > MOST_DEATHS:
        raise LeashError(
            f"{deaths} workers of the Ray cluster died one after the other. Finished work is kept. Look into the "
            f"logs of their nodes (`ray logs`), then run the command again; if they ran out of memory, with fewer "
            f"`ray.workers`."
        )


def _hirer(
    ray: Any, crew: Crew, prepare: Callable[[], Any], act: Callable[[Any, Any], Any]
) -> Callable[[], tuple[Any, Hand]]:
    """A function that starts a worker and gives what to wait for until it is ready."""
    assert crew.ray
    there = ray.cluster_resources().get("GPU", 0)
    share = {"num_gpus": crew.gpus, "num_cpus": 1} if crew.gpus and there else {"num_cpus": crew.ray.cpus}
    remote = ray.remote(Worker).options(**share)

    def hire() -> tuple[Any, Hand]:
        hand = Hand(remote.remote(prepare, act, crew.stepping))
        return hand.actor.ready.remote(), hand

    return hire


def _size(ray: Any, crew: Crew) -> int:
    assert crew.ray
    if crew.ray.workers != "auto":
        return crew.ray.workers
    there = ray.cluster_resources()
    gpus = crew.gpus and there.get("GPU", 0)
    fit = gpus // crew.gpus if gpus else there.get("CPU", 1) // crew.ray.cpus
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
            f"`run.on` is ray, but Ray is not installed; install it with {hints.install('ray')}."
        ) from None
    assert crew.ray
    joined = ray.is_initialized()
    if not joined:
        address = crew.ray.address or os.environ.get("RAY_ADDRESS", "local")
        size: dict[str, Any] = {"num_cpus": crew.workers * crew.ray.cpus} if address == "local" else {}
        try:
            ray.init(address, logging_level=logging.ERROR, log_to_driver=False, **size)
        except ConnectionError:
            raise LeashError(
                f"There is no Ray cluster at {address} (`ray.address` or RAY_ADDRESS); start one with "
                f"`ray start --head`."
            ) from None
    try:
        yield ray
    finally:
        if not joined:
            ray.shutdown()

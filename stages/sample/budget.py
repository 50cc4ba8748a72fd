"""How many samples a problem gets, and which are drawn next.

A fixed budget is k samples of every problem. An adaptive one (`sample.stop_after: h`) ends a problem at its h-th
correct sample; k is then the most that it may use. Rounds grow with what has been drawn, so that little is drawn past
the h-th hit and few rounds are needed. Which rounds a problem goes through depends on its own samples alone: not on
other problems, on the order in which samples come back, or on where a killed run went on.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stages.sample.ledger import Samples

FIRST = 4  # samples in a problem's first round, or h where that is more
GROWTH = 0.5  # a round is at most half of what was drawn before it: measured in tests/benchmarks/adaptive.py


@dataclass(frozen=True)
class Task:
    """Some samples of one problem. What an engine is given at a time is a tuple of these."""

    problem_id: str
    samples: range


Unit = tuple[Task, ...]


@dataclass(frozen=True)
class Stop:
    """End a problem once it has this many hits and at least `floor` samples."""

    after: int
    floor: int = 0


@dataclass
class _Open:
    """A problem that is being sampled: it has its samples below `target` but for those that are not back yet, and may
    need some more beyond."""

    target: int = 0
    pending: int = 0
    later: int = 0
    hits: list[int] = field(default_factory=list)  # sample numbers, ascending

    @property
    def hits_so_far(self) -> int:
        return bisect_left(self.hits, self.target)


class Budget:
    """Say `units` to know what to draw, and tell `saw` what came of it."""

    def __init__(
        self,
        problem_ids: Sequence[str],
        k: int,
        held: Mapping[str, Samples],
        stop: Stop | None = None,
        hits: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.k, self.stop, self._held = k, stop, held
        self._ready: deque[Task] = deque()
        self._queued = 0
        self.at_most = 0  # samples that are still to come if no open problem stops early
        known = hits or {}
        self._open = {p: _Open(hits=sorted(known.get(p, ()))) for p in problem_ids}
        for problem in problem_ids:
            self._advance(problem)

    def units(self, rows: int, workers: int) -> Iterator[Unit | None]:
        """What to draw, in units of at most `rows` samples, smaller where there is not enough for all workers. None:
        nothing until `saw` has been told more."""
        while self._open:
            yield self._unit(max(1, min(rows, math.ceil(self._queued / workers)))) if self._ready else None

    def saw(self, problem_id: str, sample: int, hit: bool) -> None:
        state = self._open[problem_id]
        state.pending -= 1
        self.at_most -= 1
        if hit:
            insort(state.hits, sample)
        if state.pending == 0:
            self._advance(problem_id)

    def _unit(self, rows: int) -> Unit:
        unit: list[Task] = []
        while self._ready and rows:
            task = self._ready.popleft()
            now, later = task.samples[:rows], task.samples[rows:]
            unit.append(Task(task.problem_id, now))
            rows -= len(now)
            self._queued -= len(now)
            if later:
                self._ready.appendleft(Task(task.problem_id, later))
        return tuple(unit)

    def _advance(self, problem: str) -> None:
        """Go on to the first round that lacks a sample, or close the problem."""
        state = self._open[problem]
        self.at_most -= state.later
        while not self._closed(state):
            begin, state.target = state.target, self._next_target(state)
            lacking = self._lacking(problem, begin, state.target)
            if len(lacking):
                state.pending, state.later = len(lacking), len(self._lacking(problem, state.target, self.k))
                self._queued += state.pending
                self.at_most += state.pending + state.later
                self._ready.extend(Task(problem, run) for run in _runs(lacking))
                return
        del self._open[problem]

    def _closed(self, state: _Open) -> bool:
        if self.stop and state.target >= self.stop.floor and state.hits_so_far >= self.stop.after:
            return True
        return state.target >= self.k

    def _next_target(self, state: _Open) -> int:
        if self.stop is None:
            return self.k
        n, hits, wanted = state.target, state.hits_so_far, self.stop.after
        if n == 0:
            return min(self.k, max(FIRST, wanted, self.stop.floor))
        likely = math.ceil((wanted - hits) * n / hits) if hits else n
        return min(self.k, n + max(1, min(likely, math.ceil(GROWTH * n))))

    def _lacking(self, problem: str, begin: int, end: int) -> Samples:
        wanted = np.arange(begin, end, dtype=np.int32)
        return np.setdiff1d(wanted, self._held[problem]) if problem in self._held else wanted


def _runs(samples: Samples) -> list[range]:
    """Consecutive numbers as ranges."""
    breaks = np.flatnonzero(np.diff(samples) > 1) + 1
    return [range(int(run[0]), int(run[-1]) + 1) for run in np.split(samples, breaks)]

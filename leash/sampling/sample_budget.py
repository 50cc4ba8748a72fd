"""How many samples a problem gets, and which are drawn next.

A fixed budget is k samples of every problem. An adaptive budget (`sample.stop_after: h`) ends a problem at its h-th
correct sample, and after k samples at the latest. It draws in rounds that grow with the number of samples, so that few
samples are drawn after the h-th hit and few rounds are needed. The rounds of a problem depend only on its own samples:
not on other problems, on the order in which samples come back, or on when a killed run continued.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from leash.sample_ledger import SampleNumbers

# Samples in a problem's first round, or h if that is more.
FIRST_ROUND_SAMPLES = 4
# A round is at most half of the samples before it: measured in tests/benchmarks/adaptive.py.
MAX_ROUND_GROWTH = 0.5


@dataclass(frozen=True)
class SampleRange:
    """Consecutive samples of one problem."""

    problem_id: str
    samples: range


# What an engine gets at a time.
DrawUnit = tuple[SampleRange, ...]


@dataclass(frozen=True)
class StoppingRule:
    """End a problem when it has `after` hits and at least `floor` samples."""

    after: int
    floor: int = 0


@dataclass
class _OpenProblem:
    """A problem that is not finished. Of its samples below `target`, `pending` are not back yet."""

    target: int = 0
    pending: int = 0
    missing_after_target: int = 0  # samples that it may need up to k
    hits: list[int] = field(default_factory=list)  # sample numbers, ascending


class Budget:
    """Iterate over `units` for what to draw, and report each result to `saw`."""

    def __init__(
        self,
        problem_ids: Sequence[str],
        k: int,
        on_disk: Mapping[str, SampleNumbers],
        stop: StoppingRule | None = None,
        hits: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.k, self.stop, self._on_disk = k, stop, on_disk
        self._ready: deque[SampleRange] = deque()
        self._queued = 0  # samples in `_ready`
        self.at_most = 0  # samples still to come if no problem stops early
        self._open = {problem: _OpenProblem(hits=sorted((hits or {}).get(problem, ()))) for problem in problem_ids}
        for problem in problem_ids:
            self._start_round(problem)

    def units(self, rows: int, workers: int) -> Iterator[DrawUnit | None]:
        """What to draw, in units of at most `rows` samples; smaller if there is too little for all workers. None means:
        nothing until `saw` has more results."""
        while self._open:
            yield self._next_unit(max(1, min(rows, math.ceil(self._queued / workers)))) if self._ready else None

    def saw(self, problem_id: str, sample: int, hit: bool) -> None:
        problem = self._open[problem_id]
        problem.pending -= 1
        self.at_most -= 1
        if hit:
            insort(problem.hits, sample)
        if problem.pending == 0:
            self._start_round(problem_id)

    def _next_unit(self, rows: int) -> DrawUnit:
        unit: list[SampleRange] = []
        while self._ready and rows:
            task = self._ready.popleft()
            now, later = task.samples[:rows], task.samples[rows:]
            unit.append(SampleRange(task.problem_id, now))
            rows -= len(now)
            self._queued -= len(now)
            if later:
                self._ready.appendleft(SampleRange(task.problem_id, later))
        return tuple(unit)

    def _start_round(self, problem_id: str) -> None:
        """Queue the next round that is not all on disk, or close the problem. Rounds that are on disk are passed
        through one by one, so that a run that continues makes the same rounds as an uninterrupted one."""
        problem = self._open[problem_id]
        self.at_most -= problem.missing_after_target
        while (target := self._next_target(problem)) is not None:
            begin, problem.target = problem.target, target
            missing = self._missing(problem_id, begin, problem.target)
            if len(missing):
                problem.pending = len(missing)
                problem.missing_after_target = len(self._missing(problem_id, problem.target, self.k))
                self._queued += problem.pending
                self.at_most += problem.pending + problem.missing_after_target
                breaks = np.flatnonzero(np.diff(missing) > 1) + 1
                for run in np.split(missing, breaks):
                    self._ready.append(SampleRange(problem_id, range(int(run[0]), int(run[-1]) + 1)))
                return
        del self._open[problem_id]

    def _next_target(self, problem: _OpenProblem) -> int | None:
        """How many samples the problem has after its next round; None if it is finished."""
        n, hits = problem.target, bisect_left(problem.hits, problem.target)
        if n >= self.k:
            return None
        if self.stop is None:
            return self.k
        needed = self.stop.after
        if hits >= needed and n >= self.stop.floor:
            return None
        if n == 0:
            return min(self.k, max(FIRST_ROUND_SAMPLES, needed, self.stop.floor))
        # As many samples as the hit rate so far suggests for the hits that are missing, within the limit of growth.
        expected = math.ceil((needed - hits) * n / hits) if hits else n
        return min(self.k, n + max(1, min(expected, math.ceil(MAX_ROUND_GROWTH * n))))

    def _missing(self, problem_id: str, begin: int, end: int) -> SampleNumbers:
        numbers = np.arange(begin, end, dtype=np.int32)
        return np.setdiff1d(numbers, self._on_disk[problem_id]) if problem_id in self._on_disk else numbers

"""Progress of long work: a bar on a terminal, else a line every few seconds.

    with Progress(4096, "sample base", "completions") as progress:
        progress.starting("vllm for base")    # starting vllm for base…
        progress.started()                    # vllm for base started in 97 s
        progress.add(64)                      # sample base: 64 of 4,096 completions

Rates and the time left count from the first result on, so that the start of an engine does not look like slow work.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from tqdm import tqdm

StartResult = TypeVar("StartResult")

LINE_INTERVAL_S = 10.0
# Shorter starts are not reported.
MIN_REPORTED_START_S = 1.0


class Progress:
    """Counts up to `total`. Other keyword arguments of `add` are shown beside the count."""

    def __init__(self, total: int, title: str, unit: str = "it") -> None:
        self._on_terminal = sys.stderr.isatty()
        self._bar = tqdm(total=total, desc=title, unit=unit, file=sys.stderr, disable=not self._on_terminal)
        self._title, self._unit, self._total, self._done = title, unit, total, 0
        self._last_line_at = time.monotonic()
        self._first_result: tuple[float, int] | None = None  # when it came, and its count
        self._start: tuple[str, float] | None = None  # what is starting, and since when

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def starting(self, name: str) -> None:
        """Announce the start of something that may take minutes."""
        self._start = name, time.monotonic()
        tqdm.write(f"starting {name}…", sys.stderr)

    def started(self) -> None:
        """Report how long the start took. `add` calls this with the first result."""
        if self._start:
            name, began = self._start
            self._start = None
            seconds = time.monotonic() - began
            if seconds >= MIN_REPORTED_START_S:
                tqdm.write(f"{name} started in {format_duration(seconds)}", sys.stderr)

    def timed(self, start: Callable[[], StartResult]) -> Callable[[], StartResult]:
        """The function `start`, followed by `started`. It works in this process only: workers have no Progress."""

        def start_and_report() -> StartResult:
            result = start()
            self.started()
            return result

        return start_and_report

    def add(self, count: int = 1, *, total: int | None = None, **shown: str) -> None:
        """Count finished work. `total` replaces the expected total, which may depend on results."""
        self._done += count
        if total is not None:
            self._total = self._bar.total = total
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        if self._first_result is None:
            self.started()
            self._first_result = time.monotonic(), self._done
            if self._on_terminal:
                # Restart tqdm's clock as well: it began when the engine started.
                self._bar.initial = self._bar.n = self._bar.last_print_n = self._done
                self._bar.unpause()
                self._bar.refresh()
        else:
            self._bar.update(count)
        now = time.monotonic()
        if not self._on_terminal and now - self._last_line_at > LINE_INTERVAL_S:
            self._last_line_at = now
            began, first_count = self._first_result
            done, seconds = self._done - first_count, now - began
            extra = [f"{name} {value}" for name, value in shown.items()]
            if done and seconds:
                left = seconds / done * (self._total - self._done)
                extra = [format_rate(done / seconds), *extra, f"about {format_duration(left)} left"]
            line = ", ".join([f"{self._title}: {self._done:,} of {self._total:,} {self._unit}", *extra])
            tqdm.write(line, sys.stderr)


def format_rate(per_second: float) -> str:
    """A rate in the largest unit in which it is at least a tenth: 1,234/s, 2.5/s, 3.0/min, 0.5/h."""
    for factor, unit in ((1, "s"), (60, "min"), (3600, "h")):
        rate = per_second * factor
        if rate >= 0.1 or unit == "h":
            break
    return f"{rate:,.0f}/{unit}" if rate >= 10 else f"{rate:,.1f}/{unit}"


def format_duration(seconds: float) -> str:
    """A duration with about two digits: 45 s, 3 min, 2.5 h, 4 days."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:,.0f} days"

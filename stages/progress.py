"""Progress of long work: a bar on a terminal, a line now and then where there is none.

    with Progress(4096, "sample base on chain", "completions") as progress:
        progress.starting("vllm for base")    # starting vllm for base…
        progress.started()                    # vllm for base started in 97 s
        progress.add(64)                      # sample base on chain: 64 of 4,096 completions

Rates and the time left count from the first result on, so that starting an engine does not look like slow work.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from tqdm import tqdm

Thing = TypeVar("Thing")

SECONDS_BETWEEN_LINES = 10.0
SECONDS_WORTH_TELLING = 1.0  # a start that takes less goes without saying how long it took


class Progress:
    """Counts up to `total`; other keyword arguments of `add` are shown beside the count."""

    def __init__(self, total: int, what: str, unit: str = "it") -> None:
        self._terminal = sys.stderr.isatty()
        self._bar = tqdm(total=total, desc=what, unit=unit, file=sys.stderr, disable=not self._terminal)
        self._what, self._unit, self._total, self._done = what, unit, total, 0
        self._said = time.monotonic()
        self._first: tuple[float, int] | None = None  # when the first results came, and how many they were
        self._starting: tuple[str, float] | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def starting(self, name: str) -> None:
        """Say that something is being started, which may take minutes."""
        self._starting = name, time.monotonic()
        self._say(f"starting {name}…")

    def started(self) -> None:
        """Say how long the start took; the first result says it, too."""
        if self._starting:
            name, began = self._starting
            self._starting = None
            seconds = time.monotonic() - began
            if seconds >= SECONDS_WORTH_TELLING:
                self._say(f"{name} started in {format_duration(seconds)}")

    def timed(self, start: Callable[[], Thing]) -> Callable[[], Thing]:
        """The same start, followed by `started`; for starts in this process, which alone has this object."""

        def start_and_tell() -> Thing:
            thing = start()
            self.started()
            return thing

        return start_and_tell

    def add(self, count: int = 1, *, total: int | None = None, **shown: str) -> None:
        """Count on; `total` corrects what there is to do, where that depends on what is found."""
        self._done += count
        if total is not None:
            self._total = self._bar.total = total
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        if self._first is None:
            self._begin()
        else:
            self._bar.update(count)
        if not self._terminal and time.monotonic() - self._said > SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self._say(self._line(shown))

    def _begin(self) -> None:
        """With the first results the clock starts, tqdm's too."""
        self.started()
        self._first = time.monotonic(), self._done
        if self._terminal:
            self._bar.initial = self._bar.n = self._bar.last_print_n = self._done
            self._bar.unpause()
            self._bar.refresh()

    def _line(self, shown: dict[str, str]) -> str:
        began, first = self._first or (self._said, self._done)
        done, seconds = self._done - first, self._said - began
        extra = [f"{name} {value}" for name, value in shown.items()]
        if done and seconds:
            left = seconds / done * (self._total - self._done)
            extra = [format_rate(done / seconds), *extra, f"about {format_duration(left)} left"]
        return ", ".join([f"{self._what}: {self._done:,} of {self._total:,} {self._unit}", *extra])

    def _say(self, line: str) -> None:
        if self._terminal:
            self._bar.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)


def format_rate(per_second: float) -> str:
    """A rate in the unit in which it is not less than a tenth: 1,234/s, 2.5/s, 3.0/min, 0.5/h."""
    for factor, unit in ((1, "s"), (60, "min"), (3600, "h")):
        rate = per_second * factor
        if rate >= 0.1 or unit == "h":
            break
    return f"{rate:,.0f}/{unit}" if rate >= 10 else f"{rate:,.1f}/{unit}"


def format_duration(seconds: float) -> str:
    """A duration to about two figures: 45 s, 3 min, 2.5 h, 4 days."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:,.0f} days"

"""Progress of long work: a bar on a terminal, a line now and then where there is none."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Counts up to `total`; other keyword arguments of `add` are shown beside the count."""

    def __init__(self, total: int, what: str, unit: str = "it") -> None:
        self._terminal = sys.stderr.isatty()
        self._bar = tqdm(total=total, desc=what, unit=unit, file=sys.stderr, disable=not self._terminal)
        self._what, self._unit, self._total, self._done = what, unit, total, 0
        self._started = self._said = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def add(self, count: int = 1, *, total: int | None = None, **shown: str) -> None:
        """Count on; `total` corrects what there is to do, where that depends on what is found."""
        self._done += count
        if total is not None:
            self._total = self._bar.total = total
        self._bar.update(count)
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        if not self._terminal and time.monotonic() - self._said > SECONDS_BETWEEN_LINES:
            self._line(shown)

    def _line(self, shown: dict[str, str]) -> None:
        self._said = time.monotonic()
        elapsed = self._said - self._started
        left = elapsed / max(self._done, 1) * (self._total - self._done)
        extra = "".join(f", {name} {value}" for name, value in shown.items())
        print(
            f"{self._what}: {self._done:,} of {self._total:,} {self._unit}, "
            f"{self._done / elapsed:,.0f}/s{extra}, about {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )

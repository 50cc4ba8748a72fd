"""What progress says without a terminal: starts, rates that can be read, a time left that can be trusted."""

from __future__ import annotations

import pytest

from stages import progress
from stages.progress import Progress, format_duration, format_rate


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 10.0)
    return clock


def test_a_slow_start_is_told_and_does_not_count_in_the_time_left(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(128, "sample base on chain", "completions") as shown:

        def start() -> str:
            clock.now += 100
            return "engine"

        shown.starting("vllm for base")
        assert capsys.readouterr().err == "starting vllm for base…\n"
        assert shown.timed(start)() == "engine"
        assert capsys.readouterr().err == "vllm for base started in 100 s\n"
        clock.now += 20
        shown.add(8)  # no rate can be told from the first results
        assert capsys.readouterr().err == "sample base on chain: 8 of 128 completions\n"
        clock.now += 30
        shown.add(20)
        line = "sample base on chain: 28 of 128 completions, 0.7/s, about 2 min left\n"
        assert capsys.readouterr().err == line


def test_the_first_result_says_that_engines_elsewhere_have_started(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(10, "sample base on chain") as shown:
        shown.starting("vllm for base")
        clock.now += 90
        shown.add()
        assert "vllm for base started in 90 s\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("per_second", "told"),
    [(1234.4, "1,234/s"), (12.0, "12/s"), (2.54, "2.5/s"), (0.4, "0.4/s"), (0.04, "2.4/min"), (1 / 7200, "0.5/h")],
)
def test_slow_rates_can_be_read(per_second: float, told: str) -> None:
    assert format_rate(per_second) == told


@pytest.mark.parametrize(
    ("seconds", "told"), [(4, "4 s"), (97, "97 s"), (180, "3 min"), (16376, "4.5 h"), (4 * 86400, "4 days")]
)
def test_durations_are_in_readable_units(seconds: float, told: str) -> None:
    assert format_duration(seconds) == told

"""Progress without a terminal: starts, readable rates, and a time left that can be trusted."""

from __future__ import annotations

import pytest

from leash import progress
from leash.progress import Progress, format_duration, format_rate


class Clock:
    """A clock that tests advance."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(progress, "LINE_INTERVAL_S", 10.0)
    return clock


def test_a_slow_start_is_reported_and_does_not_count_in_the_time_left(
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
        shown.add(8)  # the first results give no rate
        assert capsys.readouterr().err == "sample base on chain: 8 of 128 completions\n"
        clock.now += 30
        shown.add(20)
        line = "sample base on chain: 28 of 128 completions, 0.7/s, about 2 min left\n"
        assert capsys.readouterr().err == line


def test_the_first_result_reports_the_start_of_engines_in_other_processes(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(10, "sample base on chain") as shown:
        shown.starting("vllm for base")
        clock.now += 90
        shown.add()
        assert "vllm for base started in 90 s\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("per_second", "expected"),
    [(1234.4, "1,234/s"), (12.0, "12/s"), (2.54, "2.5/s"), (0.4, "0.4/s"), (0.04, "2.4/min"), (1 / 7200, "0.5/h")],
)
def test_slow_rates_get_a_readable_unit(per_second: float, expected: str) -> None:
    assert format_rate(per_second) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(4, "4 s"), (97, "97 s"), (180, "3 min"), (16376, "4.5 h"), (4 * 86400, "4 days")]
)
def test_durations_are_in_readable_units(seconds: float, expected: str) -> None:
    assert format_duration(seconds) == expected

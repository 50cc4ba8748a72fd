"""The decision on a pair: does the trained model support more problems than its base, fewer, or is it undecided?

Everything that states a result calls `decide`: `leash compare`, the report, the page and metrics.json. It reads the
dictionary that `analysis.py` builds (docs/compare.md lists its keys); its numbers are all at the chosen k and epsilon.
tests/unit/test_one_rule.py checks that they all state the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Outcome = Literal["more", "fewer", "undecided"]


@dataclass(frozen=True)
class Decision:
    """`more` or `fewer` needs both criteria: the interval of the net change excludes 0, and McNemar's test rejects."""

    outcome: Outcome
    interval_excludes_zero: bool
    test_rejects: bool
    p_value: float


def decide(analysis: Mapping[str, Any]) -> Decision:
    """Decide on the net change of support in a group of problems.

    Needs the keys NSCR, mcnemar and confidence. At a k below the number of samples these are of the expected E and S.
    """
    net, p_value = analysis["NSCR"], analysis["mcnemar"]["p_value"]
    low, high = net["low"], net["high"]
    excludes_zero = low is not None and high is not None and (low > 0 or high < 0)
    rejects = bool(p_value < 1 - analysis["confidence"])
    outcome: Outcome = "undecided"
    if excludes_zero and rejects:
        outcome = "more" if net["value"] > 0 else "fewer"
    return Decision(outcome, excludes_zero, rejects, p_value)


def has_comparable_floor(floor: Mapping[str, Any]) -> bool:
    """Whether the noise floor is known for the same problems as the pair's values. Above epsilon = 0 it is unknown for
    problems that stopped early."""
    if floor["k"] is None:
        return False
    base, pair = (sum(floor[which][name] for name in "PESO") for which in ("base", "pair"))
    return bool(abs(base - pair) < 1e-6 * (1 + pair))


def is_beyond_noise(analysis: Mapping[str, Any], what: Literal["gains", "losses"]) -> bool:
    """Whether gains or losses exceed the noise floor by more than chance explains."""
    floor = analysis["noise_floor"]
    low, high = floor["excess"]["NDR"]["low"], floor["excess"]["SRR"]["high"]
    beyond = (low is not None and low > 0) if what == "gains" else (high is not None and high < 0)
    return bool(has_comparable_floor(floor) and beyond)

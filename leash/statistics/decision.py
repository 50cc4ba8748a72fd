"""The decision on a pair: does the trained model reach more problems than its base, fewer, as many, or can't we tell?

Everything that states a result calls `decide`: `leash compare`, the report, the page and metrics.json. It reads the
dictionary that `analysis.py` builds (docs/compare.md lists its keys); its numbers are all at the chosen k and epsilon.
tests/unit/test_one_rule.py checks that they all state the same.

    more, fewer   the test of the net change rejects, and the interval of the net change excludes 0
    equivalent    two one-sided tests show that the net change is smaller than `categorize.margin`
    undecided     neither

Several comparisons that are read together are corrected together (`correct_for_several`, Holm's method): among four
checkpoints that changed nothing, one would otherwise seem to in 10% of runs.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from leash.statistics.clusters import smallest_significant_sum
from leash.statistics.testing import mcnemar_p_value

Outcome = Literal["more", "fewer", "equivalent", "undecided"]
# The p-values of an analysis that several comparisons are corrected for, by their place in it.
CORRECTED_P_VALUES = (("test", "p_value"), ("equivalence", "p_value"), ("noise", "gains_p"), ("noise", "losses_p"))


@dataclass(frozen=True)
class Decision:
    """`more` and `fewer` need both criteria. `p_value` is corrected for the comparisons it is read with."""

    outcome: Outcome
    interval_excludes_zero: bool
    test_rejects: bool
    p_value: float


def decide(analysis: Mapping[str, Any]) -> Decision:
    """Decide on the net change of support in a group of problems, from the keys NSCR, test, equivalence and
    confidence."""
    net, alpha = analysis["NSCR"], 1 - analysis["confidence"]
    p_value, equivalence_p = (analysis[name]["p_adjusted"] for name in ("test", "equivalence"))
    low, high = net["low"], net["high"]
    excludes_zero = low is not None and high is not None and (low > 0 or high < 0)
    rejects = bool(p_value < alpha)
    outcome: Outcome = "undecided"
    if excludes_zero and rejects:
        outcome = "more" if net["value"] > 0 else "fewer"
    elif equivalence_p is not None and equivalence_p < alpha:
        outcome = "equivalent"
    return Decision(outcome, excludes_zero, rejects, p_value)


def is_beyond_noise(analysis: Mapping[str, Any], what: Literal["gains", "losses"]) -> bool | None:
    """Whether gains or losses are more than luck explains: half of the error rate for each direction. None if sampling
    stopped early, so that it is unknown."""
    p_value = analysis["noise"][f"{what}_p_adjusted"]
    return None if p_value is None else bool(p_value < (1 - analysis["confidence"]) / 2)


def has_comparable_floor(floor: Mapping[str, Any]) -> bool:
    """Whether the noise floor is known for the same problems as the pair's values. Above epsilon = 0 it is unknown for
    problems that stopped early."""
    if floor["k"] is None:
        return False
    base, pair = (sum(floor[which][name] for name in "PESO") for which in ("base", "pair"))
    return bool(abs(base - pair) < 1e-6 * (1 + pair))


def correct_for_several(analyses: Sequence[MutableMapping[str, Any]]) -> None:
    """Correct the p-values of analyses that are read together, and decide on each anew. Changes the analyses."""
    for group, name in CORRECTED_P_VALUES:
        adjusted = holm([analysis[group][name] for analysis in analyses])
        key = name.removesuffix("_value") + "_adjusted"
        for analysis, p_value in zip(analyses, adjusted, strict=True):
            analysis[group][key] = p_value
    for analysis in analyses:
        analysis["corrected_for"] = len(analyses)
        analysis["test"]["smallest_change"] = smallest_change(analysis, (1 - analysis["confidence"]) / len(analyses))
        analysis["decision"] = decide(analysis).outcome


def smallest_change(analysis: Mapping[str, Any], alpha: float) -> float | None:
    """The smallest net change, as a share of the problems, that would have been significant at this level, had the
    smaller of gains and losses been as it is (with clusters: had as many clusters changed by as much). None if there
    are too few problems for any, or too few clusters changed."""
    test, problems = analysis["test"], analysis["problems"] - analysis["uncategorized"]
    if test["name"] == "sign flip":
        changes = [int(size) for size, clusters in test["changes"].items() for _ in range(clusters)]
        smallest = smallest_significant_sum(np.array(changes, dtype=int), alpha)
        return None if smallest is None else smallest / problems
    if test["name"] != "McNemar":
        share = float(stats.t.isf(alpha / 2, test["df"]) * test["standard_error"])
        return share if share <= 1 else None
    fewer = more = min(analysis["categories"]["E"], analysis["categories"]["S"])
    while mcnemar_p_value(fewer, more) >= alpha:
        more += 1
    return (more - fewer) / problems if fewer + more <= problems else None


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values. None, not tested, stays None but counts as a comparison."""
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    known = [(p_value, place) for place, p_value in enumerate(p_values) if p_value is not None]
    for rank, (p_value, place) in enumerate(sorted(known)):
        largest = max(largest, min(p_value * (len(p_values) - rank), 1.0))
        adjusted[place] = largest
    return adjusted

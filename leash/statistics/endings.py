"""Do the completions of one model of a pair end without an answer, or cut off, more often than the other's?

They do if the shares of completions differ by MIN_SHARE_DIFFERENCE or more, and an exact sign test over problems
rejects. Problems are the unit, because samples of one problem are alike.
"""

from __future__ import annotations

from dataclasses import dataclass

COMPARED_STATUSES = ("no_answer", "truncated")
MIN_SHARE_DIFFERENCE = 0.05


@dataclass(frozen=True)
class EndingComparison:
    """The share of each model's completions with this ending, and the p-value of the sign test over problems."""

    status: str
    base: float
    rlvr: float
    p_value: float

    def differs(self, confidence: float) -> bool:
        # Bonferroni: each of the compared endings gets its part of the error rate.
        alpha = (1 - confidence) / len(COMPARED_STATUSES)
        return abs(self.base - self.rlvr) >= MIN_SHARE_DIFFERENCE and self.p_value < alpha

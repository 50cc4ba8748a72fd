"""Where two pass@k curves cross."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leash.statistics.array_types import FloatArray

# Curves that differ by less are equal up to rounding.
TIE_TOLERANCE = 1e-12


def crossing_k(budgets: Sequence[int], ahead: FloatArray, behind: FloatArray) -> FloatArray:
    """The k from which the second curve lies above the first, which was above before: interpolated between budgets by a
    straight line over log k. Infinite if that does not happen up to the last budget, NaN if the second is above from
    the start. Curves run along the last axis."""
    gap = ahead - behind
    logs = np.log2(np.asarray(budgets, dtype=float))
    leads, trails = gap > TIE_TOLERANCE, gap < -TIE_TOLERANCE
    last = np.where(leads.any(-1), len(logs) - 1 - np.argmax(leads[..., ::-1], axis=-1), -1)
    after = (trails & (np.arange(len(logs)) > last[..., None])).any(-1)
    left = np.clip(last, 0, max(len(logs) - 2, 0))
    right = np.minimum(left + 1, len(logs) - 1)
    gap_left, gap_right = (np.take_along_axis(gap, at[..., None], axis=-1)[..., 0] for at in (left, right))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        crossing = 2 ** (logs[left] + (logs[right] - logs[left]) * gap_left / (gap_left - gap_right))
    return np.where(~after, np.inf, np.where(last < 0, np.nan, crossing))

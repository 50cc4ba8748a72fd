"""Where two pass@k curves cross."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stages.categorize.statistics.arrays import Ints, Reals

TIE = 1e-12


def overtakes(budgets: Sequence[int], ahead: Reals, behind: Reals) -> Reals:
    """The k from which on the second curve lies above the first, which was above before; between budgets by a straight
    line over log k. Infinite where that does not happen up to the last budget, NaN where the second is above from the
    start. Curves run along the last axis."""
    gap = ahead - behind
    leads, trails = gap > TIE, gap < -TIE
    last = np.where(leads.any(-1), gap.shape[-1] - 1 - np.argmax(leads[..., ::-1], axis=-1), -1)
    after = (trails & (np.arange(gap.shape[-1]) > last[..., None])).any(-1)
    here = np.clip(last, 0, gap.shape[-1] - 2) if gap.shape[-1] > 1 else np.zeros_like(last)
    crossing = _between(np.log2(np.asarray(budgets, dtype=float)), gap, here)
    return np.where(~after, np.inf, np.where(last < 0, np.nan, crossing))


def _between(logs: Reals, gap: Reals, here: Ints) -> Reals:
    there = np.minimum(here + 1, len(logs) - 1)
    left = np.take_along_axis(gap, here[..., None], axis=-1)[..., 0]
    right = np.take_along_axis(gap, there[..., None], axis=-1)[..., 0]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.asarray(2 ** (logs[here] + (logs[there] - logs[here]) * left / (left - right)))

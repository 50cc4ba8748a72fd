"""Support: how many hits exceed epsilon, and the smallest mass that k samples can detect.

A model supports a problem if its share of hits among the first k samples is strictly above epsilon. `categories.py`
applies this to counts. Reading the parameters imports this module, so that numpy is loaded only when it is needed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from leash.statistics.array_types import IntArray


def hits_above(share: ArrayLike, k: ArrayLike) -> IntArray:
    """The fewest hits in k samples whose share is strictly above `share`; k + 1 if even k hits are not.

    Comparing hits / k with the share is the definition. floor(share * k) + 1 is not: 0.29 * 100 is below 29 in floating
    point, though 29 of 100 is not above 0.29.
    """
    import numpy as np

    share, k = np.broadcast_arrays(np.asarray(share, dtype=float), np.asarray(k, dtype=np.int64))
    candidates = np.maximum(np.floor(share * k), 1).astype(np.int64)[..., None] + np.arange(3)
    enough = candidates / np.maximum(k, 1)[..., None] > share[..., None]
    return np.asarray(np.where(enough, np.minimum(candidates, k[..., None] + 1), k[..., None] + 1).min(axis=-1))


def min_hits_above(share: float, k: int) -> int:
    """The hits after which sampling may stop: `hits_above`, and k if no number of hits is enough."""
    return min(int(hits_above(share, k)), k)


def hits_to_prove(share: float, k: int, confidence: float) -> int:
    """The fewest hits in k samples that prove a mass above `share` at this one-sided confidence; k + 1 if even k hits
    do not. At epsilon = auto and 95% it is 7 for every k from 11 on."""
    import numpy as np
    from scipy import stats

    hits = np.arange(1, k + 1)
    proves = stats.binom.sf(hits - 1, k, share) < 1 - confidence
    return int(hits[proves][0]) if proves.any() else k + 1


def detectable_mass(k: int, confidence: float) -> float:
    """The mass that k samples without a hit rule out at this confidence: the paper's detectability bound."""
    return -math.log(1 - confidence) / k


def smallest_identified(
    rows: Sequence[Mapping[str, Any]], epsilon: float | Sequence[float]
) -> Mapping[str, Any] | None:
    """Of the rows of `deconvolved`, that of the chosen epsilon (the largest of several data sets) or else of the next
    larger one that has numbers; None if none has."""
    chosen = epsilon if isinstance(epsilon, int | float) else max(epsilon)
    return next((row for row in rows if row["P"] is not None and row["epsilon"] >= chosen), None)

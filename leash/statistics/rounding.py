"""Numbers of nine significant digits, for what is written to disk.

Kinds of processors compute exponentials, logarithms and sums of products with other last digits. Written in full, the
same analysis would have other bytes on another machine, and DVC would take it for another result. Nine digits are far
fewer than any computation here gets right and more than anyone reads. Values are rounded where they leave the
statistics; decisions are then made on the rounded ones, so that they follow from what is written.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from leash.statistics.array_types import FloatArray

DIGITS = 9
# Up to here powers of ten are exact, so that multiplying and dividing by them gives what writing the digits would give,
# but for exact ties, of which either neighbour is taken.
EXACT_POWERS = 10.0 ** np.arange(23)


def round_digits(value: float) -> float:
    """The number with nine significant digits."""
    return float(f"{value:.{DIGITS}g}")


def round_column(values: ArrayLike) -> FloatArray:
    """The numbers with nine significant digits each; NaN and infinity stay as they are."""
    rounded = np.array(values, dtype=float)
    with np.errstate(divide="ignore"):
        shift = DIGITS - 1 - np.floor(np.log10(np.abs(rounded)))
    exact = (shift >= 0) & (shift < len(EXACT_POWERS))
    scale = EXACT_POWERS[shift[exact].astype(np.int64)]
    rounded[exact] = np.rint(rounded[exact] * scale) / scale
    rest = ~exact & np.isfinite(rounded)
    rounded[rest] = [round_digits(value) for value in rounded[rest].tolist()]
    return rounded

"""The four ratios of Definition 2.3.

compute_ratios(1355, 5, 56)  ->  {"SRR": 0.9603, "NDR": 0.0037, "SDS": 0.0073, "NSCR": -0.0360}
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from leash.statistics.array_types import FloatArray

RATIO_NAMES = ("SRR", "NDR", "SDS", "NSCR")


def compute_ratios(p: ArrayLike, e: ArrayLike, s: ArrayLike) -> dict[str, FloatArray]:
    """SRR, NDR, SDS and NSCR from the numbers of problems in P, E and S; NaN for 0/0."""
    p, e, s = np.asarray(p, dtype=float), np.asarray(e, dtype=float), np.asarray(s, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        srr, ndr = p / (p + s), e / (p + e)
        return {"SRR": srr, "NDR": ndr, "SDS": 2 * srr * ndr / (srr + ndr), "NSCR": (e - s) / (p + e + s)}

"""The kinds of arrays that statistics take and give."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]
Truths = NDArray[np.bool_]
Objects = NDArray[np.object_]


def absent(values: Objects) -> Truths:
    """Where an array of objects holds None."""
    return np.array([value is None for value in values.ravel()], dtype=bool).reshape(values.shape)

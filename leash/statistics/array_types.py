"""Types of the arrays that the statistics take and return."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
ObjectArray = NDArray[np.object_]


def is_none(values: ObjectArray) -> BoolArray:
    """A mask of the entries that are None."""
    return np.array([value is None for value in values.ravel()], dtype=bool).reshape(values.shape)

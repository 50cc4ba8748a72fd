"""The kinds of arrays that statistics take and give."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]
Truths = NDArray[np.bool_]
Objects = NDArray[np.object_]

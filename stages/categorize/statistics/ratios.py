"""P, E, S, O and the four ratios of Definition 2.3.

ratios(1355, 5, 56)  ->  {"SRR": 0.9603, "NDR": 0.0037, "SDS": 0.0073, "NSCR": -0.0360}
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stages.categorize.statistics.arrays import Objects, Reals, Truths

RATIOS = ("SRR", "NDR", "SDS", "NSCR")


@dataclass(frozen=True)
class Sorted:
    """How much of each problem is in P, E, S and O: all of it in one where its samples were seen, shares of it where
    they are expected, NaN where there is nothing to say."""

    P: Reals
    E: Reals
    S: Reals
    O: Reals  # noqa: E741 the paper's letter

    @property
    def known(self) -> Truths:
        return ~np.isnan(self.P)

    @property
    def letters(self) -> Objects:
        """The category of every problem that is wholly in one."""
        found = np.full(self.P.shape, None, dtype=object)
        for name in "PESO":
            found[getattr(self, name) == 1] = name
        return found

    @property
    def columns(self) -> Reals:
        """A row a problem, with nothing in it where nothing is known."""
        return np.nan_to_num(np.stack([self.P, self.E, self.S, self.O], axis=-1))


def sort(base: Reals, rlvr: Reals) -> Sorted:
    """P, E, S, O from each model's support (0 or 1) or chance of it: the models' samples are independent."""
    return Sorted(base * rlvr, (1 - base) * rlvr, base * (1 - rlvr), (1 - base) * (1 - rlvr))


def ratios(p: ArrayLike, e: ArrayLike, s: ArrayLike) -> dict[str, Reals]:
    """SRR, NDR, SDS and NSCR; NaN for 0/0."""
    p, e, s = np.asarray(p, dtype=float), np.asarray(e, dtype=float), np.asarray(s, dtype=float)
    with np.errstate(invalid="ignore", divide="ignore"):
        srr, ndr = p / (p + s), e / (p + e)
        return {"SRR": srr, "NDR": ndr, "SDS": 2 * srr * ndr / (srr + ndr), "NSCR": (e - s) / (p + e + s)}

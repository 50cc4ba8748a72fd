"""Statistics that SQL says badly: pure functions of counts, no I/O, each subject in a small file.

chances     how likely k of these samples hold so many hits: pass@k and all that is made of it
ratios      P, E, S, O and the four ratios of Definition 2.3
intervals   exact intervals of a mass
testing     Fisher's, Benjamini and Hochberg's, McNemar's
resampling  bootstrap over problems, and over problems and samples
noise       what P, E, S, O would be had nothing changed
curves      where two pass@k curves cross
tilt        is one uniform sharpening the whole change?
extrapolation  pass@k beyond the samples at hand, with its own check
"""

from __future__ import annotations

from stages.categorize.statistics.arrays import Ints, Objects, Reals, Truths
from stages.categorize.statistics.intervals import clopper_pearson, curtailed
from stages.categorize.statistics.testing import benjamini_hochberg, corrected, fisher

__all__ = [
    "Ints",
    "Objects",
    "Reals",
    "Truths",
    "benjamini_hochberg",
    "clopper_pearson",
    "corrected",
    "curtailed",
    "fisher",
]

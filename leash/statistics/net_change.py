"""Tests of the net change: are more problems gained than lost, and is the net change at least smaller than a margin?

Both models have k samples of every problem: E and S are whole numbers, and the exact McNemar test and Tango's score
test apply. A model has more than k samples: which came first is unknown, so every problem has an expected gain or loss
at k, and Student's t over problems applies (`paired_t`). Comparing each model at its own number of samples would be
wrong: 1,024 samples of a model reach more than 64 of the same model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from leash.statistics.categories import CategoryShares
from leash.statistics.paired import paired_t, smallest_significant_change, tango_score
from leash.statistics.testing import mcnemar_p_value


def net_change_tests(shares: CategoryShares, confidence: float, margin: float) -> dict[str, dict[str, Any]]:
    """`test`: the two-sided p-value of no net change, and the smallest net change (a share of the problems) that would
    have been significant, None if these are too few problems for any. `equivalence`: the p-value of a net change of
    `margin` or more, in either direction."""
    known = shares.columns[shares.known]
    problems, alpha = max(len(known), 1), 1 - confidence
    if np.isin(known, (0, 1)).all():
        _, gained, lost, _ = known.sum(axis=0).round().astype(int).tolist() if len(known) else (0, 0, 0, 0)
        name, p_value = "McNemar", mcnemar_p_value(gained, lost)
        net = smallest_significant_change(gained, lost, alpha)
        smallest = net / problems if 2 * min(gained, lost) + net <= len(known) else None
        beyond = [
            stats.norm.sf(-tango_score(gained, lost, problems, margin)),
            stats.norm.sf(tango_score(gained, lost, problems, -margin)),
        ]
    else:
        fitted = paired_t(known[:, 1] - known[:, 2])
        name, p_value = "paired t", float(fitted.p_value)
        centre, error = float(fitted.centre), float(fitted.error)
        reach = float(stats.t.isf(alpha / 2, fitted.df) * error)
        smallest = reach if reach <= 1 else None
        # Without any difference there is no error to measure the margin by: nothing is shown.
        beyond = [stats.t.sf((margin + x) / error, fitted.df) if error else 1.0 for x in (-centre, centre)]
    equivalence = float(max(beyond)) if len(known) else 1.0
    return {
        "test": {"name": name, "p_value": p_value, "p_adjusted": p_value, "smallest_change": smallest},
        "equivalence": {"margin": margin, "p_value": equivalence, "p_adjusted": equivalence},
    }

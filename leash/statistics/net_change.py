"""Tests of the net change: are more problems gained than lost, and is the net change at least smaller than a margin?

Both models have k samples of every problem: E and S are whole numbers, and the exact McNemar test applies. A model has
more than k samples: which came first is unknown, so every problem has an expected gain and an expected loss at k, and
Student's t over problems applies (`paired_t`). Comparing each model at its own number of samples would be wrong: 1,024
samples of a model reach more than 64 of the same model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from leash.statistics.categories import CategoryShares
from leash.statistics.paired import paired_t, tango_score
from leash.statistics.testing import mcnemar_p_value


def net_change_tests(shares: CategoryShares, margin: float) -> dict[str, dict[str, Any]]:
    """`test`: the two-sided p-value of no net change, and for Student's t its standard error and degrees of freedom.
    `equivalence`: the p-value of a net change of `margin` or more, in either direction."""
    known = shares.columns[shares.known]
    _, gained, lost, _ = known.sum(axis=0).tolist() if len(known) else (0.0, 0.0, 0.0, 0.0)
    if np.isin(known, (0, 1)).all():
        test = {"name": "McNemar", "p_value": mcnemar_p_value(round(gained), round(lost))}
    else:
        fitted = paired_t(known[:, 1] - known[:, 2])
        test = {"name": "paired t", "p_value": float(fitted.p_value)}
        test |= {"standard_error": float(fitted.error), "df": fitted.df}
    # Two one-sided score tests. Student's t would not do: 30 problems without a loss seem to vary by nothing at all.
    # With expected numbers the score test errs on the safe side, since it takes each for a problem that changed.
    above = stats.norm.sf(-tango_score(gained, lost, len(known), margin)) if len(known) else 1.0
    below = stats.norm.sf(tango_score(gained, lost, len(known), -margin)) if len(known) else 1.0
    return {"test": test, "equivalence": {"margin": margin, "p_value": float(max(above, below))}}

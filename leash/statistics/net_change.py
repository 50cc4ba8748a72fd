"""Tests of the net change: are more problems gained than lost, and is the net change at least smaller than a margin?

Both models have k samples of every problem: E and S are whole numbers, and the exact McNemar test applies. A model has
more than k samples: which came first is unknown, so every problem has an expected gain and an expected loss at k, and
Student's t over problems applies (`paired_t`). Comparing each model at its own number of samples would be wrong: 1,024
samples of a model reach more than 64 of the same model.

If problems belong together (clusters.py), whole clusters vary: the exact test flips the signs of the clusters' net
changes, which is McNemar's if every cluster has one changed problem, and Student's t is over clusters.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from leash.statistics.array_types import IntArray
from leash.statistics.categories import CategoryShares
from leash.statistics.clusters import cluster_sums, design_effect, regroup, sign_flip_p_value
from leash.statistics.paired import paired_t, tango_score
from leash.statistics.testing import mcnemar_p_value

EQUIVALENCE_PSEUDO_CLUSTERS = 2.0


def net_change_tests(
    shares: CategoryShares, margin: float, cluster: IntArray | None = None
) -> dict[str, dict[str, Any]]:
    """`test`: the two-sided p-value of no net change; for Student's t its standard error and degrees of freedom; for
    the sign-flip test how many clusters have which net change. `equivalence`: the p-value of a net change of `margin`
    or more, in either direction."""
    known, cluster = shares.columns[shares.known], regroup(cluster, shares.known)
    differences = known[:, 1] - known[:, 2]
    _, gained, lost, _ = known.sum(axis=0).tolist() if len(known) else (0.0, 0.0, 0.0, 0.0)
    test: dict[str, Any]
    if np.isin(known, (0, 1)).all() and cluster is not None:
        changes = np.rint(cluster_sums(differences, cluster)).astype(int)
        test = {"name": "sign flip", "p_value": sign_flip_p_value(changes)}
        sizes, clusters = np.unique(changes[changes != 0], return_counts=True)
        test["changes"] = dict(zip(sizes.tolist(), clusters.tolist(), strict=True))
    elif np.isin(known, (0, 1)).all():
        test = {"name": "McNemar", "p_value": mcnemar_p_value(round(gained), round(lost))}
    else:
        fitted = paired_t(differences, cluster)
        test = {"name": "paired t", "p_value": float(fitted.p_value)}
        test |= {"standard_error": float(fitted.error), "df": fitted.df}
    # Two one-sided score tests. Student's t would not do: 30 problems without a loss seem to vary by nothing at all.
    # With expected numbers the score test errs on the safe side, since it takes each for a problem that changed.
    # Clusters that change together count as one problem. Few changes show a margin, so the prior must be stronger.
    effect = design_effect(differences, cluster, pseudo_clusters=EQUIVALENCE_PSEUDO_CLUSTERS)
    gained, lost, problems = gained / effect, lost / effect, len(known) / effect
    above = stats.norm.sf(-tango_score(gained, lost, problems, margin)) if len(known) else 1.0
    below = stats.norm.sf(tango_score(gained, lost, problems, -margin)) if len(known) else 1.0
    return {"test": test, "equivalence": {"margin": margin, "p_value": float(max(above, below))}}

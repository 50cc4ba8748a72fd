"""Problems that belong together: templates, levels, duplicate questions.

A column `cluster` names the problems of a data set that may come and go together. A problem without one is a cluster of
its own. If clusters have several problems, what varies independently is the cluster, not the problem:

    bootstrap       all problems of a cluster share one random weight (bootstrap_weights.py)
    decision        the signs of the clusters' net changes are flipped (`sign_flip_p_value`), or Student's t is over
                    clusters (paired.py)
    pseudo-problems weigh as much as `design_effect` problems, since a whole cluster may be missing from the data

    sign_flip_p_value(array([-3, -4, 0, -2, -4, -3, -1]))  ->  0.03125

Samples stay independent within a cluster, so the noise test (luck.py) does not use clusters. Neither do the tests of
single problems.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leash.statistics.array_types import FloatArray, IntArray

if TYPE_CHECKING:  # the sentences of the report import this module, and must not load pyarrow
    from leash.statistics.counts import Counts


def cluster_index(counts: Counts) -> IntArray:
    """The cluster of each problem: 0, 1, 2, … in order of first appearance. Clusters are per data set, and a problem
    without a cluster has one of its own."""
    if counts.cluster is None:
        return np.arange(len(counts))
    return number_clusters(counts.dataset.tolist(), counts.cluster.tolist())


def number_clusters(datasets: Sequence[str], clusters: Sequence[str | None]) -> IntArray:
    """The same from the columns of a table."""
    index: dict[Any, int] = {}
    keys = zip(datasets, clusters, strict=True)
    return np.array([index.setdefault(row if key[1] is None else key, len(index)) for row, key in enumerate(keys)])


def shared_clusters(counts: Counts) -> IntArray | None:
    """The cluster of each problem, if that matters; None if no cluster has two problems.

    None also if all problems are in one cluster: it says nothing about other clusters, so the result is about this one,
    and its problems are independent draws from it.
    """
    index = cluster_index(counts)
    return regroup(index, np.ones(len(index), dtype=bool))


def regroup(cluster: IntArray | None, mask: FloatArray | IntArray | Any) -> IntArray | None:
    """The clusters of a part of the problems, numbered again from 0; None if that leaves no cluster with two problems,
    or only one cluster."""
    if cluster is None:
        return None
    names, index = np.unique(cluster[mask], return_inverse=True)
    return np.asarray(index) if 1 < len(names) < len(index) else None


def cluster_sums(values: FloatArray, cluster: IntArray) -> FloatArray:
    """The sum of each column over the problems of each cluster: a row per cluster."""
    sums = np.zeros((int(cluster.max(initial=-1)) + 1, *values.shape[1:]))
    np.add.at(sums, cluster, values)
    return sums


def mean_cluster_size(cluster: IntArray) -> float:
    """The size of the cluster of an average problem."""
    sizes = np.bincount(cluster)
    return float((sizes**2).sum() / sizes.sum())


def design_effect(
    differences: FloatArray, cluster: IntArray | None, largest: float = 1.0, pseudo_clusters: float = 0.5
) -> float:
    """How many times larger clusters make the variance of the mean difference: from 1 (none) to the mean cluster size
    (problems of a cluster change together).

    Pseudo-clusters in which all problems change by `largest` are added. So without any change the answer is the mean
    cluster size: nothing shows that a cluster would not change as a whole. The default, half a pseudo-cluster, gives
    intervals their coverage; tests/benchmarks/calibration.py measures it.
    """
    if cluster is None:
        return 1.0
    size = mean_cluster_size(cluster)
    deviations = differences - differences.mean()
    together = (cluster_sums(deviations, cluster) ** 2).sum() + pseudo_clusters * (size * largest) ** 2
    apart = (deviations**2).sum() + pseudo_clusters * size * largest**2
    return float(np.clip(together / apart, 1.0, size)) if apart > 0 else size


def sign_flip_tails(changes: IntArray) -> FloatArray:
    """The probability that the sum of these whole numbers with random signs is at least 0, 1, 2, … away from 0, up to
    the sum of all. Exact: one number after the other is added to the distribution."""
    sizes = np.abs(changes[changes != 0]).tolist()
    total = sum(sizes)
    # The distribution of the part of the sum that has a positive sign.
    positive = np.zeros(total + 1)
    positive[0] = 1.0
    for size in sizes:
        positive[size:] = (positive[size:] + positive[:-size]) / 2
        positive[:size] /= 2
    at_distance = np.zeros(total + 1)
    np.add.at(at_distance, np.abs(2 * np.arange(total + 1) - total), positive)
    return np.asarray(np.minimum(np.cumsum(at_distance[::-1])[::-1], 1.0))


def sign_flip_p_value(changes: IntArray) -> float:
    """The two-sided exact p-value of no net change, from the net change of each cluster: the chance that random signs
    give a sum as far from 0. If every change is 1 or -1 this is the exact McNemar test."""
    return float(sign_flip_tails(changes)[abs(int(changes.sum()))])


def smallest_significant_sum(changes: IntArray, alpha: float) -> int | None:
    """The smallest net change that would have been significant if clusters had changed by as much, in other directions;
    None if the changed clusters are too few for any."""
    tails = sign_flip_tails(changes)
    # A sum that no signs give has the same tail as the next one that some give.
    significant = np.flatnonzero((tails < alpha) & (np.diff(tails, append=0.0) < 0))
    return int(significant[0]) if len(significant) else None


def describe_clusters(cluster: IntArray | None, differences: FloatArray) -> dict[str, int | None] | None:
    """How many clusters there are, the size of the largest, and how many have a net change; that is None if changes are
    expected numbers. None without clusters."""
    if cluster is None:
        return None
    sizes = np.bincount(cluster)
    whole = bool(np.isin(differences, (-1, 0, 1)).all())
    changed = int(np.count_nonzero(np.rint(cluster_sums(differences, cluster)))) if whole else None
    return {"count": len(sizes), "largest": int(sizes.max()), "changed": changed}

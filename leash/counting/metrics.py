"""P, E, S, O, ratios and pass@k of every group of problems, as tables made from support tables.

In: support tables of several pairs, with the column `pair`. The rules are in `leash.statistics`; this module only
groups rows and lays out the results. What needs a bootstrap (intervals, noise floors) is in data/analysis instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leash import tables
from leash.statistics.array_types import BoolArray, IntArray, ObjectArray, is_none
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.categories import category_letters
from leash.statistics.clusters import number_clusters, regroup
from leash.statistics.completions import is_stable, weigh_completions
from leash.statistics.counts import ROLES, Counts
from leash.statistics.pass_at_k import pass_at_k_columns
from leash.statistics.ratios import RATIO_NAMES, compute_ratios

PASS_AT_K_BUDGETS = tuple(2**i for i in range(25))
COMPLETION_EPSILONS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
CATEGORY_COLUMNS = {**dict.fromkeys("PESO", pa.int64()), **dict.fromkeys(RATIO_NAMES, pa.float64())}
METRICS_SCHEMA = pa.schema(
    dict.fromkeys(("pair", "dataset", "counted"), pa.string())
    | {"k": pa.int32(), "epsilon": pa.float64(), "problems": pa.int64(), **CATEGORY_COLUMNS}
    | dict.fromkeys(("E_tested", "S_tested", "short"), pa.int64())
)
PASS_AT_K_SCHEMA = pa.schema(
    {**dict.fromkeys(("pair", "dataset", "role"), pa.string()), "k": pa.int32(), "pass_at_k": pa.float64()}
)
BY_EPSILON_SCHEMA = pa.schema(
    {"pair": pa.string(), "dataset": pa.string(), "k": pa.int64(), "k_most": pa.int64(), "epsilon": pa.float64()}
    | {"seen": pa.int64(), "effective": pa.float64(), **dict.fromkeys("PES", pa.float64())}
    | {f"{name}{end}": pa.float64() for name in RATIO_NAMES for end in ("", "_low", "_high")}
)
Row = dict[str, Any]


def group_masks(rows: pa.Table) -> dict[str, BoolArray]:
    """The groups of a pair's problems, by name: all of them, each domain if there are several ("all math"), and each
    data set."""
    domain, dataset = (rows[name].to_numpy(zero_copy_only=False) for name in ("domain", "dataset"))
    domains, datasets = (sorted(set(names.tolist())) for names in (domain, dataset))
    by_domain = {f"all {name}": domain == name for name in domains} if len(domains) > 1 else {}
    return {"all": np.ones(len(dataset), dtype=bool), **by_domain, **{name: dataset == name for name in datasets}}


def compute_metrics(support: pa.Table) -> pa.Table:
    """P, E, S, O and their ratios per pair and group, at the chosen epsilon and at 0, the paper's counting ("any hit").

    `short` counts problems with fewer than k samples, which have no category. A count of tested categories is null if
    a problem of that category was not tested.
    """
    rows: list[Row] = []
    for pair, part in _split_by_pair(support):
        masks = group_masks(part)
        chosen, tested = (part[name].to_numpy(zero_copy_only=False) for name in ("category", "tested_category"))
        # A table by answer has several rows per problem, but a problem counts once.
        keys = zip(part["dataset"].to_pylist(), part["problem_id"].to_pylist(), strict=True)
        problem = np.array([f"{dataset}\n{problem_id}" for dataset, problem_id in keys])
        k, epsilon = part["k"].to_numpy(), part["epsilon"].to_numpy()
        any_hit = category_letters(Counts.from_table(part), np.zeros(len(k)))
        any_hit[is_none(chosen)] = None
        untested = np.full(len(k), None, dtype=object)
        for counted, letters, testing in (("chosen", chosen, tested), ("any hit", any_hit, untested)):
            for name, mask in masks.items():
                rows.append(
                    {
                        "pair": pair,
                        "dataset": name,
                        "counted": counted,
                        "k": int(k[mask].min()),
                        "epsilon": float(epsilon[mask].max()) if counted == "chosen" else 0.0,
                        "problems": len(np.unique(problem[mask])),
                        "short": len(np.unique(problem[mask & is_none(letters)])),
                        **count_categories(letters[mask]),
                        **{f"{x}_tested": _count_tested(letters[mask], testing[mask], x) for x in "ES"},
                    }
                )
    return tables.table_from_rows(rows, METRICS_SCHEMA)


def count_categories(letters: ObjectArray) -> Row:
    """P, E, S, O and the ratios; None for 0/0."""
    counts = {name: int((letters == name).sum()) for name in "PESO"}
    ratios = compute_ratios(counts["P"], counts["E"], counts["S"])
    return {**counts, **{name: None if np.isnan(value) else float(value) for name, value in ratios.items()}}


def _count_tested(letters: ObjectArray, tested: ObjectArray, category: str) -> int | None:
    if (is_none(tested) & (letters == category)).any():
        return None
    return int((tested == category).sum())


def completion_metrics_by_epsilon(
    completions: pa.Table, settings: AnalysisSettings, epsilons: Sequence[float] = COMPLETION_EPSILONS
) -> pa.Table:
    """P, E, S and the ratios of all completions at several epsilons, per pair and data set and over all, by the weights
    of leash/statistics/completions.py, by their masses as sampled. An epsilon is left out where k samples show too few
    of the completions with such a mass. Data sets that differ in k have the least one in the row over all (`k`), and
    the largest beside it (`k_most`): the chances of being seen are each completion's own."""
    rows: list[Row] = []
    for pair, part in _split_by_pair(completions):
        base, rlvr = (part[f"sampled_{role}"].to_numpy(zero_copy_only=False).astype(float) for role in ROLES)
        inclusion = part["inclusion"].to_numpy(zero_copy_only=False).astype(float)
        dataset, k = part["dataset"].to_numpy(zero_copy_only=False), part["k"].to_numpy()
        for name in ("all", *sorted(set(dataset.tolist()))):
            mask = (dataset == name) | (name == "all")
            least, most = int(k[mask].min()), int(k[mask].max())
            cluster = _number_clusters(part.filter(mask), settings)
            for epsilon in (e for e in epsilons if is_stable(least, e)):
                masses = base[mask], rlvr[mask], inclusion[mask]
                found = weigh_completions(*masses, cluster, least, epsilon, settings)
                ratios = [found.pop(ratio).columns(ratio) for ratio in RATIO_NAMES]
                row: Row = {"pair": pair, "dataset": name, "k": least, "k_most": most, "epsilon": epsilon, **found}
                for columns in ratios:
                    row |= columns
                rows.append(row)
    return tables.table_from_rows(rows, BY_EPSILON_SCHEMA)


def _number_clusters(completions: pa.Table, settings: AnalysisSettings) -> IntArray:
    """The cluster of each completion's problem. It is the problem itself if it has none, if problems are independent,
    or if all are in one cluster (as in leash/statistics/clusters.py)."""
    rows = list(zip(*(completions[name].to_pylist() for name in ("dataset", "problem_id", "cluster")), strict=True))
    problems = {key: number for number, key in enumerate(dict.fromkeys(row[:2] for row in rows))}
    number = np.array([problems[row[:2]] for row in rows], dtype=np.int64)
    if settings.clusters == "none":
        return number
    names = {row[:2]: row[2] for row in rows}
    cluster = number_clusters([dataset for dataset, _ in problems], [names[key] for key in problems])
    shared = regroup(cluster, np.ones(len(cluster), dtype=bool))
    return number if shared is None else shared[number]


def compute_pass_at_k(support: pa.Table, budgets: Sequence[int] = PASS_AT_K_BUDGETS) -> pa.Table:
    """pass@k of both models per pair and group, for every budget up to the pair's k; null if a problem of the group has
    fewer samples."""
    rows: list[Row] = []
    for pair, part in _split_by_pair(support):
        counts = Counts.from_table(part)
        ks = [k for k in budgets if k <= counts.k.max()]
        columns = {role: pass_at_k_columns(counts.samples(role), counts.k, ks) for role in ROLES}
        for name, mask in sorted(group_masks(part).items()):
            for role in ROLES:
                for k, mean in zip(ks, columns[role][mask].mean(axis=0).tolist(), strict=True):
                    value = None if np.isnan(mean) else mean
                    rows.append({"pair": pair, "dataset": name, "role": role, "k": k, "pass_at_k": value})
    return tables.table_from_rows(rows, PASS_AT_K_SCHEMA)


def _split_by_pair(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    for pair in sorted(set(rows["pair"].to_pylist())):
        yield pair, rows.filter(pc.equal(rows["pair"], pair))

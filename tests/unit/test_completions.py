"""Completions weighted by their chance of being seen: exact expectations, what is hidden, and intervals."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from leash.counting import metrics
from leash.statistics.array_types import FloatArray
from leash.statistics.bootstrap_weights import AnalysisSettings, Estimate
from leash.statistics.completions import (
    effective_number,
    inclusion_probability,
    is_stable,
    weigh_completions,
)
from leash.statistics.seeds import stream

SETTINGS = AnalysisSettings(resamples=400)


def counted(
    base: FloatArray, rlvr: FloatArray, inclusion: FloatArray, cluster: Any, epsilon: float, k: int = 64
) -> dict[str, Any]:
    return weigh_completions(base, rlvr, inclusion, np.asarray(cluster), k, epsilon, SETTINGS)


def test_weighted_counts_are_unbiased_by_enumeration() -> None:
    """Three completions and the rest; all outcomes of three samples of each model."""
    base, rlvr, n, epsilon = np.array([0.5, 0.2, 0.05]), np.array([0.3, 0.02, 0.4]), 3, 0.1
    inclusion = inclusion_probability(np.full(3, n), np.full(3, n), base, rlvr)
    chances = [dict(enumerate([*masses, 1 - masses.sum()])) for masses in (base, rlvr)]
    mean, seen_chance = np.zeros(3), np.zeros(3)
    for run in product(range(4), repeat=2 * n):
        chance = np.prod([chances[i // n][what] for i, what in enumerate(run)])
        seen = np.array([i in run for i in range(3)])
        found = counted(base[seen], rlvr[seen], inclusion[seen], np.zeros(seen.sum(), dtype=int), epsilon, n)
        mean += chance * np.array([found[name] for name in "PES"])
        seen_chance += chance * seen
    np.testing.assert_allclose(seen_chance, inclusion, rtol=1e-12)
    np.testing.assert_allclose(mean, [1, 1, 1], rtol=1e-12)  # one in each category


def test_inclusion_is_exact_at_the_ends() -> None:
    n = np.array([1024.0, 1024.0, np.nan])
    found = inclusion_probability(n, n, np.array([1.0, 1e-18, 0.5]), np.array([0.0, 0.0, 0.5]))
    assert found[0] == 1
    assert found[1] == pytest.approx(1024e-18)
    assert np.isnan(found[2])


def test_an_epsilon_is_stable_if_its_completions_are_seen_in_five_percent() -> None:
    assert [is_stable(k, e) for k, e in ((1024, 1e-4), (1024, 1e-5), (64, 1e-3), (64, 1e-4))] == [True, False] * 2


def test_nothing_is_shown_if_a_chance_is_unknown_or_completions_at_epsilon_are_too_rare() -> None:
    base, rlvr, cluster, inclusion = np.full(40, 0.2), np.full(40, 0.3), np.arange(40), np.full(40, 0.9)
    assert counted(base, rlvr, inclusion, cluster, 0.1)["P"] == pytest.approx(40 / 0.9)
    for found in (
        counted(base, rlvr, np.where(cluster == 7, np.nan, 0.9), cluster, 0.1),
        counted(base, rlvr, inclusion, cluster, 1e-4),
    ):
        assert (found["P"], found["SRR"], found["seen"]) == (None, Estimate(), 40)
    assert counted(base * np.nan, rlvr, inclusion * np.nan, cluster, 0.1)["seen"] is None


def test_a_ratio_of_few_completions_is_not_shown() -> None:
    """Twelve are new and three lost: NDR is shown, SRR is not."""
    base = np.array([0.01] * 12 + [0.2] * 3)
    found = counted(base, 0.21 - base, np.ones(15), np.arange(15), 0.1)
    assert (found["E"], found["S"]) == (12, 3)
    assert (found["SRR"], found["SDS"]) == (Estimate(), Estimate())
    assert found["NDR"].value == 1
    assert found["NDR"].low < 1  # 12 of 12 do not prove that there are no others


@pytest.mark.parametrize("common", [60, 70])
def test_what_is_shown_does_not_depend_on_rare_completions_that_happened_to_be_seen(common: int) -> None:
    """64 samples show a completion of mass 1e-3 in 6%: 4 / 0.062 = 64 common ones are needed, with rare ones or not."""
    shown = set()
    for rare in (0, 1, 5, 40):
        base = np.array([0.1] * common + [0.0012] * rare)
        rlvr = np.array([0.1] * common + [0.0] * rare)
        n = np.full(len(base), 64.0)
        found = counted(base, rlvr, inclusion_probability(n, n, base, rlvr), np.arange(len(base)) % 20, 1e-3)
        shown.add(found["SRR"].value is not None)
    assert shown == {common == 70}


def test_intervals_allow_for_rare_completions_that_were_missed() -> None:
    """70 of 70 seen are in both supports. Ten lost ones of mass 1.2e-3 are all missed in 46% of such runs."""
    mass, n = np.full(70, 0.1), np.full(70, 64.0)
    inclusion = inclusion_probability(n, n, mass, mass)
    found = counted(mass, mass, inclusion, np.arange(70) % 20, 1e-3)["SRR"]
    assert found.value == found.high == 1
    assert found.low < 70 / 80
    assert counted(mass, mass, inclusion, np.arange(70) % 20, 0.05)["SRR"].low > 70 / 80  # none can be missed there


def test_completions_of_one_problem_are_not_independent() -> None:
    rng = stream("test", "completions", "clusters")
    base, rlvr = np.full(60, 0.2), np.repeat(np.where(rng.random(12) < 0.5, 0.3, 0.01), 5)
    together, apart = (counted(base, rlvr, np.ones(60), c, 0.1)["SRR"] for c in (np.arange(60) // 5, np.arange(60)))
    assert together.value == apart.value
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


def completion_rows(clusters: list[str | None], **columns: Any) -> pa.Table:
    """Sixty completions of twelve problems, of which a third was lost."""
    rows = []
    for problem, cluster in enumerate(clusters):
        for i in range(5):
            sampled = {"sampled_base": 0.2, "sampled_rlvr": 0.01 if problem % 3 == 0 else 0.2}
            row = {"pair": "rlvr", "dataset": "d", "problem_id": f"{problem}", "cluster": cluster, "k": 64}
            rows.append(row | sampled | {"inclusion": 1.0, "unit_key": f"{i}", **columns})
    schema = pa.schema([("cluster", pa.string())])
    table = pa.Table.from_pylist(rows)
    return table.set_column(table.column_names.index("cluster"), schema.field(0), table["cluster"].cast(pa.string()))


def test_a_data_set_in_one_cluster_keeps_its_intervals() -> None:
    """One cluster says nothing about others: its problems count as independent, as everywhere else."""
    one, none = (
        metrics.completion_metrics_by_epsilon(completion_rows([name] * 12), SETTINGS, (0.1,)).to_pylist()
        for name in ("all the same", None)
    )
    assert one == none
    assert one[0]["SRR_low"] < one[0]["SRR"] < one[0]["SRR_high"]
    pairs = metrics.completion_metrics_by_epsilon(completion_rows([*"aabbccddeeff"]), SETTINGS, (0.1,)).to_pylist()
    assert pairs[0]["SRR_low"] != none[0]["SRR_low"]


def test_data_sets_that_differ_in_k() -> None:
    """The row over all shows what the least k can, and names both."""
    rows = pa.concat_tables([completion_rows([None] * 12), completion_rows([None] * 12, dataset="e", k=1024)])
    found = metrics.completion_metrics_by_epsilon(rows, SETTINGS, (1e-4, 0.1)).to_pylist()
    shown = {(row["dataset"], row["k"], row["k_most"], row["epsilon"]) for row in found}
    assert shown == {("all", 64, 1024, 0.1), ("d", 64, 64, 0.1), ("e", 1024, 1024, 1e-4), ("e", 1024, 1024, 0.1)}
    by_name = {row["dataset"]: row for row in found if row["epsilon"] == 0.1}
    assert by_name["all"]["P"] == by_name["d"]["P"] + by_name["e"]["P"]


def test_effective_number() -> None:
    assert effective_number(np.ones(7)) == pytest.approx(7)
    assert effective_number(np.array([100.0, 1e-9])) == pytest.approx(1)
    assert effective_number(np.array([])) == 0

"""Problems that come and go together: the tests equal enumeration, a false change is rare, and clusters get from the
source of the problems to the decision. Without clusters nothing changes."""

from __future__ import annotations

import dataclasses
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from leash import tables
from leash.benchmarks.benchmark import RowError
from leash.datasets.duplicates import DuplicatePair, cluster_duplicates
from leash.problems import load_problems, problems_hash
from leash.report.level_table import compute_levels
from leash.statistics.analysis import analyze_counts
from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_weights import AnalysisSettings, draw_weights
from leash.statistics.categories import classify_counts
from leash.statistics.clusters import (
    cluster_index,
    design_effect,
    regroup,
    shared_clusters,
    sign_flip_p_value,
    smallest_significant_sum,
)
from leash.statistics.counts import Counts
from leash.statistics.net_change import net_change_tests
from leash.statistics.paired import paired_t
from leash.statistics.problem_group import describe_categories
from leash.statistics.seeds import stream
from leash.statistics.testing import mcnemar_p_value
from stages.categorize import stage as categorize
from stages.cli import main
from stages.fetch import stage as fetch
from tests.conftest import small, write_params
from tests.unit.test_categorize import MAKE, given
from tests.unit.test_compare import compared, counts, written
from tests.unit.test_fetch import own, params  # noqa: F401 (a fixture)

EXACT = 1e-12
SETTINGS = AnalysisSettings(resamples=200)


def make_counts(
    hits: tuple[IntArray, IntArray], n: int = 64, k: int | None = None, cluster: IntArray | None = None
) -> Counts:
    size = len(hits[0])
    ended, names = np.full(size, "k", dtype=object), np.array([f"p{i}" for i in range(size)], dtype=object)
    labels = None if cluster is None else cluster.astype(str).astype(object)
    columns: dict[str, Any] = {"n_base": np.full(size, n), "n_rlvr": np.full(size, n), "cluster": labels}
    columns |= {"c_base": hits[0], "c_rlvr": hits[1], "ended_base": ended, "ended_rlvr": ended}
    return Counts(np.full(size, "d", dtype=object), names, **columns, k=np.full(size, k or n), epsilon=np.zeros(size))


def draw_clusters(rng: np.random.Generator, size: int, problems: int = 120) -> Counts:
    """A tenth of the clusters comes, a tenth goes."""
    masses = np.tile(np.where(rng.random(problems) < 0.1, 0.0, rng.beta(0.35, 2.5, problems)), (2, 1))
    cluster = np.arange(problems) // size
    fate = rng.random(problems // size)[cluster]
    masses[0, fate < 0.1], masses[1, fate > 0.9] = 0.0, 0.0
    return make_counts((rng.binomial(64, masses[0]), rng.binomial(64, masses[1])), cluster=cluster)


@pytest.mark.parametrize("changes", [[1, -2, 3], [-3, -4, 0, -2, -4, -3, -1], [2, 2, -2, 5, -1, -1, 7], [0, 0], [4]])
def test_the_sign_flip_test_equals_enumeration(changes: list[int]) -> None:
    observed = abs(sum(changes))
    sums = [
        abs(sum(s * c for s, c in zip(signs, changes, strict=True))) for signs in product((1, -1), repeat=len(changes))
    ]
    assert sign_flip_p_value(np.array(changes)) == pytest.approx(np.mean(np.array(sums) >= observed), abs=EXACT)


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (0, 5), (0, 17), (3, 11), (40, 41), (0, 180)])
def test_with_one_changed_problem_per_cluster_it_is_mcnemar(gained: int, lost: int) -> None:
    changes = np.array([1] * gained + [-1] * lost + [0] * 9)
    assert sign_flip_p_value(changes) == pytest.approx(mcnemar_p_value(gained, lost), rel=1e-9)


def test_six_clusters_must_change() -> None:
    assert smallest_significant_sum(np.array([3, -2, 1, 1, 4]), 0.05) is None
    assert smallest_significant_sum(np.array([1, 1, 1, 1, 1, 1]), 0.05) == 6
    assert smallest_significant_sum(np.array([], dtype=int), 0.05) is None


def test_clusters_are_of_one_data_set_and_a_problem_without_one_is_alone() -> None:
    both = make_counts((np.ones(6, dtype=int), np.ones(6, dtype=int)))
    dataset = np.array(["a", "a", "b", "a", "b", "b"], dtype=object)
    cluster = np.array(["x", None, "x", "x", None, None], dtype=object)
    both = dataclasses.replace(both, dataset=dataset, cluster=cluster)
    assert cluster_index(both).tolist() == [0, 1, 2, 0, 3, 4]
    assert shared_clusters(both) is not None
    # No cluster with two problems, and one cluster of all of them: problems count as independent.
    assert shared_clusters(both.where(dataset == "b")) is None
    assert shared_clusters(both.where(cluster == "x").where(np.array([True, False, True]))) is None
    assert regroup(np.array([5, 5, 7, 9]), np.array([True, True, True, False])) is not None
    assert regroup(np.array([5, 5, 7, 9]), np.array([False, True, True, True])) is None


def test_without_shared_clusters_every_bit_is_the_same() -> None:
    rng = stream("test", "clusters", "bits")
    hits = rng.binomial(64, rng.beta(0.3, 2, 40)), rng.binomial(64, rng.beta(0.3, 2, 40))
    for k in (64, 16):
        plain = analyze_counts(make_counts(hits, k=k), SETTINGS)
        assert plain["clusters"] is None
        for cluster in (np.arange(40), np.zeros(40, dtype=int)):
            assert analyze_counts(make_counts(hits, k=k, cluster=cluster), SETTINGS) == plain
        ignored = AnalysisSettings(resamples=200, clusters="none")
        assert analyze_counts(make_counts(hits, k=k, cluster=np.arange(40) // 4), ignored) == plain
    # The code for clusters reduces to the code without them, too.
    weights = draw_weights(40, 20, 0, np.arange(40))
    assert np.array_equal(weights.problems, draw_weights(40, 20, 0).problems)
    assert np.array_equal(weights.quarters, draw_weights(40, 20, 0).quarters)
    differences: FloatArray = rng.normal(size=40)
    over_clusters, over_problems = paired_t(differences, np.arange(40)), paired_t(differences)
    for name in ("mean", "centre", "error", "df"):
        assert getattr(over_clusters, name) == pytest.approx(getattr(over_problems, name), rel=1e-12)


def test_problems_of_a_cluster_share_their_weight() -> None:
    cluster = np.array([0, 1, 0, 2, 1])
    weights = draw_weights(5, 30, 0, cluster).problems
    assert np.array_equal(weights[:, 0], weights[:, 2])
    assert np.array_equal(weights[:, 1], weights[:, 4])
    assert not np.array_equal(weights[:, 0], weights[:, 1])


def test_the_design_effect_is_between_one_and_the_size_of_a_cluster() -> None:
    rng, cluster = stream("test", "clusters", "effect"), np.arange(1200) // 4
    together = rng.choice([-1.0, 0.0, 1.0], 300)[cluster]
    alone = rng.choice([-1.0, 0.0, 1.0], 1200)
    assert design_effect(together, cluster) == pytest.approx(4)
    assert design_effect(alone, cluster) < 1.3
    assert design_effect(np.zeros(1200), cluster) == 4  # nothing shows that clusters would not change together
    assert design_effect(alone, None) == 1


def test_clusters_that_come_and_go_are_seldom_called_a_change() -> None:
    """tests/benchmarks/calibration.py measures the rate; here wide bounds catch gross failures."""
    rng, trials = stream("test", "clusters", "null"), 150
    rates, covered = {"with": 0, "without": 0}, 0
    for _ in range(trials):
        drawn = draw_clusters(rng, 12)
        shares, cluster = classify_counts(drawn), shared_clusters(drawn)
        rates["with"] += net_change_tests(shares, 0.02, cluster)["test"]["p_value"] < 0.05
        rates["without"] += net_change_tests(shares, 0.02)["test"]["p_value"] < 0.05
        net = describe_categories(shares, draw_weights(120, 300, 0, cluster), 0.95)["NSCR"]
        covered += net["low"] <= 0 <= net["high"]
    assert rates["with"] <= 0.05 * trials + 8
    assert rates["without"] >= 0.2 * trials
    assert covered >= 0.9 * trials


def test_expected_numbers_are_tested_over_clusters() -> None:
    drawn = draw_clusters(stream("test", "clusters", "expected"), 12)
    found = analyze_counts(drawn, AnalysisSettings(k=16, resamples=200))
    assert (found["test"]["name"], found["test"]["df"]) == ("paired t", 10)
    assert found["clusters"] == {"count": 10, "largest": 12, "changed": None}
    alone = analyze_counts(drawn, AnalysisSettings(k=16, resamples=200, clusters="none"))
    assert alone["test"]["df"] == 120


def lost_rows(clusters: int, problems: int = 6) -> list[dict[str, Any]]:
    """Clusters of two problems, of which both are lost in the first ones."""
    four = [(64, 9, 64, 0)] * (2 * clusters) + [(64, 9, 64, 9)] * (2 * problems)
    return [{**row, "cluster": f"c{i // 2}", "level": i % 3} for i, row in enumerate(counts(four))]


def test_compare_reads_clusters_and_says_what_they_mean(tmp_path: Path) -> None:
    from click.testing import CliRunner

    for kind in ("csv", "jsonl", "parquet"):
        found = compared(written(tmp_path, lost_rows(7), kind))
        assert found["clusters"] == {"count": 13, "largest": 2, "changed": 7}
        assert found["test"]["name"] == "sign flip"
        assert found["test"]["changes"] == {"-2": 7}
        assert found["test"]["p_value"] == pytest.approx(2**-6)
        assert found["mcnemar"]["p_value"] is None
    alone = compared(written(tmp_path, lost_rows(7)), "--clusters", "none")
    assert alone["clusters"] is None
    assert alone["test"]["p_value"] == pytest.approx(2**-13)
    few = CliRunner().invoke(main, ["compare", str(written(tmp_path, lost_rows(5)))]).stdout
    assert "over 11 clusters" in few.splitlines()[0]
    assert "only 5 clusters changed, too few to decide" in few.splitlines()[0]


def test_an_own_file_gives_levels_and_clusters(own: Path) -> None:  # noqa: F811
    rows = [
        {"q": "What is one and one, as a number?", "a": 2, "level": 3.0, "cluster": "sums"},
        {"q": "What is three and three, as a number?", "a": 6, "level": " hard "},
        {"q": "What is ten less four, as a number?", "a": 6, "cluster": ""},
    ]
    own.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fetch.run(params(own), "mine")
    table = tables.read(tables.problems_path("mine"), tables.PROBLEMS_SCHEMA, "")
    assert table["level"].to_pylist() == ["3", "hard", None]
    assert table["cluster"].to_pylist() == ["sums", None, None]
    own.write_text(json.dumps({**rows[0], "cluster": ["sums"]}) + "\n")
    with pytest.raises(RowError, match="cluster must hold a word or a number"):
        fetch.run(params(own), "mine")


def test_the_same_question_twice_is_one_cluster(own: Path) -> None:  # noqa: F811
    questions = [
        "What is one and one, as a number?",
        "What is six less two, as a number?",
        "What is one and one, as a number?",
    ]
    own.write_text("".join(json.dumps({"q": question, "a": 1}) + "\n" for question in questions))
    found = fetch.run(params(own), "mine")
    assert len(found.warnings) == 1
    table = tables.read(tables.problems_path("mine"), tables.PROBLEMS_SCHEMA, "")
    first = table["problem_id"][0].as_py()
    assert table["cluster"].to_pylist() == [first, None, first]


def test_duplicates_join_and_keep_a_given_cluster() -> None:
    pairs = [DuplicatePair("d", a, "d", b, True, 1.0) for a, b in (("2", "3"), ("1", "2"), ("5", "6"))]
    pairs.append(DuplicatePair("d", "0", "e", "0", True, 1.0))
    given = {"6": "six"}
    rows = [{"problem_id": str(i), "cluster": given.get(str(i))} for i in range(7)]
    found = [row["cluster"] for row in cluster_duplicates(rows, pairs)]
    assert found == [None, "1", "1", "1", None, "six", "six"]


def test_a_table_of_an_earlier_version_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    row = tables.problem_row(
        dataset="d", problem_id="p", question="?", gold=["1"], grader="exact", meta={}, level="2", cluster="x"
    )
    table = tables.table_from_rows([row], tables.PROBLEMS_SCHEMA)
    path, old = (
        tables.problems_path("d"),
        pa.schema([f for f in tables.PROBLEMS_SCHEMA if f.name not in ("level", "cluster")]),
    )
    tables.write(path, table, old)
    read = tables.read(path, tables.PROBLEMS_SCHEMA, "")
    assert read.schema.names == tables.PROBLEMS_SCHEMA.names
    assert read["cluster"].to_pylist() == [None]
    before = problems_hash(load_problems("d"))
    tables.write(path, table, tables.PROBLEMS_SCHEMA)
    # Verdicts depend on this hash: they do not go stale because of a level or a cluster.
    assert problems_hash(load_problems("d")) == before


def test_the_table_by_level_counts_what_the_support_table_has() -> None:
    drawn = draw_clusters(stream("test", "clusters", "levels"), 4)
    level = np.where(np.arange(120) < 12, None, (np.arange(120) % 11).astype(str)).astype(object)  # type: ignore[call-overload]
    columns = {name: pa.array(values) for name, values in vars(drawn).items() if values is not None}
    support = pa.table({**columns, "level": pa.array(level), "pair": ["tuned"] * 120})
    rows = compute_levels(support, SETTINGS).to_pylist()
    assert [row["level"] for row in rows] == [str(i) for i in range(11)]  # 10 after 9
    letters = classify_counts(drawn).letters
    for row in rows:
        of_level = letters[level == row["level"]]
        assert [row[x] for x in "PESO"] == [int((of_level == x).sum()) for x in "PESO"]
        assert row["problems"] == len(of_level)
        if row["NSCR"] is not None:
            assert row["NSCR_low"] <= row["NSCR"] <= row["NSCR_high"]


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_compare_on_a_support_table_says_what_the_report_says(
    choice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has the clusters that the run used: with `none` it has none, though the problems table does."""
    monkeypatch.chdir(tmp_path)
    names = [f"p{place:02d}" for place in range(16)]
    given({"base": dict.fromkeys(names, "Aaaa"), "rlvr": dict(zip(names, ["Aaaa", "aaaa"] * 8, strict=True))})
    path = tables.problems_path("make")
    rows = [
        {**row, "cluster": f"c{place // 4}"}
        for place, row in enumerate(tables.read(path, tables.PROBLEMS_SCHEMA, "").to_pylist())
    ]
    tables.write(path, tables.table_from_rows(rows, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA)
    run = write_params(tmp_path, small(**{**MAKE, "sample": {"k": 4}, "categorize": {"clusters": choice}}))
    categorize.run(run)
    analysis = json.loads(tables.analysis_path("rlvr").read_text())["all"]
    found = compared(tables.support_path("rlvr", "problem"))
    assert analysis["test"]["name"] == found["test"]["name"] == ("sign flip" if choice == "auto" else "McNemar")
    assert (found["decision"], found["clusters"]) == (analysis["decision"], analysis["clusters"])


def test_possible_ranges_are_left_out_and_the_deconvolved_interval_grows() -> None:
    """Ten clusters of twelve, nothing changed: the ranges would take 120 problems for independent."""
    rng = stream("test", "clusters", "masses")
    hits = rng.binomial(64, np.repeat(rng.beta(1, 2, 10), 12))
    cluster = np.arange(120) // 12
    alone, together = (
        analyze_counts(
            dataclasses.replace(make_counts((hits, hits), cluster=which), epsilon=np.full(120, 0.1)), SETTINGS
        )
        for which in (None, cluster)
    )
    assert alone["identified"] is not None
    assert together["identified"] is None
    assert alone["extrapolation"]["base"]["identified"]
    assert together["extrapolation"]["base"]["identified"] is None
    widths = []
    for analysis in (alone, together):
        [row] = [row for row in analysis["deconvolved"] if row["epsilon"] == 0.1]
        widths.append(row["NSCR"]["high"] - row["NSCR"]["low"])
    assert widths[1] > 2 * widths[0]

"""Ever reached along training: the union over checkpoints, by enumeration, and its comparison with the base."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leash import cross_pair, tables
from leash.report import narrative
from leash.statistics.pass_at_k import SampleCounts
from leash.statistics.union import reach_probability, union_of_shares, union_probability
from stages.categorize import stage
from tests.conftest import small, write_params
from tests.unit.test_categorize import given

MODELS = ["base", "rlvr", "rlvr-050", "rlvr-100"]
TRAINED = {
    "rlvr-050": {"p": "AAAA", "q": "Axxx", "r": "xxxx", "s": "xxxx"},
    "rlvr-100": {"p": "AAAA", "q": "xxxx", "r": "xxAx", "s": "xxxx"},
    "rlvr": {"p": "AAAA", "q": "xxxx", "r": "AAAA", "s": "xxxx"},
}


def samples(n: list[int], c: list[int]) -> SampleCounts:
    return SampleCounts(np.array(n), np.array(c), np.full(len(n), "k", dtype=object))


def write_run(
    base: dict[str, str], trained: dict[str, dict[str, str]], stop_after: int | None = None
) -> list[dict[str, Any]]:
    """Categorize three checkpoints of one training with four samples each, and return the rows over all problems."""
    given({"base": base, **trained})
    run = {"datasets": ["make"], "pairs": ["rlvr", "rlvr-050", "rlvr-100"], "models": MODELS}
    raw = small(sample={"k": max(map(len, base.values())), "stop_after": stop_after}, run=run)
    for model in TRAINED:
        raw["models"][model]["k"] = 4
    stage.run(write_params(Path(), raw))
    rows = tables.read(cross_pair.EVER_REACHED_PATH, cross_pair.EVER_REACHED_SCHEMA, "").to_pylist()
    return [row for row in rows if row["dataset"] == "all"]


def test_a_union_is_certain_where_one_model_is_and_unknown_where_it_may_change() -> None:
    supports = np.array([[1, 0, 0.5, 0, np.nan, 1], [0, 0, 0.5, 0.25, 0, np.nan]])
    assert union_probability(supports) == pytest.approx([1, 0, 0.75, 0.25, np.nan, 1], nan_ok=True)


@pytest.mark.parametrize("hits", [(0, 1), (1, 2), (3, 0), (2, 2)])
def test_the_union_of_shares_is_the_mean_over_all_choices_of_samples(hits: tuple[int, int]) -> None:
    k, share = 5, 2
    chosen = [[any(i < c for i in which) for which in combinations(range(k), share)] for c in hits]
    expected = np.mean([first or second for first, second in product(*chosen)])
    models = [samples([k], [c]) for c in hits]
    assert union_of_shares(models, k, np.zeros(1)) == pytest.approx([expected], abs=1e-12)


def test_more_models_than_samples_leave_no_share() -> None:
    assert np.isnan(union_of_shares([samples([1], [1])] * 2, 1, np.zeros(1))).all()


def test_a_base_with_too_few_samples_is_unknown() -> None:
    known = reach_probability(samples([8, 4], [1, 1]), np.array([8, 4]), 8, np.zeros(2))
    assert known == pytest.approx([1, np.nan], nan_ok=True)


@pytest.mark.usefixtures("project")
def test_problems_are_followed_along_the_training() -> None:
    base = {"p": "AxxxxxxxAAAA", "q": "xxxxAxxxxxxx", "r": "xxxxxxxxxxxx", "s": "xxxxxxxxxxxA"}
    rows = write_run(base, TRAINED)
    assert [row["pair"] for row in rows] == ["rlvr-050", "rlvr-100", "rlvr"]
    columns = ("checkpoints", "reached", "ever_reached", "only_before", "never_reached", "total_k", "share_k")
    assert [[row[name] for name in columns] for row in rows] == [
        [1, 2, 2, 0, 2, 4, 4],
        [2, 2, 3, 1, 1, 8, 2],
        [3, 2, 3, 1, 1, 12, 1],
    ]
    # With one hit in 12, 8 of 12 samples have it two times in three; p with 5 hits is missed by no 8 samples.
    assert [row["base_at_total_k"] for row in rows[1:]] == pytest.approx([1 + 2 / 3 + 2 / 3, 3])
    # One sample each of three checkpoints with four: p surely; q by one in four of the first; r by one in four of the
    # second or surely by the last.
    assert rows[2]["ever_at_share_k"] == pytest.approx(1 + 1 / 4 + 1)
    sentence = narrative.ever_reached_sentence(rows[2])
    assert "3 checkpoints of the rlvr training reached 3 of 4 problems (4 samples each)" in sentence
    assert sentence.endswith("together (12), base reaches 3.0.")


@pytest.mark.usefixtures("project")
def test_a_base_without_as_many_samples_gives_null_not_a_guess() -> None:
    rows = write_run(dict.fromkeys("pqrs", "Axxx"), TRAINED)
    assert [row["base_at_total_k"] for row in rows] == [4.0, None, None]
    assert [row["base_at_shares"] for row in rows] == pytest.approx([4.0, 4.0, 3.0])
    assert "has too few samples" in narrative.ever_reached_sentence(rows[2])


@pytest.mark.usefixtures("project")
def test_missing_samples_make_the_union_unknown_unless_another_checkpoint_reached_the_problem() -> None:
    base = dict.fromkeys("pqrs", "Axxx")
    p_lacks = {**TRAINED, "rlvr-100": {**TRAINED["rlvr-100"], "p": "A"}}
    rows = write_run(base, p_lacks)
    assert [row["reached"] for row in rows] == [2, None, 2]
    assert [row["ever_reached"] for row in rows] == [2, 3, 3]
    s_lacks = {**TRAINED, "rlvr-100": {**TRAINED["rlvr-100"], "s": "x"}}
    rows = write_run(base, s_lacks)
    assert [row["ever_reached"] for row in rows] == [2, None, None]
    assert "unknown" in narrative.ever_reached_sentence(rows[2])


@pytest.mark.usefixtures("project")
def test_an_early_stop_gives_the_same_reach_as_the_full_run() -> None:
    base = dict.fromkeys("pqrs", "Axxx")
    full, stopped = (write_run(base, TRAINED, stop_after) for stop_after in (None, 1))
    names = ("reached", "ever_reached", "only_before", "never_reached")
    assert [[row[name] for name in names] for row in stopped] == [[row[name] for name in names] for row in full]


@pytest.mark.usefixtures("project")
def test_a_single_pair_has_no_row() -> None:
    given({"base": {"p": "Axxx"}, "rlvr": {"p": "Axxx"}})
    run = {"datasets": ["make"], "models": ["base", "rlvr"], "pairs": ["rlvr"]}
    stage.run(write_params(Path(), small(sample={"k": 4}, run=run)))
    assert tables.read(cross_pair.EVER_REACHED_PATH, cross_pair.EVER_REACHED_SCHEMA, "").num_rows == 0

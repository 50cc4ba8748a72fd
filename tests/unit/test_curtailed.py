"""Adaptive budgets: every number against all the sequences that could have been drawn, through the real queries.

A problem of these tests is one of the 2^K sequences of hits and misses, so that sums over problems, each weighted by
its probability, are exact expectations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from leash import database, tables
from leash.counting import metrics
from leash.errors import LeashError
from leash.params.groups import Params
from leash.statistics.support import detectable_mass
from tests import made
from tests.conftest import small, write_params
from tests.made import verdict_table

Outcomes = Sequence[bool | None]
SHARES = (0.0, 0.03, 0.2, 0.5, 0.77, 1.0)


def adaptive(params: Params, **changes: Any) -> Params:
    """The same parameters with others for the budget and epsilon."""
    categorizing: dict[str, Any] = {name: changes.pop(name) for name in ("epsilon", "confidence") if name in changes}
    return params.model_copy(
        update={
            "sample": params.sample.model_copy(update=changes),
            "categorize": params.categorize.model_copy(update=categorizing),
        }
    )


def problem(i: int) -> str:
    return f"p{i:05d}"


def given(base: Sequence[Outcomes], rlvr: Sequence[Outcomes]) -> None:
    """Tables of problems and of full runs of both models: what each sample of each problem was."""
    ids = [problem(i) for i in range(len(base))]
    about = {"dataset": "chain", "question": "?", "gold": ["1"], "grader": "exact", "images": None, "meta": "{}"}
    rows = [{**about, "problem_id": name} for name in ids]
    tables.write(
        tables.problems_path("chain"), tables.table_from_rows(rows, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA
    )
    for model, outcomes in (("base", base), ("rlvr", rlvr)):
        runs = zip(ids, outcomes, strict=True)
        rows = [verdict(name, i, correct) for name, run in runs for i, correct in enumerate(run)]
        verdicts = verdict_table(rows)
        tables.write(tables.verdicts_folder(model, "chain") / "a.parquet", verdicts, tables.VERDICTS_SCHEMA)


def verdict(problem_id: str, sample: int, correct: bool | None) -> dict[str, Any]:
    status = "timeout" if correct is None else "ok"
    answer = {"answer": "1", "answer_class": "1", "score": None if correct is None else float(correct)}
    return {"problem_id": problem_id, "sample": sample, "correct": correct, "status": status, **answer}


@pytest.fixture
def chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Params:
    """Parameters of one pair on one data set, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return write_params(tmp_path, small(run={"models": ["base", "rlvr"], "pairs": ["rlvr"], "datasets": ["chain"]}))


def sequences(length: int) -> list[Outcomes]:
    return list(product([False, True], repeat=length))


def probabilities(runs: Iterable[Outcomes], share: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([np.prod([share if correct else 1 - share for correct in run]) for run in runs])


def estimates(support: pa.Table, budgets: Sequence[int]) -> dict[int, np.ndarray[Any, np.dtype[np.float64]]]:
    """pass@k of the base on every problem, by k: each problem as a data set of its own."""
    place = support.column_names.index("dataset")
    apart = support.set_column(place, "dataset", support["problem_id"])
    found = metrics.compute_pass_at_k(apart, budgets).to_pylist()
    rows = [r for r in found if r["role"] == "base" and r["dataset"] != "all"]
    return {k: np.array([r["pass_at_k"] for r in rows if r["k"] == k], dtype=float) for k in budgets}


def rules(k: int) -> list[tuple[int, int]]:
    return [(h, floor) for h in range(1, 5) for floor in range(k + 1)]


def stopped(run: Outcomes, h: int, floor: int) -> Outcomes:
    """The rule, said plainly."""
    for n in range(len(run) + 1):
        if n >= floor and sum(bool(correct) for correct in run[:n]) >= h:
            return run[:n]
    return run


def test_verdicts_end_at_the_stop_whatever_is_on_disk(chain: Params) -> None:
    runs = [*sequences(6), *product([False, True, None], repeat=4)]
    given(runs, runs)
    for h, floor in rules(6):
        params = adaptive(chain, k=6, stop_after=h, floor=floor)
        found = database.open_database(params).sql(
            "select problem_id, list(correct order by sample) from verdicts where model = 'base' group by all"
        )
        assert dict(found.fetchall()) == {problem(i): list(stopped(run, h, floor)) for i, run in enumerate(runs)}


@pytest.mark.parametrize(
    ("run", "h", "floor", "ended", "n", "c"),
    [
        ("..1.1.", None, 0, "k", 6, 2),
        ("..1.1.", None, 3, "k", 6, 2),  # a floor alone is no rule
        ("..1.1", None, 0, None, 5, 2),
        ("..1.1.", 1, 0, "hit", 3, 1),
        ("..1.1.", 2, 0, "hit", 5, 2),
        ("..1.1.", 3, 0, "k", 6, 2),
        (".....1", 1, 0, "hit", 6, 1),  # at the very last sample
        ("......", 1, 0, "k", 6, 0),
        (".....", 1, 0, None, 5, 0),
        ("..1", 1, 0, "hit", 3, 1),  # the sampler stopped where it should
        ("..1", 1, 3, "floor", 3, 1),  # the hit is at the floor itself
        ("..1", 1, 4, None, 3, 1),  # more samples are due
        ("11.1..", 1, 3, "floor", 3, 2),
        ("11....", 2, 5, "floor", 5, 2),
        ("1....1", 2, 5, "hit", 6, 2),
        ("11....", 1, 6, "k", 6, 2),  # a floor of k is a full run
        ("11....", 1, 9, "k", 6, 2),
        ("?.1...", 1, 0, "hit", 2, 1),  # an unscored sample has its place, but is no sample of n
        ("1?....", 1, 2, "floor", 1, 1),
        ("?1....", 1, 1, "hit", 1, 1),
        ("??????", 1, 0, "k", 0, 0),
        ("_.1...", 1, 0, None, 2, 1),  # a missing sample may have been the hit
        ("..1..._", 1, 0, "hit", 3, 1),
    ],
)
def test_how_sampling_ended(
    chain: Params, run: str, h: int | None, floor: int, ended: str | None, n: int, c: int
) -> None:
    given([[False]], [[False] * 6])
    meaning = {"1": True, ".": False, "?": None}
    rows = [verdict(problem(0), i, meaning[mark]) for i, mark in enumerate(run) if mark != "_"]
    folder = tables.verdicts_folder("base", "chain")
    tables.write(folder / "a.parquet", verdict_table(rows), tables.VERDICTS_SCHEMA)
    (row,) = made.compute_support(adaptive(chain, k=6, stop_after=h, floor=floor)).to_pylist()
    assert (row["ended_base"], row["n_base"], row["c_base"]) == (ended, n, c)
    assert (row["category"] is None) == (ended is None or n == 0)


@pytest.mark.parametrize(("k", "floors"), [(5, range(6)), (10, (0, 4, 9))])
def test_pass_at_k_is_unbiased_at_every_k(chain: Params, k: int, floors: Sequence[int]) -> None:
    """The mean of the estimates over all sequences is 1 - (1 - p)^k, for every rule; that of c/n is not p."""
    runs = sequences(k)
    given(runs, [[False] * k] * len(runs))
    weights = {share: probabilities(runs, share) for share in SHARES}
    naive = []
    for h, floor in product(range(1, 5), floors):
        support = made.compute_support(adaptive(chain, k=k, stop_after=h, floor=floor))
        found = estimates(support, range(1, k + 1))
        shares = np.array(support["c_base"]) / np.array(support["n_base"])
        for share in SHARES:
            for at, estimate in found.items():
                assert weights[share] @ estimate == pytest.approx(1 - (1 - share) ** at, abs=1e-12), (h, floor, at)
        naive.append(abs(weights[0.2] @ shares - 0.2))
        assert (naive[-1] < 1e-12) == (floor == k)
    assert max(naive) > 0.15


def test_the_mass_is_the_estimate_at_one_sample(chain: Params) -> None:
    """Unbiased with two hits or more; with one hit alone there is none to give."""
    runs = sequences(6)
    given(runs, [[False] * 6] * len(runs))
    for h, floor in product((1, 2, 4), (0, 1, 3, 6)):
        support = made.compute_support(adaptive(chain, k=6, stop_after=h, floor=floor))
        at_one = estimates(support, [1])[1]
        for row, estimate in zip(support.to_pylist(), at_one, strict=True):
            refused = h == 1 and row["ended_base"] == "hit"
            assert row["mass_base"] == (None if refused else pytest.approx(estimate, abs=1e-12))
            if not refused:
                assert row["low_base"] <= row["mass_base"] <= row["high_base"]


def test_pass_at_k_of_a_full_run_is_what_it_was(chain: Params) -> None:
    """The budget ends at the pair's k, also where every problem stopped long before it."""
    given([[True] * 8], [[False] * 8])
    found = metrics.compute_pass_at_k(made.compute_support(adaptive(chain, k=8, stop_after=1, floor=0))).to_pylist()
    assert {(r["role"], r["k"]): r["pass_at_k"] for r in found if r["dataset"] == "all"} == {
        (role, k): float(role == "base") for role in ("base", "rlvr") for k in (1, 2, 4, 8)
    }


def test_pass_at_k_is_null_where_samples_are_missing(chain: Params) -> None:
    """An unscored sample of a full run, or one that is not there, leaves nothing to say beyond n."""
    given([[False] * 7 + [None], [True]], [[False] * 3, [True] * 8])
    rows = metrics.compute_pass_at_k(made.compute_support(adaptive(chain, k=8, stop_after=1, floor=0))).to_pylist()
    found = {(r["role"], r["k"]): r["pass_at_k"] for r in rows if r["dataset"] == "all"}
    assert [found["base", k] for k in (1, 4, 8)] == [0.5, 0.5, None]
    assert [found["rlvr", k] for k in (1, 2, 4)] == [0.5, 0.5, None]


@pytest.mark.parametrize(("k", "floors", "confidence"), [(5, range(6), 0.8), (9, (0, 3, 8), 0.95)])
def test_intervals_cover_at_every_share(chain: Params, k: int, floors: Sequence[int], confidence: float) -> None:
    """Exactly computed over all sequences: neither bound is on the wrong side more often than allowed."""
    runs = sequences(k)
    given(runs, [[False] * k] * len(runs))
    for h, floor in product(range(1, 5), floors):
        params = adaptive(chain, k=k, stop_after=h, floor=floor, confidence=confidence)
        support = made.compute_support(params)
        low, high = np.array(support["low_base"]), np.array(support["high_base"])
        for share in (0.0, 0.01, 0.1, 0.31, 0.5, 0.66, 0.9, 0.99, 1.0):
            weights = probabilities(runs, share)
            tail = (1 - confidence) / 2 + 1e-12
            assert weights @ (low > share) <= tail, (h, floor, share)
            assert weights @ (high < share) <= tail, (h, floor, share)


def test_intervals_are_no_wider_than_they_must_be(chain: Params) -> None:
    """A bound moved to its end's own tail probability is met exactly: at the lower bound of `hit at n`, as strong an
    end has a probability of half of what may be missed."""
    given([[False, False, True, False, True]], [[False] * 5])
    (row,) = made.compute_support(adaptive(chain, k=5, stop_after=2, floor=0)).to_pylist()
    low, high = row["low_base"], row["high_base"]
    runs = sequences(5)
    assert sum(probabilities([r for r in runs if sum(map(bool, r)) >= 2], low)) == pytest.approx(0.025)
    assert sum(probabilities([r for r in runs if sum(map(bool, r[:4])) < 2], high)) == pytest.approx(0.025)


def random_runs(problems: int, k: int, seed: int) -> list[Outcomes]:
    """Full runs with masses from none to nearly all, and a few samples that could not be scored."""
    stream = np.random.default_rng(seed)
    shares = stream.choice([0, 0.5 / k, 1 / k, 3 / k, 6 / k, 0.3, 0.95], size=problems)
    drawn = stream.random((problems, k)) < shares[:, None]
    unscored = stream.random((problems, k)) < 0.01
    return [[None if u else bool(x) for x, u in zip(*run, strict=True)] for run in zip(drawn, unscored, strict=True)]


def categories(support: pa.Table) -> tuple[list[str | None], list[list[int]]]:
    """Every problem's category, and the counts at the chosen epsilon and at 0."""
    counted = [[row[name] for name in "PESO"] for row in metrics.compute_metrics(support).to_pylist()]
    return support["category"].to_pylist(), counted


@pytest.mark.parametrize(("epsilon", "h"), [(0.0, 1), ("auto", 3), ("auto", 5), (0.05, 4), (0.29, 19)])
def test_categories_are_those_of_the_full_run(chain: Params, epsilon: float | str, h: int) -> None:
    k = 64
    given(random_runs(60, k, seed=1), random_runs(60, k, seed=2))
    full = adaptive(chain, k=k, epsilon=epsilon)
    for at, floors in ((None, (0, 7, 63, 100)), (16, (0, 7, 40))):  # 16: where pairs share a smaller k
        expected = categories(made.compute_support(full, at))
        for floor in floors:
            curtailed = made.compute_support(adaptive(full, stop_after=h, floor=floor), at)
            assert categories(curtailed) == expected, (floor, at)
    assert sum(made.compute_support(adaptive(full, stop_after=h))["n_base"].to_pylist()) < 60 * k * 0.95


def test_a_hit_too_few_would_change_categories(chain: Params) -> None:
    """Why such a stop is refused: the test above can fail."""
    given(random_runs(60, 64, seed=1), random_runs(60, 64, seed=2))
    full = adaptive(chain, k=64, epsilon="auto")
    early = made.compute_support(adaptive(full, stop_after=2))
    assert early["category"].to_pylist() != made.compute_support(full)["category"].to_pylist()


def test_a_stop_that_could_change_a_category_is_refused(tmp_path: Path) -> None:
    """29 of 100 is not above 0.29, though 0.29 * 100 is below 29 in floating point."""
    with pytest.raises(LeashError, match="takes 30 hits in 100; set it to 30 or more"):
        write_params(tmp_path, small(sample={"k": 100, "stop_after": 29}, categorize={"epsilon": 0.29}))
    write_params(tmp_path, small(sample={"k": 100, "stop_after": 30}, categorize={"epsilon": 0.29}))
    with pytest.raises(LeashError, match="takes 3 hits"):
        write_params(tmp_path, small(sample={"k": 100, "stop_after": 2}, categorize={"epsilon": "auto"}))
    assert int(detectable_mass(100, 0.95) * 100) == 2


def test_early_stops_are_tested_too(chain: Params) -> None:
    """Fisher's test where both models drew all k, one that holds for every stopping rule elsewhere; one family."""
    hits = [[True] * 30 + [False] * 34, [False] * 64, [True] * 40 + [False] * 24, [False] * 60 + [True] * 4]
    other = [[False] * 64, [True] * 64, [True] * 64, [False] * 64]
    given(hits, other)
    support = made.compute_support(adaptive(chain, k=64, stop_after=40, floor=0))
    rows = support.to_pylist()
    assert [(r["ended_base"], r["ended_rlvr"]) for r in rows] == [("k", "k"), ("k", "hit"), ("hit", "hit"), ("k", "k")]
    assert [r["category"] for r in rows] == ["S", "E", "P", "S"]
    assert [r["p_value"] is None for r in rows] == [False, False, True, False]
    assert [r["tested_category"] for r in rows] == ["S", "E", "P", "undetermined"]
    assert rows[0]["p_value"] == pytest.approx(stats.fisher_exact(np.array([[30, 34], [0, 64]])).pvalue)
    # 40 hits in 40 samples against none in 64: more extreme than at the 64th sample, less than by Fisher's test.
    assert 1e-30 < rows[1]["p_value"] < 1e-15
    # A family of four: the preserved problem counts, too.
    assert [r["q_value"] for r in rows] == [
        pytest.approx(rows[0]["p_value"] * 4 / 2),
        pytest.approx(rows[1]["p_value"] * 4),
        None,
        pytest.approx(rows[3]["p_value"] * 4 / 3),
    ]
    overall = next(r for r in metrics.compute_metrics(support).to_pylist() if r["counted"] == "chosen")
    assert (overall["E"], overall["E_tested"], overall["S"], overall["S_tested"]) == (1, 1, 2, 1)

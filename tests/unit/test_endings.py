"""Whether the completions of two models end differently, by problems and not by samples."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from leash.report.audit import compare_endings
from leash.statistics.endings import EndingComparison
from tests import made

K = 50


def ending(folder: Path, status: str, silent: dict[str, int], problems: int = 20) -> EndingComparison:
    """All k samples of the first `silent[model]` problems of each model end with a status; the others are ok."""
    params = made.parameters(folder, K)
    connection = duckdb.connect()
    dataset = made.DATASETS[0]
    support = [
        {"pair": "tuned", "dataset": dataset, "problem_id": str(i), "k": K, "category": "P"} for i in range(problems)
    ]
    verdicts = [
        {
            "model": model,
            "dataset": dataset,
            "problem_id": str(i),
            "sample": s,
            "status": status if i < silent[model] else "ok",
        }
        for model in made.MODELS
        for i in range(problems)
        for s in range(K + 1)
    ]
    # Neither a sample beyond k nor a problem without a category counts.
    support.append({**support[0], "problem_id": "short", "category": None})
    verdicts += [{**row, "problem_id": "short", "status": status} for row in verdicts[:K]]
    for name, rows in (("support", support), ("verdicts", verdicts)):
        connection.register(name, pa.Table.from_pylist(rows))
    found = compare_endings(params, connection)["tuned"]
    return next(one for one in found if one.status == status)


@pytest.mark.parametrize("status", ["no_answer", "truncated"])
def test_a_model_that_is_silent_on_many_problems_ends_differently(tmp_path: Path, status: str) -> None:
    found = ending(tmp_path, status, {"mine": 10, "tuned": 0})
    assert (found.base, found.rlvr) == (0.5, 0.0)
    assert found.p_value == pytest.approx(2 * 0.5**10)
    assert found.differs(0.95)


def test_many_samples_of_few_problems_prove_nothing(tmp_path: Path) -> None:
    """150 completions against none, but of three problems."""
    found = ending(tmp_path, "no_answer", {"mine": 3, "tuned": 0})
    assert (found.base, found.p_value) == (0.15, 0.25)
    assert not found.differs(0.95)


def test_models_that_are_silent_alike_do_not_differ(tmp_path: Path) -> None:
    found = ending(tmp_path, "no_answer", {"mine": 8, "tuned": 8})
    assert (found.base, found.rlvr, found.p_value) == (0.4, 0.4, 1.0)
    assert not found.differs(0.95)

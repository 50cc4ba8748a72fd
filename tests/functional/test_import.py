"""The real DAG on imported completions: no model, no weights, the same tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.conftest import small, write_params
from tests.functional.conftest import ran, shell
from tests.functional.test_dag import STAGES, new_repo

GOLD = {"What is 1 + 1?": "2", "What is 2 + 2?": "4", "What is 3 + 3?": "6", "What is 4 + 4?": "8"}
K = 4


def write(path: Path, hits: dict[str, int], k: int = K) -> None:
    """k completions of each problem, of which the first `hits` are correct."""
    with path.open("w") as file:
        for question, gold in GOLD.items():
            answers = [gold if sample < hits[question] else "0" for sample in range(k)]
            texts = [f"I think it is \\boxed{{{answer}}}." for answer in answers]
            file.write(json.dumps({"question": question, "answer": gold, "completions": texts}) + "\n")


def parameters(k: int) -> dict[str, Any]:
    run = {"models": ["mine", "tuned"], "datasets": ["exam"], "pairs": ["tuned"], "processes": 1}
    models = {name: {"engine": "import"} for name in ("mine", "tuned")}
    datasets = {"exam": {"imported": True, "grader": "math", "k": k}}
    return small(run=run, models=models, datasets=datasets, pairs={"tuned": {"base": "mine", "rlvr": "tuned"}})


def categories(folder: Path) -> list[tuple[str, int, int]]:
    rows = pq.read_table(folder / "data" / "support" / "tuned.parquet").sort_by("problem_id").to_pylist()
    return [(row["category"], row["c_base"], row["c_rlvr"]) for row in rows]


def test_an_imported_pair_goes_through_the_dag(prepared: Path, tmp_path: Path) -> None:
    folder = new_repo(prepared, tmp_path)
    write_params(folder, parameters(K))
    for model, hits in {"mine": (4, 1, 0, 0), "tuned": (4, 0, 2, 0)}.items():
        write(folder / f"{model}.jsonl", dict(zip(GOLD, hits, strict=True)))
        shell("leash", "import", f"{model}.jsonl", "--model", model, "--dataset", "exam", cwd=folder)
    assert ran(shell("dvc", "repro", cwd=folder)) == STAGES
    assert categories(folder) == [("P", 4, 4), ("S", 1, 0), ("E", 0, 2), ("O", 0, 0)]
    metrics = json.loads((folder / "reports" / "metrics.json").read_text())["pairs"]["tuned"]
    assert [metrics[name] for name in "PESO"] == [1, 1, 1, 1]
    assert ran(shell("dvc", "repro", cwd=folder)) == []

    # More completions are added to the existing ones, and only the stages that depend on them run again.
    write(folder / "more.jsonl", dict.fromkeys(GOLD, 1), k=1)
    for model in ("mine", "tuned"):
        shell("leash", "import", "more.jsonl", "--model", model, "--dataset", "exam", cwd=folder)
    write_params(folder, parameters(K + 1))
    assert ran(shell("dvc", "repro", "categorize", cwd=folder)) == [
        "fetch",
        "sample",
        "verify",
        "reasoning",
        "mass",
        "reach",
        "categorize",
    ]
    assert categories(folder) == [("P", 5, 5), ("P", 2, 1), ("P", 1, 3), ("P", 1, 1)]

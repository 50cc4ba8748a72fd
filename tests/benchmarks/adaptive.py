"""Adaptive budgets against the full run and against the oracle, on the embedded pair at k = 1024.

    python tests/benchmarks/adaptive.py

Draws all samples of both models on all problems, then draws again with `sample.stop_after` 1 (for epsilon 0) and 3
(for epsilon auto), and compares. The oracle stops every problem exactly at its h-th hit. Checked: each problem's
category is that of the full run, at its epsilon; every point of the adaptive pass@k curves is within its own 95%
interval (over problems) of the full run's; tokens are at most 1.15 times the oracle's, for each model and h.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from result import tell

from leash import database
from leash.counting import hit_counts, metrics
from leash.params import groups, loading
from stages.categorize import stage as categorize
from stages.fetch import stage
from stages.sample import stage as sample
from stages.verify import stage as verify

ROOT = Path(__file__).parent.parent.parent
MODELS, DATASETS, GOAL = ("base", "rlvr"), ("chain", "make"), 1.15
# The number of hits after which sampling stops: the epsilon of that run.
RULES: dict[int, float | str] = {1: 0.0, 3: "auto"}


def main() -> None:
    settings = loading.load(ROOT / "params.yaml")
    folder = Path(tempfile.mkdtemp())
    full = drawn(folder / "full", with_rule(settings, None))
    worst, fine = (0.0, 0.0, 0.0), True
    for h, epsilon in RULES.items():
        oracle = {model: oracle_tokens(folder / "full", settings, model, h) for model in MODELS}
        adaptive = drawn(folder / f"stop-{h}", with_rule(settings, h))
        same, within = compared(folder, settings, h, epsilon)
        fine &= same and within
        print(f"h = {h}, epsilon {epsilon}: categories identical: {same}; pass@k within its intervals: {within}")
        for model in MODELS:
            ratio = adaptive[model] / oracle[model]
            worst = max(worst, (ratio, adaptive[model], oracle[model]))
            print(
                f"  {model}: {full[model]:,} tokens in full, {adaptive[model]:,} adaptive, "
                f"{full[model] / adaptive[model]:.2f} times fewer; the oracle's {oracle[model]:,}: ratio {ratio:.3f}",
                flush=True,
            )
    ratio, ours, theirs = worst
    ok = fine and ratio <= GOAL
    tell(
        "adaptive sampling against the oracle",
        ours=ours,
        theirs=theirs,
        ratio=ratio,
        goal="at most 1.15 of its tokens",
        ok=ok,
    )


def with_rule(settings: groups.Params, stop_after: int | None, epsilon: float | str = 0.0) -> groups.Params:
    catalogue = {
        m: settings.models[m].model_copy(update={"path": str(ROOT / "models" / "embedded" / m)}) for m in MODELS
    }
    return settings.model_copy(
        update={
            "run": settings.run.model_copy(
                update={"models": list(MODELS), "pairs": ["rlvr"], "datasets": list(DATASETS)}
            ),
            "models": catalogue,
            "sample": settings.sample.model_copy(update={"stop_after": stop_after}),
            "categorize": settings.categorize.model_copy(update={"epsilon": epsilon}),
        }
    )


def drawn(folder: Path, settings: groups.Params) -> dict[str, int]:
    """Sample and verify in a folder; return how many tokens each model has taken."""
    folder.mkdir()
    os.chdir(folder)
    for dataset in DATASETS:
        stage.run(settings, dataset)
    tokens = {m: sum(sample.run(settings, m, dataset).tokens for dataset in DATASETS) for m in MODELS}
    for model in MODELS:
        for dataset in DATASETS:
            verify.run(settings, model, dataset)
    return tokens


def oracle_tokens(folder: Path, settings: groups.Params, model: str, h: int) -> int:
    os.chdir(folder)
    sql = """
        with hits as (
            select *, count(*) filter (where correct) over (
                partition by dataset, problem_id order by sample rows between unbounded preceding and 1 preceding
            ) as before
            from verdicts where model = $model
        )
        select sum(tokens) from hits inner join completions using (model, dataset, problem_id, sample) where before < $h
    """
    with database.open_database(with_rule(settings, None)) as connection:
        [(tokens,)] = connection.sql(sql, params={"model": model, "h": h}).fetchall()
    return int(tokens)


def compute_support(params: groups.Params) -> pa.Table:
    plan = hit_counts.pair_plan(params)
    with hit_counts.open_tallies(params, [plan]) as connection:
        return categorize.problem_support(connection, params, plan)


def compared(folder: Path, settings: groups.Params, h: int, epsilon: float | str) -> tuple[bool, bool]:
    """Whether all categories are the full run's, and all points of the curves within their intervals of its."""
    os.chdir(folder / "full")
    full = compute_support(with_rule(settings, None, epsilon))
    os.chdir(folder / f"stop-{h}")
    adaptive = compute_support(with_rule(settings, h, epsilon))
    same = full["category"].to_pylist() == adaptive["category"].to_pylist() and None not in full["category"].to_pylist()
    theirs, ours = per_problem(full), per_problem(adaptive)
    within = True
    for (role, k), estimates in ours.items():
        margin = 1.96 * np.std(estimates, ddof=1) / np.sqrt(len(estimates))
        within &= abs(np.mean(estimates) - np.mean(theirs[role, k])) <= margin + 1e-12
    return same, bool(within)


def per_problem(support: pa.Table) -> dict[tuple[str, int], list[float]]:
    """Each problem's pass@k by role and k: the curves of a support table in which every problem is a data set."""
    apart = support.set_column(support.schema.get_field_index("dataset"), "dataset", support["problem_id"])
    found: dict[tuple[str, int], list[float]] = {}
    for row in metrics.compute_pass_at_k(apart).to_pylist():
        if row["dataset"] != "all":
            found.setdefault((row["role"], row["k"]), []).append(row["pass_at_k"])
    return found


if __name__ == "__main__":
    main()

r"""The embedded data sets: held-out problems of the tasks that the embedded models were trained on.

    {"problem_id": "make-4-002", "question": "make 25 from 7 8 9 1 :", "gold": ["25"], "grader": "make",
     "meta": {"level": 4, "numbers": [7, 8, 9, 1], "traces": {"worked": "9 - 1 = 8 , …", "direct": "\\boxed{ …"}}}

`traces` are the generator's own clean solutions: the references of the perplexity stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stages import seeds, tables
from stages.errors import LeashError
from stages.params import Dataset
from stages.train import tasks

PATIENCE = 10_000  # draws in a row that all were seen before: then there is next to nothing else
GRADERS = {"chain": "exact", "make": "make"}


def problems(name: str, dataset: Dataset) -> Iterator[dict[str, Any]]:
    """`per_level` different problems of each level; more of them leave the first ones as they are."""
    assert dataset.family
    for level in dataset.levels:
        rng = seeds.stream("fetch", dataset.family, level)
        seen: set[str] = set()
        while len(seen) < dataset.per_level:
            draws = (tasks.draw(rng, dataset.family, level, held_out=True) for _ in range(PATIENCE))
            problem = next((problem for problem in draws if problem.prompt not in seen), None)
            if problem is None:
                raise LeashError(
                    f"`datasets.{name}.per_level` is {dataset.per_level}, but level {level} of {dataset.family} has "
                    f"only some {len(seen)}; lower it, or name higher levels."
                )
            yield _row(name, f"{dataset.family}-{level}-{len(seen):03d}", problem)
            seen.add(problem.prompt)


def _row(name: str, problem_id: str, problem: tasks.Problem) -> dict[str, Any]:
    rng = seeds.stream("fetch", "traces", problem.prompt)
    traces = {
        "worked": tasks.solution(rng, problem, worked=True, slip=False),
        "direct": tasks.solution(rng, problem, worked=False, slip=False),
    }
    return tables.problem_row(
        dataset=name,
        problem_id=problem_id,
        question=problem.prompt,
        gold=[problem.gold],
        grader=GRADERS[problem.family],
        meta={"level": problem.level, "numbers": problem.numbers, "traces": traces},
    )

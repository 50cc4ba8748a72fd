r"""Generate the embedded data sets: held-out problems of the tasks that the embedded models were trained on.

    {"problem_id": "make-4-002", "question": "make 25 from 7 8 9 1 :", "gold": ["25"], "grader": "make",
     "meta": {"level": 4, "numbers": [7, 8, 9, 1], "traces": {"worked": "9 - 1 = 8 , …", "direct": "\\boxed{ …"}}}

`traces` are the generator's own correct solutions, which the perplexity stage uses as references.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leash import tables
from leash.datasets import embedded_tasks
from leash.errors import LeashError
from leash.params.groups import Dataset
from leash.statistics import seeds

MAX_REPEATED_DRAWS = 10_000  # after this many repeats in a row, hardly any new problem is left
GRADERS = {"chain": "exact", "make": "make"}


class TooFewProblemsError(LeashError):
    """A level of an embedded task has fewer problems than `per_level`."""

    def __init__(self, dataset: str, per_level: int, family: str, level: int, available: int) -> None:
        self.dataset, self.per_level, self.level, self.available = dataset, per_level, level, available
        super().__init__(
            f"`datasets.{dataset}.per_level` is {per_level}, but level {level} of {family} has only about {available} "
            f"problems; lower it, or use higher levels."
        )


def generate_problems(name: str, dataset: Dataset) -> Iterator[dict[str, Any]]:
    """`per_level` different problems per level. A larger `per_level` keeps the first ones as they are."""
    assert dataset.family
    for level in dataset.levels:
        rng = seeds.stream("fetch", dataset.family, level)
        seen: set[str] = set()
        while len(seen) < dataset.per_level:
            for _ in range(MAX_REPEATED_DRAWS):
                problem = embedded_tasks.draw_problem(rng, dataset.family, level, held_out=True)
                if problem.prompt not in seen:
                    break
            else:
                raise TooFewProblemsError(name, dataset.per_level, dataset.family, level, len(seen))
            # The stream is the prompt's own, so that a problem has the same traces in every data set.
            trace_rng = seeds.stream("fetch", "traces", problem.prompt)
            traces = {
                kind: embedded_tasks.write_solution(trace_rng, problem, worked=kind == "worked", slip=False)
                for kind in ("worked", "direct")
            }
            yield tables.problem_row(
                dataset=name,
                problem_id=f"{dataset.family}-{level}-{len(seen):03d}",
                question=problem.prompt,
                gold=[problem.gold],
                grader=GRADERS[problem.family],
                meta={"level": level, "numbers": problem.numbers, "traces": traces},
                level=str(level),
                cluster=f"{dataset.family}-{level}",
            )
            seen.add(problem.prompt)

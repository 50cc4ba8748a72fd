"""Reasoning Gym: problems that its generators make, by task, size, seed and config.

datasets:
  dice:   {family: reasoning_gym, task: dice}
  colors: {family: reasoning_gym, task: graph_color_vertex15}
  sums:   {family: reasoning_gym, task: chain_sum, size: 200, seed: 7, config: {min_terms: 5, max_terms: 6}}

The same task, size, seed and config make the same problems. Problem i of a seed is made from seed + i, so seeds less
than `size` apart share problems.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from stages import tables
from stages.errors import LeashError
from stages.params import Dataset
from stages.verify.graders.gym import library, packed

SIZE, SEED, THRESHOLD = 50, 45, 1.0

# The paper's tasks. Easy ones are as the package makes them: eval/yaml/easy of open-thought/reasoning-gym at commit
# 17a8431 names no parameters; hard ones are those of eval/yaml/hard at that commit, which has no boxnet. Graphs of 15
# and 20 vertices are in neither: the paper's own, of which only the number of vertices is known.
PRESETS: dict[str, tuple[str, dict[str, Any]]] = {
    "advanced_geometry_hard": ("advanced_geometry", {"min_coord": -100, "max_coord": 100}),
    "arc_1d_hard": ("arc_1d", {"min_size": 25, "max_size": 50}),
    "dice_hard": ("dice", {"num_dice": 6, "max_dice_size": 25}),
    "family_relationships_hard": ("family_relationships", {"min_family_size": 5, "max_family_size": 9}),
    "graph_color_hard": ("graph_color", {"min_num_vertices": 10, "max_num_vertices": 20, "num_colors": 4}),
    "graph_color_vertex15": ("graph_color", {"min_num_vertices": 15, "max_num_vertices": 15}),
    "graph_color_vertex20": ("graph_color", {"min_num_vertices": 20, "max_num_vertices": 20}),
    "leg_counting_hard": (
        "leg_counting",
        {"min_animals": 20, "max_animals": 30, "min_instances": 64, "max_instances": 256},
    ),
    "palindrome_generation_hard": ("palindrome_generation", {"min_length": 50, "max_length": 100}),
    "power_function_hard": ("power_function", {"min_exponent": 4, "max_exponent": 8}),
    "prime_factorization_hard": ("prime_factorization", {"min_value": 1000, "max_value": 5000}),
} | {
    task: (task, {})
    for task in (
        "advanced_geometry",
        "arc_1d",
        "boxnet",
        "dice",
        "family_relationships",
        "graph_color",
        "leg_counting",
        "palindrome_generation",
        "power_function",
        "prime_factorization",
    )
}


def problems(name: str, dataset: Dataset) -> Iterator[dict[str, Any]]:
    task, config = _asked_for(name, dataset)
    made = _made(name, task, config)
    for index in range(config["size"]):
        try:
            item = made[index]
        except Exception as error:  # generators fail in ways of their own on a config that they did not refuse
            raise LeashError(_refusal(name, task, error)) from None
        yield _row(name, f"{dataset.task}-{index:03d}", task, config, item, dataset.threshold)


def _asked_for(name: str, dataset: Dataset) -> tuple[str, dict[str, Any]]:
    """The task and all that its generator is told."""
    if dataset.task is None:
        raise LeashError(f"`datasets.{name}` needs a `task`: one of Reasoning Gym's, or {', '.join(sorted(PRESETS))}.")
    if dataset.size == "all":
        raise LeashError(f"`datasets.{name}.size` is all, but problems that are made have no end; give a number.")
    for told in ("size", "seed"):
        if told in dataset.config:
            raise LeashError(f"`datasets.{name}.config` holds {told}; say it beside `task`, as `{told}`.")
    task, preset = PRESETS.get(dataset.task, (dataset.task, {}))
    seed = SEED if dataset.seed is None else dataset.seed
    return task, {**preset, **dataset.config, "size": dataset.size or SIZE, "seed": seed}


def _made(name: str, task: str, config: Mapping[str, Any]) -> Any:
    """The generator of a task's problems."""
    gym = library()
    tasks = sorted(set(gym.factory.DATASETS) - {"composite"})  # no task but a mixture of others, by objects of its own
    if task not in tasks:
        raise LeashError(f"`datasets.{name}.task` is {task}, which Reasoning Gym has not; it has {', '.join(tasks)}.")
    try:
        return gym.create_dataset(task, **config)
    except Exception as error:
        raise LeashError(_refusal(name, task, error)) from None


def _refusal(name: str, task: str, error: Exception) -> str:
    told = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return f"Reasoning Gym can't make {task} with `datasets.{name}.config` ({told}); correct it."


def _row(
    name: str, problem_id: str, task: str, config: Mapping[str, Any], item: Mapping[str, Any], threshold: float | None
) -> dict[str, Any]:
    meta = {
        "question": item["question"],
        "task": task,
        "config": packed(dict(config)),
        "item": packed(dict(item)),
        "threshold": THRESHOLD if threshold is None else threshold,
    }
    return tables.problem_row(
        dataset=name,
        problem_id=problem_id,
        question=item["question"],
        gold=[gold] if (gold := _gold(task, item)) is not None else [],
        grader="gym",
        meta=meta,
    )


def _gold(task: str, item: Mapping[str, Any]) -> str | None:
    """The item's answer. Tasks with many have none of them there, but some have an example elsewhere; rush_hour has
    nothing."""
    if item["answer"] is not None:
        return str(item["answer"])
    return EXAMPLES[task](item["metadata"]) if task in EXAMPLES else None


def _boxnet_plan(metadata: Mapping[str, Any]) -> str:
    """A plan that takes one box after the other to a target of its colour."""
    placed = sorted((thing, square) for square, things in metadata["initial_state"].items() for thing in things)
    boxes = [(thing, square) for thing, square in placed if thing.startswith("box_")]
    targets = [(thing, square) for thing, square in placed if thing.startswith("target_")]
    steps = []
    for (box, start), (target, end) in zip(boxes, targets, strict=True):
        squares = _path(start, end)
        steps += [{f"Agent[{here}]": f"move({box}, square[{there}])"} for here, there in pairwise(squares)]
        steps.append({f"Agent[{squares[-1]}]": f"move({box}, {target})"})
    return json.dumps(steps)


def _path(start: str, end: str) -> list[str]:
    """The squares from one to another ("0.5_1.5"), along the column and then along the row, as "0.5, 1.5"."""
    (x, y), (to_x, to_y) = ([float(part) for part in square.split("_")] for square in (start, end))
    path = [(x, y)]
    while (x, y) != (to_x, to_y):
        if x != to_x:
            x += 1 if x < to_x else -1
        else:
            y += 1 if y < to_y else -1
        path.append((x, y))
    return [f"{x}, {y}" for x, y in path]


EXAMPLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "boxnet": _boxnet_plan,
    "graph_color": lambda metadata: json.dumps(metadata["possible_answer"]),
    "propositional_logic": lambda metadata: str(metadata["example_answer"]),
    "rubiks_cube": lambda metadata: str(metadata["example_correct_answer"]),
}

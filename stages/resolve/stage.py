"""resolve: this run's parameters with every default filled in, and links to the files that they name.

In:  params.yaml, which holds only what differs from the defaults.
Out: data/params/*.json  one file per group, model and data set of the run. The other stages depend on these instead
                         of params.yaml: DVC refuses a stage whose key is missing there, and nobody should have to
                         spell out a default.
     data/inputs/        symbolic links to the data files, weights, grader functions, prompts and traces that
                         params.yaml names by path. DVC follows a link, so `dvc status` sees an edit behind it.

This stage runs first, so a mistake in params.yaml stops a run before any work. It does not read the files behind the
links.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from leash import atomic_io, tables
from leash.errors import LeashError
from leash.grading.graders import registry
from leash.params.groups import ENGINES_WITHOUT_WEIGHTS, Params

PARAMS_DIR = Path("data/params")
INPUTS_DIR = Path("data/inputs")


class MissingInputError(LeashError):
    def __init__(self, key: str, path: str) -> None:
        self.key, self.path = key, path
        super().__init__(f"`{key}` is {path}, but nothing is there; put it there or correct the path.")


@dataclass(frozen=True)
class Input:
    """A file or folder that params.yaml names by path. `link` is its place in data/inputs, `key` the parameter that
    names it. Without a path, a file with `note` takes its place: DVC requires every dependency to exist."""

    link: Path
    key: str
    path: str | None
    note: str
    used_up: bool = False  # its output exists, so the run can continue without it


def run(params: Params) -> None:
    inputs = list(find_inputs(params))
    for each in inputs:
        if each.path and not Path(each.path).exists():
            if not each.used_up:
                raise MissingInputError(each.key, each.path)
            click.echo(
                f"Note: `{each.key}` is {each.path}, but nothing is there. Its output exists: continue with `dvc repro "
                f"--allow-missing`."
            )
    files = build_param_files(params)
    for old in set(PARAMS_DIR.rglob("*.json")) - set(files):
        old.unlink()
    for path, content in files.items():
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        # An unchanged file keeps its time stamp, so DVC need not hash it again. A damaged one may be no text.
        if not path.exists() or path.read_bytes() != text.encode():
            atomic_io.write(path, text)
    shutil.rmtree(INPUTS_DIR, ignore_errors=True)  # removes the links, never the files behind them
    for each in inputs:
        each.link.parent.mkdir(parents=True, exist_ok=True)
        if each.path is None:
            atomic_io.write(each.link, each.note + "\n")
        elif Path(each.path).exists():
            # A relative path gets a relative link, so that the project can be moved. data/ may itself be a link.
            relative = os.path.relpath(os.path.realpath(each.path), os.path.realpath(each.link.parent))
            each.link.symlink_to(each.path if Path(each.path).is_absolute() else relative)


def build_param_files(params: Params) -> dict[Path, Any]:
    """The content of each file of data/params. A stage's file has its own group and the few keys it uses from others,
    so a new epsilon does not run `mass` or `entropy`."""
    dumped = params.model_dump(mode="json")
    categorize = dumped["categorize"]
    bootstrap = {key: categorize[key] for key in ("confidence", "bootstrap", "seed")}
    files: dict[str, Any] = {
        # Without `processes`, `on` and `ray`: they change no number.
        "run": {
            "models": params.run.models,
            "datasets": params.run.datasets,
            "pairs": {name: dumped["pairs"][name] for name in params.run.pairs},
        },
        "train": dumped["train"],
        "sample": dumped["sample"],
        "verify": dumped["verify"],
        "reasoning": dumped["reasoning"],
        # While the stage is off, its other settings change nothing.
        "reach": dumped["reach"] if params.reach.rollouts else {"rollouts": 0},
        "mass": {**dumped["mass"], "units": categorize["units"]},
        "categorize": categorize,
        # The names of all models: a trace source with the name of a model is refused.
        "perplexity": {**dumped["perplexity"], "models": sorted(params.models)},
        "entropy": {**dumped["entropy"], **bootstrap},
        "report": dumped["report"],
    }
    for name in params.run.models:
        # None if the user set no dtype: on a GPU, the scorer then chooses bfloat16.
        dtype = params.models[name].dtype if "dtype" in params.models[name].model_fields_set else None
        files[f"models/{name}"] = {**dumped["models"][name], "dtype": dtype}
    for name in params.run.datasets:
        files[f"datasets/{name}"] = dumped["datasets"][name]
    return {PARAMS_DIR / f"{name}.json": content for name, content in files.items()}


def find_inputs(params: Params) -> Iterator[Input]:
    """The files and folders that this run depends on by path."""
    for name in params.run.models:
        model = params.models[name]
        note = f"{model.hub or model.served or model.path or name}@{model.revision or 'main'}"
        # The path of a model that is not loaded here may exist only on its server.
        elsewhere = params.engine(name) in ENGINES_WITHOUT_WEIGHTS and not Path(model.path or "").exists()
        # A clone with somebody's completions or verdicts does not need their weights.
        sampled = all(
            any(tables.shards(folder(name, dataset)) for folder in (tables.completions_folder, tables.verdicts_folder))
            for dataset in params.run.datasets
        )
        path = None if elsewhere else model.path
        yield Input(INPUTS_DIR / "models" / name, f"models.{name}.path", path, note, sampled)
    for name in params.run.datasets:
        dataset = params.datasets[name]
        note, fetched = dataset.hub or dataset.family or "imported", tables.problems_path(name).exists()
        yield Input(INPUTS_DIR / "datasets" / name, f"datasets.{name}.path", dataset.path, note, fetched)
        # What decides its grades beside our own code: the user's grader function and the judge's prompt.
        folder, key = INPUTS_DIR / "graders" / name, f"datasets.{name}.grader"
        yield Input(folder / "grader.txt", key, None, dataset.grader or "the grader of its family")
        if dataset.grader and ":" in dataset.grader:
            file = registry.find_grader_file(dataset.grader)
            yield Input(folder / file.name, key, str(file), "")
        if prompt := params.verify.judge.prompt:
            graded = all(tables.shards(tables.verdicts_folder(model, name)) for model in params.run.models)
            yield Input(folder / "judge_prompt.txt", "verify.judge.prompt", prompt, "", graded)
    prompt, asked = params.reasoning.prompt, any(Path("data/reasoning").glob("*.calibration.parquet"))
    yield Input(INPUTS_DIR / "reasoning_prompt.txt", "reasoning.prompt", prompt, "the prompt of Leash", asked)
    traces, scored = params.perplexity.traces, any(Path("data/perplexity").rglob("*.parquet"))
    yield Input(INPUTS_DIR / "traces", "perplexity.traces", traces, "no traces", scored)

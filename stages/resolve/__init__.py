"""resolve: this run's parameters with every default filled in, and links to the files that they name.

In:  params.yaml, which holds only what differs from the defaults.
Out: data/params/*.json  one file per group, model and data set of the run. The other stages depend on these instead
                         of params.yaml: DVC refuses a stage whose key is missing there, and nobody should have to
                         spell out a default.
     data/inputs/        symbolic links to the data files, weights, grader functions, prompts and traces that
                         params.yaml names by path. DVC follows a link, so `dvc status` sees an edit behind it.

This stage runs first, so it also refuses bad names before a shell sees them. It does not read what the links point to.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from stages import disk, tables
from stages.errors import LeashError
from stages.params import WEIGHTLESS, Dataset, Model, Params
from stages.verify import graders

PARAMS = Path("data/params")
INPUTS = Path("data/inputs")


@dataclass(frozen=True)
class Input:
    """A file or folder that params.yaml names by path: where it is linked, the key that names it, and whether what is
    made of it is there already. Without a path a note stands in: DVC wants every dependency to exist."""

    place: Path
    key: str
    path: str | None
    note: str
    used_up: bool = False


def run(params: Params) -> None:
    """Write data/params and data/inputs anew."""
    inputs = list(inputs_of(params))
    for one in inputs:
        if one.path and not Path(one.path).exists():
            missing = f"`{one.key}` is {one.path}, but nothing is there"
            if not one.used_up:
                raise LeashError(f"{missing}; put it there or correct the path.")
            click.echo(f"Note: {missing}. What was made of it is here: go on with `dvc repro --allow-missing`.")
    _write_json(groups_of(params))
    _write_links(inputs)


def groups_of(params: Params) -> dict[Path, Any]:
    """What each file of data/params holds. A stage's file has its own group and the few keys it takes from others, so
    that a new epsilon does not run `mass` or `entropy`."""
    dumped = params.model_dump(mode="json")
    categorize = dumped["categorize"]
    used = {key: categorize[key] for key in ("confidence", "bootstrap", "seed")}
    files: dict[str, Any] = {
        # Not where it runs: `processes`, `on` and `ray` change no number.
        "run": {
            "models": params.run.models,
            "datasets": params.run.datasets,
            "pairs": {name: dumped["pairs"][name] for name in params.run.pairs},
        },
        "train": dumped["train"],
        "sample": dumped["sample"],
        "verify": dumped["verify"],
        "mass": {**dumped["mass"], "units": categorize["units"]},
        "categorize": categorize,
        # All models by name: a trace source that is called like one of them is that model's own writing.
        "perplexity": {**dumped["perplexity"], "models": sorted(params.models)},
        "entropy": {**dumped["entropy"], **used},
        "report": dumped["report"],
    }
    for name in params.run.models:
        files[f"models/{name}"] = {**dumped["models"][name], "dtype": _dtype(params.models[name])}
    for name in params.run.datasets:
        files[f"datasets/{name}"] = dumped["datasets"][name]
    return {PARAMS / f"{name}.json": content for name, content in files.items()}


def _dtype(model: Model) -> str | None:
    """None where the user named none: the scorer is then free to choose one for a GPU."""
    return model.dtype if "dtype" in model.model_fields_set else None


def inputs_of(params: Params) -> Iterator[Input]:
    """What this run depends on by path. A clone that only got somebody's verdicts has no need of their weights."""
    for name in params.run.models:
        model = params.models[name]
        note = f"{model.hub or model.served or model.path or name}@{model.revision or 'main'}"
        # The path of a model that is not loaded here may be one that only its server knows.
        elsewhere = params.engine(name) in WEIGHTLESS and not Path(model.path or "").exists()
        drawn = all(_is_drawn(name, dataset) for dataset in params.run.datasets)
        yield Input(INPUTS / "models" / name, f"models.{name}.path", None if elsewhere else model.path, note, drawn)
    for name in params.run.datasets:
        dataset = params.datasets[name]
        note, fetched = dataset.hub or dataset.family or "imported", tables.problems_path(name).exists()
        yield Input(INPUTS / "datasets" / name, f"datasets.{name}.path", dataset.path, note, fetched)
        yield from _grader_inputs(params, name, dataset)
    traces, scored = params.perplexity.traces, any(Path("data/perplexity").rglob("*.parquet"))
    yield Input(INPUTS / "traces", "perplexity.traces", traces, "no traces", scored)


def _is_drawn(model: str, dataset: str) -> bool:
    folders = (tables.completions_folder(model, dataset), tables.verdicts_folder(model, dataset))
    return any(tables.shards(folder) for folder in folders)


def _grader_inputs(params: Params, name: str, dataset: Dataset) -> Iterator[Input]:
    """What decides a data set's grades beside our own code: a function of the user's, and the judge's prompt."""
    folder, key = INPUTS / "graders" / name, f"datasets.{name}.grader"
    yield Input(folder / "grader.txt", key, None, dataset.grader or "the grader of its family")
    if dataset.grader and (file := graders.own_file(dataset.grader)):
        yield Input(folder / file.name, key, str(file), "")
    if prompt := params.verify.judge.prompt:
        graded = all(tables.shards(tables.verdicts_folder(model, name)) for model in params.run.models)
        yield Input(folder / "judge_prompt.txt", "verify.judge.prompt", prompt, "", graded)


def _write_json(files: Mapping[Path, Any]) -> None:
    for old in set(PARAMS.rglob("*.json")) - set(files):
        old.unlink()
    for path, content in files.items():
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            disk.write(path, text)


def _write_links(inputs: Sequence[Input]) -> None:
    shutil.rmtree(INPUTS, ignore_errors=True)  # removes links, and never what they point to
    for one in inputs:
        one.place.parent.mkdir(parents=True, exist_ok=True)
        if one.path is None:
            disk.write(one.place, one.note + "\n")
        elif Path(one.path).exists():
            # Relative where the user's path is, so that the project's folder can be moved; data/ may be a link itself.
            relative = os.path.relpath(os.path.realpath(one.path), os.path.realpath(one.place.parent))
            one.place.symlink_to(one.path if Path(one.path).is_absolute() else relative)

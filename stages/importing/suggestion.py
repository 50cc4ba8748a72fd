"""The params.yaml of a run on imported completions: what `leash import` prints when it is done.

In:  an import that has just ended, the completions of other imports, and params.yaml if there is one.
Out: suggest_params(imported)  ->  {"run": {...}, "models": {...}, "pairs": {...}, "datasets": {...}}

With two models or more it is complete: pasted into params.yaml as it stands, it runs to a report. With one model there
is no pair yet. A data set is in it if every model has imported completions on it.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from stages import tables
from stages.errors import LeashError
from stages.importing import ENGINE, Imported
from stages.importing.survey import span
from stages.params.reading import parsed
from stages.sample.ledger import Ledger

Plain = dict[str, Any]


def suggest_params(imported: Imported) -> Plain:
    """The groups of params.yaml that a run of these imports needs."""
    held = _count_samples()
    present = _read_present()
    models = _order_models([model for model, dataset in held if dataset == imported.dataset], imported.dataset, present)
    datasets = sorted({name for _, name in held if all((model, name) in held for model in models)})
    base, *trained = models
    run: Plain = {"models": models, "pairs": trained, "datasets": datasets}
    return {
        "run": run if trained else {name: names for name, names in run.items() if name != "pairs"},
        "models": {model: {"engine": ENGINE} for model in models},
        **({"pairs": {model: {"base": base, "rlvr": model} for model in trained}} if trained else {}),
        "datasets": {
            name: _describe_dataset(name, present) | {"k": min(held[model, name] for model in models)}
            for name in datasets
        },
    }


def as_yaml(params: Plain) -> str:
    """Groups in blocks, and what is in them on one line each. Names that YAML would read as numbers are quoted."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel declares None
    yaml.width = 100_000
    written = io.StringIO()
    yaml.dump(params, written)
    return written.getvalue().rstrip("\n")


def _count_samples() -> dict[tuple[str, str], int]:
    """How many samples every problem has, of each model and data set that were imported: the fewest of any problem."""
    found = {}
    for manifest in sorted((tables.DATA / "completions").glob("*/*/manifest.json")):
        folder = manifest.parent
        try:
            content = Ledger(folder).manifest()
        except LeashError:  # a damaged one is no part of this import, which has succeeded
            continue
        if content.get("fingerprint", {}).get("engine") == ENGINE:
            samples: dict[str, int] = {}
            numbers = (source["numbers"].items() for source in content["sources"])
            for problem, own in itertools.chain.from_iterable(numbers):
                first, stop = span(own)
                samples[problem] = samples.get(problem, 0) + stop - first
            found[folder.parent.name, folder.name] = min(samples.values(), default=1)
    return found


def _order_models(models: list[str], dataset: str, present: Mapping[str, Any]) -> list[str]:
    """The base first: the one that params.yaml calls a base, or else the one that was imported first."""
    pairs = present.get("pairs")
    bases = [pair.get("base") for pair in pairs.values() if isinstance(pair, dict)] if isinstance(pairs, dict) else []

    def first_written(model: str) -> int:
        shards = tables.shards(tables.completions_folder(model, dataset))
        return min((shard.stat().st_mtime_ns for shard in shards), default=0)

    return sorted(models, key=lambda model: (model not in bases, first_written(model)))


def _read_present() -> Plain:
    """The params.yaml of this folder; nothing if there is none or it can't be read, which other commands report."""
    try:
        found = parsed(Path("params.yaml"))
    except LeashError:
        return {}
    return found if isinstance(found, dict) else {}


def _describe_dataset(name: str, present: Mapping[str, Any]) -> Plain:
    """A data set that was fetched stays what params.yaml says; any other has the problems table that is there."""
    catalogue = present.get("datasets")
    known = catalogue.get(name) if isinstance(catalogue, dict) else None
    if isinstance(known, dict):
        return dict(known)
    rows = tables.read(tables.problems_path(name), tables.PROBLEMS, f"leash fetch {name}")
    return {"imported": True, "grader": rows["grader"][0].as_py()}

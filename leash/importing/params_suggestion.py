"""Suggest a params.yaml for a run on imported completions, which `leash import` prints.

In:  an import that has just ended, the completions of other imports, and params.yaml if it exists.
Out: suggest_params(imported)  ->  {"run": {...}, "models": {...}, "pairs": {...}, "datasets": {...}}

With two or more models the file is complete and runs to a report. With one model there is no pair yet. It contains
every data set on which all models have imported completions.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from leash import tables
from leash.errors import LeashError
from leash.importing.importer import IMPORT_ENGINE, ImportResult
from leash.importing.survey import parse_sample_range
from leash.ledger import Ledger
from leash.params.loading import read_yaml

ParamsDict = dict[str, Any]


def suggest_params(imported: ImportResult) -> ParamsDict:
    """The groups of params.yaml that a run on these imports needs."""
    samples = _count_samples()
    current: Any = {}
    with suppress(LeashError):  # a params.yaml that is missing or wrong: other commands report it
        current = read_yaml(Path("params.yaml"))
    current = current if isinstance(current, dict) else {}
    models = _order_models([m for m, dataset in samples if dataset == imported.dataset], imported.dataset, current)
    datasets = sorted({name for _, name in samples if all((model, name) in samples for model in models)})
    base, *trained = models
    return {
        "run": {"models": models, **({"pairs": trained} if trained else {}), "datasets": datasets},
        "models": {model: {"engine": IMPORT_ENGINE} for model in models},
        **({"pairs": {model: {"base": base, "rlvr": model} for model in trained}} if trained else {}),
        "datasets": {
            name: _describe_dataset(name, current) | {"k": min(samples[model, name] for model in models)}
            for name in datasets
        },
    }


def format_yaml(params: ParamsDict) -> str:
    """Groups as blocks, their entries on one line each. Names that YAML would read as numbers are quoted."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel declares None
    yaml.width = 100_000
    text = io.StringIO()
    yaml.dump(params, text)
    return text.getvalue().rstrip("\n")


def _count_samples() -> dict[tuple[str, str], int]:
    """The number of samples that every problem has, by imported model and data set: the fewest of any problem."""
    counts = {}
    for file in sorted((tables.DATA_DIR / "completions").glob("*/*/manifest.json")):
        try:
            manifest = Ledger(file.parent).manifest()
        except LeashError:  # a damaged ledger of another model does not concern this import, which has succeeded
            continue
        if manifest.get("fingerprint", {}).get("engine") == IMPORT_ENGINE:
            samples: dict[str, int] = {}
            for source in manifest["sources"]:
                for problem_id, numbers in source["numbers"].items():
                    first, stop = parse_sample_range(numbers)
                    samples[problem_id] = samples.get(problem_id, 0) + stop - first
            counts[file.parent.parent.name, file.parent.name] = min(samples.values(), default=1)
    return counts


def _order_models(models: list[str], dataset: str, current: Mapping[str, Any]) -> list[str]:
    """The base first: the model that is a base in params.yaml, or else the one that was imported first."""
    pairs = current.get("pairs")
    bases = [pair.get("base") for pair in pairs.values() if isinstance(pair, dict)] if isinstance(pairs, dict) else []

    def first_written(model: str) -> int:
        shards = tables.shards(tables.completions_folder(model, dataset))
        return min((shard.stat().st_mtime_ns for shard in shards), default=0)

    return sorted(models, key=lambda model: (model not in bases, first_written(model)))


def _describe_dataset(name: str, current: Mapping[str, Any]) -> ParamsDict:
    """The entry of params.yaml, if there is one; else an imported data set with the grader of its problems table."""
    datasets = current.get("datasets")
    entry = datasets.get(name) if isinstance(datasets, dict) else None
    if isinstance(entry, dict):
        return dict(entry)
    rows = tables.read(tables.problems_path(name), tables.PROBLEMS_SCHEMA, f"leash fetch {name}")
    return {"imported": True, "grader": rows["grader"][0].as_py()}

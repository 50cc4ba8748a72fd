"""What no single field of `params.yaml` can know: names that stand nowhere, models and data sets without a source, a k
that is never drawn, a stop before anything can be told."""

from __future__ import annotations

from typing import Any

from stages import safety
from stages.params.groups import EMBEDDED, WEIGHTLESS, Dataset, Params, hits_above


def complaints(params: Params) -> list[str]:
    return [
        *_bad_names(params),
        *_bad_models(params),
        *_bad_datasets(params),
        *_too_large_k(params),
        *_too_early_stops(params),
        *safety.complaints(params),
    ]


def _bad_names(params: Params) -> list[str]:
    catalogues: dict[str, tuple[list[str], dict[str, Any]]] = {
        "models": (params.run.models, params.models),
        "datasets": (params.run.datasets, params.datasets),
        "pairs": (params.run.pairs, params.pairs),
    }
    unknown = [
        f"`run.{kind}` names {name}, which is not under `{kind}`; add it there or take it off the list."
        for kind, (names, catalogue) in catalogues.items()
        for name in names
        if name not in catalogue
    ]
    twice = [
        f"`run.{kind}` names {name} twice; take one off the list."
        for kind, (names, _) in catalogues.items()
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    return [*unknown, *twice] or [
        f"`pairs.{pair}` names the model {model}, which is not in `run.models`; add it there or drop the pair."
        for pair in params.run.pairs
        for model in params.models_of(pair)
        if model not in params.run.models
    ]


def _bad_models(params: Params) -> list[str]:
    return [
        f"`models.{name}` needs one of `path` (a local folder) and `hub` (an id on the hub)."
        for name, model in params.models.items()
        if (model.path and model.hub) or not (model.path or model.hub or params.engine(name) in WEIGHTLESS)
    ]


def _bad_datasets(params: Params) -> list[str]:
    return [
        complaint for name, dataset in params.datasets.items() if (complaint := _bad_dataset(name, dataset)) is not None
    ]


def _bad_dataset(name: str, dataset: Dataset) -> str | None:
    if dataset.family in EMBEDDED and (not dataset.levels or min(dataset.levels) < 2):
        return f"`datasets.{name}` is generated, so it needs `levels`, each at least 2."
    if name == "all":
        return "`datasets.all` must have another name: `all` stands for all data sets."
    if dataset.hub and not (dataset.family or dataset.path or dataset.files):
        return (
            f"`datasets.{name}.files` must say which files of {dataset.hub} to read: a pattern such as "
            f"data/test-*.parquet."
        )
    if not (dataset.family or dataset.path or dataset.hub or dataset.imported):
        return f"`datasets.{name}` needs a `path` to a file, a `hub` id, a `family`, or to be `imported`."
    return None


def _too_large_k(params: Params) -> list[str]:
    k = params.categorize.k
    if k == "all":
        return []
    return [
        f"`categorize.k` is {k}, but only {sampled} samples a problem are taken on {dataset}; "
        f"lower it, or raise `sample.k`."
        for dataset in params.run.datasets
        if k > (sampled := params.datasets[dataset].k or params.sample.k)
    ]


def _too_early_stops(params: Params) -> list[str]:
    """A problem that stops after h hits can be told from one with a smaller mass than epsilon only if h > epsilon k."""
    h = params.sample.stop_after
    if h is None:
        return []
    for pair in params.run.pairs:
        for dataset in params.run.datasets:
            k = params.pair_k(pair, dataset)
            share = params.epsilon(k)
            if h < (needed := hits_above(share, k)):
                return [
                    f"`sample.stop_after` is {h}, but a mass above epsilon ({share:.4g}) takes {needed} hits in {k}; "
                    f"set it to {needed} or more, or lower `categorize.epsilon`."
                ]
    return []

"""What no single field of `params.yaml` can know: names that stand nowhere, models and data sets without a source, a k
that is never drawn, a stop before anything can be told."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from stages import safety
from stages.params.groups import EMBEDDED, WEIGHTLESS, Params, hits_above


def complaints(params: Params) -> Iterator[str]:
    """One after the other: what comes later relies on names that are there."""
    yield from _bad_names(params)
    yield from _bad_models(params)
    yield from _bad_datasets(params)
    yield from _missing_budgets(params)
    yield from _too_large_k(params)
    yield from _too_early_stops(params)
    yield from safety.complaints(params)


def _bad_names(params: Params) -> Iterator[str]:
    catalogues: dict[str, tuple[list[str], dict[str, Any]]] = {
        "models": (params.run.models, params.models),
        "datasets": (params.run.datasets, params.datasets),
        "pairs": (params.run.pairs, params.pairs),
    }
    for kind, (names, catalogue) in catalogues.items():
        for name in names:
            if name not in catalogue:
                yield f"`run.{kind}` names {name}, which is not under `{kind}`; add it there or take it off the list."
            if names.count(name) > 1:
                yield f"`run.{kind}` names {name} twice; take one off the list."
    for pair in params.run.pairs:
        for model in params.models_of(pair):
            if model not in params.run.models:
                yield (
                    f"`pairs.{pair}` names the model {model}, which is not in `run.models`; add it there or drop the "
                    f"pair."
                )


def _bad_models(params: Params) -> Iterator[str]:
    for name, model in params.models.items():
        if (model.path and model.hub) or not (model.path or model.hub or params.engine(name) in WEIGHTLESS):
            yield f"`models.{name}` needs one of `path` (a local folder) and `hub` (an id on the hub)."


def _bad_datasets(params: Params) -> Iterator[str]:
    for name, dataset in params.datasets.items():
        if name == "all":
            yield "`datasets.all` must have another name: `all` stands for all data sets."
        if dataset.family in EMBEDDED and (not dataset.levels or min(dataset.levels) < 2):
            yield f"`datasets.{name}` is generated, so it needs `levels`, each at least 2."
        if not (dataset.family or dataset.path or dataset.hub or dataset.imported):
            yield f"`datasets.{name}` needs a `path` to a file, a `hub` id, a `family`, or to be `imported`."
        if dataset.hub and not (dataset.family or dataset.path or dataset.files):
            yield (
                f"`datasets.{name}.files` must say which files of {dataset.hub} to read: a pattern such as "
                f"data/test-*.parquet."
            )


def _missing_budgets(params: Params) -> Iterator[str]:
    """Every data set of the run needs a k, and models that are sampled a longest completion."""
    for dataset in params.run.datasets:
        if not (params.datasets[dataset].k or params.sample.k):
            yield f"`sample.k` is missing; set it, or `datasets.{dataset}.k`, to the number of samples per problem."
    if not params.sample.max_tokens and (sampled := [m for m in params.run.models if params.engine(m) != "import"]):
        yield (
            f"`sample.max_tokens` is missing; set it to the most tokens that a completion of {sampled[0]} may have "
            f"(only models with `engine: import` do without)."
        )


def _too_large_k(params: Params) -> Iterator[str]:
    k = params.categorize.k
    for dataset in params.run.datasets:
        sampled = params.datasets[dataset].k or params.sample.k
        if k != "all" and sampled and k > sampled:
            yield (
                f"`categorize.k` is {k}, but only {sampled} samples a problem are taken on {dataset}; lower it, or "
                f"raise `sample.k`."
            )


def _too_early_stops(params: Params) -> Iterator[str]:
    """A problem that stops after h hits can be told from one with a smaller mass than epsilon only if h > epsilon k."""
    h = params.sample.stop_after
    if h is None:
        return
    for pair, dataset in product(params.run.pairs, params.run.datasets):
        k = params.pair_k(pair, dataset)
        share = params.epsilon(k)
        if h < (needed := hits_above(share, k)):
            yield (
                f"`sample.stop_after` is {h}, but a mass above epsilon ({share:.4g}) takes {needed} hits in {k}; set "
                f"it to {needed} or more, or lower `categorize.epsilon`."
            )

"""Checks that need more than one field of `params.yaml`: undefined names, models and data sets without a source, a k
that is never sampled, and sampling that stops too early to decide about support."""

from __future__ import annotations

from itertools import product

from leash.params import errors, security
from leash.params.groups import EMBEDDED_FAMILIES, ENGINES_WITHOUT_WEIGHTS, Params
from leash.statistics.support import min_hits_above


def check(params: Params) -> None:
    """Raise the first problem. The order matters: later checks look up the names that earlier ones have checked."""
    _check_names(params)
    _check_sources(params)
    _check_budgets(params)
    for problem in security.complaints(params):
        raise problem


def _check_names(params: Params) -> None:
    for kind in ("models", "datasets", "pairs"):
        names: list[str] = getattr(params.run, kind)
        for name in names:
            if name not in getattr(params, kind):
                problem = f", which is not under `{kind}`; add it there or take it off the list"
                raise errors.BadListError(f"run.{kind}", name, problem)
            if names.count(name) > 1:
                raise errors.BadListError(f"run.{kind}", name, " twice; take one off the list")
    for pair in params.run.pairs:
        base, rlvr = params.models_of(pair)
        if base == rlvr:
            problem = (
                f"has {base} as `base` and as `rlvr`, and a model has only one set of samples; to compare it with "
                f"itself, give it a second name under `models`."
            )
            raise errors.ParamError(f"pairs.{pair}", problem)
        for model in (base, rlvr):
            if model not in params.run.models:
                problem = ", which is not in `run.models`; add it there or drop the pair"
                raise errors.BadListError(f"pairs.{pair}", model, problem)


def _check_sources(params: Params) -> None:
    for name, model in params.models.items():
        needs_source = params.engine(name) not in ENGINES_WITHOUT_WEIGHTS
        if (model.path and model.hub) or (needs_source and not (model.path or model.hub)):
            raise errors.MissingSourceError(
                f"models.{name}", "needs one of `path` (a local folder) and `hub` (an id on the hub)."
            )
    for name, dataset in params.datasets.items():
        if name == "all":
            raise errors.ParamError("datasets.all", "must have another name: `all` stands for all data sets.")
        if dataset.family in EMBEDDED_FAMILIES and (not dataset.levels or min(dataset.levels) < 2):
            expected = "a list of numbers from 2 on, since the data set is generated"
            raise errors.BadValueError(f"datasets.{name}.levels", str(dataset.levels), expected)
        if not (dataset.family or dataset.path or dataset.hub or dataset.imported):
            raise errors.MissingSourceError(
                f"datasets.{name}", "needs a `path` to a file, a `hub` id, a `family`, or to be `imported`."
            )
        if dataset.hub and not (dataset.family or dataset.path or dataset.files):
            remedy = f"name the files of {dataset.hub} to read by a pattern such as data/test-*.parquet"
            raise errors.MissingKeyError(f"datasets.{name}.files", remedy)


def _check_budgets(params: Params) -> None:
    k = params.categorize.k
    for dataset in params.run.datasets:
        sampled = params.samples_per_problem(dataset)
        if k != "all" and k > sampled:
            reason = f"each problem of {dataset} has only {sampled} samples; lower it, or raise `sample.k`"
            raise errors.ConflictError("categorize.k", k, sampled, reason)
    if not params.sample.max_tokens and (drawn := [m for m in params.run.models if params.engine(m) != "import"]):
        raise errors.MissingKeyError(
            "sample.max_tokens",
            f"set it to the most tokens that a completion of {drawn[0]} may have (only models with `engine: import` "
            f"do without)",
        )
    if params.reach.rollouts and not params.sample.temperature:
        # The scorer gives each of several equally likely tokens probability 1, where an engine draws one of them.
        reason = (
            "greedy decoding (`sample.temperature: 0`) has no masses to bound; set it to 0, or sample with temperature"
        )
        raise errors.ConflictError("reach.rollouts", params.reach.rollouts, 0, reason)
    hits = params.sample.stop_after
    if hits is None:
        return
    # A problem that stops after h hits shows a mass above epsilon only if h > epsilon k.
    for pair, dataset in product(params.run.pairs, params.run.datasets):
        k = params.pair_k(pair, dataset)
        epsilon = params.epsilon(k)
        if hits < (needed := min_hits_above(epsilon, k)):
            raise errors.ConflictError(
                "sample.stop_after",
                hits,
                needed,
                f"a mass above epsilon ({epsilon:.4g}) takes {needed} hits in {k}; set it to {needed} or more, or "
                f"lower `categorize.epsilon`",
            )

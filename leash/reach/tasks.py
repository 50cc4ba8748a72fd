"""What to examine: a task is a problem on which one model of a pair, the target, has few hits, while the other, the
donor, has some. The stage counts; this module says which pairs can be examined at all, and why others cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from leash.grading.graders import registry
from leash.params.groups import Params
from leash.params.security import refuse_unlisted_graders
from leash.problems import load_problems
from leash.prompts import load_problem_images
from leash.scoring.scorable import drawn_until
from leash.token_ids import tokenizer_key
from leash.weights import find_weights, has_weights


@dataclass(frozen=True)
class Place:
    """A pair and a data set, and which of the pair's models is the target."""

    pair: str
    dataset: str
    role: str
    target: str
    donor: str
    k: int  # samples per problem that both models have


@dataclass(frozen=True)
class Task:
    """A problem of a place, with samples (n) and hits (c) of both models. `donor_stopped`: the last of the donor's
    samples is the hit at which `sample.stop_after` ended it."""

    place: Place
    problem_id: str
    n_target: int
    c_target: int
    n_donor: int
    c_donor: int
    donor_stopped: bool


def find_places(params: Params) -> tuple[list[Place], list[str]]:
    """The places of this run that can be examined, and a sentence for each reason why others cannot."""
    places, sentences = [], dict[str, None]()
    for pair, dataset in product(params.run.pairs, params.run.datasets):
        if reason := next(_reasons_against(params, pair, dataset), None):
            sentences[reason] = None
            continue
        both = params.models_of(pair)
        k = min(params.k(model, dataset) for model in both)
        for role, target, donor in (("base", *both), ("rlvr", *reversed(both))):
            if params.engine(target) == "import":
                sentences[
                    f"{target} has imported completions and no engine, so no rollouts are drawn from it; to have "
                    f"bounds of its masses, give `models.{target}` an `engine`."
                ] = None
            else:
                places.append(Place(pair, dataset, role, target, donor, k))
    return places, list(sentences)


def _reasons_against(params: Params, pair: str, dataset: str) -> Iterator[str]:
    """Why a pair cannot be examined on a data set, as sentences."""
    both = params.models_of(pair)
    for model in both:
        if not has_weights(params, model):
            yield (
                f"{pair}: {model} has no weights here, so no masses are bounded; to have that, give `models.{model}` a "
                f"`path` or a `hub` id."
            )
    if load_problem_images(dataset):
        yield f"The questions of {dataset} have images, which scoring does not support, so no masses are bounded on it."
    if len({drawn_until(params, model, dataset) for model in both}) > 1:
        yield (
            f"{pair} on {dataset}: the completions of its models end at different stop strings, so a completion of one "
            f"is only the beginning of a completion of the other, and no masses are bounded."
        )
    graders = {problem["grader"] for problem in load_problems(dataset).values()}
    refuse_unlisted_graders(params, dataset, graders)
    if not params.sample.paid_graders and (paid := sorted(filter(registry.is_paid, graders))):
        yield (
            f"{dataset}: rollouts would have to be graded by {paid[0]}, which costs money, so no masses are bounded; "
            f"allow it with `sample.paid_graders: true`."
        )
    if len({tokenizer_key(find_weights(params, model)) for model in both}) > 1:
        yield (
            f"{pair}: its models have different tokenizers, so one cannot continue a prefix of the other, and no "
            f"masses are bounded."
        )

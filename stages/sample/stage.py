"""sample: completions of one model on one data set, up to k per problem.

In:  data/problems/{dataset}.parquet and a model.
Out: data/completions/{model}/{dataset}/, a ledger that only grows.

The budget decides what to draw, the engine draws it, the ledger keeps it.
"""

from __future__ import annotations

from contextlib import closing

from leash import dvc_samples, prompts, tables
from leash.engines import selection
from leash.params.groups import ENGINES_WITHOUT_WEIGHTS, Params
from leash.problems import load_problems, question_hash
from leash.sample_ledger import Ledger
from leash.sampling import metadata, sampler
from leash.sampling.sampler import DrawStats


def run(params: Params, model: str, dataset: str, *, resample: bool = False, pilot: int | None = None) -> DrawStats:
    """Draw the missing samples of every problem: all below k, or until it has enough hits. A `pilot` draws the first
    few of each instead; they are the run's own first samples."""
    if not resample:
        dvc_samples.require_pulled_samples(model, dataset)
    if selection.choose_engine(params, model) == "import":
        # Importing pulls in readers of other tools' formats, which sampling does not need.
        from leash.importing import importer

        importer.count_imported_samples(model, dataset)
        metadata.record_weights(params, model, dataset)
        return DrawStats()
    problems, spec = load_problems(dataset), selection.build_engine_spec(params, model)
    images = prompts.load_problem_images(dataset)
    if images:
        prompts.refuse_images(params, model, dataset, spec.name)
    prompt_of = {
        problem: prompts.build_prompt(params, model, dataset, row["question"], images.get(problem, ()))
        for problem, row in problems.items()
    }
    is_hit = sampler.make_hit_check(params, dataset, problems)
    with closing(Ledger(tables.completions_folder(model, dataset))) as ledger:
        if resample:
            ledger.clear()
        ledger.open(
            sampler.fingerprint(params, model, dataset),
            {problem: question_hash(row["question"], images.get(problem)) for problem, row in problems.items()},
            again=sampler.resample_command(model, dataset),
            engine=spec.label,
        )
        k = params.k(model, dataset)
        # A pilot draws a fixed number, since its hit rates are what an adaptive budget is estimated from.
        budget = sampler.new_budget(params, list(problems), min(k, pilot or k), ledger, None if pilot else is_hit)
        try:
            stats = sampler.draw_samples(params, model, dataset, spec, budget, ledger, prompt_of, is_hit)
        finally:
            ledger.flush()  # however the run ends, finished samples are kept
        ledger.settle()
    if spec.name in ENGINES_WITHOUT_WEIGHTS:
        metadata.record_weights(params, model, dataset)
    return stats

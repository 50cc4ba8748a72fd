"""sample: completions of one model on the data sets of the run, up to k per problem.

In:  data/problems/{dataset}.parquet and a model.
Out: data/completions/{model}/{dataset}/, a ledger per data set that only grows.

The budgets decide what to draw, one engine draws it for all data sets, the ledgers keep it.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass

from leash import dvc_samples, prompts, tables
from leash.engines import selection
from leash.engines.protocol import Decoding
from leash.params.groups import ENGINES_WITHOUT_WEIGHTS, Params
from leash.params.security import refuse_unlisted_graders
from leash.problems import load_problems, question_hash
from leash.prompts import Prompt
from leash.sample_ledger import Ledger
from leash.sampling import metadata, sampler
from leash.sampling.sampler import DrawStats, HitCheck, SamplingJob


def run(params: Params, model: str, *datasets: str, resample: bool = False, pilot: int | None = None) -> DrawStats:
    """Draw the missing samples of every problem: all below k, or until it has enough hits. A `pilot` draws the first
    few of each instead; they are the run's own first samples. Without `datasets`, those of the run are sampled."""
    chosen = datasets or tuple(params.run.datasets)
    if not resample:
        for dataset in chosen:
            dvc_samples.require_pulled_samples(model, dataset)
    if selection.choose_engine(params, model) == "import":
        # Importing pulls in readers of other tools' formats, which sampling does not need.
        from leash.importing import importer

        for dataset in chosen:
            importer.count_imported_samples(model, dataset)
            metadata.record_weights(params, model, dataset)
        return DrawStats(by_dataset={dataset: DrawStats() for dataset in chosen})
    spec = selection.build_engine_spec(params, model)
    # Whatever is refused is refused for all data sets, before `--resample` deletes anything.
    inputs = [load_inputs(params, model, dataset, spec.name, pilot is None) for dataset in chosen]
    with ExitStack() as ledgers:
        jobs = []
        for each in inputs:
            ledger = ledgers.enter_context(closing(Ledger(tables.completions_folder(model, each.dataset))))
            if resample:
                ledger.clear()
            again = sampler.resample_command(model, each.dataset)
            ledger.open(each.fingerprint, each.question_hashes, again=again, engine=spec.label)
            k = params.k(model, each.dataset)
            budget = sampler.new_budget(params, list(each.prompts), min(k, pilot or k), ledger, each.is_hit)
            jobs.append(SamplingJob(each.dataset, budget, ledger, each.prompts, each.decoding, each.is_hit))
        try:
            stats = sampler.draw_samples(params, model, spec, jobs)
        finally:
            for job in jobs:
                job.ledger.flush()  # however the run ends, finished samples are kept
        for job in jobs:
            job.ledger.settle()
    if spec.name in ENGINES_WITHOUT_WEIGHTS:
        for dataset in chosen:
            metadata.record_weights(params, model, dataset)
    return stats


@dataclass(frozen=True)
class DatasetInputs:
    """What sampling needs to know of a data set."""

    dataset: str
    prompts: dict[str, Prompt]  # by problem
    fingerprint: dict[str, str]
    question_hashes: dict[str, str]
    decoding: Decoding
    is_hit: HitCheck | None


def load_inputs(params: Params, model: str, dataset: str, engine: str, may_stop: bool) -> DatasetInputs:
    """`may_stop`: not in a pilot, which draws a fixed number: an adaptive budget is estimated from its hit rates."""
    problems, images = load_problems(dataset), prompts.load_problem_images(dataset)
    if images:
        prompts.refuse_images(params, model, dataset, engine)
    refuse_unlisted_graders(params, dataset, {row["grader"] for row in problems.values()})
    return DatasetInputs(
        dataset,
        {
            problem: prompts.build_prompt(params, model, dataset, row["question"], images.get(problem, ()))
            for problem, row in problems.items()
        },
        sampler.fingerprint(params, model, dataset),
        {problem: question_hash(row["question"], images.get(problem)) for problem, row in problems.items()},
        sampler.decoding_from_params(params, model, dataset),
        # Nothing is graded while sampling unless a problem may stop by its hits.
        sampler.make_hit_check(params, dataset, problems) if may_stop and params.sample.stop_after else None,
    )
